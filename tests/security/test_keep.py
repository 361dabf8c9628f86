"""A trial's changes are judged like a call: kept or discarded, and recorded."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
import trio

from leeward.security.action import digest_of, thaw
from leeward.security.call import Asker, Rerun, Status
from leeward.security.keep import keep_action
from leeward.security.kinds import LASTS_KEY, Effect, Kind, Runs
from leeward.security.outcome import Category, Output, PermanentFailure, PolicyBlocked
from leeward.security.permissions import answers
from leeward.security.policy import Autonomy, BreakerLimits, CallLimits, Rule, RuleAction, Sandboxing
from leeward.security.ports import Answer
from leeward.security.rerun import rerun_action
from leeward.security.session import Asked, Decided, Finished, TextSeen
from leeward.security.trust import Origin

TRIED = Sandboxing("bubblewrap", rung=Runs.TRIAL)


@dataclass
class FakeTrial:
    """A trial run that would change some paths; `ends` says what became of it."""

    paths: tuple[str, ...] = ("/ws/a.txt",)
    digest: str = "0" * 64
    shown: str = "added a.txt"
    repositories: tuple[str, ...] = ()
    is_cut: bool = False
    fails: bool = False
    ends: list[str] = field(default_factory=list)

    async def keep(self, cleared) -> Output:
        cleared.take()
        await trio.lowlevel.checkpoint()
        if self.fails:
            raise PermanentFailure("a.txt was changed by somebody else meanwhile")
        self.ends.append("kept")
        return Output("", notices=("kept 1 path",))

    def close(self) -> None:
        self.ends.append("closed")


@pytest.fixture
def shell(make):
    properties = {
        "command": {"type": "string", "x-leeward-kind": Kind.COMMAND},
        "background": {"type": "boolean", LASTS_KEY: True},
    }
    return make.spec("shell", Effect.ALL, schema={"type": "object", "properties": properties})


@pytest.fixture
def tried(make, shell):
    """Make a desk whose shell changes `trial` where it runs a line as a trial; `desk.runs` says in what."""

    def made(trial, *answers, **policy):
        desk = make.desk(shell, **{"sandbox": TRIED, **policy})
        desk.says(*(answers or (Answer.NOBODY,)))
        desk.runs = []

        async def run(cleared):
            desk.runs.append(cleared.runs)
            if cleared.runs is Runs.TRIAL and trial is not None:
                cleared.propose(trial)
            return Output("printed", exit_code=0)

        desk.executor.does["shell"] = run
        return desk

    return made


async def test_a_line_nobody_allowed_runs_as_a_trial_and_what_it_changed_is_asked_about(tried) -> None:
    trial = FakeTrial()
    desk = tried(trial, Answer.YES)
    result = await desk.run("shell", {"command": "make all"})
    assert desk.runs == [Runs.TRIAL] and trial.ends == ["kept", "closed"]
    assert result.outcome.status is Status.OK and "printed" in result.text and "kept 1 path" in result.text
    [question] = desk.approver.questions
    assert question.action.call.tool == "keep" and question.action.preview().text == "added a.txt"
    assert [atom.shown for atom in question.action.atoms] == ["/ws/a.txt"]
    ran, kept = desk.audit.of(Decided)
    assert (ran.tool, ran.runs, ran.allowed, ran.of) == ("shell", Runs.TRIAL, True, "")
    assert (kept.tool, kept.of, kept.allowed, kept.approver) == ("keep", "c1", True, "the person")
    assert [(event.call, event.status) for event in desk.audit.of(Finished)] == [
        ("c1", Status.OK),
        ("c1.keep", Status.OK),
    ]


@pytest.mark.parametrize(
    ("answer", "status", "code"),
    [(Answer.NO, Status.OK, None), (Answer.NOBODY, Status.DENIED, "INPUT_REQUIRED")],
)
async def test_without_a_yes_the_changes_are_discarded_and_the_model_is_told(
    tried, answer, status, code
) -> None:
    trial = FakeTrial()
    desk = tried(trial, answer)
    result = await desk.run("shell", {"command": "make all"})
    assert trial.ends == ["closed"]
    assert (result.outcome.status, (result.error or {}).get("code")) == (status, code)
    assert "printed" in result.text and "what the command changed was discarded" in result.text


async def test_a_run_that_changed_nothing_asks_nothing(tried) -> None:
    desk = tried(None)
    result = await desk.run("shell", {"command": "pytest -q"})
    assert (result.outcome.status, desk.runs, desk.approver.questions) == (Status.OK, [Runs.TRIAL], [])
    [decided] = desk.audit.of(Decided)
    assert (decided.runs, decided.approver) == (Runs.TRIAL, "")


@pytest.mark.parametrize(
    ("path", "gate"),
    [("/ws/.env", "paths"), ("/ws/.git/hooks/pre-commit", "paths"), ("/etc/passwd", "paths")],
)
async def test_what_no_tool_may_change_is_not_kept(tried, path, gate) -> None:
    trial = FakeTrial((path, "/ws/b.txt"))
    desk = tried(trial, Answer.YES)
    result = await desk.run("shell", {"command": "make all"})
    assert trial.ends == ["closed"] and desk.approver.questions == []
    assert desk.audit.of(Decided)[1].gate == gate and result.error["gate"] == gate


async def test_a_file_that_runs_later_is_asked_about_whatever_rule_there_is(tried) -> None:
    rules = (Rule("keep", RuleAction.ALLOW, "**"),)
    trial = FakeTrial(("/ws/Makefile",))
    desk = tried(trial, Answer.NO, rules=rules)
    await desk.run("shell", {"command": "python gen.py"})
    [question] = desk.approver.questions
    assert [gate for gate, _ in question.asks] == ["paths"] and trial.ends == ["closed"]


@pytest.mark.parametrize(
    ("rule", "questions"),
    [
        (Rule("keep", RuleAction.ALLOW, "build/**"), 0),
        (Rule("keep", RuleAction.ALLOW), 1),
        (Rule("*", RuleAction.ALLOW, "build/**"), 1),
        (Rule("write", RuleAction.ALLOW, "build/**"), 1),
        (Rule("keep", RuleAction.ALLOW, "dist/**"), 1),
    ],
)
async def test_only_a_rule_that_names_keep_and_covers_every_path_answers_for_a_trial(
    tried, rule, questions
) -> None:
    trial = FakeTrial(("/ws/build/a.o", "/ws/build/b.o"))
    desk = tried(trial, Answer.NO, rules=(rule,))
    await desk.run("shell", {"command": "make all"})
    assert len(desk.approver.questions) == questions
    assert trial.ends == (["closed"] if questions else ["kept", "closed"])


@pytest.mark.parametrize("tool", ["write", "keep", "*", "ed*"])
async def test_a_rule_that_forbids_changing_a_path_forbids_keeping_it(tried, tool) -> None:
    trial = FakeTrial(("/ws/docs/a.md",))
    desk = tried(trial, Answer.YES, rules=(Rule(tool, RuleAction.DENY, "docs/**"),))
    result = await desk.run("shell", {"command": "make all"})
    assert trial.ends == ["closed"] and result.error["gate"] == "permissions"


@pytest.mark.parametrize(
    ("line", "policy"),
    [
        ("make all", {"rules": (Rule("shell", RuleAction.ALLOW, "make *"),)}),
        ("ls", {"rules": (Rule("shell", RuleAction.ALLOW, "ls"),)}),
    ],
)
async def test_a_line_that_a_rule_allows_runs_for_real_and_the_rule_is_named(tried, line, policy) -> None:
    desk = tried(FakeTrial(), **policy)
    await desk.run("shell", {"command": line})
    [decided] = desk.audit.of(Decided)
    assert (desk.runs, decided.runs) == ([Runs.REAL], Runs.REAL) and "allow shell" in decided.approver


async def test_a_rule_for_another_line_leaves_it_a_trial(tried) -> None:
    desk = tried(None, rules=(Rule("shell", RuleAction.ALLOW, "make *"),))
    await desk.run("shell", {"command": "make all && python x.py"})
    assert desk.runs == [Runs.TRIAL]


async def test_what_a_person_types_runs_for_real(tried) -> None:
    desk = tried(FakeTrial())
    await desk.run("shell", {"command": "make all"}, asker=Asker.PERSON)
    assert desk.runs == [Runs.REAL] and desk.approver.questions == []


async def test_full_autonomy_makes_no_line_run_for_real(tried) -> None:
    desk = tried(None, autonomy=Autonomy.FULL)
    await desk.run("shell", {"command": "make all"})
    assert desk.runs == [Runs.TRIAL]


@pytest.mark.parametrize(
    "line",
    [
        "curl https://example.com/",
        "sudo make install",
        "doas make install",
        "cat /srv/data/x",
        "cd /srv && make",
        'echo "unclosed',
        "nc 127.0.0.1 80",
    ],
)
async def test_a_line_that_a_trial_would_not_show_is_asked_about_first(tried, line) -> None:
    desk = tried(FakeTrial(), Answer.NO)
    await desk.run("shell", {"command": line})
    assert len(desk.approver.questions) == 1 and desk.runs == []


async def test_a_yes_to_the_line_itself_runs_it_for_real(tried) -> None:
    desk = tried(FakeTrial(), Answer.YES)
    await desk.run("shell", {"command": "sudo make install"})
    assert desk.runs == [Runs.REAL] and len(desk.approver.questions) == 1


async def test_what_goes_on_in_the_background_is_asked_about_first(tried) -> None:
    desk = tried(FakeTrial(), Answer.NO)
    await desk.run("shell", {"command": "make all", "background": True})
    assert len(desk.approver.questions) == 1 and desk.runs == []


@pytest.mark.parametrize("line", ["rm -rf /", "cat .env", "rm -rf .git"])
async def test_what_is_denied_is_not_tried(tried, line) -> None:
    desk = tried(FakeTrial(), Answer.YES)
    result = await desk.run("shell", {"command": line})
    assert result.outcome.gate == "commands" and desk.runs == []


async def test_where_no_trial_can_be_had_a_line_is_asked_about_first(tried) -> None:
    desk = tried(FakeTrial(), Answer.YES, sandbox=Sandboxing("landlock"))
    await desk.run("shell", {"command": "make all"})
    assert desk.runs == [Runs.REAL] and desk.approver.questions[0].action.call.tool == "shell"


async def test_no_model_can_call_keep(tried) -> None:
    desk = tried(FakeTrial(), Answer.YES)
    result = await desk.run("keep", {"command": "make", "paths": ["/ws/a.txt"]})
    assert result.outcome.category is Category.TOOL_NOT_FOUND


async def test_keeping_counts_for_no_budget_breaker_or_window(tried) -> None:
    limits = {"calls": CallLimits(per_turn=2), "breaker": BreakerLimits(consecutive=2)}
    desk = tried(FakeTrial(("/ws/.env",)), Answer.YES, **limits)
    for number in range(2):
        await desk.run("shell", {"command": f"make t{number}"}, call_id=f"c{number}")
    assert desk.session.calls_this_turn == 2 and desk.session.breaker.total == 0
    assert desk.session.anomaly.failures("keep")[0] == 0 and not desk.session.running
    asked = [event.of for event in desk.audit.of(Asked)]
    assert asked == [] and desk.session.pending == frozenset()


async def test_a_question_about_changes_takes_no_place_in_the_budget(tried) -> None:
    desk = tried(FakeTrial(), Answer.NO, calls=CallLimits(per_turn=1))
    result = await desk.run("shell", {"command": "make all"})
    assert "what the command changed was discarded" in result.text and desk.session.calls_this_turn == 1
    assert [event.of for event in desk.audit.of(Asked)] == ["c1"] and not desk.session.pending


async def test_changes_that_cannot_be_applied_are_a_failure_that_is_told(tried) -> None:
    trial = FakeTrial(fails=True)
    desk = tried(trial, Answer.YES)
    result = await desk.run("shell", {"command": "make all"})
    assert trial.ends == ["closed"] and "changed by somebody else" in result.text
    assert (result.outcome.status, result.error["code"]) == (Status.ERROR, "PERMANENT_FAILURE")


async def test_changes_of_a_run_that_failed_or_was_stopped_are_discarded(tried) -> None:
    trial = FakeTrial()
    desk = tried(trial, Answer.YES)

    async def run(cleared):
        cleared.propose(trial)
        raise PermanentFailure("ended by signal 9")

    desk.executor.does["shell"] = run
    result = await desk.run("shell", {"command": "make all"})
    assert trial.ends == ["closed"] and desk.approver.questions == []
    assert result.outcome.status is Status.ERROR


async def test_a_cancelled_call_keeps_nothing(tried) -> None:
    trial = FakeTrial()
    desk = tried(trial, Answer.YES)

    async def wait(_question):
        scope.cancel()
        await trio.sleep_forever()

    desk.approver.hook = wait
    with trio.CancelScope() as scope:
        await desk.run("shell", {"command": "make all"})
    assert scope.cancelled_caught and trial.ends == ["closed"]
    assert [event.approver for event in desk.audit.of(Decided) if event.of] == ["cancelled"]


async def test_without_a_record_nothing_is_kept(tried) -> None:
    trial = FakeTrial()
    desk = tried(trial, Answer.YES)
    desk.audit.refuses = lambda event: isinstance(event, Decided) and bool(event.of)
    result = await desk.run("shell", {"command": "make all"})
    assert trial.ends == ["closed"] and result.error["code"] == "AUDIT_UNAVAILABLE"


async def test_a_call_has_one_trial_while_it_runs(tried) -> None:
    first, second, late = FakeTrial(), FakeTrial(), FakeTrial()
    held = []
    desk = tried(first, Answer.NO)

    async def run(cleared):
        held.append(cleared)
        cleared.propose(first)
        with pytest.raises(PolicyBlocked):
            cleared.propose(second)
        return Output("printed")

    desk.executor.does["shell"] = run
    await desk.run("shell", {"command": "make all"})
    with pytest.raises(PolicyBlocked):
        held[0].propose(late)
    assert second.ends == late.ends == ["closed"]


ALLOWED = (Rule("shell", RuleAction.ALLOW, "make *"), Rule("shell", RuleAction.ALLOW, "git *"))
NOT_COVERED = {
    "what runs later": ("make all", {"paths": ("/ws/Makefile",)}, ()),
    "a rule that asks": ("make all", {}, (Rule("write", RuleAction.ASK, "/ws/a.txt"),)),
    "settings of git, by another program": ("make all", {"repositories": ("git", "git config")}, ()),
    "more than can be judged": ("make all", {"is_cut": True}, ()),
}
COVERED = {
    "a path": ("make all", {}, ()),
    "a commit": ("make all", {"repositories": ("git",)}, ()),
    "settings of git, by git": ("git branch -u main", {"repositories": ("git", "git config")}, ()),
}


@pytest.fixture
def overlaid(make, shell):
    """Make a desk whose shell proposes `trial` where it runs a line through an overlay."""

    def made(trial, *answers, **policy):
        desk = make.desk(shell, **{"sandbox": TRIED, **policy})
        desk.says(*(answers or (Answer.NOBODY,)))
        desk.runs = []

        async def run(cleared):
            desk.runs.append((cleared.runs, cleared.overlay))
            if cleared.overlay:
                cleared.propose(trial)
            return Output("printed", exit_code=0)

        desk.executor.does["shell"] = run
        return desk

    return made


@pytest.mark.parametrize("name", [*COVERED, *NOT_COVERED])
async def test_the_answer_to_a_command_covers_what_it_changed_but_for_some_of_it(overlaid, name) -> None:
    line, changed, rules = {**COVERED, **NOT_COVERED}[name]
    trial = FakeTrial(**changed)
    desk = overlaid(trial, Answer.NO, rules=(*ALLOWED, *rules))
    await desk.run("shell", {"command": line})
    assert desk.runs == [(Runs.REAL, True)]
    assert len(desk.approver.questions) == (name in NOT_COVERED)
    assert trial.ends == (["closed"] if name in NOT_COVERED else ["kept", "closed"])


@pytest.mark.parametrize("name", [name for name in NOT_COVERED if name != "more than can be judged"])
async def test_an_answer_that_covers_everything_is_found_out(overlaid, monkeypatch, planted, name) -> None:
    monkeypatch.setattr(answers, "_is_covered", planted("covered")._is_covered)
    line, changed, rules = NOT_COVERED[name]
    desk = overlaid(FakeTrial(**changed), Answer.NO, rules=(*ALLOWED, *rules))
    await desk.run("shell", {"command": line})
    assert not desk.approver.questions


async def test_a_rule_of_the_workspace_or_a_denial_is_never_covered(overlaid) -> None:
    trial = FakeTrial(("/ws/.env",))
    desk = overlaid(trial, Answer.YES, rules=ALLOWED)
    result = await desk.run("shell", {"command": "make all"})
    assert trial.ends == ["closed"] and result.error["gate"] == "paths" and not desk.approver.questions


@pytest.mark.parametrize(
    ("overlay", "labels", "runs"),
    [
        (True, (), (Runs.REAL, True)),
        (False, (), (Runs.REAL, False)),
        (False, (Origin.WORKSPACE, Origin.TOOL), (Runs.REAL, False)),
        # What an allowed line changes is then looked at before it is kept.
        (False, (Origin.WEB,), (Runs.TRIAL, False)),
        (False, (Origin.MCP,), (Runs.TRIAL, False)),
    ],
)
async def test_an_allowed_line_runs_on_trial_once_untrusted_text_was_read(
    overlaid, overlay, labels, runs
) -> None:
    desk = overlaid(FakeTrial(), rules=ALLOWED, sandbox=replace(TRIED, overlay=overlay))
    if labels:
        await desk.pipeline.note(TextSeen(0.0, labels))
    await desk.run("shell", {"command": "make all"})
    assert desk.runs == [runs]


@pytest.mark.parametrize("lines", [("make all",), ("make all", "ls Bücher"), ()])
def test_what_follows_from_a_call_has_the_digest_of_a_call_that_was_read(make, lines) -> None:
    kinds = {f"line{number}": Kind.COMMAND for number in range(len(lines))}
    shell = make.spec("shell", Effect.ALL, kinds=kinds)
    of = make.action(shell, dict(zip(kinds, lines, strict=True)))
    trial = FakeTrial(("/ws/b.txt", "/ws/Bücher"), repositories=("/ws",))
    rerun = Rerun(("pages.example", "*.bücher.example"), FakeTrial().keep)
    for action in (keep_action(of, trial), rerun_action(of, rerun)):
        read = make.action(make.spec(action.call.tool, schema={}), action.call.arguments)
        assert read.problems == () and thaw(read.arguments) == thaw(action.arguments)
        assert read.digest == action.digest == digest_of(action.call.tool, action.arguments)
