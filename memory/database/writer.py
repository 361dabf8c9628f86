"""The single writer thread of a process: executes the reads and writes of one file in order.

Each transaction takes everything that is queued: records that arrive while one commit runs share the
next, without any timer. Reads pass through the same queue, so none sees an uncommitted transaction. A
tool may be waiting for a record, and for nothing else: records go into the very next transaction, and
large writes are split into transactions between which records are committed.

A commit is never interrupted: the thread does not see cancelled tasks, so BEGIN, COMMIT and rollback
need no shield. Queueing and waiting are done by `database.py`.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

import trio
from trio.lowlevel import Abort

from leeward.security.ports import RecordError

from .asyncio_thread import Interrupted
from .backup import suspect
from .chain import RecordRow
from .connection import (
    FAILURES,
    Connection,
    Statement,
    Value,
    integrity,
    is_busy,
    is_damage,
    reason,
    transact,
)

__all__ = ["Check", "ReadJob", "Row", "Write", "Writer", "WriterJob"]

T = TypeVar("T")
Row: TypeAlias = tuple[Any, ...]

# As much as one transaction takes (bytes), but for a single write that is larger: a record that comes
# meanwhile waits for it.
_TRANSACTION = 262_144


class WriterJob(Generic[T]):
    """Something to be done with the connection, and the future that tells how it went."""

    def __init__(self) -> None:
        self.future: Future[T] = Future()

    def succeed(self, result: T) -> None:
        """Give the waiting caller the result; if the asyncio thread has died, it has been notified."""
        with suppress(InvalidStateError):
            self.future.set_result(result)

    def give_up(self, error: BaseException) -> None:
        """Tell the waiting caller that this was not done."""
        with suppress(InvalidStateError):
            self.future.set_exception(error)

    def fail(self, what: str, error: BaseException) -> None:
        """Tell the waiting caller, in words, that this was not done."""
        problem = RecordError(f"{what}: {reason(error)}")
        problem.__cause__ = error
        self.give_up(problem)


class Write(WriterJob[None]):
    """Records and statements that count together or not at all."""

    def __init__(self, statements: Sequence[Statement] = (), drafts: Sequence[RecordRow] = ()) -> None:
        super().__init__()
        self.statements: tuple[Statement, ...] = tuple(statements)
        self.drafts: tuple[RecordRow, ...] = tuple(drafts)

    def size(self) -> int:
        """Return about how many bytes the statements hold; records are small, and never wait."""
        values = (value for _, values in self.statements for value in values)
        return sum(len(value) for value in values if isinstance(value, (str, bytes)))


class ReadJob(WriterJob[list[Row]]):
    """A query; nobody waits for its rows any more once it is `unwanted`."""

    def __init__(self, sql: str, values: Sequence[Value]) -> None:
        super().__init__()
        self.sql = sql
        self.values = values
        self.unwanted: bool = False

    def drop(self) -> Abort:
        """Ask for the query to end early; its end is still to be waited for."""
        self.unwanted = True
        return Abort.FAILED


class Check(WriterJob[list[str]]):
    """A look at the whole file."""


class Writer:
    """The only one who touches an open connection. `queue` may be appended to from any thread, then `start`.

    `token` is of the run of trio in which all wait.
    """

    def __init__(self, connection: Connection, path: Path, token: trio.lowlevel.TrioToken) -> None:
        self.connection = connection
        self._token = token
        self.queue: deque[WriterJob[Any]] = deque()
        self._is_serving = False
        self._path = path
        self._later: list[WriterJob[object]] = []
        self._reading: ReadJob | None = None

    def start(self) -> None:
        """Have what has queued up served, unless that is being done; may be called from any thread."""
        if not self._is_serving:
            self.connection.start(self._serve)

    def is_in_vain(self) -> bool:
        """Whether what runs at the moment is a query that nobody wants any more.

        SQLite asks this now and then, and ends the query if so. Unlike an interrupt from outside, this
        cannot come too early, nor hit a write.
        """
        return self._reading is not None and self._reading.unwanted

    def _taken(self) -> list[WriterJob[object]]:
        """Return what has queued up; what arrives meanwhile is for the next time."""
        later, self._later = self._later, []
        return later + [self.queue.popleft() for _ in range(len(self.queue))]

    def _serve(self, connection: sqlite3.Connection) -> None:
        """Do, in the thread, what has queued up, and go on while more comes: that spares waking up."""
        while self.queue or self._later:
            # A caller that adds a job and finds this true starts nothing: the queue is looked at again
            # after it has become false.
            self._is_serving = True
            jobs = self._taken()
            try:
                self._do(connection, jobs)
            except BaseException as error:
                for job in (*jobs, *self._taken()):
                    job.fail(f"{self._path} failed", error)
                raise
            finally:
                self._is_serving = False

    def _do(self, connection: sqlite3.Connection, jobs: Sequence[WriterJob[object]]) -> None:
        self._write(connection, deque(job for job in jobs if isinstance(job, Write)))
        for job in jobs:
            if isinstance(job, ReadJob):
                self._answer(connection, job)
            elif isinstance(job, Check):
                self._check(connection, job)

    def _write(self, connection: sqlite3.Connection, jobs: deque[Write]) -> None:
        """Commit what there is to write; records that come meanwhile overtake what is left of it."""
        while jobs:
            self._commit(connection, _first(jobs))
            if jobs:
                came, self._later = self._taken(), []
                jobs.extend(job for job in came if isinstance(job, Write) and job.drafts)
                self._later = [job for job in came if not isinstance(job, Write) or not job.drafts]

    def _commit(self, connection: sqlite3.Connection, jobs: Sequence[Write]) -> None:
        """Commit all jobs together; where that fails, each alone, so that a bad one spoils no other."""
        error = self._try(connection, jobs)
        if error is None:
            self._tell(jobs)
        elif len(jobs) == 1 or is_busy(error):
            # Once waiting for a lock timed out, the jobs behind it do not wait for it one by one.
            for job in jobs:
                job.fail(f"{self._path} could not be written", error)
        else:
            for job in jobs:
                self._commit(connection, [job])

    def _tell(self, jobs: Sequence[Write]) -> None:
        """Let all who wait go on at once.

        Woken one by one, the first would ask for a commit of its own before the others are awake.
        """

        def tell() -> None:
            for job in jobs:
                job.succeed(None)

        try:
            self._token.run_sync_soon(tell)
        except trio.RunFinishedError:
            tell()

    def _try(self, connection: sqlite3.Connection, jobs: Sequence[Write]) -> Exception | None:
        """Commit the statements of all jobs in one transaction, or return why that was not possible."""
        drafts = [draft for job in jobs for draft in job.drafts]
        statements = [statement for job in jobs for statement in job.statements]
        try:
            transact(connection, drafts, statements)
        except (RecordError, *FAILURES) as error:
            self._note_damage(error)
            return error
        return None

    def _answer(self, connection: sqlite3.Connection, job: ReadJob) -> None:
        if job.unwanted:
            job.give_up(Interrupted())
            return
        self._reading = job
        try:
            job.succeed(connection.execute(job.sql, job.values).fetchall())
        except FAILURES as error:
            self._note_damage(error)
            if job.unwanted:
                job.give_up(Interrupted())
            else:
                job.fail(f"{self._path} could not be read", error)
        finally:
            self._reading = None

    def _check(self, connection: sqlite3.Connection, job: Check) -> None:
        try:
            job.succeed(integrity(connection))
        except FAILURES as error:
            job.fail(f"{self._path} could not be checked", error)

    def _note_damage(self, error: Exception) -> None:
        if is_damage(error):
            suspect(self._path)


def _first(jobs: deque[Write]) -> list[Write]:
    """Take what goes into the next transaction: all records, and of the rest as much as fits, in order."""
    chosen = [job for job in jobs if job.drafts]
    rest = deque(job for job in jobs if not job.drafts)
    size = sum(job.size() for job in chosen)
    while rest and (not chosen or size + rest[0].size() <= _TRANSACTION):
        size += rest[0].size()
        chosen.append(rest.popleft())
    jobs.clear()
    jobs.extend(rest)
    return chosen
