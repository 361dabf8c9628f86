"""Write a text to the database while it arrives, holding only a few chunks in memory.

Chunks are committed as they fill up, a few in a transaction. The text has no id and no reader until its
end is stored; then its hash is known, and if the same text exists already, that copy is linked instead
and this one is deleted.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import deque
from contextlib import suppress

from leeward.security.ports import Clock, RecordError
from leeward.security.trust import Origin, integrity

from ..database import CHUNK, Database, Statement, packed, storable
from .retention import TRANSACTION, Retention

__all__ = ["Spool", "id_of", "linked"]

# A text that is written counts in the budget; others make room for it each time so many bytes have come.
_FITTED_EVERY = 16 * 1024 * 1024

_OPEN = "INSERT INTO overflow (ref, stored_at, used_at) VALUES (?, ?, ?)"
_CHUNK = "INSERT INTO overflow_chunk (ref, number, newlines, packed, body) VALUES (?, ?, ?, ?, ?)"
_GROWN = "UPDATE overflow SET stored = ?, used_at = ? WHERE ref = ?"
# Complete is a text all of whose chunks are there, whatever became of the writes in between.
_COMPLETE = (
    "UPDATE overflow SET id = ?, chars = ?, lines = ?, bytes = ? WHERE ref = ? AND NOT dropped"
    " AND (SELECT count(*) FROM overflow_chunk AS chunk WHERE chunk.ref = overflow.ref) = ?"
    " AND NOT EXISTS (SELECT 1 FROM overflow WHERE id = ?)"
)
_SPARE = "UPDATE overflow SET dropped = 1 WHERE ref = ? AND id IS NULL"
_USED = "UPDATE overflow SET stored_at = max(stored_at, ?), used_at = max(used_at, ?) WHERE id = ?"
_LINK = (
    "INSERT INTO overflow_link (session, ref, stored_at, origin, integrity)"
    " SELECT ?, ref, ?, ?, ? FROM overflow WHERE id = ?"
    " ON CONFLICT (session, ref) DO UPDATE SET stored_at = max(stored_at, excluded.stored_at),"
    # The same text may come from several; it weighs no more than the least of them.
    " origin = CASE WHEN excluded.integrity < integrity THEN excluded.origin ELSE origin END,"
    " integrity = min(integrity, excluded.integrity)"
)
_REF = "SELECT ref FROM overflow WHERE id = ?"


def id_of(digest: bytes) -> str:
    """Return the id of a text from the SHA-256 of its UTF-8 bytes."""
    return f"of_{digest.hex()[:32]}"


def linked(session: str, key: str, now: float, origin: Origin) -> tuple[Statement, ...]:
    """Return what lets a session read a text that is complete, and keeps that from expiring."""
    link = (storable(session), now, origin.value, integrity(frozenset({origin})), key)
    return (_USED, (now, now, key)), (_LINK, link)


class Spool:
    """One text on its way into the file."""

    def __init__(self, database: Database, clock: Clock, retention: Retention, session: str) -> None:
        self._database = database
        self._clock = clock
        self._retention = retention
        self._session = session
        # Chosen here, since a number that was used before might still be read by somebody.
        self._ref = secrets.randbits(62)
        self._digest = hashlib.sha256()
        self._rest: list[str] = []
        self._in_rest = 0
        self._chars = self._bytes = self._newlines = self._chunks = self._stored = 0
        self._fitted = 0
        self._ends_line = True
        now = clock.now()
        self._batch: list[Statement] = [(_OPEN, (self._ref, now, now))]
        self._in_batch = 0
        self._batches: deque[list[Statement]] = deque()
        self._is_over = False

    async def write(self, text: str) -> None:
        """Store a further piece. It counts as soon as this is called: a caller who is cancelled leaves it in.

        Raises:
            RecordError: it could not be stored; what came before is of no use now.
        """
        self._rest.append(text)
        self._in_rest += len(text)
        if self._in_rest >= CHUNK:
            joined = "".join(self._rest)
            whole = len(joined) - len(joined) % CHUNK
            for start in range(0, whole, CHUNK):
                self._add(joined[start : start + CHUNK])
            self._rest, self._in_rest = [joined[whole:]], len(joined) - whole
        await self._send()

    async def finish(self, origin: Origin) -> str:
        """Let the session read what came from somewhere, and return its id.

        Raises:
            RecordError: it could not be stored, or not all of it.
        """
        if rest := "".join(self._rest):
            self._rest = []
            self._add(rest)
        key, now = id_of(self._digest.digest()), self._clock.now()
        lines = self._newlines + (not self._ends_line)
        sizes = (key, self._chars, lines, self._bytes, self._ref, self._chunks, key)
        self._batch += [(_GROWN, (self._stored, now, self._ref)), (_COMPLETE, sizes)]
        self._batch += [*linked(self._session, key, now, origin), (_SPARE, (self._ref,))]
        self._batches.append(self._batch)
        await self._send()
        self._is_over = True
        rows = await self._database.read(_REF, (key,))
        if not rows:
            raise RecordError("it was cleaned up before it was complete")
        # The text is there: what cannot be cleaned up now is left to the next time.
        with suppress(RecordError):
            if rows != [(self._ref,)]:
                await self._retention.drop(self._ref)
            await self._retention.fit()
        return key

    def abandon(self) -> None:
        """Leave what was written to be cleaned up; after `finish` this does nothing."""
        if not self._is_over:
            self._is_over = True
            with suppress(RecordError):
                self._database.queue([(_SPARE, (self._ref,))])

    def _add(self, text: str) -> None:
        """Put a chunk into the transaction that comes next, or into one of its own."""
        body = text.encode("utf-8", "surrogatepass")
        self._digest.update(body)
        is_packed, kept = packed(body)
        if self._in_batch and self._in_batch + len(kept) > TRANSACTION:
            self._batches.append([*self._batch, (_GROWN, (self._stored, self._clock.now(), self._ref))])
            self._batch, self._in_batch = [], 0
        self._batch.append((_CHUNK, (self._ref, self._chunks, self._newlines, is_packed, kept)))
        self._in_batch += len(kept)
        self._stored += len(kept)
        self._chunks += 1
        self._chars += len(text)
        self._bytes += len(body)
        self._newlines += text.count("\n")
        self._ends_line = text.endswith("\n")

    async def _see_room(self) -> None:
        """See that the disk has room; where it has not, what was written by now gives its own back."""
        try:
            await self._database.see_room()
        except RecordError:
            self.abandon()
            with suppress(RecordError):
                await self._retention.drop(self._ref)
            raise

    async def _send(self) -> None:
        if self._stored > self._retention.max_total:
            most = self._retention.max_total
            raise RecordError(f"it alone is more than the {most} bytes that all of them may take")
        while self._batches:
            await self._see_room()
            await self._database.write(self._batches.popleft())
        if self._stored - self._fitted >= _FITTED_EVERY:
            self._fitted = self._stored
            with suppress(RecordError):
                await self._retention.fit()
