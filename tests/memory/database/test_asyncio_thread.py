"""The bridge between trio and asyncio: cancellation is safe, nothing leaks, nothing hangs."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future

import pytest
import trio
import trio.testing
from prompt_toolkit import PromptSession
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from trio.lowlevel import Abort

from leeward.memory.database import AsyncioThread
from leeward.memory.database.asyncio_thread import AsyncioThreadError


class Gate:
    """Lets asyncio code wait for a trio test, and the other way round."""

    def __init__(self) -> None:
        self.reached = trio.Event()
        self.log: list[str] = []
        self._open = threading.Event()
        self._token = trio.lowlevel.current_trio_token()

    def open(self) -> None:
        self._open.set()

    async def pass_through(self, result: str = "through") -> str:
        self._token.run_sync_soon(self.reached.set)
        await asyncio.get_running_loop().run_in_executor(None, self._open.wait)
        self.log.append(result)
        return result

    async def hang(self) -> None:
        self._token.run_sync_soon(self.reached.set)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            self.log.append("cleaned up")


async def double(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


async def fail(error: BaseException) -> None:
    await asyncio.sleep(0)
    raise error


async def stop_the_loop() -> None:
    asyncio.get_running_loop().stop()
    await asyncio.Event().wait()


def threads() -> set[str]:
    return {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize("way", [AsyncioThread.run, AsyncioThread.run_cancellable])
async def test_values_and_errors_cross(asyncio_thread: AsyncioThread, way: Callable) -> None:
    assert await way(asyncio_thread, double, 21) == 42
    for error in (KeyError("x"), KeyboardInterrupt(), SystemExit(3), GeneratorExit()):
        with pytest.raises(type(error)):
            await way(asyncio_thread, fail, error)
        assert await way(asyncio_thread, double, 4) == 8, "the loop outlives every error"


async def test_a_cancelled_caller_waits_for_what_was_begun(asyncio_thread: AsyncioThread) -> None:
    gate, got = Gate(), []
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def caller() -> None:
            got.append(await asyncio_thread.run(gate.pass_through))
            got.append("went on")
            await trio.lowlevel.checkpoint()
            got.append("was not cancelled")

        await gate.reached.wait()
        nursery.cancel_scope.cancel()
        gate.open()
    assert got == ["through", "went on"]


async def test_cancelling_ends_the_asyncio_task_and_waits_for_its_end(asyncio_thread: AsyncioThread) -> None:
    gate = Gate()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(asyncio_thread.run_cancellable, gate.hang)
        await gate.reached.wait()
        nursery.cancel_scope.cancel()
    assert gate.log == ["cleaned up"]


async def test_a_result_that_came_in_spite_of_the_cancel_is_not_lost(asyncio_thread: AsyncioThread) -> None:
    gate, got = Gate(), []

    async def stubborn() -> str:
        try:
            await gate.hang()
        except asyncio.CancelledError:
            return "all the same"
        raise AssertionError

    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def caller() -> None:
            got.append(await asyncio_thread.run_cancellable(stubborn))

        await gate.reached.wait()
        nursery.cancel_scope.cancel()
    assert got == ["all the same"]


@pytest.mark.parametrize("way", [AsyncioThread.run, AsyncioThread.run_cancellable])
async def test_who_is_cancelled_already_begins_nothing(asyncio_thread: AsyncioThread, way: Callable) -> None:
    ran: list[int] = []

    async def work() -> None:
        ran.append(1)

    with trio.CancelScope() as scope:
        scope.cancel()
        await way(asyncio_thread, work)
    await asyncio_thread.run(double, 1)
    assert scope.cancelled_caught
    assert ran == []


@pytest.mark.parametrize("when", range(12))
async def test_a_cancel_at_any_moment_neither_hangs_nor_leaves_the_task(
    asyncio_thread: AsyncioThread, when: int
) -> None:
    gate = Gate()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(asyncio_thread.run_cancellable, gate.hang)
        for _ in range(when):
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    assert gate.log in ([], ["cleaned up"])
    assert gate.log or not gate.reached.is_set()


async def test_who_may_leave_leaves_and_the_future_is_settled_later(asyncio_thread: AsyncioThread) -> None:
    future: Future[int] = Future()
    with trio.CancelScope() as scope:
        scope.cancel()
        await asyncio_thread.wait(future, lambda: Abort.SUCCEEDED)
    assert scope.cancelled_caught
    asyncio_thread.call_soon(lambda: future.set_result(1))
    assert await asyncio_thread.wait(future) == 1


async def test_several_asyncio_threads_do_not_stall_each_other() -> None:
    held = threading.Event()
    async with AsyncioThread.open("storage") as storage, AsyncioThread.open("terminal") as terminal:
        terminal.call_soon(held.wait)
        try:
            assert await storage.run(double, 3) == 6
        finally:
            held.set()
        assert await terminal.run(double, 4) == 8


async def test_closing_ends_what_runs_and_joins_the_thread() -> None:
    before = threads()
    async with AsyncioThread.open("brief") as asyncio_thread:
        gate = Gate()
        asyncio_thread.start(gate.hang)
        await gate.reached.wait()
        assert "leeward-brief" in threads()
    assert gate.log == ["cleaned up"]
    assert threads() == before
    with pytest.raises(AsyncioThreadError, match="brief thread is closed"):
        await asyncio_thread.run(double, 1)
    asyncio_thread.call_soon(lambda: pytest.fail("called after the end"))


async def test_closing_tells_those_who_still_wait() -> None:
    errors: list[str] = []
    async with trio.open_nursery() as nursery:
        async with AsyncioThread.open("brief") as asyncio_thread:
            gate = Gate()

            @nursery.start_soon
            async def caller() -> None:
                with pytest.raises(AsyncioThreadError) as caught:
                    await asyncio_thread.run(gate.hang)
                errors.append(str(caught.value))

            await gate.reached.wait()
    assert errors == ["the asyncio thread was closed while this was running"]


async def test_an_error_in_the_block_comes_out_and_the_thread_is_gone() -> None:
    before = threads()
    with pytest.raises(ZeroDivisionError):
        async with AsyncioThread.open("brief"):
            raise ZeroDivisionError
    with trio.CancelScope() as scope:
        scope.cancel()
        async with AsyncioThread.open("brief"):
            await trio.lowlevel.checkpoint()
    assert scope.cancelled_caught
    assert threads() == before


async def test_a_loop_that_dies_is_an_error_and_not_a_hang() -> None:
    before = threads()
    async with AsyncioThread.open("doomed") as asyncio_thread:
        never: Future[int] = Future()
        async with trio.open_nursery() as nursery:
            for waiting in (lambda: asyncio_thread.run(Gate().hang), lambda: asyncio_thread.wait(never)):

                @nursery.start_soon
                async def caller(waiting: Callable = waiting) -> None:
                    with pytest.raises(AsyncioThreadError):
                        await waiting()

            await trio.testing.wait_all_tasks_blocked()
            asyncio_thread.start(stop_the_loop)
        with pytest.raises(AsyncioThreadError, match="the loop of the doomed thread ended: RuntimeError"):
            await asyncio_thread.run(double, 1)
    assert threads() == before


async def test_a_prompt_is_cancelled_from_trio() -> None:
    before = threads()
    with create_pipe_input() as keys:
        async with AsyncioThread.open("terminal") as terminal:

            async def ask() -> str:
                session: PromptSession[str] = PromptSession(input=keys, output=DummyOutput())
                shown = trio_token.run_sync_soon
                return await session.prompt_async("> ", pre_run=lambda: shown(showing.set))

            trio_token, showing = trio.lowlevel.current_trio_token(), trio.Event()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(terminal.run_cancellable, ask)
                await showing.wait()
                nursery.cancel_scope.cancel()
            showing = trio.Event()
            keys.send_text("hello\r")
            assert await terminal.run_cancellable(ask) == "hello"
    assert threads() == before


_INTERRUPTED_WAIT = """
import asyncio, trio
from leeward.memory.database import AsyncioThread

async def work():
    print("ready", flush=True)
    await asyncio.sleep(0.2)
    print("finished", flush=True)

async def main():
    async with AsyncioThread.open("storage") as asyncio_thread:
        await asyncio_thread.run(work)
        await trio.sleep_forever()

trio.run(main)
"""


async def test_ctrl_c_waits_for_what_was_begun_and_ends_the_process() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _INTERRUPTED_WAIT], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        os.kill(child.pid, signal.SIGINT)
        out, err = child.communicate(timeout=60)
    assert out == "finished\n"
    assert err.strip().endswith("KeyboardInterrupt")
    assert child.returncode == -signal.SIGINT
