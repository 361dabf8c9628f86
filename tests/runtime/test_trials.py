"""Trial runs in whole sessions: what is asked, what is kept, what stays unchanged."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from leeward.runtime.slash import dispatch, parse
from leeward.security.call import Asker, Status
from leeward.security.ports import Answer


@pytest.fixture
def tried(tmp_path, sessions):
    """Open a session in which commands run on trial, or skip where none can."""

    @asynccontextmanager
    async def opened(*answers: Answer, config: str = "", trial: str = "auto", **options):
        approver = sessions.Answers(*answers) if answers else None
        async with sessions.session(tmp_path, config, trial=trial, approver=approver, **options) as runtime:
            if problem := await runtime.sandbox.no_trial_because():
                pytest.skip(f"trial runs are needed: {problem}")
            runtime.approver, runtime.asked = approver, approver.questions if approver else []
            yield runtime

    return opened


@pytest.fixture
def ws(tmp_path) -> Path:
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / "a.txt").write_text("one\ntwo\n")
    return tmp_path / "ws"


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def run(runtime, line: str, **more):
    return await runtime.call("shell", {"command": line}, **more)


async def test_a_line_that_changes_nothing_asks_nothing(tried, ws) -> None:
    async with tried(Answer.NO) as runtime:
        result = await run(runtime, "cat a.txt; python3 -c 'print(6 * 7)'; awk '{ print $1 }' a.txt")
        assert "42" in result.shown and result.outcome.status is Status.OK and not runtime.asked


async def test_what_a_line_changed_is_shown_kept_recorded_and_undone(tried, ws) -> None:
    before = files(ws)
    async with tried(Answer.YES) as runtime:
        line = (
            "printf 'one\\n2\\n' > a.txt; mkdir -p out/sub; echo x > out/sub/f; chmod 755 a.txt; rm -f gone"
        )
        result = await run(runtime, line)
        assert result.outcome.status is Status.OK, result.shown
        assert "kept: 3 added, 1 changed" in result.shown
        [question] = runtime.asked
        shown = question.action.preview().text
        assert "-two" in shown and "+2" in shown and "out/: new folder: 1 file, 2 bytes" in shown
        assert "a.txt: mode 644, now 755" in shown
        assert [atom.raw for atom in question.action.atoms] == [str(ws / "out"), str(ws / "a.txt")]
        assert files(ws) == {"a.txt": b"one\n2\n", "out/sub/f": b"x\n"}
        told = (await dispatch(runtime, parse("/undo"))).text
        assert told.startswith("undone: shell"), told
        assert files(ws) == before and not (ws / "out").exists()


@pytest.mark.parametrize("answer", [Answer.NO, None])
async def test_without_a_yes_nothing_changed(tried, ws, answer) -> None:
    before = files(ws)
    async with tried(*([answer] if answer else [])) as runtime:
        result = await run(runtime, "echo x > new; rm a.txt; echo seen")
        assert files(ws) == before and "seen" in result.shown and "discarded" in result.shown
        assert result.outcome.status is (Status.OK if answer else Status.DENIED)
        assert (result.error or {}).get("code") == (None if answer else "INPUT_REQUIRED")


async def test_the_record_tells_the_run_and_what_was_kept_and_why_explains_both(tried, ws, sessions) -> None:
    async with tried(Answer.YES) as runtime:
        result = await run(runtime, "echo x > new")
        rows = [row.body | {"tool": row.tool} for row in await sessions.rows(runtime, "decision")]
        assert [(row["tool"], row.get("runs", "real")) for row in rows] == [
            ("shell", "trial"),
            ("keep", "real"),
        ]
        assert rows[1]["of"] == result.call.id
        told = (await dispatch(runtime, parse(f"/why {result.call.id}.keep"))).text
        assert "the person" in told and f"as {result.call.id} left it" in told
        told = (await dispatch(runtime, parse(f"/why {result.call.id}"))).text
        assert f"on trial; what it changed is judged as {result.call.id}.keep" in told
        assert (await runtime.audit.verify()).problem is None


CACHES = {
    "new": "mkdir -p .mypy_cache/3/x && echo x | tee there/__pycache__/b.pyc .mypy_cache/3/x/a",
    "changed": "echo x > there/__pycache__/a.pyc",
    "its mode": "chmod 700 there/__pycache__; chmod 755 there/__pycache__/a.pyc",
    "one of one": "mkdir -p .pytest_cache/__pycache__/v && echo x > .pytest_cache/__pycache__/v/f",
}  # fmt: skip


@pytest.fixture
def cached(ws) -> Path:
    (ws / "there" / "__pycache__").mkdir(parents=True)
    (ws / "there" / "__pycache__" / "a.pyc").write_text("old\n")
    (ws / ".ruff_cache").write_text("a file\n")
    return ws


@pytest.mark.parametrize("name", CACHES)
async def test_what_went_to_caches_is_left_out_and_told_and_nobody_is_asked(
    tried, cached, name, sessions
) -> None:
    before = files(cached)
    async with tried(Answer.YES) as runtime:
        result = await run(runtime, CACHES[name])
        [ended] = await sessions.rows(runtime, "outcome")
        assert ended.body["caches"] > 0
        assert result.outcome.status is Status.OK and not runtime.asked
        assert "caches are never kept" in result.shown and "cache" in result.shown
    assert files(cached) == before


async def test_beside_a_cache_the_rest_is_asked_about_and_kept(tried, cached) -> None:
    before = files(cached)
    async with tried(Answer.YES) as runtime:
        await run(runtime, "mkdir -p new/__pycache__ && echo x | tee new/a.py new/__pycache__/a.pyc")
        assert len(runtime.asked) == 1
    assert files(cached) == {**before, "new/a.py": b"x\n"} and not (cached / "new" / "__pycache__").exists()


NO_CACHES = {
    "removed": "rm there/__pycache__/a.pyc",
    "removed as a whole": "rm -r there/__pycache__",
    "made anew": "rm -r there/__pycache__; mkdir there/__pycache__; echo x > there/__pycache__/b.pyc",
    "moved out": "mv there/__pycache__/a.pyc there/a.py",
    "in the place of a file": "rm .ruff_cache; mkdir .ruff_cache; echo x > .ruff_cache/f",
    "a link in one": "mkdir -p __pycache__/deep; echo x > __pycache__/f; ln -s ../a.txt __pycache__/deep/l",
    "a link called so": "ln -s there __pycache__",
    "a file called so": "echo x > __pycache__",
    "called alike": "mkdir -p x__pycache__ && echo x > x__pycache__/f",
}  # fmt: skip


@pytest.mark.parametrize("name", NO_CACHES)
async def test_what_is_more_than_adding_to_a_cache_is_asked_about_and_done(tried, cached, name) -> None:
    before, line = files(cached), NO_CACHES[name]
    async with tried(Answer.NO, Answer.YES) as runtime:
        await run(runtime, line)
        assert len(runtime.asked) == 1 and files(cached) == before
        result = await run(runtime, f"{line} ")
        assert len(runtime.asked) == 2 and "kept: " in result.shown
    links = (cached / "__pycache__", cached / "__pycache__" / "deep" / "l")
    assert files(cached) != before or any(link.is_symlink() for link in links)


async def test_without_names_of_caches_everything_is_asked_about(tried, cached) -> None:
    async with tried(Answer.NO, config="[tools.shell]\ncaches = []\n") as runtime:
        await run(runtime, CACHES["new"])
        assert len(runtime.asked) == 1


async def test_what_no_tool_may_change_is_not_kept(tried, ws) -> None:
    before = files(ws)
    async with tried(Answer.YES) as runtime:
        result = await run(runtime, 'echo x > b.txt; python3 -c \'open(".env", "w").write("A=1")\'')
        assert files(ws) == before and result.outcome.status is Status.DENIED and not runtime.asked


async def test_what_runs_later_is_named_singly_even_in_a_new_folder(tried, ws) -> None:
    async with tried(Answer.NO) as runtime:
        await run(runtime, "mkdir -p new/deep && echo all: > new/deep/Makefile && echo x > new/deep/f")
        [question] = runtime.asked
        paths = [atom.raw.removeprefix(f"{ws}/") for atom in question.action.atoms]
        assert paths == ["new", "new/deep/Makefile"]
        assert "paths" in [gate for gate, _ in question.asks]


async def test_a_folder_that_git_ignores_is_one_line_and_a_rule_may_cover_it(tried, ws) -> None:
    (ws / ".git").mkdir()
    (ws / ".gitignore").write_text("build/\n")
    (ws / "build").mkdir()
    (ws / "build" / "old.o").write_text("old")
    rule = (
        '[[permissions.rules]]\ntool = "keep"\nmatch = "build/**"\ncommand = "python3 *"\naction = "allow"\n'
    )
    async with tried(Answer.NO, config=rule) as runtime:
        code = "import pathlib; [pathlib.Path(f'build/{n}.o').write_text('o') for n in range(700)]"
        result = await run(runtime, f'python3 -c "{code}"')
        assert "kept: 700 added" in result.shown and not runtime.asked
        await run(runtime, "touch build/by_another.o")
        [question] = runtime.asked
        assert "build/ (ignored by git): 1 added" in question.action.preview().text


async def test_always_for_a_folder_answers_the_same_command_and_no_other(tried, ws) -> None:
    async with tried(Answer.ALWAYS, Answer.NO) as runtime:
        for number in range(3):
            await run(runtime, "date +%N > stamp.txt")
            assert len(runtime.asked) == 1, number
        await run(runtime, "date +%s > stamp.txt")
        assert len(runtime.asked) == 2


async def test_a_name_that_looks_made_up_is_one_if_a_program_made_it(tried, ws) -> None:
    name = "what? 100% #1 & %20.md"
    async with tried(Answer.YES) as runtime:
        result = await run(runtime, f"echo x > '{name}'; printf x > $'not utf-8 \\xff\\n'")
        assert result.outcome.status is Status.OK, result.shown
        assert os.path.lexists(ws / name) and len(runtime.asked) == 1


async def test_an_edit_of_the_persons_meanwhile_is_never_overwritten(tried, ws, monkeypatch) -> None:
    async def edits(_question):
        (ws / "a.txt").write_text("the person's\n")
        return Answer.YES

    async with tried(Answer.YES) as runtime:
        monkeypatch.setattr(runtime.approver, "ask", edits)
        result = await run(runtime, "echo x > a.txt; echo y > b.txt")
        assert files(ws) == {"a.txt": b"the person's\n"}
        assert "meanwhile" in result.shown and result.outcome.status is Status.ERROR


async def test_a_line_that_is_stopped_or_dies_changes_nothing(tried, ws) -> None:
    before = files(ws)
    async with tried(Answer.YES, config="[tools.shell]\ntimeout = 0.5\n") as runtime:
        result = await run(runtime, "echo x > new; sleep 30")
        assert result.outcome.status is Status.TIMEOUT and files(ws) == before
        result = await run(runtime, "echo x > new; kill -9 $$")
        assert result.outcome.status is Status.ERROR and files(ws) == before and not runtime.asked


async def test_what_a_failing_command_changed_is_offered_with_its_exit_code(tried, ws) -> None:
    async with tried(Answer.YES) as runtime:
        result = await run(runtime, "echo x > new; exit 3")
        assert result.outcome.exit_code == 3 and (ws / "new").exists() and len(runtime.asked) == 1


async def test_what_a_person_types_and_what_a_rule_allows_runs_for_real(tried, ws) -> None:
    rule = '[[permissions.rules]]\ntool = "shell"\nmatch = "touch *"\naction = "allow"\n'
    async with tried(Answer.NO, config=rule) as runtime:
        await run(runtime, "touch allowed")
        await run(runtime, "echo x > typed", asker=Asker.PERSON)
        assert {"allowed", "typed"} <= files(ws).keys() and not runtime.asked


async def test_readonly_runs_on_trial_and_discards(tried, ws) -> None:
    before = files(ws)
    async with tried(Answer.YES, config='[permissions]\nautonomy = "readonly"\n') as runtime:
        result = await run(runtime, "echo x > new; cat a.txt")
        assert "two" in result.shown and "discarded" in result.shown and result.outcome.status is Status.OK
        refused = await run(runtime, "curl https://example.com/")
        assert refused.outcome.status is Status.DENIED
        assert files(ws) == before and not runtime.asked


async def test_ask_asks_first_and_still_shows_what_it_did(tried, ws) -> None:
    async with tried(Answer.YES, trial="ask") as runtime:
        result = await run(runtime, "echo x > new")
        assert [question.action.call.tool for question in runtime.asked] == ["shell", "keep"]
        assert (ws / "new").exists() and "kept" in result.shown
