"""Where is the output that was too big to show, and how is it read a page at a time?

A text is kept once however often it comes, under an id made from its own bytes, and in chunks, so
that a page of 64 MiB costs no more than a page of 64 KiB. Only a session that was given a text may
read it: a link is made for each, and with it stands where the text came from, so that it weighs as
much when it is read again. What is put here was stripped and redacted by the pipeline.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import trio

from leeward.security import Clock, Origin, integrity

from .database import Database
from .linear import linear_pattern
from .stored import storable
from .writer import Statement

__all__ = ["Hit", "Hits", "OverflowNotFound", "OverflowStore", "Page", "StoredText"]

CHUNK = 65_536
"""Characters in every chunk of a text but its last."""

_TRANSACTION = 262_144  # bytes of plain text: a record of the audit never waits for much more
_LONGEST_LINE = 1_048_576  # characters: a longer line is searched in parts, to bound the memory
_SHOWN = 400  # characters of a line around a hit

_OPEN = (
    "INSERT INTO overflow (id, chars, lines, bytes, stored_at) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT (id) DO UPDATE SET stored_at = max(stored_at, excluded.stored_at)"
)
_CHUNK = "INSERT OR IGNORE INTO overflow_chunk (id, number, body) VALUES (?, ?, ?)"
_COMPLETE = "UPDATE overflow SET complete = 1 WHERE id = ? AND NOT complete"
_LINK = (
    "INSERT INTO overflow_link (session, id, stored_at, origin, integrity) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT (session, id) DO UPDATE SET stored_at = max(stored_at, excluded.stored_at),"
    # The same text may come from several; it weighs no more than the least of them.
    " origin = CASE WHEN excluded.integrity < integrity THEN excluded.origin ELSE origin END,"
    " integrity = min(integrity, excluded.integrity)"
)
_STORED = (
    "SELECT id, chars, lines, bytes, link.stored_at, origin"
    " FROM overflow_link AS link JOIN overflow USING (id) WHERE session = ? AND complete"
)
_ENTRIES = f"{_STORED} ORDER BY link.stored_at, id"
_ENTRY = f"{_STORED} AND id = ?"
_IS_COMPLETE = "SELECT 1 FROM overflow WHERE id = ? AND complete"
_BODIES = "SELECT body FROM overflow_chunk WHERE id = ? AND number BETWEEN ? AND ? ORDER BY number"
_FORGET_LINKS = "DELETE FROM overflow_link WHERE stored_at < ?"
_FORGET_TEXTS = (
    "DELETE FROM overflow WHERE stored_at < ?"
    " AND NOT EXISTS (SELECT 1 FROM overflow_link AS link WHERE link.id = overflow.id)"
)


class OverflowNotFound(LookupError):
    """The session was given no text of that id, or it has expired."""


@dataclass(frozen=True, slots=True)
class StoredText:
    """A text as it is kept: its size in characters, lines and bytes, since when (epoch), and whose it is."""

    id: str
    chars: int
    lines: int
    bytes: int
    stored_at: float
    origin: Origin


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a text, from character `offset` on; `next` is where the rest begins, None at the end."""

    entry: StoredText
    text: str
    offset: int
    next: int | None


@dataclass(frozen=True, slots=True)
class Hit:
    """A line (counted from 1) that matched, cut to what is around the match at character `offset`."""

    line: int
    offset: int
    text: str


@dataclass(frozen=True, slots=True)
class Hits:
    """The lines of a text that matched."""

    entry: StoredText
    lines: tuple[Hit, ...]


class OverflowStore:
    """Texts by id, each readable by the sessions it was stored for."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def put(self, session: str, text: str, origin: Origin) -> str:
        """Store a text that came from somewhere for a session, and return its id.

        Raises:
            RecordError: it could not be stored.
        """
        now = self._clock.now()
        entry = await _measure(text, now, origin)
        opening = (_OPEN, (entry.id, entry.chars, entry.lines, entry.bytes, now))
        link = (storable(session), entry.id, now, origin.value, integrity(frozenset({origin})))
        closing = ((_COMPLETE, (entry.id,)), (_LINK, link))
        if entry.bytes <= _TRANSACTION:
            await self._database.write([opening, *_insertions(entry.id, text), *closing])
            return entry.id
        # Opened first: from now on no clean-up takes the text, even if it was stored long ago.
        await self._database.write([opening])
        if not await self._is_complete(entry.id):
            for batch in _batches(_insertions(entry.id, text)):
                await self._database.write(batch)
        await self._database.write(closing)
        return entry.id

    async def entry(self, session: str, id: str) -> StoredText:  # noqa: A002 - it is called so everywhere
        """Return the sizes of a text.

        Raises:
            OverflowNotFound: this session has no such text.
            RecordError: it could not be read.
        """
        rows = await self._database.read(_ENTRY, (storable(session), storable(id)))
        if not rows:
            raise OverflowNotFound("this session has no stored output of that id")
        return _stored(*rows[0])

    async def entries(self, session: str) -> list[StoredText]:
        """Return what is stored for a session, oldest first.

        Raises:
            RecordError: it could not be read.
        """
        rows = await self._database.read(_ENTRIES, (storable(session),))
        return [_stored(*row) for row in rows]

    async def get(self, session: str, id: str, offset: int = 0, limit: int = 10_000) -> Page:  # noqa: A002 - it is called so everywhere
        """Return `limit` characters from `offset` on; before the start counts as the start.

        Raises:
            OverflowNotFound: this session has no such text.
            RecordError: it could not be read.
        """
        entry = await self.entry(session, id)
        start = min(max(offset, 0), entry.chars)
        end = min(start + max(limit, 0), entry.chars)
        text = ""
        if start < end:
            first = start // CHUNK
            loaded = await self._load(entry.id, first, (end - 1) // CHUNK)
            text = loaded[start - first * CHUNK : end - first * CHUNK]
        return Page(entry, text, start, end if end < entry.chars else None)

    async def search(self, session: str, id: str, pattern: str, limit: int = 50) -> Hits:  # noqa: A002 - it is called so everywhere
        """Return the first `limit` lines that match an RE2 pattern, which takes linear time.

        Raises:
            BadPattern: the pattern is no RE2 pattern.
            OverflowNotFound: this session has no such text.
            RecordError: it could not be read.
        """
        matcher = linear_pattern(pattern)
        entry = await self.entry(session, id)
        hits: list[Hit] = []
        lines, final = _Lines(), (entry.chars - 1) // CHUNK
        for index in range(final + 1):
            chunk = await self._load(entry.id, index, index)
            # A lone surrogate is nothing the matcher could be given; it counts as a question mark.
            chunk = chunk.encode("utf-8", "replace").decode("utf-8")
            for number, offset, line in lines.feed(chunk, last=index == final):
                if found := matcher.search(line):
                    hits.append(Hit(number, offset + found.start(), _around(line, found.start())))
            if len(hits) >= limit:
                break
        return Hits(entry, tuple(hits[: max(limit, 0)]))

    async def prune(self, retention_days: float = 7) -> None:
        """Forget what was stored longer ago than this, for each session and altogether.

        Raises:
            RecordError: it could not be done.
        """
        before = self._clock.now() - retention_days * 86_400
        await self._database.write([(_FORGET_LINKS, (before,)), (_FORGET_TEXTS, (before,))])

    async def _is_complete(self, overflow_id: str) -> bool:
        return bool(await self._database.read(_IS_COMPLETE, (overflow_id,)))

    async def _load(self, overflow_id: str, first: int, last: int) -> str:
        rows = await self._database.read(_BODIES, (overflow_id, first, last))
        return "".join(body.decode("utf-8", "surrogatepass") for (body,) in rows)


class _Lines:
    """Cuts a text that comes in chunks into lines with their numbers and offsets."""

    def __init__(self) -> None:
        self._number = 1
        self._offset = 0
        self._rest = ""

    def feed(self, chunk: str, *, last: bool) -> Iterator[tuple[int, int, str]]:
        """Yield the lines that are whole by now, and with the last chunk what is left."""
        *lines, self._rest = (self._rest + chunk).split("\n")
        for line in lines:
            yield self._number, self._offset, line.removesuffix("\r")
            self._number += 1
            self._offset += len(line) + 1
        if len(self._rest) >= _LONGEST_LINE or (last and self._rest):
            yield self._number, self._offset, self._rest
            self._offset += len(self._rest)
            self._rest = ""


def _stored(id: str, chars: int, lines: int, size: int, at: float, origin: str) -> StoredText:  # noqa: A002 - it is called so everywhere
    return StoredText(id, chars, lines, size, at, Origin(origin))


async def _measure(text: str, now: float, origin: Origin) -> StoredText:
    """Return the size of a text and its id, letting others run in between."""
    digest, size = hashlib.sha256(), 0
    for body in _bodies(text):
        digest.update(body)
        size += len(body)
        await trio.lowlevel.checkpoint()
    lines = text.count("\n") + (not text.endswith("\n") and text != "")
    return StoredText(f"of_{digest.hexdigest()[:32]}", len(text), lines, size, now, origin)


def _bodies(text: str) -> Iterator[bytes]:
    # A text may hold lone surrogates, which must come back as they were.
    for start in range(0, len(text), CHUNK):
        yield text[start : start + CHUNK].encode("utf-8", "surrogatepass")


def _insertions(overflow_id: str, text: str) -> Iterator[Statement]:
    for number, body in enumerate(_bodies(text)):
        yield _CHUNK, (overflow_id, number, body)


def _batches(statements: Iterator[Statement]) -> Iterator[list[Statement]]:
    """Gather as many chunks as fit into one transaction."""
    most = _TRANSACTION // CHUNK
    while batch := list(islice(statements, most)):
        yield batch


def _around(line: str, start: int) -> str:
    """Cut a long line down to the neighbourhood of a match."""
    if len(line) <= _SHOWN:
        return line
    begin = max(0, min(start - _SHOWN // 4, len(line) - _SHOWN))
    end = begin + _SHOWN
    return f"{'…' if begin else ''}{line[begin:end]}{'…' if end < len(line) else ''}"
