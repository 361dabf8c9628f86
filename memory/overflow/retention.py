"""Delete stored outputs that are too old, and the least recently used ones over the budget.

A text is first made unreadable, in one small transaction, and its chunks are then deleted a few at a
time, so that no record of the audit waits for a large deletion. A deletion that is interrupted is
completed by the next clean-up, which any process may run at any time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from leeward.security.lazy import dataclass
from leeward.security.ports import Clock

from ..database import Database

__all__ = ["TRANSACTION", "Pruned", "Retention"]

TRANSACTION = 262_144
"""Bytes of chunks that one transaction writes or deletes, at most: what is urgent waits no longer."""

# A text that is being written counts as abandoned when nothing was added for this long (seconds). Nobody
# can ask another process whether it still lives; one that does and was only slow gets an error, and goes on.
_ABANDONED = 3600.0

_EXPIRE_LINKS = "DELETE FROM overflow_link WHERE stored_at < ?"
_EXPIRE_TEXTS = (
    "UPDATE overflow SET id = NULL, dropped = 1 WHERE id IS NOT NULL"
    " AND NOT EXISTS (SELECT 1 FROM overflow_link AS link WHERE link.ref = overflow.ref)"
)
_EXPIRE_ABANDONED = "UPDATE overflow SET dropped = 1 WHERE id IS NULL AND used_at < ?"
_DROPPED = "SELECT ref FROM overflow WHERE dropped ORDER BY ref"
_TOTAL = "SELECT total(stored) FROM overflow"
_LEAST_USED = (
    "SELECT ref, used_at FROM ("
    "SELECT ref, id, used_at, sum(stored) OVER (ORDER BY used_at DESC, ref) AS total FROM overflow"
    " WHERE NOT dropped) WHERE total > ? AND id IS NOT NULL ORDER BY used_at, ref"
)
# A text that was put or read again meanwhile stays.
_EVICT = "UPDATE overflow SET id = NULL, dropped = 1 WHERE ref = ? AND used_at <= ?"
_EVICT_LINKS = "DELETE FROM overflow_link WHERE ref = ? AND ref IN (SELECT ref FROM overflow WHERE dropped)"
_SIZES = "SELECT number, length(body) FROM overflow_chunk WHERE ref = ? ORDER BY number"
_DELETE_CHUNKS = "DELETE FROM overflow_chunk WHERE ref = ? AND number BETWEEN ? AND ?"
_DELETE_TEXT = (
    "DELETE FROM overflow WHERE ref = ? AND dropped"
    " AND NOT EXISTS (SELECT 1 FROM overflow_chunk AS chunk WHERE chunk.ref = overflow.ref)"
)


@dataclass(frozen=True, slots=True)
class Pruned:
    """How many texts were taken away, and how many stored bytes with them."""

    texts: int = 0
    bytes: int = 0


class Retention:
    """Takes away what is too old or too much; `max_total` is in stored bytes."""

    def __init__(self, database: Database, clock: Clock, max_total: int) -> None:
        self.max_total = max_total
        self._database = database
        self._clock = clock

    async def expire(self, retention_days: float, most: int | None = None) -> Pruned:
        """Forget what was stored for a session longer ago than this, and what no session has; fit the budget.

        `most` is how many bytes are deleted of what nobody can read any more; the rest is left to the
        next time.

        Raises:
            RecordError: it could not be done.
        """
        now = self._clock.now()
        links = (_EXPIRE_LINKS, (now - retention_days * 86_400,))
        await self._database.write([links, (_EXPIRE_TEXTS, ()), (_EXPIRE_ABANDONED, (now - _ABANDONED,))])
        await self._evict()
        return await self._sweep(most)

    async def fit(self) -> None:
        """Take away what was used longest ago, until the rest fits into the budget.

        Raises:
            RecordError: it could not be done.
        """
        if await self._total() > self.max_total:
            await self._evict()
            await self._sweep()

    async def drop(self, ref: int, most: int | None = None) -> int:
        """Take away a text that was given up, or no more of it than `most` bytes; return how many.

        Raises:
            RecordError: it could not be done.
        """
        done = 0
        while sizes := [(number, size) for number, size in await self._database.read(_SIZES, (ref,))]:
            for first, last, size in _ranges(sizes):
                if most is not None and done >= most:
                    return done
                await self._database.write([(_DELETE_CHUNKS, (ref, first, last))])
                done += size
        await self._database.write([(_DELETE_TEXT, (ref,))])
        return done

    async def _total(self) -> float:
        ((total,),) = await self._database.read(_TOTAL)
        return float(total)

    async def _evict(self) -> None:
        """Make unreadable what does not fit; what is being written counts, and stays."""
        for ref, used_at in await self._database.read(_LEAST_USED, (self.max_total,)):
            await self._database.write([(_EVICT, (ref, used_at)), (_EVICT_LINKS, (ref,))])

    async def _sweep(self, most: int | None = None) -> Pruned:
        texts = size = 0
        for (ref,) in await self._database.read(_DROPPED):
            if most is not None and size >= most:
                break
            size += await self.drop(ref, None if most is None else most - size)
            texts += 1
        return Pruned(texts, size)


def _ranges(sizes: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """Yield first and last number of neighbours that together have a transaction's size, and that size."""
    first = last = None
    together = 0
    for number, size in sizes:
        if first is not None and last is not None and together + size > TRANSACTION:
            yield first, last, together
            first, together = None, 0
        first = number if first is None else first
        last, together = number, together + size
    if first is not None and last is not None:
        yield first, last, together
