"""Under any order of events: no effect without an earlier committed Allow of the same hash."""

from __future__ import annotations

import math
from collections import deque

import pytest
import trio
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from trio.testing import MockClock

from leeward.security.call import Cleared, ToolResult
from leeward.security.filters import Screened
from leeward.security.kinds import Effect, Kind
from leeward.security.outcome import Category, Output, ServerError
from leeward.security.output import make_result
from leeward.security.pipeline import Pipeline
from leeward.security.policy import AnomalyLimits, Autonomy, BreakerLimits, CallLimits
from leeward.security.ports import Answer
from leeward.security.record import Journal
from leeward.security.session import (
    Asked,
    BreakerReset,
    ConversationCleared,
    Decided,
    Finished,
    LevelSet,
    TextSeen,
    TurnStarted,
    UrlsAdded,
)
from leeward.security.trust import TrustLevel
from leeward.security.url import Provenance

SECRET = "correct-horse-battery"
LIMIT = 12


async def well(cleared):
    cleared.take()
    return Output("fine")


async def noisy(cleared):
    await cleared.emit(f"{SECRET} " * 50)
    return Output(f"\x1b[2J{SECRET}\n" * 300)


async def twice(cleared):
    return Output(str(cleared.take()) + str(cleared.take()))


async def hang(cleared):
    await trio.sleep(math.inf)


async def stubborn(cleared):
    with trio.CancelScope(shield=True):
        for _ in range(5):
            await trio.lowlevel.checkpoint()
    return Output("late")


async def crash(cleared):
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hang, cleared)
        raise ValueError(SECRET)


async def refuse(cleared):
    raise ServerError(f"no: {SECRET}")


async def nothing(cleared):
    return None


class Mute(ServerError):
    def __str__(self):
        raise ValueError(SECRET)


class Stopped(ServerError):
    category = Category.CANCELLED


class Weird(ServerError):
    category = f"{SECRET}\x1b"


async def mute(cleared):
    raise Mute(SECRET)


async def stopped(cleared):
    raise Stopped("never mind", Output(f"{SECRET}\x1b\n" * 300))


async def weird(cleared):
    raise Weird(SECRET)


BEHAVIOURS = [well, noisy, twice, hang, stubborn, crash, refuse, nothing, mute, stopped, weird]
ARGUMENTS = st.sampled_from(
    [
        {"path": "a"},
        {"path": "link"},
        {"path": "/srv/x"},
        {"path": "~/.ssh/x"},
        {"path": "../x"},
        {"q": "https://a.example/x"},
        {"q": "/srv/x"},
        {"path": 7},
        "{",
        "",
        '{"path": "a", "path": "b"}',
    ]
)
CALLS = st.lists(
    st.tuples(
        st.sampled_from(["read", "write", "act", "none", "\x1b"]), ARGUMENTS, st.sampled_from(BEHAVIOURS)
    ),
    min_size=1,
    max_size=4,
)
KINDS_OF_EVENT = st.sampled_from([Asked, Decided, Finished, TextSeen, LevelSet, object])


class Machine(RuleBasedStateMachine):
    """One pipeline, hostile executors, a person of any mind, a disk that fails, and calls cancelled
    anywhere.
    """

    make, sought = None, ""

    @initialize(
        autonomy=st.sampled_from(Autonomy), answers=st.lists(st.sampled_from(Answer), min_size=1, max_size=4)
    )
    def open(self, autonomy, answers):
        tools = [
            self.make.spec(name, effects, kinds={"path": Kind.PATH}, timeout=5)
            for name, effects in (("read", Effect.READ), ("write", Effect.WRITE), ("act", Effect.ALL))
        ]
        limits = {
            "calls": CallLimits(per_turn=6, per_session=LIMIT, repeats=2),
            "breaker": BreakerLimits(4, 9),
            "anomaly": AnomalyLimits(min_samples=3),
        }
        self.desk = self.make.desk(*tools, secrets={SECRET}, autonomy=autonomy, threshold=500, **limits)
        self.desk.approver.answers = deque(answers)
        self.started, self.ended, self.results, self.labels = [], [], [], frozenset()
        self.behaviours, self.number, self.broken = {}, 0, []
        self.desk.executor.execute, self.desk.audit.append = self.execute, self.append

    def expect(self, condition, law):
        """Whatever is raised in a port becomes a result, so a broken law is noted and told afterwards."""
        self.broken += [] if condition else [law]

    def must(self, condition, law):
        assert condition or self.sought not in law, law

    async def execute(self, cleared):
        action = cleared.action
        allowed = [
            event
            for event in self.desk.audit.of(Decided, action.call.id)
            if event.allowed and event.digest == action.digest
        ]
        self.expect(allowed, "a tool started without a committed Allow of the same hash")
        self.expect(action.call.id not in self.started, "a tool started twice on one decision")
        self.started.append(action.call.id)
        return await self.behaviours[action.call.id](cleared)

    async def append(self, session, *events):
        finished = {
            event.call for event in (*self.desk.audit.committed, *events) if isinstance(event, Finished)
        }
        owed = [call for call in self.started if call in self.ended and call not in finished]
        starts = any(
            isinstance(event, Decided) and event.allowed and event.call not in self.ended for event in events
        )
        self.expect(not (starts and owed), "a call was let go while an earlier outcome was owed")
        await type(self.desk.audit).append(self.desk.audit, session, *events)

    async def one(self, call_id, tool, arguments):
        try:
            result = await self.desk.run(tool, arguments, call_id=call_id)
            assert isinstance(result, ToolResult)
            self.results.append(result)
        finally:
            self.ended.append(call_id)

    async def batch(self, calls, cancel_after):
        async with trio.open_nursery() as nursery:
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as running:
                    for tool, arguments, behaviour in calls:
                        self.number += 1
                        self.behaviours[f"c{self.number}"] = behaviour
                        running.start_soon(self.one, f"c{self.number}", tool, arguments)
                    if cancel_after is not None:
                        for _ in range(cancel_after):
                            await trio.lowlevel.checkpoint()
                        scope.cancel()
            nursery.cancel_scope.cancel()

    @rule(calls=CALLS, cancel_after=st.none() | st.integers(0, 40))
    def run_calls(self, calls, cancel_after):
        trio.run(self.batch, calls, cancel_after, clock=MockClock(autojump_threshold=0))

    @rule(
        event=st.sampled_from(
            [
                ConversationCleared(1),
                TurnStarted(1),
                BreakerReset(1),
                LevelSet(1, "read", TrustLevel.TRUSTED, "x"),
                LevelSet(1, "act", TrustLevel.VERIFIED, "x"),
                UrlsAdded(1, ("https://a.example/x",), Provenance.PERSON),
            ]
        )
    )
    def happen(self, event):
        trio.run(self.desk.pipeline.note, event)
        self.labels = frozenset() if isinstance(event, ConversationCleared) else self.labels

    @rule(kind=KINDS_OF_EVENT)
    def break_audit(self, kind):
        self.desk.audit.refuses = lambda event: isinstance(event, kind)

    @rule()
    def mend_audit(self):
        self.desk.audit.refuses = lambda event: False

    @rule(broken=st.booleans())
    def break_store(self, broken):
        self.desk.store.is_broken = broken

    @rule(to=st.sampled_from(["/ws/a", "/srv/x", "/home/ada/.ssh/id_rsa"]), late=st.booleans())
    def move_link(self, to, late):
        async def move(question):
            self.desk.surveyor.links["/ws/link"] = to

        self.desk.approver.hook = move if late else None
        if not late:
            self.desk.surveyor.links["/ws/link"] = to

    @invariant()
    def no_law_was_broken(self):
        for law in getattr(self, "broken", []):
            self.must(False, law)

    @invariant()
    def nothing_is_left_hanging(self):
        if hasattr(self, "desk"):
            session = self.desk.session
            self.must(session.pending == session.running == frozenset(), "a call is left hanging")
            self.must(session.labels >= self.labels, "what was read was forgotten")
            self.must(len(self.started) <= LIMIT, "more calls ran than there may be")
            self.labels = session.labels

    @invariant()
    def no_secret_came_out(self):
        for result in getattr(self, "results", []):
            self.must(SECRET not in result.text + result.shown + str(result.error), "a secret came out")
            self.must("\x1b" not in result.text + result.shown, "an escape sequence came out")
        if hasattr(self, "desk"):
            kept = (
                *self.desk.store.texts.values(),
                "".join(self.desk.observer.chunks),
                repr(self.desk.audit.committed),
            )
            self.must(not any(SECRET in text for text in kept), "a secret was kept")

    def teardown(self):
        if not hasattr(self, "desk") or any(self.sought in law for law in self.broken):
            return
        self.desk.audit.refuses = lambda event: False
        trio.run(self.desk.pipeline.note, TurnStarted(2))
        finished = [event.call for event in self.desk.audit.of(Finished)]
        self.must(set(self.started) <= set(finished), "an outcome was never written")


QUIET = {
    "deadline": None,
    "database": None,
    "print_blob": False,
    "report_multiple_bugs": False,
    "suppress_health_check": list(HealthCheck),
}


def run(make, machine, **options):
    machine.make = make
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=max(150, settings().max_examples),  # every planted mistake is found in 150
            stateful_step_count=12,
            derandomize=True,
            **QUIET,
            **options,
        ),
    )


def test_no_effect_without_an_earlier_committed_allow_of_the_same_hash(make) -> None:
    run(make, Machine)


class Careless(Machine):
    """The same machine, so that a broken pipeline under it can be told from a broken test.

    It looks for one law; a run that breaks another one goes on.
    """


async def procrastinating(self, *events):
    is_over = any(event == TurnStarted(2) for event in self._owed)
    await self._audit.append(self._session.id, *(self._owed if is_over else events))


async def forgetful(self, *events):
    self.fold(*events)


def running_first(original):
    async def execute(self, ruling, proposals):
        await self._attempt(ruling, proposals)
        return await original(self, ruling, proposals)

    return execute


async def twice_over(self, ruling, proposals):
    for _ in range(2):
        output = await proposals.executor.execute(Cleared(ruling.action, math.inf, None))
    return make_result(ruling.action, output, Screened("x"), [])


SABOTAGE = {
    "a tool started without a committed Allow": (Pipeline, "_execute", running_first(Pipeline._execute)),
    "a tool started twice": (Pipeline, "_attempt", twice_over),
    "while an earlier outcome was owed": (Journal, "write", procrastinating),
    "an outcome was never written": (Journal, "note", forgetful),
}


@pytest.mark.parametrize(
    ("law", "owner", "name", "wrong"), [(law, *wrong) for law, wrong in SABOTAGE.items()], ids=SABOTAGE
)
def test_a_pipeline_that_breaks_a_law_is_caught(make, monkeypatch, law, owner, name, wrong) -> None:
    monkeypatch.setattr(owner, name, wrong)
    monkeypatch.setattr(Careless, "sought", law)
    with pytest.raises(AssertionError, match=law):
        run(make, Careless, phases=[Phase.generate])
