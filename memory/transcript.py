"""What was said in which session? Entries are added in order and never changed.

What an entry holds is decided by the runtime and kept as JSON; who wrote it is kept beside it, so
that what comes back weighs as much as it did.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from leeward.security import Clock, Json, Origin

from .database import Database
from .stored import storable, stored_json
from .writer import Statement

__all__ = ["Conversation", "Entry", "Transcript"]

_TITLE = 80  # characters
_NESTED = ("text", "content")

_START = "INSERT INTO conversation (id, started, workspace) VALUES (?, ?, ?) ON CONFLICT (id) DO NOTHING"
_APPEND = "INSERT INTO entry (session, turn, role, content, origin, at) VALUES (?, ?, ?, ?, ?, ?)"
_NAME = "UPDATE conversation SET title = ? WHERE id = ? AND title = ''"
_ENTRIES = "SELECT seq, turn, role, content, origin, at FROM entry WHERE session = ? ORDER BY seq"
_CONVERSATIONS = "SELECT id, started, workspace, title FROM conversation ORDER BY started DESC, id LIMIT ?"


Pending: TypeAlias = Callable[[], Awaitable[None]]
"""Waits until something is on the disk, or raises `RecordError`."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that was said. `seq` orders entries, `turn` counts the person's turns from 1."""

    seq: int
    turn: int
    role: str
    content: Json
    origin: Origin
    at: float


@dataclass(frozen=True, slots=True)
class Conversation:
    """A session as it is listed; `title` is the person's first words, "" before there were any."""

    id: str
    started: float
    workspace: str
    title: str


class Transcript:
    """The conversations of all sessions."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def start(self, session: str, workspace: str) -> None:
        """Make a session known, as every one must be before its first entry; again does no harm.

        Raises:
            RecordError: it could not be committed.
        """
        values = (storable(session), self._clock.now(), storable(workspace))
        await self._database.write([(_START, values)])

    async def append(self, session: str, turn: int, role: str, content: Json, origin: Origin) -> None:
        """Add an entry and return once it is committed; entries stand in the order of the calls.

        Raises:
            RecordError: it could not be committed, or the session was never started.
        """
        await self.add(session, turn, role, content, origin)()

    def add(self, session: str, turn: int, role: str, content: Json, origin: Origin) -> Pending:
        """Put an entry in line to be written with whatever is written next; what is returned waits for it.

        Raises:
            RecordError: nothing can be written any more.
        """
        values = (storable(session), turn, role, stored_json(content), origin.value, self._clock.now())
        statements: list[Statement] = [(_APPEND, values)]
        if origin is Origin.PERSON and (title := first_words(content)):
            statements.append((_NAME, (storable(title), storable(session))))
        return partial(self._database.written, self._database.queue(statements))

    async def entries(self, session: str) -> list[Entry]:
        """Return everything that was said in a session, in order; nothing for an unknown one.

        Raises:
            RecordError: it could not be read.
        """
        rows = await self._database.read(_ENTRIES, (storable(session),))
        return [
            Entry(seq, turn, role, json.loads(content), Origin(origin), at)
            for seq, turn, role, content, origin, at in rows
        ]

    async def sessions(self, limit: int = 100) -> list[Conversation]:
        """Return the newest sessions, newest first.

        Raises:
            RecordError: they could not be read.
        """
        rows = await self._database.read(_CONVERSATIONS, (max(limit, 0),))
        return [Conversation(*row) for row in rows]


def first_words(content: Json) -> str:
    """Return the beginning of the first text in an entry, on one line, "" where there is none.

    A text is a string by itself, in a list, or under "text" or "content" in an object: the forms in
    which messages of models are written.
    """
    match content:
        case str():
            return " ".join(content.split())[:_TITLE].rstrip()
        case Mapping():
            return next(filter(None, (first_words(content.get(key)) for key in _NESTED)), "")
        case list() | tuple():
            return next(filter(None, map(first_words, content)), "")
        case _:
            return ""
