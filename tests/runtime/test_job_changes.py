"""What a command changes in the background: shown with /diff and undone with /undo once it has ended."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from leeward.runtime.slash import dispatch, parse
from leeward.security.call import Asker
from leeward.security.ports import Answer

WORKS = (
    "echo two > a.txt; mkdir out; echo x > out/new; while [ ! -e go ]; do sleep 0.05; done; echo end >> a.txt"
)


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    made = tmp_path.resolve() / "ws"
    made.mkdir()
    (made / "a.txt").write_text("one\n")
    return made


async def ended(runtime) -> None:
    with trio.fail_after(60):
        for job in runtime.jobs.all():
            await job.over.wait()


async def told(runtime, words: str) -> str:
    return (await dispatch(runtime, parse(words))).text


async def begun(runtime, ws: Path, line: str = WORKS) -> None:
    arguments = {"command": line, "background": True}
    started = await runtime.call("shell", arguments, asker=Asker.MODEL)
    assert started.error is None, started.shown
    with trio.fail_after(60):
        while not (ws / "out" / "new").exists():
            await trio.sleep(0.02)


async def test_changes_of_a_job_are_one_step_once_it_has_ended(sessions, tmp_path, ws) -> None:
    person = sessions.Answers(Answer.YES)
    async with sessions.session(tmp_path, approver=person) as runtime:
        await begun(runtime, ws)
        assert [question.action.call.tool for question in person.questions] == ["shell"], "it asks first"
        assert "job_1" in await told(runtime, "/diff"), "it is said that more is to come"
        assert "job_1" in await told(runtime, "/undo")
        assert (ws / "a.txt").read_text() == "two\n", "nothing is taken back below a job's feet"
        (ws / "go").touch()
        await ended(runtime)
        shown = await told(runtime, "/diff")
        assert "-one" in shown and "+two" in shown and "+end" in shown and "out/new: new file" in shown
        assert "undone" in await told(runtime, "/undo")
        assert (ws / "a.txt").read_text() == "one\n" and not (ws / "out").exists()
        assert "done again" in await told(runtime, "/redo")
        assert (ws / "out" / "new").exists()


async def test_of_a_job_that_was_stopped_what_it_did_until_then_is_undone(sessions, tmp_path, ws) -> None:
    async with sessions.session(tmp_path, approver=sessions.Answers(Answer.YES)) as runtime:
        await begun(runtime, ws)
        await told(runtime, "/jobs stop job_1")
        await ended(runtime)
        assert "undone" in await told(runtime, "/undo")
        assert (ws / "a.txt").read_text() == "one\n" and not (ws / "out").exists()


async def test_after_the_session_it_can_still_be_undone(sessions, tmp_path, ws) -> None:
    person = sessions.Answers(Answer.YES)
    async with sessions.session(tmp_path, says=["hi"], approver=person) as runtime:
        async with runtime.run("hello") as events:
            [event async for event in events]
        await begun(runtime, ws)
        first = runtime.session_id
    async with sessions.session(tmp_path, approver=person) as runtime:
        await runtime.resume(first)
        assert "undone" in await told(runtime, "/undo")
        assert (ws / "a.txt").read_text() == "one\n" and not (ws / "out").exists()
