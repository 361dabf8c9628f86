"""`leeward sessions`: list, show, search, export, fork and delete sessions."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import TypeAlias

import trio

from leeward.memory.sessions import Charge, Conversation, TranscriptEntry
from leeward.security.kinds import Json
from leeward.security.lazy import dataclass

from ..clock import SystemClock
from ..console import Startup, look
from ..exits import CliError, Exit
from ..options import Options
from ..printer import Printer
from ..sessions import (
    SessionStore,
    conversation_json,
    delete,
    entry_json,
    export_lines,
    find,
    fork,
    found_json,
    found_line,
    page_lines,
    session_line,
    session_record,
    show_lines,
)
from ..storage import audit_of, open_storage

__all__ = ["sessions"]

Lines: TypeAlias = Callable[[Conversation, Sequence[TranscriptEntry], Sequence[Charge]], Iterable[str]]


@dataclass(frozen=True, slots=True)
class _Answer:
    """The output of a command: lines for people and JSON objects of a `kind`; `many` names their list."""

    lines: Iterable[str]
    kind: str
    objects: Sequence[dict[str, Json]]
    many: str = ""


async def sessions(options: Options, printer: Printer) -> Exit:
    """Carry out what was asked for of the sessions there are.

    Raises:
        CliError: there is no such session or turn, or it is open.
        RecordError: the database cannot be used.
    """
    async with _opened(look(options), printer.warn) as kept:
        result = await _carried_out(kept, options)
        printer.answer("".join(f"{line}\n" for line in result.lines))
    for one in result.objects:
        printer.event({"schema": 1, "type": result.kind, **one})
    return printer.finish(Exit.SUCCESS, {result.many: result.objects} if result.many else result.objects[0])


async def _carried_out(kept: SessionStore | None, options: Options) -> _Answer:
    if kept is not None:
        return await _ACTIONS[options.action](kept, options)
    if options.action in {"list", "search"}:
        return _Answer((), options.action, (), "sessions" if options.action == "list" else "found")
    raise CliError(Exit.NOT_FOUND, "NOT_FOUND", "there are no sessions yet", session=options.name)


@asynccontextmanager
async def _opened(start: Startup, warn: Callable[[str], None]) -> AsyncGenerator[SessionStore | None, None]:
    """Open the existing database, without creating one. `warn` is called with what was done to the file."""
    if not await trio.Path(start.places.database).exists():
        yield None
        return
    clock = SystemClock()
    async with open_storage(start.places.database) as opened:
        for notice in opened.take_notices():
            warn(notice)
        audit = audit_of(opened, clock, start.loaded, start.places)
        yield SessionStore.of(opened, clock, audit, start.loaded.config)


async def _list(kept: SessionStore, options: Options) -> _Answer:
    found = await kept.catalog.sessions(options.limit)
    return _Answer(map(session_line, found), "session", [conversation_json(one) for one in found], "sessions")


async def _search(kept: SessionStore, options: Options) -> _Answer:
    words = options.name
    found = await kept.catalog.search(words, options.limit)
    lines = [found_line(one, words) for one in found]
    return _Answer(lines, "found", [found_json(one, words) for one in found], "found")


async def _show(kept: SessionStore, options: Options) -> _Answer:
    return await _read(kept, options, show_lines)


async def _export(kept: SessionStore, options: Options) -> _Answer:
    if options.form == "html":
        record = await session_record(kept, await _named(kept, options))
        return _Answer(page_lines(record), "session", [conversation_json(record.conversation)])
    return await _read(kept, options, export_lines)


async def _read(kept: SessionStore, options: Options, lines: Lines) -> _Answer:
    one = await _named(kept, options)
    entries, charges = await kept.transcript.entries(one.id), await kept.transcript.charges(one.id)
    answer = {**conversation_json(one), "entries": [entry_json(entry) for entry in entries]}
    return _Answer(lines(one, entries, charges), "session", [answer])


async def _delete(kept: SessionStore, options: Options) -> _Answer:
    one = await _named(kept, options)
    await delete(kept, one.id)
    await kept.catalog.forget_words()
    return _Answer([f"deleted: {session_line(one)}", "its audit stays"], "deleted", [conversation_json(one)])


async def _fork(kept: SessionStore, options: Options) -> _Answer:
    new = await fork(kept, await _named(kept, options), options.turn)
    lines = [new, f"leeward --resume {new} resumes it"]
    return _Answer(lines, "session", [conversation_json(one) for one in await kept.catalog.named(new)])


async def _named(kept: SessionStore, options: Options) -> Conversation:
    return await find(kept.catalog, options.name, "")


_ACTIONS: Mapping[str, Callable[[SessionStore, Options], Awaitable[_Answer]]] = MappingProxyType(
    {
        "list": _list,
        "show": _show,
        "export": _export,
        "search": _search,
        "delete": _delete,
        "fork": _fork,
    }
)
