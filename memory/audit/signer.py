"""Sign the audit: each head is made inside the transaction that records it.

A head therefore covers exactly the records before it, whichever other processes write to the file. Every
process signs what it wrote: after each `SIGN_EVERY` records, and at the end of a session.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

import trio

from leeward.security.ports import RecordError

from ..database import Database, RecordRow, Statement, Write
from .heads import AnchorFile, Head, Verified
from .rows import Drafting
from .signing import Signer
from .verify import unsigned_problem, verify

__all__ = ["SIGN_EVERY", "HeadSigner", "PendingHead"]

SIGN_EVERY = 128
"""A process that is killed leaves about as many of its records unsigned. A signature takes as long as a
fraction of a commit, and its record a few hundred bytes: one hundredth of what it is about."""

_HEADS = "SELECT body FROM audit WHERE kind = 'head' AND at < ? ORDER BY seq DESC LIMIT ?"
_IS_HEAD = "SELECT body FROM audit WHERE seq = ? AND kind = 'head'"
_COUNT = "SELECT count(*) FROM audit WHERE seq <= ?"
_PRUNE = "DELETE FROM audit WHERE seq <= ?"


class PendingHead:
    """A head in line to be put on record: signed when its turn has come."""

    def __init__(self, signer: Signer) -> None:
        self._signer = signer
        self._made: Head | None = None

    def body(self, count: int, digest: str) -> str:
        """Sign, in the transaction; where that is tried again, the last one counts."""
        self._made = self._signer.sign(count, digest)
        return self._made.body()

    def head(self) -> Head:
        """Return the head; it is on record if its writing succeeded."""
        if self._made is None:
            raise RecordError("the audit was not signed")
        return self._made


class HeadSigner:
    """Signs for one writer. `key` is the file with the key, `heads` the second place, if there is one."""

    def __init__(self, database: Database, drafting: Drafting, key: Path, heads: Path | None) -> None:
        self._database = database
        self._drafting = drafting
        self._signer = Signer(key)
        self._second = AnchorFile(heads)
        self._unsigned = 0
        self._last: Head | None = None

    def last_head(self) -> Head | None:
        """Return the newest head that this writer put on record."""
        return self._last

    async def ready(self) -> None:
        """See that heads can be written where they should be.

        Raises:
            RecordError: they cannot.
        """
        await trio.to_thread.run_sync(self._second.check)

    def count(self, at: float, session: str, records: int) -> None:
        """Take notice of records in line, and put a head behind them if there are enough.

        Nobody waits for that head: one that fails stops no call, and the next one signs as much.

        Raises:
            RecordError: the database is closed.
        """
        self._unsigned += records
        if self._unsigned >= SIGN_EVERY:
            self.queue(at, session)

    def queue(
        self,
        at: float,
        session: str,
        drafts: Sequence[RecordRow] = (),
        statements: Sequence[Statement] = (),
    ) -> tuple[PendingHead, Write]:
        """Put a head in line, in one transaction with these.

        Raises:
            RecordError: the database is closed.
        """
        self._unsigned = 0
        pending = PendingHead(self._signer)
        draft = self._drafting.of_fact(at, session, "head", pending.body)
        writing = self._database.queue(statements, (*drafts, draft))

        def note(done: Future[None]) -> None:
            if done.exception() is None:
                self._last = pending.head()
                self._second.add(self._last)

        writing.future.add_done_callback(note)
        return pending, writing

    async def sign(
        self,
        at: float,
        session: str,
        drafts: Sequence[RecordRow] = (),
        statements: Sequence[Statement] = (),
    ) -> Head:
        """Put a head on record and into the second place, in one transaction with these.

        Raises:
            RecordError: it could not be committed, there is no key to sign with, or it could not be written
                to the second place, where it will be with the next one.
        """
        pending, writing = self.queue(at, session, drafts, statements)
        await self._database.written(writing)
        await self.flush()
        return pending.head()

    async def sign_rest(self, at: float) -> None:
        """Sign what a killed process left unsigned, if it is still as it was chained.

        Raises:
            RecordError: it is not, or it could not be signed.
        """
        key = await trio.to_thread.run_sync(self._signer.public)
        problem = await unsigned_problem(self._database, key)
        if problem is not None:
            raise RecordError(f"the audit is not as it was written: {problem.message} (leeward audit verify)")
        await self.sign(at, "")

    @property
    def is_behind(self) -> bool:
        """Whether heads are on record, and not yet in the second place."""
        return self._second.is_behind

    async def catch_up(self) -> None:
        """Write to the second place what is due there; where that fails, the end of the session tells."""
        with suppress(RecordError):
            await self.flush()

    async def flush(self) -> None:
        """Write the heads that are on record, and not yet there, to the second place.

        A cancellation is not raised here: what the caller wrote is on record, and it must learn that.

        Raises:
            RecordError: it could not be done.
        """
        if self._second.is_behind:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(self._second.flush)

    async def heads(self, before: float, limit: int) -> list[Head]:
        """Return the newest heads on record, oldest first."""
        rows = await self._database.read(_HEADS, (before, max(limit, 0)))
        return [head for (body,) in reversed(rows) if (head := _read(body)) is not None]

    async def verify(self, anchors: Sequence[Head] = ()) -> Verified:
        """Walk the whole chain."""
        key = await trio.to_thread.run_sync(self._signer.public)
        return await verify(self._database, key, anchors)

    async def heads_elsewhere(self) -> list[Head]:
        """Return the heads in the second place, oldest first.

        Raises:
            RecordError: they could not be read.
        """
        return await trio.to_thread.run_sync(self._second.heads)

    async def prune(self, at: float, head: Head) -> int:
        """Delete the records before a head that is on record."""
        rows = await self._database.read(_IS_HEAD, (head.count + 1,))
        if not rows or _read(rows[0][0]) != head:
            raise RecordError(
                "the audit can only be cut at a signed head that is on record, and the one about"
                f" {head.count} records is not: take one of this audit that is not pruned yet"
            )
        ((number,),) = await self._database.read(_COUNT, (head.count,))
        if number:
            body = {"records": number, "count": head.count, "hash": head.hash}
            pruned = self._drafting.of_fact(at, "", "pruned", body)
            # In one transaction: what is missing, and that it was pruned, are never apart.
            await self.sign(at, "", [pruned], [(_PRUNE, (head.count,))])
        return int(number)


def _read(body: str) -> Head | None:
    try:
        return Head.of_body(body)
    except ValueError:
        return None
