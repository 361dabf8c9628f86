"""A line that ran read-only and wanted to write is asked about once, and then runs again for real or not."""

from __future__ import annotations

import pytest

from leeward.security.call import Asker, Status
from leeward.security.kinds import Effect, Kind, Runs
from leeward.security.outcome import Output, PermanentFailure
from leeward.security.policy import Autonomy, CallLimits, Rule, RuleAction, Sandboxing
from leeward.security.ports import Answer
from leeward.security.record import action_from_record, session_at
from leeward.security.session import Asked, Decided, Finished

READING = Sandboxing("bubblewrap", rung=Runs.READ_ONLY)
WISHED = ("a.txt", "out/b.txt")


@pytest.fixture
def shell(make):
    properties = {"command": {"type": "string", "x-leeward-kind": Kind.COMMAND}}
    return make.spec("shell", Effect.ALL, schema={"type": "object", "properties": properties})


@pytest.fixture
def reading(make, shell):
    """Make a desk whose shell wishes for paths where it runs a line read-only; `desk.runs` says in what."""

    def made(*answers, wished=WISHED, fails=False, **policy):
        desk = make.desk(shell, **{"sandbox": READING, **policy})
        desk.says(*(answers or (Answer.NOBODY,)))
        desk.runs = []

        async def run(cleared):
            desk.runs.append(cleared.runs)
            if cleared.runs is Runs.READ_ONLY and wished:
                cleared.wish(wished)
                if fails:
                    raise PermanentFailure("ended by signal 6 (SIGABRT)")
            return Output(f"printed {cleared.runs}", exit_code=0)

        desk.executor.does["shell"] = run
        return desk

    return made


async def test_what_wants_nothing_is_asked_about_by_nobody(reading) -> None:
    desk = reading(wished=())
    result = await desk.run("shell", {"command": "make all"})
    assert (result.outcome.status, desk.runs, desk.approver.questions) == (Status.OK, [Runs.READ_ONLY], [])
    [decided] = desk.audit.of(Decided)
    assert (decided.runs, decided.rung, decided.approver) == (Runs.READ_ONLY, Runs.READ_ONLY, "")


@pytest.mark.parametrize("command", ["make all", "ls"])
async def test_a_yes_runs_it_again_for_real_and_that_is_the_result(reading, command) -> None:
    desk = reading(Answer.YES)
    result = await desk.run("shell", {"command": command})
    assert desk.runs == [Runs.READ_ONLY, Runs.REAL] and result.call.id == "c1"
    assert "printed real" in result.text and "printed read_only" not in result.text
    [question] = desk.approver.questions
    [(gate, ask)] = question.asks
    assert (gate, ask.rule) == ("commands", "wished")
    assert [value for name, value in ask.facts if name == "wanted to change"] == [*WISHED]
    ran, again = desk.audit.of(Decided)
    assert (ran.call, ran.of, ran.runs) == ("c1", "", Runs.READ_ONLY)
    assert (again.call, again.of, again.runs) == ("c1.again", "c1", Runs.REAL)
    assert again.approver == "the person" and again.reading.wished == WISHED
    assert [event.call for event in desk.audit.of(Finished)] == ["c1", "c1.again"]


@pytest.mark.parametrize(
    ("answer", "status", "code"),
    [(Answer.NO, Status.OK, None), (Answer.NOBODY, Status.DENIED, "INPUT_REQUIRED")],
)
async def test_without_a_yes_the_read_only_run_is_the_result(reading, answer, status, code) -> None:
    desk = reading(answer)
    result = await desk.run("shell", {"command": "make all"})
    assert desk.runs == [Runs.READ_ONLY]
    assert (result.outcome.status, (result.error or {}).get("code")) == (status, code)
    assert "printed read_only" in result.text and "not run again, so that it could write" in result.text
    assert [event.call for event in desk.audit.of(Asked)] == ["c1.again"]


async def test_what_failed_for_want_of_writing_may_run_again_too(reading) -> None:
    desk = reading(Answer.YES, fails=True)
    result = await desk.run("shell", {"command": "make all"})
    assert (desk.runs, result.error) == ([Runs.READ_ONLY, Runs.REAL], None)
    desk = reading(Answer.NO, fails=True)
    result = await desk.run("shell", {"command": "make all"})
    assert "SIGABRT" in result.error["message"] and desk.runs == [Runs.READ_ONLY]


async def test_an_always_lets_the_line_run_for_real_the_next_time(reading) -> None:
    desk = reading(Answer.ALWAYS)
    for _ in range(2):
        assert (await desk.run("shell", {"command": "make all"})).error is None
    assert desk.runs == [Runs.READ_ONLY, Runs.REAL, Runs.REAL] and len(desk.approver.questions) == 1


async def test_what_was_allowed_beforehand_runs_for_real_at_once(reading) -> None:
    rule = Rule("shell", RuleAction.ALLOW, "make *")
    desk = reading(rules=(rule,))
    await desk.run("shell", {"command": "make all"})
    await desk.run("shell", {"command": "make any"}, asker=Asker.PERSON, call_id="c2")
    assert desk.runs == [Runs.REAL, Runs.REAL]


async def test_full_autonomy_answers(reading) -> None:
    desk = reading(autonomy=Autonomy.FULL)
    await desk.run("shell", {"command": "make all"})
    assert desk.runs == [Runs.READ_ONLY, Runs.REAL] and desk.approver.questions == []


async def test_at_readonly_it_never_runs_again(reading) -> None:
    desk = reading(Answer.YES, autonomy=Autonomy.READONLY)
    for command in ("make all", "ls"):
        result = await desk.run("shell", {"command": command})
        assert (result.outcome.status, result.error) == (
            Status.OK,
            None,
        ) and "refused a second run that may write" in result.text
    assert desk.runs == [Runs.READ_ONLY, Runs.READ_ONLY] and desk.approver.questions == []


async def test_at_readonly_a_yes_to_be_asked_first_is_to_no_real_run(reading) -> None:
    first = Sandboxing("bubblewrap", rung=Runs.READ_ONLY, asks_first=True)
    desk = reading(Answer.YES, sandbox=first, autonomy=Autonomy.READONLY)
    await desk.run("shell", {"command": "make all"})
    assert desk.runs == [Runs.READ_ONLY]


async def test_it_counts_for_no_budget(reading) -> None:
    desk = reading(Answer.YES, Answer.YES, calls=CallLimits(per_turn=1, per_session=1))
    assert (await desk.run("shell", {"command": "make all"})).error is None
    assert desk.runs == [Runs.READ_ONLY, Runs.REAL] and desk.session.calls_this_session == 1


@pytest.mark.parametrize(
    "command", ["sudo make", "curl https://example.com", "make all > /etc/x", "rm -rf /"]
)
async def test_what_a_read_only_run_would_not_show_is_asked_about_or_refused_before(reading, command) -> None:
    desk = reading(Answer.NO)
    result = await desk.run("shell", {"command": command})
    assert result.error is not None and desk.runs == []


async def test_asked_first_a_yes_is_to_a_run_for_real(reading) -> None:
    first = Sandboxing("bubblewrap", rung=Runs.READ_ONLY, asks_first=True)
    desk = reading(Answer.YES, Answer.NO, sandbox=first)
    await desk.run("shell", {"command": "make all"})
    await desk.run("shell", {"command": "ls"}, call_id="c2")
    assert desk.runs == [Runs.REAL, Runs.READ_ONLY]


async def test_what_changed_between_question_and_answer_does_not_run(reading, monkeypatch) -> None:
    desk = reading(Answer.YES)
    real = desk.pipeline.judge.read

    async def read(call):
        found = await real(call)
        return found if call.id == "c1" else await real(type(call)("x", "shell", '{"command": "make other"}'))

    monkeypatch.setattr(type(desk.pipeline.judge), "read", lambda _, call: read(call))
    result = await desk.run("shell", {"command": "make all"})
    assert desk.runs == [Runs.READ_ONLY] and "has changed since the question" in result.text


async def test_it_is_judged_again_from_its_record_as_it_was(reading, make) -> None:
    desk = reading(Answer.YES)
    await desk.run("shell", {"command": "make all"})
    for decided in desk.audit.of(Decided):
        session = session_at(decided, make.session(sandbox=Sandboxing(), calls=CallLimits(99, 99)))
        action = action_from_record(decided, session.policy)
        words = {word.gate: word.verdict for word in desk.pipeline.judge.decide(action, session).answers}
        said = {word.gate: word for word in decided.words}
        assert type(words["commands"]).__name__.lower() == said["commands"].word
        assert words["commands"].rule == said["commands"].rule
