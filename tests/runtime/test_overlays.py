"""Allowed commands run for real while their writes to the workspace are held back."""

from __future__ import annotations

import socket
import subprocess
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from leeward.memory.audit import KINDS, event_of
from leeward.runtime.audit.replay import replayed
from leeward.runtime.events import LiveOutput
from leeward.runtime.slash import dispatch, parse
from leeward.security.call import Asker, Status
from leeward.security.ports import Answer
from leeward.security.session import Grant, Granted, Revoked, Scope, Session
from leeward.tools.sandbox import disk_for


def rule(match: str, tool: str = "shell", action: str = "allow") -> str:
    return f"[[permissions.rules]]\ntool = '{tool}'\nmatch = '{match}'\naction = '{action}'\n"


ANY = "".join(map(rule, ("sh *", "python3 *", "touch *", "git *")))


@pytest.fixture
def allowed(tmp_path, sessions):
    """Open a session in which rules allow commands, or skip where no overlay can be had."""

    @asynccontextmanager
    async def opened(*answers: Answer, config: str = ANY, **options):
        approver = sessions.Answers(*answers) if answers else None
        async with sessions.session(tmp_path, config, trial="auto", approver=approver, **options) as runtime:
            if problem := await runtime.sandbox.no_trial_because():
                pytest.skip(f"overlays are needed: {problem}")
            runtime.asked = approver.questions if approver else []
            yield runtime

    return opened


@pytest.fixture
def ws(tmp_path) -> Path:
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / "a.txt").write_text("one\ntwo\n")
    return tmp_path / "ws"


def files(folder: Path) -> dict[str, bytes]:
    """What lies in a folder, but for the script that runs there."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.name != "step")
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


async def run(runtime, line: str, **more):
    return await runtime.call("shell", {"command": line}, **more)


async def script(runtime, text: str, **more):
    """Run some lines that nothing but the rule for `sh` covers."""
    Path(runtime.sandbox.confinement.workspace, "step").write_text(text)
    return await run(runtime, "sh step", **more)


async def decisions(runtime, sessions) -> list[tuple[str, str, bool]]:
    found = await sessions.rows(runtime, "decision")
    return [(row.tool, row.body.get("runs", "real"), row.body.get("overlay", False)) for row in found]


async def test_what_an_allowed_line_changed_is_applied_recorded_and_undone_and_nobody_is_asked(
    allowed, ws, sessions
) -> None:
    before = files(ws)
    async with allowed(Answer.NO) as runtime:
        result = await script(runtime, "echo 2 > a.txt; mkdir -p out; echo x > out/f; exit 3")
        assert result.outcome.exit_code == 3 and not runtime.asked
        assert files(ws) == {"a.txt": b"2\n", "out/f": b"x\n"}
        assert await decisions(runtime, sessions) == [("shell", "real", True), ("keep", "real", False)]
        [ran, kept] = await sessions.rows(runtime, "decision")
        assert kept.body["of"] == result.call.id and ran.body["approver"] in kept.body["approver"]
        assert kept.body["approver"].startswith("the answer to its command (allow shell sh *")
        assert "apart" in (await dispatch(runtime, parse(f"/why {result.call.id}"))).text
        assert result.call.id in (await dispatch(runtime, parse(f"/why {result.call.id}.keep"))).text
        assert (await runtime.audit.verify()).problem is None
        told = (await dispatch(runtime, parse("/undo"))).text
        assert told.startswith("undone: shell"), told
        assert files(ws) == before


async def test_nobody_has_to_be_there_for_an_allowed_line(allowed, ws) -> None:
    async with allowed() as runtime:
        result = await run(runtime, "touch new")
        assert result.outcome.status is Status.OK and (ws / "new").exists()


async def test_a_line_that_changes_nothing_is_one_decision(allowed, ws, sessions) -> None:
    async with allowed() as runtime:
        await script(runtime, "cat a.txt")
        assert await decisions(runtime, sessions) == [("shell", "real", True)]


@pytest.mark.parametrize("line", ["python3 -c 'import os; os.kill(os.getpid(), 9)'", "sh slow"])
async def test_a_line_that_is_killed_or_stopped_leaves_nothing_half_done(allowed, ws, line) -> None:
    (ws / "slow").write_text("sleep 30\n")
    before = files(ws)
    async with allowed(Answer.NO, config=f"[tools.shell]\ntimeout = 1.0\n{ANY}") as runtime:
        result = await run(runtime, f"touch a.txt b.txt && {line}")
        assert result.outcome.status in {Status.TIMEOUT, Status.ERROR}
        assert files(ws) == before
        if result.outcome.status is Status.ERROR:
            assert "its changes were discarded" in result.shown


async def test_a_line_that_is_cancelled_leaves_nothing_half_done(allowed, ws) -> None:
    began = trio.Event()

    def listen(event: object) -> None:
        if isinstance(event, LiveOutput) and "begun" in event.text:
            began.set()

    async with allowed(Answer.NO, listener=listen) as runtime:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(script, runtime, "echo x > a.txt; echo begun; sleep 30")
            await began.wait()
            nursery.cancel_scope.cancel()
    assert files(ws)["a.txt"] == b"one\ntwo\n"


async def test_what_runs_later_is_asked_about_all_the_same(allowed, ws) -> None:
    async with allowed(Answer.NO) as runtime:
        await script(runtime, "echo all: > Makefile; echo x > b.txt")
        [question] = runtime.asked
        assert [gate for gate, _ in question.asks] == ["paths"]
        assert [atom.raw for _, ask in question.asks for atom in ask.about] == [str(ws / "Makefile")]
    assert not (ws / "Makefile").exists() and not (ws / "b.txt").exists()


async def test_what_no_tool_may_change_is_denied_whatever_was_allowed(allowed, ws) -> None:
    async with allowed(Answer.YES) as runtime:
        result = await run(runtime, 'python3 -c \'open(".env", "w").write("A=1")\'')
        assert result.outcome.status is Status.DENIED and not runtime.asked
    assert not (ws / ".env").exists()


@pytest.mark.parametrize("tool", ["write", "keep", "*"])
async def test_rules_about_paths_hold_for_what_an_allowed_line_changed(allowed, ws, tool) -> None:
    config = ANY + rule("docs/**", tool, "ask") + rule("no/**", tool, "deny")
    async with allowed(Answer.NO, config=config) as runtime:
        await script(runtime, "mkdir docs && echo x > docs/a.md")
        assert len(runtime.asked) == 1 and not (ws / "docs").exists()
        result = await script(runtime, "mkdir no; echo x > no/a.md")
        assert result.outcome.status is Status.DENIED and not (ws / "no").exists()


async def test_more_than_is_shown_to_anybody_is_kept_without_a_question(allowed, ws) -> None:
    for number in range(600):
        (ws / f"f{number}").write_text("x\n" * 700)
    async with allowed() as runtime:
        code = "import pathlib; [path.write_text('y\\n' * 700) for path in pathlib.Path().glob('f*')]"
        result = await run(runtime, f'python3 -c "{code}"')
        assert result.outcome.status is Status.OK and "kept: 600 changed" in result.shown
    assert (ws / "f599").read_text() == "y\n" * 700


async def test_caches_are_kept_of_a_line_that_is_allowed(allowed, ws) -> None:
    (ws / "m.py").write_text("x = 1\n")
    async with allowed() as runtime:
        await run(runtime, "python3 -c 'import m'")
    assert list((ws / "__pycache__").iterdir())


@pytest.fixture
def beside(ws) -> Path:
    """A further folder that commands may write to; what comes there meanwhile is seen by those that run."""
    (ws.parent / "beside").mkdir()
    return ws.parent / "beside"


def waits(beside: Path) -> str:
    """Lines that say that they began, and wait to be let go on."""
    return f"echo begun; until [ -e {beside}/go ]; do sleep 0.02; done"


def may_write(beside: Path) -> str:
    return f"[tools.sandbox]\nextra_write = ['{beside}']\n"


async def test_an_edit_of_the_persons_meanwhile_is_never_overwritten(allowed, ws, beside) -> None:
    def listen(event: object) -> None:
        if isinstance(event, LiveOutput) and "begun" in event.text:
            (ws / "a.txt").write_text("the person's\n")
            (beside / "go").touch()

    async with allowed(Answer.NO, config=ANY + may_write(beside), listener=listen) as runtime:
        result = await script(runtime, f"echo theirs > a.txt; echo x > {beside}/f; {waits(beside)}")
    assert (ws / "a.txt").read_text() == "the person's\n" and "meanwhile" in result.shown
    assert (beside / "f").read_text() == "x\n"


async def test_a_trap_in_a_further_folder_is_taken_away_as_ever(allowed, ws, beside) -> None:
    async with allowed(Answer.NO, config=ANY + may_write(beside)) as runtime:
        lines = ("mkdir -p hooks objects refs", "echo x > HEAD", "echo evil > hooks/pre-commit")
        text = "; ".join((f"mkdir {beside}/.git; (cd {beside}/.git", *lines))
        result = await script(runtime, f"{text}); echo y > b.txt")
    assert not (beside / ".git" / "hooks" / "pre-commit").exists()
    assert result.outcome.status is Status.ERROR and not (ws / "b.txt").exists()


async def test_what_a_person_types_or_says_yes_to_once_runs_plainly(allowed, ws, sessions) -> None:
    async with allowed(Answer.YES, config="[tools.sandbox]\nnetwork = true\n") as runtime:
        await run(runtime, "echo x > typed", asker=Asker.PERSON)
        await run(runtime, "curl -s --max-time 1 http://127.0.0.1:9/ ; echo all: > Makefile")
        assert {"typed", "Makefile"} <= files(ws).keys() and len(runtime.asked) == 1
        assert [found[1:] for found in await decisions(runtime, sessions)] == [("real", False)] * 2


async def test_a_background_job_runs_without_an_overlay(allowed, ws, sessions) -> None:
    async with allowed(Answer.YES) as runtime:
        await runtime.call("shell", {"command": "touch new", "background": True})
        assert await decisions(runtime, sessions) == [("shell", "real", False)]


async def test_a_grant_that_is_taken_back_meanwhile_answers_for_nothing_more(allowed, ws, beside) -> None:
    began = trio.Event()

    def listen(event: object) -> None:
        if isinstance(event, LiveOutput) and "begun" in event.text:
            began.set()

    async with allowed(Answer.NO, config=may_write(beside), listener=listen) as runtime:
        await runtime.pipeline.note(Granted(time.time(), Grant("g_1", "shell", "sh step", Scope.SESSION)))
        async with trio.open_nursery() as nursery:
            text = f"echo x > a.txt; {waits(beside)}"
            nursery.start_soon(script, runtime, text)
            await began.wait()
            await runtime.pipeline.note(Revoked(time.time(), "g_1"))
            (beside / "go").touch()
        assert [question.action.call.tool for question in runtime.asked] == ["keep"]
    assert (ws / "a.txt").read_text() == "one\ntwo\n"


OFF = "[tools.shell]\noverlay = false\n"


async def test_it_can_be_switched_off_until_a_file_that_runs_later_was_written(allowed, ws, sessions) -> None:
    async with allowed(Answer.YES, config=OFF + ANY) as runtime:
        await run(runtime, "touch one")
        await runtime.call("write", {"path": "Makefile", "content": "all:\n"})
        await run(runtime, "touch two")
        found = await decisions(runtime, sessions)
        assert [one for one in found if one[0] == "shell"] == [
            ("shell", "real", False),
            ("shell", "real", True),
        ]


async def test_an_allowed_line_has_the_network_that_the_configuration_gives(allowed, ws) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        (ws / "ask.py").write_text(
            f"import socket\nsocket.create_connection(('127.0.0.1', {port})).close()\n"
        )
        for network, code in (("true", 0), ("false", 1)):
            async with allowed(config=f"[tools.sandbox]\nnetwork = {network}\n{ANY}") as runtime:
                result = await run(runtime, "python3 ask.py && touch reached")
                assert result.outcome.exit_code == code, result.shown
        assert (ws / "reached").exists()


async def test_what_the_sandbox_answers_for_goes_through_an_overlay(allowed, ws, sessions) -> None:
    async with allowed(
        config="[tools.sandbox]\nauto_allow = true\n[tools.shell]\ntrial = 'ask'\n"
    ) as runtime:
        await run(runtime, 'python3 -c \'open("new", "w")\'')
        found = await decisions(runtime, sessions)
    assert found[0] in {("shell", "real", True), ("shell", "trial", False)}


async def test_a_commit_that_is_allowed_is_kept_and_settings_are_git_s_alone(allowed, ws) -> None:
    def git(*words: str) -> str:
        told = subprocess.run(["git", "-C", str(ws), *words], capture_output=True, text=True, check=True)
        return told.stdout.strip()

    git("init", "-q", "-b", "main")
    (ws / "own.py").write_text(
        "import subprocess\n"
        "subprocess.run(['git', 'remote', 'add', 'theirs', 'https://example.org/x.git'], check=True)\n"
    )
    async with allowed(Answer.NO) as runtime:
        named = "git -c user.name=a -c user.email=a@example.org"
        result = await run(runtime, f"git add a.txt && {named} commit -qm first")
        assert result.outcome.status is Status.OK, result.shown
        assert git("log", "--format=%s") == "first" and not runtime.asked
        await run(runtime, "git branch side && git branch -q -u main side")
        assert git("config", "branch.side.merge") == "refs/heads/main" and not runtime.asked
        await run(runtime, "python3 own.py")
        [question] = runtime.asked
        assert "git config" in [atom.raw for atom in question.action.atoms]
    assert not git("remote")


async def test_a_replay_decides_as_it_was_decided(allowed, ws, sessions) -> None:
    async with allowed() as runtime:
        await run(runtime, "touch new")
        events = [event_of(row.kind, row.body) for row in await sessions.rows(runtime) if row.kind in KINDS]
        [shell, keep] = replayed(Session(runtime.session_id, runtime.pipeline.session.policy), events)
        assert not shell.is_changed and not keep.is_changed
        assert (str(keep.old), str(keep.new)) == ("allow", "allow")


FILLS = "head -c 3000000 /dev/zero > big; echo done"


# Memory holds 2 MiB of what a run writes, and a disk more.
SMALL = "[tools.shell]\ntrial_bytes = 2097152\n"


@pytest.mark.parametrize("config", [ANY, ""])
@pytest.mark.parametrize(
    ("answer", "is_there", "runs"), [(Answer.YES, True, 1), (Answer.REAL, True, 0), (Answer.NO, False, 0)]
)
async def test_a_run_that_memory_cannot_hold_is_offered_once_more(
    allowed, ws, sessions, config, answer, is_there, runs
) -> None:
    async with allowed(answer, config=SMALL + config) as runtime:
        if not await disk_for(runtime.sandbox):
            pytest.skip("no upper can be had on the disk of the temporary folder")
        result = await script(runtime, FILLS)
        first = runtime.asked[0]
        assert [gate for gate, _ in first.asks] == ["budget"] and first.or_real and first.always is None
        assert "on disk" in first.asks[0][1].question
        assert (ws / "big").exists() is is_there
        found = await sessions.rows(runtime, "decision")
        calls = [(row.tool, row.body["call"].removeprefix(result.call.id)) for row in found]
        assert calls[:2] == [("shell", ""), ("shell", ".again")]
        again = found[1].body
        assert again["allowed"] is is_there and again["reading"]["again"][0].startswith("it wrote as much")
        is_real = answer is Answer.REAL or bool(config)
        if is_there:
            assert again.get("runs", "real") == ("real" if is_real else "trial")
            assert again.get("overlay", False) is (bool(config) and answer is Answer.YES)
        assert len(runtime.asked) == (2 if answer is Answer.YES and not config else 1)
        assert "done" in result.shown and (await runtime.audit.verify()).problem is None
        events = [event_of(row.kind, row.body) for row in await sessions.rows(runtime) if row.kind in KINDS]
        again = replayed(Session(runtime.session_id, runtime.pipeline.session.policy), events)
        assert not any(one.is_changed for one in again)


async def test_a_grant_that_is_taken_back_before_a_second_run_answers_for_nothing_that_changed(
    allowed, ws, sessions, monkeypatch
) -> None:
    async with allowed(Answer.YES, Answer.NO, config=SMALL) as runtime:
        if not await disk_for(runtime.sandbox):
            pytest.skip("no upper can be had on the disk of the temporary folder")
        answer = sessions.Answers.ask

        async def ask(self, question):
            await runtime.pipeline.note(Revoked(time.time(), "g_1"))
            return await answer(self, question)

        monkeypatch.setattr(sessions.Answers, "ask", ask)
        await runtime.pipeline.note(Granted(time.time(), Grant("g_1", "shell", "sh step", Scope.SESSION)))
        await script(runtime, FILLS)
        assert [question.action.call.tool for question in runtime.asked] == ["shell", "keep"]
    assert not (ws / "big").exists()


async def test_where_nobody_is_there_what_memory_cannot_hold_is_discarded(allowed, ws) -> None:
    async with allowed(config=SMALL + ANY) as runtime:
        result = await script(runtime, FILLS)
        assert "its changes were discarded: it wrote as much as" in result.shown
        assert result.outcome.status is Status.OK
    assert not (ws / "big").exists()
