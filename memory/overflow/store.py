"""Store outputs that are too large to show, and return them a page at a time.

A text is stored once however often it is produced, under an id made from its own bytes, and in chunks,
so that a page of a gigabyte costs no more than a page of a megabyte. Only a session that was given a
text may read it: each session has its own link, which keeps the text's origin, so that its trust is the
same when it is read again. The pipeline has stripped and redacted all text before. `spool.py` writes the
text, `retention.py` deletes it.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress

import trio

from leeward.security.lazy import dataclass
from leeward.security.ports import Clock, RecordError
from leeward.security.trust import Origin

from ..database import CHUNK, Chunk, Database, Row, storable, unpacked
from .retention import Pruned, Retention
from .search import Blocks, Hit, LineQuery, LineSearch
from .spool import Spool, id_of, linked

__all__ = ["MAX_TOTAL", "Hits", "OverflowNotFound", "OverflowStore", "Page", "StoredText"]

MAX_TOTAL = 1024 * 1024 * 1024
"""Stored bytes that all texts together may take, by default."""

# How often it is noted that a text is still read (seconds): a note is a write, and costs more than a page.
_USE_NOTED = 600.0

_STORED = (
    "SELECT ref, id, chars, lines, bytes, stored, link.stored_at, origin, used_at"
    " FROM overflow_link AS link JOIN overflow USING (ref) WHERE session = ?"
)
_ENTRIES = f"{_STORED} ORDER BY link.stored_at, id"
_ENTRY = f"{_STORED} AND id = ?"
_IS_KEPT = "SELECT 1 FROM overflow WHERE id = ?"
# Of a text that was taken away meanwhile nothing is found, and never a part.
_CHUNKS = (
    "SELECT packed, body, newlines FROM overflow_chunk AS chunk"
    " WHERE ref = ? AND number BETWEEN ? AND ? ORDER BY number"
)
_BY_LINE = (
    "SELECT number FROM overflow_chunk WHERE ref = ? AND newlines < ?"
    " ORDER BY newlines DESC, number DESC LIMIT 1"
)
_USED = "UPDATE overflow SET used_at = max(used_at, ?) WHERE ref = ?"


class OverflowNotFound(LookupError):
    """The session was given no text of that id, or it has expired."""


@dataclass(frozen=True, slots=True)
class StoredText:
    """A text as it is kept: its size in characters, lines and bytes, since when (epoch), and whose it is.

    `stored` is how many bytes it takes, compressed.
    """

    id: str
    chars: int
    lines: int
    bytes: int
    stored_at: float
    origin: Origin
    stored: int = 0


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a text, from character `offset` in `line` on; `next` is where the rest begins, or None."""

    entry: StoredText
    text: str
    offset: int
    next: int | None
    line: int = 1


@dataclass(frozen=True, slots=True)
class Hits:
    """The lines of a text that matched; `next` is where to look for more, or None."""

    entry: StoredText
    lines: tuple[Hit, ...]
    next: int | None = None


class OverflowStore:
    """Texts by id, each readable by the sessions it was stored for; `max_total` is in stored bytes."""

    def __init__(self, database: Database, clock: Clock, max_total: int = MAX_TOTAL) -> None:
        self._database = database
        self._clock = clock
        self._retention = Retention(database, clock, max_total)

    def spool(self, session: str) -> Spool:
        """Begin a text for a session; it can be read once it is finished."""
        return Spool(self._database, self._clock, self._retention, session)

    async def put(self, session: str, text: str, origin: Origin) -> str:
        """Store a text that came from somewhere for a session, and return its id.

        Raises:
            RecordError: it could not be stored.
        """
        key = await _id(text)
        if await self._database.read(_IS_KEPT, (key,)):
            await self._database.write(linked(session, key, self._clock.now(), origin))
            if await self._database.read(_ENTRY, (storable(session), key)):
                return key
        spool = self.spool(session)
        try:
            for start in range(0, len(text), CHUNK):
                await spool.write(text[start : start + CHUNK])
                await trio.lowlevel.checkpoint()
            return await spool.finish(origin)
        finally:
            spool.abandon()

    async def entry(self, session: str, id: str) -> StoredText:  # noqa: A002 - it is called so everywhere
        """Return the sizes of a text.

        Raises:
            OverflowNotFound: this session has no such text.
            RecordError: it could not be read.
        """
        return (await self._find(session, id))[1]

    async def entries(self, session: str) -> list[StoredText]:
        """Return what is stored for a session, oldest first.

        Raises:
            RecordError: it could not be read.
        """
        rows = await self._database.read(_ENTRIES, (storable(session),))
        return [_stored(row) for row in rows]

    async def get(
        self,
        session: str,
        id: str,  # noqa: A002 - it is called so everywhere
        offset: int = 0,
        limit: int = 10_000,
        line: int | None = None,
    ) -> Page:
        """Return `limit` characters from `offset` on, or from where a line begins; lines count from 1.

        Raises:
            OverflowNotFound: this session has no such text.
            RecordError: it could not be read.
        """
        ref, entry = await self._find(session, id)
        if line is not None:
            offset = await self._start_of(ref, entry, line)
        start = min(max(offset, 0), entry.chars)
        end = min(start + max(limit, 0), entry.chars)
        if start == entry.chars:
            return Page(entry, "", start, None, entry.lines)
        first = start // CHUNK
        chunks = await self._load(ref, first, max(first, (end - 1) // CHUNK))
        text = "".join(chunk.text for chunk in chunks)
        within = start - first * CHUNK
        number = chunks[0].newlines + text.count("\n", 0, within) + 1
        return Page(
            entry, text[within : end - first * CHUNK], start, end if end < entry.chars else None, number
        )

    async def search(
        self,
        session: str,
        id: str,  # noqa: A002 - it is called so everywhere
        wanted: LineQuery,
        offset: int = 0,
        line: int | None = None,
    ) -> Hits:
        """Return the lines that match a pattern, which takes linear time.

        Looked at is the text from `offset` on, or from where a line begins.

        Raises:
            BadPattern: the pattern is no RE2 pattern.
            OverflowNotFound: this session has no such text.
            RecordError: it could not be read.
        """
        search = LineSearch(wanted)
        ref, entry = await self._find(session, id)
        if line is not None:
            offset = await self._start_of(ref, entry, line)
        start, final = min(max(offset, 0), entry.chars), (entry.chars - 1) // CHUNK
        blocks: Blocks | None = None
        for index in range(start // CHUNK, final + 1):
            (chunk,) = await self._load(ref, index, index)
            text = chunk.text
            if blocks is None:
                within = start - index * CHUNK
                blocks = Blocks(chunk.newlines + text.count("\n", 0, within) + 1, start)
                text = text[within:]
            for block in blocks.feed(text, last=index == final):
                search.take(block)
            if search.is_over:
                break
        return Hits(entry, tuple(search.hits), search.next)

    async def prune(self, retention_days: float = 7, most: int | None = None) -> Pruned:
        """Forget what is too old, what was left half written, and what is over the budget.

        `most` is how many bytes are deleted now of what nobody can read any more.

        Raises:
            RecordError: it could not be done.
        """
        return await self._retention.expire(retention_days, most)

    async def _find(self, session: str, key: str) -> tuple[int, StoredText]:
        rows = await self._database.read(_ENTRY, (storable(session), storable(key)))
        if not rows:
            raise OverflowNotFound("this session has no stored output of that id")
        ((ref, *_, used_at),) = rows
        now = self._clock.now()
        if now - used_at > _USE_NOTED:
            # What is read stays longer than what is not; that this is not known harms no reader.
            with suppress(RecordError):
                await self._database.write([(_USED, (now, ref))])
        return ref, _stored(rows[0])

    async def _start_of(self, ref: int, entry: StoredText, line: int) -> int:
        """Return the character that a line begins with; behind the last one, the end."""
        if line <= 1:
            return 0
        if line > entry.lines:
            return entry.chars
        ((number,),) = await self._database.read(_BY_LINE, (ref, line - 1)) or [(0,)]
        (chunk,) = await self._load(ref, number, number)
        position = 0
        for _ in range(line - 1 - chunk.newlines):
            position = chunk.text.index("\n", position) + 1
        return int(number) * CHUNK + position

    async def _load(self, ref: int, first: int, last: int) -> list[Chunk]:
        rows = await self._database.read(_CHUNKS, (ref, first, last))
        if len(rows) != last - first + 1:
            raise OverflowNotFound("this output has expired meanwhile")
        return [unpacked(*row) for row in rows]


def _stored(row: Row) -> StoredText:
    _, key, chars, lines, size, stored, at, origin, _ = row
    return StoredText(key, chars, lines, size, at, Origin(origin), stored)


async def _id(text: str) -> str:
    """Return the id of a text, letting others run in between."""
    digest = hashlib.sha256()
    for start in range(0, len(text), CHUNK):
        digest.update(text[start : start + CHUNK].encode("utf-8", "surrogatepass"))
        await trio.lowlevel.checkpoint()
    return id_of(digest.digest())
