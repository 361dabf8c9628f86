"""Asynchronous access to one SQLite file; a write returns when the disk has it.

A caller puts statements into a queue and waits until they are on the disk. `writer.py` serves the queue,
`connection.py` opens the file, `schema.py` describes its contents.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import trio
from trio.lowlevel import Abort, enable_ki_protection

from leeward.security.ports import RecordError

from .asyncio_thread import AsyncioThread, AsyncioThreadError, settled
from .chain import RecordRow
from .connection import Statement, Value, connect
from .writer import Check, ReadJob, Row, Write, Writer, WriterJob

__all__ = ["Database"]

T = TypeVar("T")

# Bytes of the disk that what is large leaves free: no call runs that cannot be recorded, and the log alone
# may grow to half of this before it goes into the file (`journal_size_limit`).
_FOR_RECORDS = 32 * 1024 * 1024

# How many steps SQLite takes between two looks at whether a query is still wanted; about a millisecond.
_INSTRUCTIONS = 10_000


class Database:
    """One SQLite file, open for reading and writing; several processes may have it open at once.

    One connection, and so one writer, serves the whole process.
    """

    def __init__(self, path: str | os.PathLike[str], asyncio_thread: AsyncioThread) -> None:
        self.path: Path = Path(path).absolute()
        self._asyncio_thread = asyncio_thread
        self._writer: Writer | None = None
        self._notices: list[str] = []
        # Threads that look at files wait for writes; those must not wait for such a thread to be done.
        self._asking = trio.CapacityLimiter(1)

    @classmethod
    @asynccontextmanager
    async def open(
        cls, path: str | os.PathLike[str], asyncio_thread: AsyncioThread, *, busy_seconds: float = 5.0
    ) -> AsyncIterator[Database]:
        """Open the file, making or migrating it first; what was queued is written before it is closed.

        `busy_seconds` is how long a write waits for another process. A file of ours that is damaged is
        moved to a folder beside it, and a new one begun; `take_notices` tells of that.

        Raises:
            RecordError: the file cannot be used; the message says why. It is never deleted.
        """
        database = cls(path, asyncio_thread)
        try:
            await asyncio_thread.run(database._connect, busy_seconds, trio.lowlevel.current_trio_token())
            yield database
        finally:
            await database._close()

    async def write(self, statements: Sequence[Statement] = (), drafts: Sequence[RecordRow] = ()) -> None:
        """Write these in one transaction, records of the audit first; return once it is on the disk.

        They are queued before anything is awaited, so writes happen in the order of the calls. A
        caller who is cancelled leaves at once, and what was queued is written all the same.

        Raises:
            RecordError: they could not be committed, and nothing of them counts.
        """
        await self.written(self.queue(statements, drafts))

    def queue(
        self, statements: Sequence[Statement] = (), drafts: Sequence[RecordRow] = (), *, at_once: bool = False
    ) -> Write:
        """Put something in line without waiting: it joins the transaction of what is written next.

        With `at_once` that is begun now, whether somebody waits for it or not.

        Raises:
            RecordError: the file is closed.
        """
        job = Write(statements, drafts)
        writer = self._open_writer()
        writer.queue.append(job)
        if at_once:
            writer.start()
        return job

    async def written(self, job: Write) -> None:
        """Return once what was put in line is on the disk; a caller who is cancelled leaves at once.

        Raises:
            RecordError: it could not be committed, and nothing of it counts.
        """
        if not job.future.done():
            await _done(self._open_writer(), job, lambda: Abort.SUCCEEDED)
        else:
            await trio.lowlevel.checkpoint()
            job.future.result()

    async def read(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        """Return all rows of a query. It sees every write queued before it, and nothing uncommitted.

        Cancelling the caller interrupts the query.

        Raises:
            RecordError: the query failed.
        """
        job, writer = ReadJob(sql, values), self._open_writer()
        writer.queue.append(job)
        return await _done(writer, job, job.drop)

    async def see_room(self) -> None:
        """See that there is room on the disk for what is large, and for the records that come after it.

        Raises:
            RecordError: there is not, or the disk cannot be asked.
        """
        try:
            disk = await trio.to_thread.run_sync(os.statvfs, self.path.parent, limiter=self._asking)
        except OSError as error:
            raise RecordError(f"the disk of {self.path} cannot be asked for its room: {error}") from error
        free = disk.f_bavail * disk.f_frsize
        # Some file systems do not say how big they are.
        if disk.f_blocks and free < _FOR_RECORDS:
            left, kept = free >> 20, _FOR_RECORDS >> 20
            why = f"{left} MiB are left on the disk of {self.path}, and the last {kept} are for the audit"
            raise RecordError(why)

    async def integrity(self) -> list[str]:
        """Return what SQLite finds wrong with the whole file, nothing where all is well.

        Nothing is written meanwhile: of a large file that takes seconds.

        Raises:
            RecordError: it could not be looked at.
        """
        job, writer = Check(), self._open_writer()
        writer.queue.append(job)
        return await _done(writer, job, lambda: Abort.SUCCEEDED)

    def note(self, notice: str) -> None:
        """Keep a notice for the person."""
        self._notices.append(notice)

    def take_notices(self) -> list[str]:
        """Return the notices about opening the file, or about its content; once."""
        taken, self._notices = self._notices, []
        return taken

    def _open_writer(self) -> Writer:
        if self._writer is None:
            raise RecordError(f"{self.path} is closed")
        return self._writer

    async def _connect(self, busy_seconds: float, token: trio.lowlevel.TrioToken) -> None:
        """Run in the asyncio thread; nothing may be opened that `_close` would not find."""
        connection = await connect(self.path, busy_seconds)
        self._notices = connection.notices
        self._writer = Writer(connection, self.path, token)
        await connection.set_progress_handler(self._writer.is_in_vain, _INSTRUCTIONS)

    @enable_ki_protection
    async def _close(self) -> None:
        # What comes now is refused; what is queued already still gets written.
        writer, self._writer = self._writer, None
        if writer is None:
            return
        with trio.CancelScope(shield=True):
            writer.start()
            try:
                await self._asyncio_thread.run(writer.connection.close)
            except AsyncioThreadError:
                # The loop has died, and the thread would outlive it: the process would wait for it at exit.
                await trio.to_thread.run_sync(writer.connection.stop)


async def _done(writer: Writer, job: WriterJob[T], on_cancel: Callable[[], Abort]) -> T:
    """Have the queue served, and wait for what is in it already."""
    writer.start()
    return await settled(job.future, on_cancel)
