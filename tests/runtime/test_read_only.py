"""Commands that run read-only in whole sessions: what is asked, what runs again, what stays as it was."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from leeward.runtime.describe import no_trials_word, sandbox_word
from leeward.runtime.sandbox import KnownRungs
from leeward.runtime.slash import dispatch, parse
from leeward.security.call import Asker, Status
from leeward.security.kinds import Runs
from leeward.security.ports import Answer
from leeward.tools.sandbox import Sandbox, probe_grounds
from leeward.tools.sandbox import read_only_probe as probe_module

LEVELS = ("bubblewrap", "landlock")


@pytest.fixture(params=LEVELS)
def reading(request, tmp_path, sessions, monkeypatch):
    """Open a session in which commands run read-only, or skip where none can."""

    async def none(_):
        return "no overlay is to be had"

    monkeypatch.setattr(Sandbox, "no_trial_because", none)

    @asynccontextmanager
    async def opened(*answers: Answer, config: str = "", trial: str = "auto", **options):
        approver = sessions.Answers(*answers) if answers else None
        sandbox = f'[tools.sandbox]\nlevel = "{request.param}"\n'
        async with sessions.session(
            tmp_path, sandbox + config, trial=trial, approver=approver, **options
        ) as runtime:
            if trial == "auto" and runtime.pipeline.session.policy.sandbox.rung is not Runs.READ_ONLY:
                pytest.skip(f"read-only runs are needed: {runtime.sandbox.reading.problem}")
            runtime.asked, runtime.level = approver.questions if approver else [], request.param
            yield runtime

    return opened


@pytest.fixture
def ws(tmp_path) -> Path:
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / "a.txt").write_text("one\ntwo\n")
    return tmp_path / "ws"


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


async def run(runtime, line: str, **more):
    return await runtime.call("shell", {"command": line}, **more)


async def test_what_only_reads_asks_nothing_and_a_wish_runs_again_after_a_yes(reading, ws) -> None:
    async with reading(Answer.YES) as runtime:
        result = await run(runtime, "cat a.txt; python3 -c 'print(6 * 7)'")
        assert "42" in result.shown and result.outcome.status is Status.OK and not runtime.asked
        result = await run(runtime, "mkdir out && echo x > out/f && rm a.txt && echo done")
        assert result.outcome.status is Status.OK and "done" in result.shown, result.shown
        [question] = runtime.asked
        [(gate, ask)] = question.asks
        assert gate == "commands" and ("wanted to change", "out") in ask.facts
        assert names(ws) == ["out", "out/f"]
        told = (await dispatch(runtime, parse("/undo"))).text
        assert told.startswith("undone: shell"), told
        assert names(ws) == ["a.txt"]


@pytest.mark.parametrize("answer", [Answer.NO, None])
async def test_without_a_yes_nothing_changed_and_the_wish_is_told(reading, ws, answer) -> None:
    async with reading(*([answer] if answer else [])) as runtime:
        result = await run(runtime, "echo x > new; rm -f a.txt; echo seen")
        assert names(ws) == ["a.txt"] and "seen" in result.shown
        assert "run read-only: it wanted to change new, a.txt; nothing was written" in result.shown
        assert (result.error or {}).get("code") == (None if answer else "INPUT_REQUIRED")


async def test_caches_and_harmless_tries_are_asked_about_by_nobody(reading, ws) -> None:
    async with reading(Answer.NO) as runtime:
        result = await run(runtime, "mkdir .mypy_cache; echo x > .mypy_cache/x; : > /dev/null; echo $?")
        assert not runtime.asked and "wanted to change" not in result.shown


async def test_below_bubblewrap_it_is_said_that_what_it_tried_to_write_is_missing(reading, ws) -> None:
    async with reading(Answer.NO) as runtime:
        result = await run(runtime, "python3 -c 'import os; os.chmod(\"a.txt\", 0o600)'")
        is_named = "wanted to change a.txt" in result.shown
        is_missing = "run read-only: anything it tried to write is missing" in result.shown
        assert (is_named, is_missing) == (runtime.level == "bubblewrap", runtime.level == "landlock")
        assert (ws / "a.txt").stat().st_mode & 0o777 != 0o600


async def test_what_the_person_types_or_allowed_runs_for_real_at_once(reading, ws) -> None:
    rule = '[[permissions.rules]]\ntool = "shell"\nmatch = "touch *"\naction = "allow"\n'
    async with reading(Answer.NO, config=rule) as runtime:
        await run(runtime, "touch allowed")
        await run(runtime, "mkdir typed", asker=Asker.PERSON)
        assert names(ws) == ["a.txt", "allowed", "typed"] and not runtime.asked


async def test_secrets_are_masked_and_in_gits_history_asked_about(reading, ws, git) -> None:
    git(ws, "init", "-q", "--template=")
    (ws / ".env").write_text("KEY=canary\n")
    git(ws, "add", ".")
    git(ws, "commit", "-q", "-m", "begin")
    reads_all = 'python3 -c \'import glob; [open(n, "rb").read() for n in glob.glob(".g*/objects/??/*")]\''
    async with reading(Answer.NO) as runtime:
        result = await run(runtime, 'python3 -c \'print(open(".e" + "nv").read())\'')
        assert "canary" not in result.text and "Error" in result.text
        result = await run(runtime, reads_all)
        assert "PermissionError" in result.text or runtime.level == "bubblewrap", result.text
        refused = await run(runtime, "git log -p --format=%s")
        assert "canary" not in refused.text and "was not run" in refused.text
    async with reading(Answer.YES) as runtime:
        allowed = await run(runtime, "git log --format=%s")
        assert "begin" in allowed.shown, allowed.shown


async def test_a_clean_history_is_read_without_a_question(reading, ws, git) -> None:
    git(ws, "init", "-q", "--template=")
    git(ws, "add", ".")
    git(ws, "commit", "-q", "-m", "begin")
    async with reading(Answer.NO) as runtime:
        for line, told in (("git log --format=%s", "begin"), ("git status --short; git diff", "exit code 0")):
            assert told in (await run(runtime, line)).shown and not runtime.asked


async def test_it_says_what_commands_run_in_and_remembers_it(reading, ws, monkeypatch) -> None:
    for _ in range(2):
        async with reading() as runtime:
            assert "commands run read-only first" in sandbox_word(runtime.pipeline.session.policy)
            assert no_trials_word(runtime.sandbox).endswith(
                "commands run read-only, and ask before they write"
            )
            grounds = probe_grounds(runtime.pipeline.session.policy.workspace, runtime.level)
            assert KnownRungs.of(runtime.places).found(grounds) is Runs.READ_ONLY
            monkeypatch.setattr(probe_module, "confined", None)


async def test_with_trials_off_commands_ask_before_they_run(reading, ws) -> None:
    async with reading(Answer.NO, trial="off") as runtime:
        result = await run(runtime, "python3 -c 'print(6 * 7)'")
        assert len(runtime.asked) == 1 and "42" not in result.shown
