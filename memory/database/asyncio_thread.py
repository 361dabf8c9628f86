"""Run asyncio code from trio: an asyncio loop in a thread of its own.

This is the only file that uses both libraries, and the bridge is written out by hand to give three
guarantees. Work that has begun is never abandoned: a caller who is cancelled keeps waiting, unless that
work can be interrupted. No exception travels *through* an asyncio task, since a KeyboardInterrupt there
would end the loop: it is captured and raised on trio's side. And no caller hangs: when the loop ends,
for whatever reason, every waiting caller is notified.

Its users are `database.py` (storage) and the terminal of `runtime/repl/terminal.py`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import asynccontextmanager, suppress
from typing import Any, Generic, TypeVar, TypeVarTuple

import trio
from outcome import Error, Outcome, acapture, capture
from trio.lowlevel import Abort, RaiseCancelT, enable_ki_protection

__all__ = ["AsyncioThread", "AsyncioThreadError", "Interrupted", "settled"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class AsyncioThreadError(RuntimeError):
    """The loop of an asyncio thread has ended; nothing runs there any more."""


class Interrupted(Exception):
    """Work in an asyncio thread ended early because the one who waited for it was cancelled."""


class AsyncioThread:
    """An asyncio loop in a thread, called from the trio task tree that opened it.

    Coroutine functions handed to it run in the loop, their arguments cross over as they are. Any
    number of asyncio threads may be open at a time; none can stall another.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pending: set[Future[Any]] = set()
        self._started: set[asyncio.Task[Any]] = set()
        self._closed_because = f"the {name} thread is closed"
        self._ready: Future[asyncio.Event] = Future()
        self._ended: Future[None] = Future()
        # A daemon, so that a program which dies too hard to close its asyncio threads still comes to an end.
        self._thread = threading.Thread(target=self._serve, name=f"leeward-{name}", daemon=True)

    @classmethod
    @asynccontextmanager
    async def open(cls, name: str) -> AsyncIterator[AsyncioThread]:
        """Run a loop for as long as the block lasts; what is still running at its end is cancelled.

        Raises:
            AsyncioThreadError: the loop could not be started.
        """
        opened = cls(name)
        opened._thread.start()
        try:
            await _Sleeper(opened._ready, _stay).sleep()
            yield opened
        finally:
            await opened._close()

    @property
    def alive(self) -> bool:
        """Whether coroutines still run here."""
        return self._loop is not None

    @enable_ki_protection
    async def run(self, function: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> T:
        """Run a coroutine function in the loop and return what it returns, or raise what it raises.

        It is never interrupted: a caller who is cancelled meanwhile gets the result and is cancelled
        at the next checkpoint.

        Raises:
            AsyncioThreadError: the loop has ended, before or during the run.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        ending = await self.wait(self._launch(_TaskHandle(self), function, args))
        return ending.unwrap()

    @enable_ki_protection
    async def run_cancellable(self, function: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> T:
        """Run as `run` does, but cancelling the caller cancels the asyncio task and waits for its end.

        Raises:
            AsyncioThreadError: the loop has ended, before or during the run.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        handle = _TaskHandle(self)
        ending = await self.wait(self._launch(handle, function, args), handle.cancel)
        return ending.unwrap()

    def start(self, function: Callable[[*Ts], Awaitable[object]], *args: *Ts) -> None:
        """Start a coroutine function in the loop; its ending is heard by nobody, so it must not raise.

        Raises:
            AsyncioThreadError: the loop has ended.
        """
        with self._lock:
            if self._loop is None:
                raise AsyncioThreadError(self._closed_because)
            self._loop.call_soon_threadsafe(self._begin, function, args)

    def _begin(self, function: Callable[[*Ts], Awaitable[object]], args: tuple[*Ts]) -> None:
        task = asyncio.ensure_future(_cross(_TaskHandle(self), function, args))
        # asyncio itself holds tasks only weakly.
        self._started.add(task)
        task.add_done_callback(self._started.discard)

    @enable_ki_protection
    async def wait(self, future: Future[T], on_cancel: Callable[[], Abort] | None = None) -> T:
        """Wait for a future that is settled by code in the loop.

        `on_cancel` is called, in trio's thread, when the caller is cancelled. It returns
        `Abort.SUCCEEDED` to let the caller go at once, or asks the work to stop early and returns
        `Abort.FAILED`: the caller then waits on, and is cancelled when the work ends as `Interrupted`.
        Without it the caller waits to the end.

        Raises:
            AsyncioThreadError: the loop has ended, so the future will not be settled.
        """
        with self._lock:
            if self._loop is None:
                raise AsyncioThreadError(self._closed_because)
            self._pending.add(future)
        future.add_done_callback(self._pending.discard)
        return await _Sleeper(future, on_cancel or _stay).sleep()

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Have a plain function called in the loop's thread; nothing happens when the loop has ended."""
        with self._lock:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(callback)

    def _launch(
        self, handle: _TaskHandle, function: Callable[[*Ts], Awaitable[T]], args: tuple[*Ts]
    ) -> Future[Outcome[T]]:
        with self._lock:
            if self._loop is None:
                raise AsyncioThreadError(self._closed_because)
            future = asyncio.run_coroutine_threadsafe(_cross(handle, function, args), self._loop)
            # asyncio itself holds tasks only weakly; this future is what keeps the task in being.
            self._pending.add(future)
        future.add_done_callback(self._pending.discard)
        return future

    def _serve(self) -> None:
        """Live in the thread: run the loop, and tell everyone when it is over."""
        ending = capture(lambda: asyncio.run(self._live()))
        if isinstance(ending, Error):
            self._closed_because = f"the loop of the {self.name} thread ended: {ending.error!r}"
        for future in (self._ready, *tuple(self._pending)):
            # What is done in a thread of its own may be settled there at this very moment.
            with suppress(InvalidStateError):
                future.set_exception(AsyncioThreadError(self._closed_because))
        self._ended.set_result(None)

    async def _live(self) -> None:
        stop = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._ready.set_result(stop)
        try:
            await stop.wait()
        finally:
            # From here on nothing is taken in, so whatever is pending now is all there will ever be.
            with self._lock:
                self._loop = None

    @enable_ki_protection
    async def _close(self) -> None:
        if self._ready.exception() is None:
            self.call_soon(self._ready.result().set)
        await _Sleeper(self._ended, _stay).sleep()
        self._thread.join()


class _TaskHandle:
    """What a trio task holds of an asyncio task it may want to stop."""

    def __init__(self, asyncio_thread: AsyncioThread) -> None:
        self.task: asyncio.Task[object] | None = None
        self.is_cancelled = False
        self._asyncio_thread = asyncio_thread

    def cancel(self) -> Abort:
        """Ask the asyncio task to stop; its end is still to be waited for."""
        self.is_cancelled = True
        self._asyncio_thread.call_soon(self._cancel)
        return Abort.FAILED

    def _cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()


async def _cross(
    handle: _TaskHandle, function: Callable[[*Ts], Awaitable[T]], args: tuple[*Ts]
) -> Outcome[T]:
    """Run in the loop, carrying any exception back as a value."""
    handle.task = asyncio.current_task()
    if handle.is_cancelled:
        raise Interrupted
    ending = await acapture(function, *args)
    if isinstance(ending, Error) and isinstance(ending.error, asyncio.CancelledError):
        if handle.is_cancelled:
            raise Interrupted
        return Error(AsyncioThreadError("the asyncio thread was closed while this was running"))
    return ending


async def settled(future: Future[T], on_cancel: Callable[[], Abort]) -> T:
    """Wait for a future that a thread settles without a loop; `on_cancel` as in `AsyncioThread.wait`."""
    return await _Sleeper(future, on_cancel).sleep()


def _stay() -> Abort:
    return Abort.FAILED


class _Sleeper(Generic[T]):
    """A trio task asleep until a future of another thread is settled."""

    def __init__(self, future: Future[T], on_cancel: Callable[[], Abort]) -> None:
        self._future = future
        self._on_cancel = on_cancel
        self._trio = trio.lowlevel.current_trio_token()
        self._task: trio.lowlevel.Task | None = trio.lowlevel.current_task()
        self._raise_cancel: RaiseCancelT | None = None

    @enable_ki_protection
    async def sleep(self) -> T:
        """Return the future's result or raise its exception."""
        self._future.add_done_callback(self._knock)
        await trio.lowlevel.wait_task_rescheduled(self._abort)
        try:
            return self._future.result()
        except Interrupted:
            if self._raise_cancel is not None:
                self._raise_cancel()
            raise

    def _knock(self, _: Future[T]) -> None:
        if self._is_awake_beside():
            self._wake()
            return
        # Once trio's run is over nobody is left to be woken.
        with suppress(trio.RunFinishedError):
            self._trio.run_sync_soon(self._wake)

    def _is_awake_beside(self) -> bool:
        """Whether this is another task of the same run, which can wake the sleeper itself."""
        if not trio.lowlevel.in_trio_run() or trio.lowlevel.current_trio_token() is not self._trio:
            return False
        return trio.lowlevel.current_task() is not self._task

    def _wake(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    def _abort(self, raise_cancel: RaiseCancelT) -> Abort:
        answer = self._on_cancel()
        if answer is Abort.SUCCEEDED:
            self._task = None
        else:
            self._raise_cancel = raise_cancel
        return answer
