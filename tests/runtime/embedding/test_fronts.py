"""The three fronts have the same methods with the same parameters."""

from __future__ import annotations

import asyncio
import inspect
import threading
from pathlib import Path

import pytest

import leeward
import leeward.aio
import leeward.sync
from leeward.security.call import Status
from leeward.security.session import LevelSet, RefusedAnswer
from leeward.types import BlockingRuntimeOptions, BlockingSessionOptions, RuntimeOptions, SessionOptions
from loading import load_module

HELD = load_module(Path(__file__).parents[1] / "sessions.py")
FRONTS = {"asyncio": leeward.aio, "no loop": leeward.sync}
CONFIG = {"tools": {"sandbox": {"level": "none"}}, "permissions.autonomy": "full"}

LEFT_OUT = {"conversation"}
"""What belongs to the trio thread, which may change it at any time; docs/embedding.md says so."""


def methods(kind):
    """The public methods and properties of a class, with those that it has from ours above it."""
    ours = [one for one in kind.__mro__ if one.__module__.startswith("leeward.")]
    return {name: getattr(kind, name) for one in ours for name in vars(one) if not name.startswith("_")}


def parameters(method):
    """The parameters but for `self` and for `loaded` by place, which fronts take as an option alone."""
    found = inspect.signature(method).parameters.values()
    names = ("self", "cls")
    return [
        (one.name, one.kind, one.default, str(one.annotation).replace("Blocking", ""))
        for one in found
        if one.name not in names and (one.name, one.kind) != ("loaded", one.POSITIONAL_ONLY)
    ]


@pytest.mark.parametrize("kind", ["Runtime", "Session"])
@pytest.mark.parametrize("name", FRONTS)
def test_each_front_has_the_methods_of_the_plain_one_with_their_parameters(name, kind):
    plain = methods(leeward.Runtime if kind == "Runtime" else leeward.RuntimeSession)
    front = methods(getattr(FRONTS[name], kind))
    assert {*front} == {*plain} - LEFT_OUT
    for method, value in front.items():
        if isinstance(value, property):
            assert isinstance(plain[method], property), method
            continue
        assert parameters(value) == parameters(plain[method]), method
        is_context = hasattr(value, "__wrapped__")
        assert is_context == hasattr(plain[method], "__wrapped__"), method
        if not is_context:
            returns = [inspect.signature(one).return_annotation for one in (value, plain[method])]
            assert returns[0] == returns[1], method
            assert inspect.iscoroutinefunction(value) == (name == "asyncio"), method


def test_each_front_takes_the_same_options():
    assert {*BlockingRuntimeOptions.__annotations__} == {*RuntimeOptions.__annotations__}
    assert {*BlockingSessionOptions.__annotations__} == {*SessionOptions.__annotations__}
    assert parameters(leeward.sync.open) == parameters(leeward.sync.Runtime.open)


@pytest.fixture
def options(tmp_path):
    return {"places": HELD.places(tmp_path), "provider": HELD.Says(), "config": CONFIG}


def recorded(session, kind):
    """The events of a kind that are on record of a session."""

    async def events():
        return await session._session.audit.events_of(session.session_id)

    return [one for one in session._portal.start(events).future.result() if isinstance(one, kind)]


def test_what_a_person_does_in_a_session_without_a_loop(options):
    with leeward.sync.Runtime.open(**options) as runtime:
        first = runtime.session_id
        given = runtime.give("see https://tides.example/today", leeward.Provenance.PERSON)
        assert given == ("https://tides.example/today",)
        runtime.set_trust("fetch", leeward.TrustLevel.BLOCKED)
        assert [one.tool for one in recorded(runtime, LevelSet)] == ["fetch"]
        runtime.note_refused_answer("late", how="a test")
        assert [one.why for one in recorded(runtime, RefusedAnswer)] == ["late"]
        by_person = runtime.call("list_directory", {"path": "."}, leeward.Asker.PERSON)
        assert by_person.call.asker is leeward.Asker.PERSON and by_person.outcome.status is Status.OK
        assert runtime.turn("hi", pictures=()).text == "done"
        runtime.new_session()
        assert runtime.session_id != first
        runtime.resume(first, answers={})
        assert runtime.session_id == first


def test_what_a_person_does_in_a_session_inside_asyncio(options):
    async def program():
        async with leeward.aio.Runtime.open(**options) as runtime:
            first = runtime.session_id
            given = await runtime.give("see https://tides.example/today", leeward.Provenance.PERSON)
            assert given == ("https://tides.example/today",)
            await runtime.set_trust("fetch", leeward.TrustLevel.BLOCKED)
            assert [one.tool for one in await asyncio.to_thread(recorded, runtime, LevelSet)] == ["fetch"]
            by_person = await runtime.call("list_directory", {"path": "."}, asker=leeward.Asker.PERSON)
            assert by_person.call.asker is leeward.Asker.PERSON and by_person.outcome.status is Status.OK
            assert (await runtime.turn("hi", pictures=())).text == "done"
            await runtime.new_session()
            assert runtime.session_id != first
            await runtime.resume(first, answers={})
            assert runtime.session_id == first

    asyncio.run(program())


def test_the_thread_in_which_a_listener_is_called(options):
    threads = set()

    def listener(event):
        threads.add(threading.current_thread())

    async def program():
        async with leeward.aio.Runtime.open(**options, listener=listener) as runtime:
            await runtime.turn("hi")
        await asyncio.sleep(0)

    asyncio.run(program())
    assert threads == {threading.current_thread()}
    threads.clear()
    with leeward.sync.open(**options, listener=listener) as runtime:
        runtime.turn("hi")
    assert {thread.name for thread in threads} == {"leeward"}
