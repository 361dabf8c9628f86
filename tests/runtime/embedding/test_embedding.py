"""The runtime under asyncio and without a loop: results, cancelling, time-outs, questions, one thread."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import anyio
import pytest
import trio

import leeward.aio
import leeward.sync
from leeward import Runtime, tool
from leeward.runtime.embedding import portal
from leeward.runtime.exits import CliError
from leeward.security.call import Status
from leeward.security.kinds import Effect
from leeward.security.ports import Answer
from leeward.security.session import Finished
from leeward.tools.declare import Text
from loading import load_module

HELD = load_module(Path(__file__).parents[1] / "sessions.py")
Says = HELD.Says
CONFIG = {"tools": {"sandbox": {"level": "none"}}, "permissions.autonomy": "full"}


@tool(effects=Effect.READ)
async def hang() -> str:
    """Never return."""
    await trio.sleep_forever()
    return ""


@tool(effects=Effect.SEND)
async def send(text: Text) -> str:
    """Send a text, as far as anybody can tell."""
    return f"sent {text}"


@pytest.fixture
def opened(tmp_path):
    """What a runtime is opened with: folders of its own, a model, two tools."""

    def options(*replies, **more):
        return {
            "places": HELD.places(tmp_path),
            "provider": Says(*replies),
            "executors": [hang, send],
            "config": CONFIG,
        } | more

    yield options
    assert portal._portal is None
    assert "leeward" not in {thread.name for thread in threading.enumerate()}


def statuses(session):
    """How the calls of a session ended, by its records."""

    async def ends():
        events = await session._session.audit.events_of(session.session_id)
        return [event.status for event in events if isinstance(event, Finished)]

    return session._portal.start(ends).future.result()


def test_an_asyncio_program(opened):
    async def program():
        heard = []
        async with leeward.aio.Runtime.open(
            **opened("one", [("send", {"text": "x"})]), listener=heard.append
        ) as rt:
            assert (await rt.turn("hi")).text == "one"
            async with rt.run("send x") as events:
                kinds = [type(event).__name__ async for event in events]
            assert kinds == ["CallStarted", "CallEnded", "Text", "TurnEnded"]
            assert (await rt.call("send", {"text": "y"})).outcome.status is Status.OK
            async with rt.session(provider=Says("of its own")) as other:
                assert (await other.turn("hi")).text == "of its own"
                assert other.session_id != rt.session_id
        await asyncio.sleep(0)
        return heard

    heard = asyncio.run(program())
    assert [type(event).__name__ for event in heard].count("TurnEnded") == 2


def test_a_script_without_a_loop(opened):
    with leeward.sync.open(**opened("one", "two", "three")) as runtime:
        assert runtime.turn("hi").text == "one"
        with runtime.run("more") as events:
            assert [type(event).__name__ for event in events] == ["Text", "TurnEnded"]
        with runtime.session(provider=Says("of its own")) as session:
            assert session.turn("hi").text == "of its own"
        assert runtime.call("nothing", {}).outcome.status is Status.DENIED


def test_a_time_out_returns_once_the_call_is_over_and_the_loop_went_on(opened):
    async def program():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.01)

        ticking = asyncio.create_task(tick())
        async with leeward.aio.Runtime.open(**opened([("hang", {})], "still here")) as rt:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    await rt.turn("hang")
            assert await asyncio.to_thread(statuses, rt) == [Status.CANCELLED]
            assert (await rt.turn("hi")).text == "still here"
        ticking.cancel()
        return ticks

    assert asyncio.run(program()) > 5


def test_a_scope_of_anyio_waits_for_the_end_without_spinning(opened, monkeypatch):
    waits = 0

    @tool(effects=Effect.READ)
    async def lingers() -> str:
        """Need a moment to end."""
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(0.3)
        return ""

    async def counted(*waited, wait=asyncio.wait):
        nonlocal waits
        waits += 1
        return await wait(*waited)

    async def program():
        async with leeward.aio.Runtime.open(**opened([("lingers", {})], executors=[lingers])) as rt:
            monkeypatch.setattr(asyncio, "wait", counted)
            with anyio.move_on_after(0.3) as scope:
                await rt.turn("linger")
            assert scope.cancelled_caught
            monkeypatch.undo()
            assert await asyncio.to_thread(statuses, rt) == [Status.CANCELLED]

    asyncio.run(program())
    assert waits < 10, "anyio cancels at each pass of the loop, thousands of times"


def test_a_command_dies_with_the_task_that_waits_for_it(opened, tmp_path):
    marker = tmp_path / "pid"

    async def program():
        call = ("shell", {"command": f"echo $$ > {marker}; sleep 100 & sleep 100"})
        async with leeward.aio.Runtime.open(**opened([call])) as rt:
            async with rt.run("run it"):
                while not (marker.exists() and marker.read_text().strip()):  # noqa: ASYNC110 - a program writes it
                    await asyncio.sleep(0.01)
            pid = int(marker.read_text())
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)

    (tmp_path / "work").mkdir(exist_ok=True)
    asyncio.run(program())


def test_many_sessions_share_one_thread_and_disconnect_at_any_time(opened):
    async def client(rt, number):
        begun = asyncio.Event()
        loop = asyncio.get_running_loop()

        @tool(effects=Effect.READ)
        async def stay() -> str:
            """Never return, and tell that it was begun."""
            loop.call_soon_threadsafe(begun.set)
            await trio.sleep_forever()
            return ""

        provider = Says([("stay", {})]) if number % 2 else Says("done")
        async with rt.session(provider=provider, executors=[stay]) as session:
            turn = asyncio.create_task(session.turn("go"))
            if number % 2:
                await begun.wait()
                await asyncio.sleep(number / 1000)
                turn.cancel()
            await asyncio.wait([turn])
            return await asyncio.to_thread(statuses, session)

    async def program():
        async with leeward.aio.Runtime.open(**opened()) as rt:
            ended = await asyncio.gather(*(client(rt, number) for number in range(20)))
            names = [thread.name for thread in threading.enumerate()]
        assert names.count("leeward") == 1
        return ended

    ended = asyncio.run(program())
    assert ended == [[Status.CANCELLED] if number % 2 else [] for number in range(20)]


def test_a_question_is_put_in_the_callers_loop_and_cancelled_with_its_call(opened):
    async def program():
        asked, forgotten = asyncio.Event(), asyncio.Event()

        class Person:
            async def ask(self, question):
                asyncio.get_running_loop()
                asked.set()
                if question.action.call.arguments.count("slow"):
                    try:
                        await asyncio.sleep(1000)
                    except asyncio.CancelledError:
                        forgotten.set()
                        raise
                return Answer.YES

        config = {**CONFIG, "permissions.autonomy": "supervised"}
        options = opened(approver=Person(), config=config)
        async with leeward.aio.Runtime.open(**options) as rt:
            assert (await rt.call("send", {"text": "x"})).outcome.status is Status.OK
            asked.clear()
            waiting = asyncio.create_task(rt.call("send", {"text": "slow"}))
            await asked.wait()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await forgotten.wait()

    asyncio.run(program())


def test_a_person_who_is_asked_without_a_loop(opened):
    class Person:
        def ask(self, question):
            assert threading.current_thread() is not threading.main_thread()
            return Answer.NO if "no" in question.action.call.arguments else Answer.YES

    config = {**CONFIG, "permissions.autonomy": "supervised"}
    with leeward.sync.open(**opened(approver=Person(), config=config)) as runtime:
        assert runtime.call("send", {"text": "x"}).outcome.status is Status.OK
        assert runtime.call("send", {"text": "no"}).outcome.status is Status.DENIED


def test_questions_that_wait_hold_up_no_other_work(opened):
    answer, waiting = threading.Event(), threading.Semaphore(0)

    class Person:
        def ask(self, question):
            waiting.release()
            answer.wait(30)
            return Answer.NO

    config = {**CONFIG, "permissions.autonomy": "supervised"}
    many = 45  # more than the threads that trio has for work
    with leeward.sync.open(**opened("at work", config=config)) as runtime, ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(many))
        stack.callback(answer.set)
        for _ in range(many):
            session = stack.enter_context(runtime.session(approver=Person()))
            pool.submit(session.call, "send", {"text": "x"})
        for _ in range(many):
            assert waiting.acquire(timeout=30)
        assert runtime.turn("hi").text == "at work"


def test_ctrl_c_in_a_script_cancels_what_it_waits_for(opened):
    class Interrupts(Says):
        async def _events(self, reply):
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            await trio.sleep_forever()
            yield

    with leeward.sync.open(**opened(provider=Interrupts())) as runtime:
        with pytest.raises(KeyboardInterrupt):
            runtime.turn("hi")
        assert runtime.call("send", {"text": "x"}).outcome.status is Status.OK


def test_errors_come_through_as_they_are(opened, tmp_path):
    async def program():
        with pytest.raises(CliError, match="nothing-like-it"):
            async with leeward.aio.Runtime.open(**opened(provider=None, model="nothing-like-it:x")):
                pass
        async with leeward.aio.Runtime.open(**opened([("hang", {})])) as rt:
            first = asyncio.create_task(rt.turn("hang"))
            await asyncio.sleep(0.2)
            with pytest.raises(trio.BusyResourceError):
                await rt.turn("hi")
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
        with pytest.raises(portal.PortalClosed):
            await rt.turn("hi")
        with pytest.raises(ZeroDivisionError):
            async with leeward.aio.Runtime.open(**opened()):
                raise ZeroDivisionError

    asyncio.run(program())


def test_every_error_of_a_front_is_caught_by_its_public_name(opened):
    with pytest.raises(leeward.ConfigError, match=r"permissions\.autonomy") as error:
        with leeward.sync.open(**opened(config={"permissions.autonomy": "none"})):
            pass
    assert error.value.problems[0].key == "permissions.autonomy"
    with leeward.sync.open(**opened()) as runtime, pytest.raises(leeward.LeewardError) as missing:
        runtime.resume("nothing-like-it")
    assert (error.value.code, missing.value.code) == ("CONFIG_ERROR", "NOT_FOUND")
    raised = (leeward.ConfigError, leeward.RecordError, leeward.ModelError, leeward.aio.AnswerRefused)
    assert all(issubclass(kind, leeward.LeewardError) for kind in raised)
    assert [kind.code for kind in raised[1:]] == ["STORAGE_ERROR", "MODEL_ERROR", "ANSWER_REFUSED"]


def test_cancelled_while_it_opens(opened):
    async def program():
        async def use():
            async with leeward.aio.Runtime.open(**opened()):
                await asyncio.sleep(1000)

        for moment in (0, 0.001, 0.01, 0.05, 0.1):
            using = asyncio.create_task(use())
            await asyncio.sleep(moment)
            using.cancel()
            with pytest.raises(asyncio.CancelledError):
                await using

    asyncio.run(program())


def test_the_plain_api_says_where_it_belongs():
    async def program():
        with pytest.raises(RuntimeError, match=r"use leeward\.aio\.Runtime\.open in asyncio"):
            async with Runtime.open():
                pass

    asyncio.run(program())


def test_a_forked_child_has_a_thread_of_its_own(opened):
    with leeward.sync.open(**opened("parent")):
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            os._exit(portal._portal is not None or portal._users)
        assert os.waitpid(child, 0)[1] == 0


def test_a_forked_child_is_told_that_the_runtime_is_its_parents(opened):
    with leeward.sync.open(**opened("parent")) as runtime:
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            try:
                runtime.turn("hi")
            except RuntimeError as error:
                is_told = "forked" in str(error)
                portal.release(runtime._portal)
                os._exit(not is_told or portal._users != 0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        assert runtime.turn("hi").text == "parent"
