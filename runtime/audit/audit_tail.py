"""What is recorded right now? New records as they come, from every process that writes the same audit.

SQLite wakes nobody up, so the file is looked at four times a second: one step in an index.
"""

from __future__ import annotations

from collections.abc import Sequence

import trio

from leeward.memory.audit import AuditLogger, Record

from ..exits import CliError, Exit
from ..options import Options
from ..printer import Printer
from .query import filter_of, record_json
from .text import record_lines

__all__ = ["tail"]

_SECONDS = 0.25
_PAGE = 500


async def tail(options: Options, printer: Printer, opened: AuditLogger) -> Exit:
    """Tell the last records and then all that follow, until it is stopped.

    Raises:
        CliError: one JSON document was asked for, which never ends; or there is no such session.
        RecordError: the records cannot be read.
    """
    if options.output == "json":
        why = "what follows has no end, so it cannot be one JSON document"
        raise CliError(Exit.ARG_ERROR, "ARG_ERROR", why, suggestion="--output jsonl")
    wanted, reports = await filter_of(options, opened), opened.reports
    seen = await reports.last_seq()
    # What was recorded between the two looks is told once, by the loop.
    records = [one for one in await reports.newest(wanted, options.limit) if one.seq <= seen]
    while True:
        _tell(printer, records)
        seen = max([seen, *(record.seq for record in records)])
        if len(records) < _PAGE:
            await trio.sleep(_SECONDS)
        records = await reports.after(wanted, seen, _PAGE)


def _tell(printer: Printer, records: Sequence[Record]) -> None:
    printer.answer("".join(f"{line}\n" for line in record_lines(records)))
    for record in records:
        printer.event({"schema": 1, "type": "record", **record_json(record)})
