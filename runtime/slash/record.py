"""Slash commands about what was decided and done: the audit, its reasons, results and long outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeward.security.text import visible

from ..audit import explanation_of, record_lines, records_of
from ..exits import CliError
from .result import Misused, SlashResult, failed, is_number

if TYPE_CHECKING:
    from leeward.memory.audit import Record

    from ..app import RuntimeSession

__all__ = ["list_overflow", "open_result", "show_audit", "why"]

_RECORDS = 20


async def show_audit(runtime: RuntimeSession, argument: str) -> SlashResult:
    """List the latest records of this session, those of one call, or explain a call."""
    words = argument.split()
    if words[:1] == ["why"] and len(words) < 3:
        return await why(runtime, "".join(words[1:]))
    if words[:1] == ["show"] and len(words) == 2:
        try:
            return _records(await records_of(words[1], runtime.audit, runtime.session_id))
        except CliError as error:
            return failed(visible(error.message))
    if len(words) > 1 or not all(map(is_number, words)):
        raise Misused
    limit = int(words[0]) if words else _RECORDS
    return _records(await runtime.audit.list_records(runtime.session_id, limit))


async def why(runtime: RuntimeSession, argument: str) -> SlashResult:
    """Explain a call of this session: each gate's answer, and what would have allowed it."""
    if len(argument.split()) > 1:
        raise Misused
    try:
        explanation = await explanation_of(argument, runtime.audit, runtime.session_id)
    except CliError as error:
        return failed(visible(error.message))
    return SlashResult("\n".join(explanation.lines()))


def _records(records: list[Record]) -> SlashResult:
    return SlashResult("\n".join(record_lines(records))) if records else failed("there is no such record")


async def open_result(_runtime: RuntimeSession, argument: str) -> SlashResult:
    """Have a result opened in a pager, where there is a terminal."""
    if argument and not is_number(argument):
        raise Misused
    return SlashResult("results can only be opened at a terminal", failed=True, opens=argument)


async def list_overflow(runtime: RuntimeSession, _argument: str) -> SlashResult:
    """List the outputs of this session that were too long to show."""
    kept = await runtime.overflow.entries(runtime.session_id)
    lines = [
        f"{entry.id}  {entry.chars} characters in {entry.lines} lines, from {entry.origin},"
        f" {entry.stored} bytes on disk"
        for entry in kept
    ]
    return SlashResult("\n".join(lines) or "nothing was too long to show")
