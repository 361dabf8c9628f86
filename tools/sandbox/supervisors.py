"""On which thread are programs started? On one of its own, which lives as long as whoever opened it.

A program under bubblewrap dies with the thread that started it, so no worker thread may do that: those end
when they were idle for a while. And Landlock binds a thread for good, with all that it starts.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import outcome
import trio

__all__ = ["Spawner"]

_T = TypeVar("_T")
_Done = Callable[["outcome.Outcome[Any]"], None]


class Spawner:
    """A thread that runs one function after the other. `prepare` runs on it first, once.

    Its end is not waited for: the thread is gone when the function it runs has returned.
    """

    def __init__(self, name: str, prepare: Callable[[], None] | None = None) -> None:
        self._work: queue.SimpleQueue[tuple[Callable[[], Any], _Done] | None] = queue.SimpleQueue()
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

        def done(result: outcome.Outcome[Any]) -> None:
            # The loop may be gone by now, and with it whoever waited.
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
