"""Questions: what is asked, who answers, what a yes covers later, and budgets."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from leeward.security.call import Asker, Checked, Status
from leeward.security.kinds import Effect, Kind
from leeward.security.outcome import PermanentFailure
from leeward.security.permissions import Always
from leeward.security.policy import AnomalyLimits, Autonomy, BreakerLimits, CallLimits, Rule, RuleAction
from leeward.security.ports import Answer, DetailedAnswer
from leeward.security.session import BreakerReset, Decided, Granted, LevelSet, Revoked, Scope
from leeward.security.trust import TrustLevel


@pytest.fixture
def writer(make):
    return make.spec("write", Effect.WRITE, kinds={"path": Kind.PATH, "text": Kind.TEXT})


@pytest.fixture
def reader(make):
    return make.spec("read", Effect.READ, kinds={"path": Kind.PATH})


@pytest.mark.parametrize(
    ("answer", "code", "approver"),
    [
        (Answer.YES, None, "the person"),
        (Answer.ALWAYS, None, "the person"),
        (Answer.NO, "DECLINED", "the person"),
        (Answer.NOBODY, "INPUT_REQUIRED", "nobody"),
    ],
)
async def test_an_answer_decides_about_the_call_and_is_on_record(
    make, writer, answer, code, approver
) -> None:
    desk = make.desk(writer)
    desk.says(answer)
    result = await desk.run("write", {"path": "a"})
    assert (desk.ran != []) is (code is None) and (result.error or {}).get("code") == code
    [decided] = desk.audit.of(Decided)
    assert (decided.allowed, decided.approver) == (code is None, approver)
    assert [type(event).__name__ for event in desk.audit.committed[:2]] == ["Asked", "Decided"]
    assert desk.session.anomaly.failures("write")[0] == 0 and desk.session.breaker.total == 0
    assert [(event.grant.tool, event.grant.match) for event in desk.audit.of(Granted)] == (
        [("write", "/ws/a")] if answer is Answer.ALWAYS else []
    )


async def test_nobody_is_asked_about_a_call_that_is_refused(make, writer) -> None:
    desk = make.desk(writer, rules=(Rule("write", RuleAction.DENY),))
    desk.says(Answer.YES)
    assert (await desk.run("write", {"path": "/srv/x"})).outcome.gate == "permissions"
    assert desk.approver.questions == []


async def test_everything_is_asked_once(make, writer) -> None:
    desk = make.desk(writer)
    desk.says(Answer.NO)
    await desk.run("write", {"path": "/srv/x"})
    [question] = desk.approver.questions
    assert [gate for gate, _ in question.asks] == ["permissions", "paths"] and question.always == (
        ("write", "/srv/x"),
    )


async def test_always_is_not_asked_again(make, writer) -> None:
    desk = make.desk(writer)
    desk.says(Answer.ALWAYS)
    await desk.run("write", {"path": "/srv/x", "text": "one"})
    desk.says(Answer.NO)
    assert (
        await desk.run("write", {"path": "/srv/x", "text": "two"}, call_id="c2")
    ).outcome.status is Status.OK
    assert "grant: allow write /srv/x" in desk.audit.of(Decided, "c2")[0].approver
    assert (await desk.run("write", {"path": "/srv/y"}, call_id="c3")).error["code"] == "DECLINED"


async def test_an_always_is_granted_as_it_was_chosen_and_ends_when_it_says(make, writer) -> None:
    desk = make.desk(writer)
    desk.says(Always((("write", "/ws/src/*"),), Scope.WORKSPACE, 3600))
    assert (await desk.run("write", {"path": "src/a"})).outcome.status is Status.OK
    [event] = desk.audit.of(Granted)
    assert (
        event.tool,
        event.grant.match,
        event.grant.scope,
        event.grant.until,
        event.workspace,
        event.call,
    ) == (
        "write",
        "/ws/src/*",
        Scope.WORKSPACE,
        4600,
        "/ws",
        "c1",
    )
    assert event.grant.id.startswith("g_") and not event.stored
    desk.says(Answer.NO)
    assert (await desk.run("write", {"path": "src/b"}, call_id="c2")).outcome.status is Status.OK
    [decided] = desk.audit.of(Decided, "c2")
    assert decided.grants == (event.grant.id,)
    assert (
        decided.approver
        == f"grant: allow write /ws/src/* for this workspace until 1970-01-01 01:16 UTC ({event.grant.id})"
    )
    assert (await desk.run("write", {"path": "b"}, call_id="c3")).error["code"] == "DECLINED"
    desk.clock.at = 4600
    assert (await desk.run("write", {"path": "src/b"}, call_id="c4")).error["code"] == "DECLINED"
    assert len(desk.approver.questions) == 3


async def test_a_revoked_grant_answers_nothing_more(make, writer) -> None:
    desk = make.desk(writer)
    desk.says(Answer.ALWAYS)
    await desk.run("write", {"path": "a"})
    await desk.pipeline.note(Revoked(1000, desk.session.grants[0].id))
    desk.says(Answer.NO)
    assert (await desk.run("write", {"path": "a"}, call_id="c2")).error["code"] == "DECLINED"


@pytest.mark.parametrize(
    ("always", "said"),
    [
        (Always((("write", "/ws/b"),)), "still be asked about"),
        (Always((("write", "/**"),)), "too wide"),
        (Always((("write", None),)), "too wide"),
        (Always((("*", "/ws/a"),)), "only rules for write"),
        (Always((("write", "/ws/[a"),)), "bracket"),
        (Always(()), "no rule"),
        (Always((("write", "/ws/a"),), seconds=-1), "in the future"),
    ],
)
async def test_what_cannot_be_granted_is_a_yes_for_once_and_the_person_is_told(
    make, writer, always, said
) -> None:
    desk = make.desk(writer)
    desk.says(always)
    assert (await desk.run("write", {"path": "a"})).outcome.status is Status.OK
    assert (desk.session.grants, desk.audit.of(Granted)) == ((), [])
    assert (
        desk.approver.questions[0].problem(always) in desk.observer.alerts[0]
        and said in desk.observer.alerts[0]
    )


async def test_a_forced_question_takes_no_always_from_whoever_answers(make, writer) -> None:
    desk = make.desk(writer, rules=(Rule("write", RuleAction.ASK, force=True),))
    desk.says(Always((("write", "/ws/a"),), Scope.EVERYWHERE))
    assert (await desk.run("write", {"path": "a"})).outcome.status is Status.OK
    assert desk.session.grants == () and "not available" in desk.observer.alerts[0]


class Queue:
    """A person at whom questions arrive together: how many stood open at once, and what was asked."""

    def __init__(self, *answers) -> None:
        self.answers, self.questions, self.open, self.most = list(answers), [], 0, 0

    async def ask(self, question):
        self.questions.append(question)
        self.open += 1
        self.most = max(self.most, self.open)
        await trio.testing.wait_all_tasks_blocked()
        self.open -= 1
        return self.answers.pop(0)


async def together(desk, person, *paths):
    """Run calls side by side; their results in the order of the paths."""
    desk.approver.ask = person.ask
    results = {}

    async def one(number, path):
        results[number] = await desk.run("write", {"path": path}, call_id=f"c{number}")

    async with trio.open_nursery() as nursery:
        for number, path in enumerate(paths):
            nursery.start_soon(one, number, path)
    return [results[number].outcome.status for number in range(len(paths))]


async def test_questions_come_one_at_a_time(make, writer) -> None:
    desk, person = make.desk(writer), Queue(*[Answer.YES] * 5)
    assert await together(desk, person, *"abcde") == [Status.OK] * 5
    assert (len(person.questions), person.most) == (5, 1)


async def test_an_always_answers_what_waits_behind_it(make, writer) -> None:
    desk, person = make.desk(writer), Queue()

    async def ask(question):
        person.answers.append(
            Answer.NO if question.always == (("write", "/ws/x"),) else Always((("write", "/ws/src/*"),))
        )
        return await Queue.ask(person, question)

    person.ask = ask
    assert await together(desk, person, "src/a", "src/b", "src/c", "src/a", "x") == [Status.OK] * 4 + [
        Status.DENIED
    ]
    assert len(person.questions) == 2, "one of the four, and the other file"
    approvers = sorted(event.approver.split(":")[0] for event in desk.audit.of(Decided) if event.allowed)
    assert approvers == ["grant", "grant", "grant", "the person"]
    assert desk.session.pending == frozenset() and desk.session.calls_this_session == 5


class Screenful(Queue):
    """A person who sees the questions that wait with the one that is put, and gives all one answer."""

    meanwhile = None

    async def ask(self, question):
        await trio.testing.wait_all_tasks_blocked()
        self.questions.append(question)
        also = tuple(question.beside())
        if self.meanwhile is not None and len(self.questions) == 1:
            await self.meanwhile()
        return DetailedAnswer(self.answers.pop(0), "one key", also=also)


@pytest.mark.parametrize(("answer", "status"), [(Answer.YES, Status.OK), (Answer.NO, Status.DENIED)])
async def test_questions_that_wait_can_be_answered_together(make, writer, answer, status) -> None:
    desk, person = make.desk(writer), Screenful(answer)
    assert await together(desk, person, *"abc") == [status] * 3
    assert len(person.questions) == 1 and desk.session.pending == frozenset()
    assert {event.approver.partition(";")[2].strip() for event in desk.audit.of(Decided)} == {"one key"}


async def test_what_changed_since_it_was_shown_beside_another_is_asked_anew(make, writer) -> None:
    desk, person = make.desk(writer), Screenful(Answer.YES, Answer.NO)

    async def trouble():
        await desk.pipeline.note(*(Decided(1, f"d{n}", "other", "h", allowed=False) for n in range(3)))

    person.meanwhile = trouble
    statuses = await together(desk, person, "a", "b")
    assert statuses == [Status.DENIED] * 2 and desk.ran == [] and len(person.questions) == 2
    assert person.questions[1].asks != person.questions[0].asks


@pytest.mark.parametrize("lasting", [lambda question: Always(question.always), lambda _: Answer.ALWAYS])
async def test_an_always_and_what_does_not_wait_are_given_to_nobody_else(make, writer, lasting) -> None:
    desk, person = make.desk(writer), Queue()
    strangers = []

    async def ask(question):
        await trio.testing.wait_all_tasks_blocked()
        person.questions.append(question)
        also = (*question.beside(), *strangers)
        strangers.append(question)
        reply = lasting(question) if len(person.questions) == 1 else Answer.NO
        return DetailedAnswer(reply, also=also)

    person.ask = ask
    assert {*await together(desk, person, "a", "b")} == {Status.OK, Status.DENIED}
    assert len(person.questions) == 2
    # A call of the same id that was answered long ago is asked about as any other.
    for call in ("c0", "c1"):
        assert (await desk.run("write", {"path": "a2"}, call_id=call)).outcome.status is Status.DENIED
    assert len(person.questions) == 4


async def in_turn(make, desk, person, *paths):
    """Run calls one after the other, those behind known; their results in order."""
    desk.approver.ask = person.ask
    calls = [make.call("write", {"path": path}, call_id=f"c{number}") for number, path in enumerate(paths)]
    statuses = []
    for number, call in enumerate(calls, 1):
        desk.pipeline.expect(calls[number:])
        statuses.append((await desk.pipeline.run(call)).outcome.status)
    desk.pipeline.expect(())
    return statuses


@pytest.mark.parametrize(("answer", "status"), [(Answer.YES, Status.OK), (Answer.NO, Status.DENIED)])
async def test_questions_that_will_come_can_be_answered_with_the_first(make, writer, answer, status) -> None:
    desk, person = make.desk(writer), Screenful(answer)
    assert await in_turn(make, desk, person, *"abc") == [status] * 3
    assert len(person.questions) == 1 and desk.session.pending == frozenset()


async def test_a_call_on_a_file_of_one_before_it_is_asked_about_at_its_turn(make, writer) -> None:
    desk, person = make.desk(writer), Screenful(Answer.YES, Answer.NO)
    assert await in_turn(make, desk, person, "a", "b", "a") == [Status.OK, Status.OK, Status.DENIED]
    assert [question.action.call.id for question in person.questions] == ["c0", "c2"]


async def test_an_early_answer_is_to_the_call_that_was_shown_and_no_other(make, writer) -> None:
    desk, person = make.desk(writer), Screenful(Answer.YES, Answer.NO, Answer.NO)
    desk.approver.ask = person.ask
    first, second = (make.call("write", {"path": path}, call_id=path) for path in "ab")
    desk.pipeline.expect([second])
    assert (await desk.pipeline.run(first)).outcome.status is Status.OK
    # Another call under its id, one under another id, and itself once the session has changed.
    other = make.call("write", {"path": "c"}, call_id="b")
    assert (await desk.pipeline.run(other)).outcome.status is Status.DENIED
    assert (await desk.pipeline.run(second)).outcome.status is Status.DENIED, "an answer is used up"
    assert len(person.questions) == 3
    desk, person = make.desk(writer), Screenful(Answer.YES, Answer.NO)
    desk.approver.ask = person.ask
    desk.pipeline.expect([second])
    assert (await desk.pipeline.run(first)).outcome.status is Status.OK
    await desk.pipeline.note(*(Decided(1, f"d{n}", "other", "h", allowed=False) for n in range(3)))
    assert (await desk.pipeline.run(second)).outcome.status is Status.DENIED
    assert len(person.questions) == 2


async def test_nobody_is_asked_about_what_is_refused_by_the_time_it_is_its_turn(make, writer) -> None:
    desk, person = make.desk(writer), Queue(Answer.NO)
    ask = person.ask

    async def block(question):
        await desk.pipeline.note(LevelSet(1, "write", TrustLevel.BLOCKED, "the person"))
        return await ask(question)

    person.ask = block
    assert await together(desk, person, "a", "b", "c") == [Status.DENIED] * 3
    assert len(person.questions) == 1
    assert sorted(event.gate for event in desk.audit.of(Decided)) == ["anomaly", "anomaly", "permissions"]


async def test_whoever_is_cancelled_while_waiting_in_line_is_on_record(make, writer) -> None:
    desk, person = make.desk(writer), Queue()

    async def never(question):
        person.questions.append(question)
        await trio.sleep_forever()

    person.ask = never
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(together, desk, person, "a", "b", "c")
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
    assert [event.approver for event in desk.audit.of(Decided)] == ["cancelled"] * 3
    assert desk.session.pending == frozenset() and len(person.questions) == 1


async def test_rules_and_levels_answer_and_are_named(make, writer) -> None:
    desk = make.desk(writer, rules=(Rule("write", RuleAction.ALLOW, "src/**", where="config.toml:3"),))
    assert (await desk.run("write", {"path": "src/a"})).outcome.status is Status.OK
    assert desk.audit.of(Decided)[0].approver == "allow write src/** at config.toml:3"
    typed = make.desk(writer)
    assert (await typed.run("write", {"path": "/srv/a"}, asker=Asker.PERSON)).outcome.status is Status.OK
    assert (
        typed.audit.of(Decided)[0].approver == "the person, by typing it" and typed.approver.questions == []
    )


@pytest.mark.parametrize("to", ["/srv/x", "/ws/other", "/ws/.git/hooks/x"])
@pytest.mark.parametrize("who", [{}, {"autonomy": Autonomy.FULL}])
async def test_a_file_that_is_another_one_by_the_time_of_the_answer_is_not_opened(
    make, writer, to, who
) -> None:
    denials = [
        Decided(1, f"d{n}", "other", "h", allowed=False) for n in range(3)
    ]  # a question even under full autonomy
    desk = make.desk(writer, start=make.session(*denials, **who))
    desk.says(Answer.YES)

    async def swap(question):
        desk.surveyor.links["/ws/a"] = to

    desk.approver.hook = swap
    result = await desk.run("write", {"path": "a"})
    assert desk.ran == [] and result.outcome.status is Status.DENIED
    assert result.outcome.gate in {"approval", "paths"} and desk.audit.of(Granted) == []


async def test_a_new_question_that_arose_meanwhile_was_not_answered(make, writer) -> None:
    desk = make.desk(writer)
    desk.says(Answer.ALWAYS)

    async def trouble(question):
        await desk.pipeline.note(*(Decided(1, f"d{n}", "other", "h", allowed=False) for n in range(3)))

    desk.approver.hook = trouble
    result = await desk.run("write", {"path": "a"})
    assert (desk.ran, result.outcome.gate, desk.session.grants) == ([], "approval", ())
    assert "anomaly got another question" in result.text


async def test_a_yes_to_what_changed_meanwhile_is_held_against_nobody(make, writer) -> None:
    desk = make.desk(writer)
    desk.says(Answer.YES)

    async def swap(question):
        desk.surveyor.links["/ws/a"] = "/ws/other"

    desk.approver.hook = swap
    result = await desk.run("write", {"path": "a"})
    assert result.outcome.gate == "approval" and "has changed since the question" in result.text
    [decided] = desk.audit.of(Decided)
    assert (decided.allowed, decided.gate, decided.approver) == (False, "approval", "the person")
    assert desk.session.anomaly.failures("write") == (0, 0) and desk.session.breaker.total == 0


async def test_a_file_that_became_forbidden_meanwhile_is_a_refusal_like_any(make, writer) -> None:
    desk = make.desk(writer)
    desk.says(Answer.YES)

    async def swap(question):
        desk.surveyor.links["/ws/a"] = "/home/ada/.ssh/id_rsa"

    desk.approver.hook = swap
    assert (await desk.run("write", {"path": "a"})).outcome.gate == "paths"
    assert desk.session.anomaly.failures("write") == (1, 1) and desk.session.breaker.total == 1


async def test_a_call_that_can_no_longer_be_read_after_a_yes_is_not_run(make, writer) -> None:
    desk = make.desk(writer)
    desk.says(Answer.YES)

    async def vanish(question):
        desk.surveyor.resolve = None

    desk.approver.hook = vanish
    result = await desk.run("write", {"path": "a"})
    assert (result.outcome.gate, desk.ran, desk.session.pending) == ("known", [], frozenset())


async def test_a_tool_that_was_blocked_meanwhile_is_not_run(make, writer) -> None:
    desk = make.desk(writer)
    desk.says(Answer.YES)
    desk.approver.hook = lambda question: desk.pipeline.note(LevelSet(1, "write", 3, "the person"))
    assert (await desk.run("write", {"path": "a"})).outcome.status is Status.DENIED and desk.ran == []


# ------------------------------------------------------------------ budgets and repetition


@pytest.mark.parametrize("answer", [None, Answer.YES, Answer.ALWAYS])
async def test_parallel_calls_cannot_exceed_a_budget_of_one(make, writer, answer) -> None:
    desk = make.desk(
        writer,
        calls=CallLimits(per_turn=1),
        breaker=BreakerLimits(99, 99),
        autonomy=Autonomy.SUPERVISED if answer else Autonomy.FULL,
    )
    desk.says(answer)
    results = []

    async def one(number):
        results.append(await desk.run("write", {"path": str(number)}, call_id=f"c{number}"))

    async with trio.open_nursery() as nursery:
        for number in range(4):
            nursery.start_soon(one, number)
    assert len(desk.ran) == 1 and sum(result.outcome.gate == "budget" for result in results) == 3


async def test_the_same_call_with_the_same_result_is_refused_the_fourth_time(make, reader, writer) -> None:
    desk = make.desk(reader, writer, autonomy=Autonomy.FULL)
    words = [(await desk.run("read", {"path": "a"}, call_id=f"c{n}")).outcome.gate for n in range(5)]
    assert words == [None, None, None, "budget", "budget"]
    await desk.run("write", {"path": "a"}, call_id="w")
    assert (await desk.run("read", {"path": "a"}, call_id="again")).outcome.status is Status.OK


async def test_the_same_failure_is_a_repetition_too(make, reader) -> None:
    desk = make.desk(reader)
    desk.executor.does["read"] = PermanentFailure("no such file")
    words = [(await desk.run("read", {"path": "a"}, call_id=f"c{n}")).outcome.gate for n in range(4)]
    assert words == [None, None, None, "budget"]


async def test_test_edit_test_is_work_and_no_repetition(make, reader, writer) -> None:
    desk = make.desk(reader, writer, autonomy=Autonomy.FULL)
    for number in range(6):
        tool = ("read", "write")[number % 2]
        assert (await desk.run(tool, {"path": "a"}, call_id=f"c{number}")).outcome.status is Status.OK


# ------------------------------------------------------------------ failing too often


async def test_a_tool_that_fails_too_often_is_blocked_told_and_lifted(make, reader) -> None:
    """14 of 20: six that went well first, then failures; the fourteenth blocks."""
    desk = make.desk(reader, calls=CallLimits(per_turn=999, repeats=999))
    for number in range(6):
        await desk.run("read", {"path": str(number)}, call_id=f"ok{number}")
    desk.executor.does["read"] = PermanentFailure("no such file")
    words = [(await desk.run("read", {"path": str(n)}, call_id=f"bad{n}")).outcome.status for n in range(14)]
    assert set(words) == {Status.ERROR}
    cause = "anomaly window: 14 of 20 failed; /trust read LEVEL lifts it"
    assert [(event.level, event.cause) for event in desk.audit.of(LevelSet)] == [(TrustLevel.BLOCKED, cause)]
    assert desk.observer.alerts == [f"critical: read: {cause}"]
    for number in range(3):
        refused = await desk.run("read", {"path": "a"}, call_id=f"refused{number}")
        assert (refused.outcome.gate, cause in refused.text) == ("anomaly", True)
    assert desk.session.anomaly.failures("read") == (14, 20), "refusals because of the block are not failures"
    await desk.pipeline.note(LevelSet(1, "read", TrustLevel.TRUSTED, "the person"))
    assert desk.session.anomaly.failures("read") == (0, 0)
    assert (await desk.run("read", {"path": "a"}, call_id="lifted")).outcome.status is Status.ERROR
    assert len(desk.observer.alerts) == 1


async def test_alerting_only(make, reader) -> None:
    desk = make.desk(reader, anomaly=AnomalyLimits(auto_block=False), calls=CallLimits(repeats=999))
    desk.executor.does["read"] = PermanentFailure("no such file")
    for number in range(8):
        assert (await desk.run("read", {"path": "a"}, call_id=f"c{number}")).outcome.status is Status.ERROR
    assert len(desk.observer.alerts) == 1 and desk.audit.of(LevelSet) == []


async def test_denials_count_as_failures_and_a_persons_no_does_not(make, reader, writer) -> None:
    desk = make.desk(reader, writer)
    for number, answer in enumerate([Answer.NO, Answer.NOBODY] * 5):
        desk.says(answer)
        await desk.run("write", {"path": "a"}, call_id=f"no{number}")
    assert desk.session.anomaly.failures("write") == (0, 0) and desk.session.breaker.total == 0
    for number in range(5):
        await desk.run("read", {"path": "~/.ssh/x"}, call_id=f"d{number}")
    assert desk.session.level_of("read")[0] is TrustLevel.BLOCKED
    assert (await desk.run("read", {"path": "a"}, call_id="e")).outcome.gate == "anomaly"


async def test_after_three_denials_in_a_row_effects_are_asked_for_and_reading_is_not(
    make, reader, writer
) -> None:
    desk = make.desk(reader, writer, autonomy=Autonomy.FULL, anomaly=AnomalyLimits(enabled=False))
    for number in range(3):
        await desk.run("read", {"path": "~/.ssh/x"}, call_id=f"d{number}")
    assert (await desk.run("write", {"path": "a"}, call_id="w")).error["code"] == "INPUT_REQUIRED"
    assert (await desk.run("read", {"path": "a"}, call_id="r")).outcome.status is Status.OK
    desk.says(Answer.YES)
    assert (await desk.run("write", {"path": "a"}, call_id="w2")).outcome.status is Status.OK
    assert desk.approver.questions[-1].always is None, "a forced question has no answer that lasts"
    await desk.pipeline.note(BreakerReset(1))
    assert (await desk.run("write", {"path": "b"}, call_id="w3")).outcome.status is Status.OK
    assert len(desk.approver.questions) == 2


# ------------------------------------------------------------------ a string nobody declared


@pytest.mark.parametrize(
    ("text", "gate"),
    [
        ("what is new? (a & b)", None),
        ("100% <sure>, a|b; {x} and #7", None),
        ("null", None),
        ("see https://a.example/x", None),
        ("see https://b.example/x", "grounding"),
        ("see http://10.0.0.1/x", "grounding"),
        ("../../x", "arguments"),
        ("%2e%2e%2f%2e%2e%2fetc/passwd", "arguments"),
        ("~/.ssh/id_rsa", "paths"),
        ("a\0b", "arguments"),
    ],
)
@pytest.mark.parametrize(
    "wrap", [lambda text: {"q": text}, lambda text: {"q": [{"r": text}]}, lambda text: {text: 1}]
)
async def test_an_undeclared_string_is_judged_by_all_it_could_be(make, text, gate, wrap) -> None:
    desk = make.desk(make.spec(schema={}), start=make.session(said=["https://a.example/x"]))
    result = await desk.run("tool", wrap(text))
    assert result.outcome.gate == gate and (desk.ran == []) is (gate is not None)


async def test_arguments_that_are_others_by_the_time_of_the_answer_are_not_run(make) -> None:
    """A validator whose defaults change: what would run has another hash than what was shown."""
    defaults = iter(range(99))
    tool = make.spec(
        "write", Effect.WRITE, schema={}, check=lambda given: Checked({**given, "mode": next(defaults)})
    )
    desk = make.desk(tool)
    desk.says(Answer.ALWAYS)
    result = await desk.run("write")
    assert (desk.ran, result.outcome.gate, desk.session.grants) == ([], "approval", ())
