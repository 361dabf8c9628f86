"""Run trio for callers in other threads: one trio thread per process, however many of them there are.

    caller's thread                      the trio thread
    portal.start(function) ─► Job ─────► a task in a cancel scope of its own
    job.cancel()           ────────────► the scope is cancelled
    job.future             ◄──────────── the task has ended

A job's future is done only once its task has ended: what a cancelled caller waited for does nothing any
more, and has left nothing running. The thread starts with the first caller and ends with the last; a forked
child starts its own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, suppress
from typing import Generic, TypeVar

import trio
from outcome import Error, acapture

from ..app import RuntimeSession
from ..events import RunEvent

__all__ = ["Held", "Job", "JobCancelled", "Portal", "PortalClosed", "acquire", "pump", "release"]

T = TypeVar("T")


class JobCancelled(Exception):
    """A job was cancelled by its caller."""


class PortalClosed(RuntimeError):
    """The trio thread has ended: the last runtime was closed meanwhile."""


class Job(Generic[T]):
    """An async function at work in the trio thread; `future` is done when its task has ended."""

    def __init__(self, portal: Portal, work: Callable[[], Awaitable[T]]) -> None:
        self.future: Future[T] = Future()
        self._portal = portal
        self._work = work
        self._scope = trio.CancelScope()

    def cancel(self) -> None:
        """Cancel the task; to be called from any thread, and without effect once it has ended."""
        try:
            self._portal.soon(self._scope.cancel)
        except PortalClosed:
            self.forget()

    def forget(self) -> None:
        """End the wait for a task that does not exist: a forked child has the job, and not its thread."""
        if not self.future.done():
            self.future.set_exception(JobCancelled())

    async def run(self) -> None:
        """Do the work; called by the portal, in its thread."""
        with self._scope:
            ended = await acapture(self._work)
        if not isinstance(ended, Error):
            self.future.set_result(ended.unwrap())
        elif self._scope.cancel_called:
            self.future.set_exception(JobCancelled())
        elif isinstance(ended.error, trio.Cancelled):
            self.future.set_exception(PortalClosed("the runtime was closed meanwhile"))
        else:
            self.future.set_exception(ended.error)


class Portal:
    """The trio thread of this process, and how work gets into it."""

    def __init__(self) -> None:
        self._ready: Future[tuple[trio.lowlevel.TrioToken, trio.Nursery]] = Future()
        self._stop = trio.Event()
        self._process = os.getpid()
        # A daemon: a program that ends without closing its runtime still ends.
        self._thread = threading.Thread(target=trio.run, args=(self._serve,), name="leeward", daemon=True)
        self._thread.start()
        self._token, self._nursery = self._ready.result()

    def start(self, work: Callable[[], Awaitable[T]]) -> Job[T]:
        """Start an async function as a task and return it at once.

        Raises:
            PortalClosed: the thread has ended.
        """
        job = Job(self, work)
        self.soon(self._nursery.start_soon, job.run)
        return job

    def soon(self, function: Callable[..., object], *args: object) -> None:
        """Call a function in the trio thread.

        Raises:
            PortalClosed: the thread has ended, or is that of the process that this one was forked from.
        """
        if self._process != os.getpid():
            raise PortalClosed("a forked process cannot use the runtime of its parent; open one in it")
        try:
            self._token.run_sync_soon(function, *args)
        except trio.RunFinishedError:
            raise PortalClosed("the runtime is closed") from None

    def close(self) -> None:
        """End the thread, and wait until it has."""
        with suppress(PortalClosed):
            self.soon(self._stop.set)
        self._thread.join()

    async def _serve(self) -> None:
        async with trio.open_nursery() as nursery:
            self._ready.set_result((trio.lowlevel.current_trio_token(), nursery))
            await self._stop.wait()
            nursery.cancel_scope.cancel()


class Held(Generic[T]):
    """A trio context manager that a job keeps open: entered and left by one task, as trio wants it."""

    def __init__(self, portal: Portal, manager: Callable[[], AbstractAsyncContextManager[T]]) -> None:
        self.entered: Future[T] = Future()
        self._portal = portal
        self._manager = manager
        self._leave = trio.Event()
        self.job: Job[None] = portal.start(self._hold)
        self.job.future.add_done_callback(self._pass_on)

    def leave(self) -> Future[None]:
        """Leave the context; the future is done once it was left."""
        try:
            self._portal.soon(self._leave.set)
        except PortalClosed:
            if not self.job.future.done():
                self.job.future.set_result(None)  # in a forked child, there is nothing to leave
        return self.job.future

    async def _hold(self) -> None:
        async with self._manager() as value:
            self.entered.set_result(value)
            await self._leave.wait()

    def _pass_on(self, ended: Future[None]) -> None:
        """Give an error on the way in to the caller that waits for the value."""
        if not self.entered.done():
            error = ended.exception() or PortalClosed("the runtime was closed meanwhile")
            self.entered.set_exception(error)


async def pump(
    session: RuntimeSession, text: str, attached: str, put: Callable[[RunEvent | None], None]
) -> None:
    """Run a turn and hand its events over, and None when there are no more."""
    try:
        async with session.run(text, attached) as events:
            async for event in events:
                put(event)
    finally:
        put(None)


_lock = threading.Lock()
_portal: Portal | None = None
_users = 0


def acquire() -> Portal:
    """Return the portal of this process; the first caller starts its thread."""
    global _portal, _users  # noqa: PLW0603 - one thread per process is what this is about
    with _lock:
        if _portal is None:
            _portal = Portal()
        _users += 1
        return _portal


def release(portal: Portal) -> None:
    """Give the portal back; the last caller waits until its thread has ended.

    A forked child has nothing to give back of what its parent acquired.
    """
    global _portal, _users  # noqa: PLW0603 - see above
    with _lock:
        if portal is not _portal:
            return
        _users -= 1
        if _users == 0 and _portal is not None:
            ended, _portal = _portal, None
            ended.close()


def _forget() -> None:
    """Begin anew in a forked child, where the thread does not exist."""
    global _lock, _portal, _users
    _lock, _portal, _users = threading.Lock(), None, 0


os.register_at_fork(after_in_child=_forget)
