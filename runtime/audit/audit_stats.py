"""How often, how long, how often not? Figures about the calls on record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from leeward.memory.audit import AuditLogger
from leeward.security.kinds import Json
from leeward.security.text import visible

from ..exits import Exit
from ..options import Options
from ..printer import Printer
from .query import filter_of

__all__ = ["stats"]

_NAMES: Mapping[str, tuple[str, ...]] = {
    "tools": ("tool", "calls", "allowed", "denied", "failed", "p50_seconds", "p95_seconds", "max_seconds"),
    "denials": ("gate", "rule", "count"),
    "approvals": ("approver", "count", "allowed", "mean_waited", "max_waited"),
    "failures": ("category", "tool", "count"),
    "egress": ("host", "attempts", "allowed", "bytes_sent", "bytes_received"),
}
_TITLES = {
    "tools": "calls by tool",
    "denials": "refused, by gate and rule",
    "approvals": "who answered questions, and how long it took",
    "failures": "failures",
    "egress": "opened, by host",
}


async def stats(options: Options, printer: Printer, opened: AuditLogger) -> Exit:
    """Count the calls that are meant.

    Raises:
        CliError: there is no such session.
        RecordError: they cannot be read.
    """
    rows = await opened.reports.figures(await filter_of(options, opened))
    durations = {row[0]: row[1:] for row in rows["durations"]}
    rows["tools"] = [(*row, *durations.get(row[0], (None, None, None))) for row in rows["tools"]]
    told: dict[str, Json] = {
        name: [_named(names, row) for row in rows[name]] for name, names in _NAMES.items()
    }
    lines = [line for name, names in _NAMES.items() for line in _table(name, names, rows[name])]
    printer.answer("".join(f"{line}\n" for line in lines or ["nothing was recorded that fits"]))
    printer.event({"schema": 1, "type": "stats", **told})
    return printer.finish(Exit.SUCCESS, told)


def _named(names: Sequence[str], row: Sequence[Any]) -> dict[str, Json]:
    return dict(zip(names, row, strict=True))


def _table(name: str, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Yield a title and a table as wide as what stands in it; nothing where there is nothing."""
    cells = [[heading.replace("_", " ") for heading in names]]
    cells += [[_cell(value) for value in row] for row in rows]
    if len(cells) == 1:
        return
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    yield _TITLES[name]
    for row in cells:
        padded = (
            cell.rjust(width) if index and cells[1][index][:1].isdigit() else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield f"  {'  '.join(padded)}".rstrip()
    yield ""


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3f}" if value % 1 else f"{value:.0f}"
    return "-" if value is None else visible(str(value))
