"""In which order do things happen to the file? One task in the island does them all.

It takes everything that has queued up into one transaction: records that arrive while one commit
runs share the next, without any timer. Reads pass through the same queue, so none sees a
transaction that is not committed.

A commit is never torn off: nothing cancels the task, so BEGIN, COMMIT and rollback need no shield of
their own. Who queues and who waits is the business of `database.py`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, Generic, TypeAlias, TypeVar

from trio.lowlevel import Abort

from leeward.security import RecordError

from .connection import FAILURES, Connection, Statement, Value, is_busy, reason
from .island import Interrupted

__all__ = ["Close", "Job", "Read", "Row", "Statement", "Value", "Write", "Writer"]

T = TypeVar("T")
Row: TypeAlias = tuple[Any, ...]


class Job(Generic[T]):
    """Something to be done with the connection, and the future that tells how it went."""

    def __init__(self) -> None:
        self.future: Future[T] = Future()

    def fail(self, what: str, error: BaseException) -> None:
        """Tell whoever waits, in words, that this was not done."""
        problem = RecordError(f"{what}: {reason(error)}")
        problem.__cause__ = error
        self.future.set_exception(problem)


class Write(Job[None]):
    """Statements that count together or not at all; `durable` as in `Connection.transact`."""

    def __init__(self, statements: Sequence[Statement], *, durable: bool = True) -> None:
        super().__init__()
        self.statements = tuple(statements)
        self.durable = durable


class Read(Job[list[Row]]):
    """A query; nobody waits for its rows any more once it is `unwanted`."""

    def __init__(self, sql: str, values: Sequence[Value]) -> None:
        super().__init__()
        self.sql = sql
        self.values = values
        self.unwanted = False

    def drop(self) -> Abort:
        """Ask for the query to end early; its end is still to be waited for."""
        self.unwanted = True
        return Abort.FAILED


class Close(Job[None]):
    """The end: nothing may be queued behind it."""


class Writer:
    """The only one who touches an open connection. `queue` may be appended to from any thread."""

    def __init__(self, connection: Connection, name: str) -> None:
        self.connection = connection
        self.queue: deque[Job[Any]] = deque()
        self._name = name
        self._working = False
        self._reading: Read | None = None

    async def work(self) -> None:
        """Serve the queue until it is empty, unless another task of this function is at it already."""
        if self._working:
            return
        self._working = True
        jobs: list[Job[Any]] = []
        try:
            while self.queue:
                jobs = self._take()
                await self._serve(jobs)
        except BaseException as error:
            for job in (*jobs, *self._take()):
                if not job.future.done():
                    job.fail(f"{self._name} failed", error)
            raise
        finally:
            self._working = False

    def is_in_vain(self) -> bool:
        """Whether what runs at the moment is a query that nobody wants any more.

        SQLite asks this now and then, and ends the query if so. Unlike an interrupt from outside, this
        cannot come too early, nor hit a write.
        """
        return self._reading is not None and self._reading.unwanted

    def _take(self) -> list[Job[Any]]:
        return [self.queue.popleft() for _ in range(len(self.queue))]

    async def _serve(self, jobs: Sequence[Job[Any]]) -> None:
        """Do what has queued up, writes first: a tool call may be waiting for its record."""
        writes = [job for job in jobs if isinstance(job, Write)]
        if writes:
            await self._commit(writes)
        for job in jobs:
            if isinstance(job, Read):
                await self._answer(job)
        for job in jobs:
            if isinstance(job, Close):
                await self.connection.close()
                job.future.set_result(None)

    async def _commit(self, jobs: Sequence[Write]) -> None:
        """Commit all jobs together; where that fails, each alone, so that a bad one spoils no other."""
        error = await self._try(jobs)
        if error is None:
            for job in jobs:
                job.future.set_result(None)
        elif len(jobs) == 1 or is_busy(error):
            # A lock that was waited for in vain once is not waited for again by every single job.
            for job in jobs:
                job.fail(f"{self._name} could not be written", error)
        else:
            for job in jobs:
                await self._commit([job])

    async def _try(self, jobs: Sequence[Write]) -> Exception | None:
        """Commit the statements of all jobs in one transaction, or return why that was not possible."""
        try:
            statements = [statement for job in jobs for statement in job.statements]
            await self.connection.transact(statements, durable=any(job.durable for job in jobs))
        except FAILURES as error:
            return error
        return None

    async def _answer(self, job: Read) -> None:
        if job.unwanted:
            job.future.set_exception(Interrupted())
            return
        self._reading = job
        try:
            rows = await self.connection.execute_fetchall(job.sql, job.values)
            job.future.set_result([tuple(row) for row in rows])
        except FAILURES as error:
            if job.unwanted:
                job.future.set_exception(Interrupted())
            else:
                job.fail(f"{self._name} could not be read", error)
        finally:
            self._reading = None
