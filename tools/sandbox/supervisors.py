"""Start supervisors on a dedicated thread, and keep one for each confinement.

A program under bubblewrap dies with the thread that started it, and worker threads end when they are idle, so
they may not start one. Landlock binds a thread, and all it starts, for good: if the grants change, a new
supervisor is started, and the old one ends when nothing runs below it any more.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import outcome
import trio

from leeward.security.lazy import dataclass

from ..process import Supervisor
from .landlock import confine_thread

if TYPE_CHECKING:
    from leeward.security.sandbox import PathGrant

__all__ = ["Spawner", "SupervisorPool"]


_T = TypeVar("_T")
_Done = Callable[["outcome.Outcome[Any]"], None]


class Spawner:
    """A thread that runs one function after the other. `prepare` runs on it first, once.

    Its end is not waited for: the thread is gone when the function it runs has returned.
    """

    def __init__(self, name: str, prepare: Callable[[], None] | None = None) -> None:
        self._work: queue.SimpleQueue[tuple[Callable[[], object], _Done] | None] = queue.SimpleQueue()
        self._prepare = prepare
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=f"leeward {name}", daemon=True)
        self._thread.start()

    async def run(self, function: Callable[[], _T]) -> _T:
        """Run a function on the thread and return what it returns; cancelling does not stop it.

        Raises:
            OSError: the thread could not be prepared; nothing runs on it.
            trio.ClosedResourceError: it was closed.
        """
        if self._is_closed:
            raise trio.ClosedResourceError("the thread that starts programs was closed")
        task, token = trio.lowlevel.current_task(), trio.lowlevel.current_trio_token()

        def done(result: outcome.Outcome[object]) -> None:
            # The loop may be gone by now, and with it the waiting task.
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(trio.lowlevel.reschedule, task, result)

        def keep_waiting(_: object) -> trio.lowlevel.Abort:
            return trio.lowlevel.Abort.FAILED

        self._work.put((function, done))
        result: _T = await trio.lowlevel.wait_task_rescheduled(keep_waiting)
        return result

    def close(self) -> None:
        """Let the thread end once it has done what it was given."""
        self._is_closed = True
        self._work.put(None)

    def _run(self) -> None:
        prepared = outcome.capture(self._prepare) if self._prepare is not None else outcome.Value(None)
        while (work := self._work.get()) is not None:
            function, done = work
            done(prepared if isinstance(prepared, outcome.Error) else outcome.capture(function))


@dataclass(slots=True)
class SupervisorPool:
    """The supervisors of a sandbox. `network` tells whether what confines them includes the network.

    With `reads_only` Landlock keeps them from all that changes something but what is granted.
    """

    network: bool = False
    reads_only: bool = False
    _current: Supervisor | None = None
    _granted: tuple[PathGrant, ...] | None = None
    _spent: list[Supervisor] = field(default_factory=list)
    _turn: trio.Lock = field(default_factory=trio.Lock)

    async def get(self, granted: tuple[PathGrant, ...] | None = None) -> Supervisor:
        """Return one that is kept to what is granted, None for one that is kept to nothing.

        Raises:
            PermanentFailure: it could not be started.
        """
        async with self._turn:
            if self._current is not None and self._current.is_alive and granted == self._granted:
                return self._current
            if self._current is not None:
                self._spent.append(self._current)
                self._current = None
            await self._drop(lambda supervisor: not supervisor.reapers)
            self._current, self._granted = await self._started(granted), granted
            return self._current

    async def aclose(self) -> None:
        """Let them all end; a program that still runs ends with its caller."""
        if self._current is not None:
            self._spent.append(self._current)
            self._current = None
        await self._drop(lambda _: True)

    async def _drop(self, is_done: Callable[[Supervisor], bool]) -> None:
        for supervisor in tuple(self._spent):
            if is_done(supervisor):
                self._spent.remove(supervisor)
                await supervisor.aclose()

    async def _started(self, granted: tuple[PathGrant, ...] | None) -> Supervisor:
        if granted is None:
            return await Supervisor.started()
        confine = partial(confine_thread, granted, network=self.network, reads_only=self.reads_only)
        thread = Spawner("landlock", confine)
        try:
            return await Supervisor.started(thread.run)
        finally:
            thread.close()
