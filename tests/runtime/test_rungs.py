"""The available rung is found by a real run, remembered, and forgotten when it fails."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from leeward.runtime.sandbox import KnownRungs
from leeward.security.call import Status
from leeward.security.kinds import Runs
from leeward.security.ports import Answer
from leeward.security.sandbox import SandboxLevel
from leeward.tools.process import children
from leeward.tools.sandbox import TrialUnavailable, probe_grounds
from leeward.tools.sandbox import sandbox as sandbox_module
from leeward.tools.sandbox import trial_probe as probe_module


@pytest.fixture
def rungs(tmp_path) -> KnownRungs:
    return KnownRungs(tmp_path / "rungs.json")


def test_what_was_found_is_known_until_it_is_forgotten(rungs) -> None:
    assert rungs.found("a") is Runs.REAL
    rungs.remember("a", Runs.TRIAL)
    rungs.remember("b", Runs.READ_ONLY)
    assert rungs.found("a") is Runs.TRIAL and rungs.found("b") is Runs.READ_ONLY
    rungs.forget("a")
    rungs.forget("unknown")
    assert rungs.found("a") is Runs.REAL and KnownRungs(rungs.file).found("b") is Runs.READ_ONLY
    assert [*rungs.file.parent.iterdir()] == [rungs.file]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"a": 1}', b"\xff\xfe", b"null", b'{"a": {"b": 1}}'])
def test_a_damaged_file_knows_nothing_and_is_written_anew(rungs, content) -> None:
    rungs.file.write_bytes(content)
    assert rungs.found("a") is Runs.REAL
    rungs.remember("a", Runs.TRIAL)
    assert rungs.found("a") is Runs.TRIAL


def test_a_file_that_cannot_be_written_is_no_failure(tmp_path) -> None:
    rungs = KnownRungs(tmp_path / "gone" / "rungs.json")
    rungs.remember("a", Runs.TRIAL)
    rungs.forget("a")
    assert rungs.found("a") is Runs.REAL


def test_so_much_is_remembered_and_no_more(rungs) -> None:
    for number in range(230):
        rungs.remember(str(number), Runs.TRIAL)
    assert rungs.found("0") is Runs.REAL and rungs.found("229") is Runs.TRIAL


def test_the_grounds_stay_the_same_and_are_others_elsewhere(tmp_path: Path, monkeypatch) -> None:
    here, level = str(tmp_path), "auto"
    grounds = probe_grounds(here, level)
    assert grounds == probe_grounds(f"{here}/.", level) == probe_grounds(here, level)
    (tmp_path / "other").mkdir()
    others = {probe_grounds(str(tmp_path / "other"), level), probe_grounds(here, "landlock")}
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    others.add(probe_grounds(here, level))
    assert len(others) == 3 and grounds not in others


def test_grounds_are_told_where_there_is_no_list_of_mounts(tmp_path, monkeypatch) -> None:
    def none(_):
        raise FileNotFoundError

    monkeypatch.setattr(probe_module, "mounts", none)
    assert probe_grounds(str(tmp_path), "auto")


async def test_a_run_that_cannot_be_had_any_more_is_refused_and_probed_anew(
    tmp_path, sessions, monkeypatch
) -> None:
    for is_known in (False, True):
        async with sessions.session(tmp_path, trial="auto", approver=sessions.Answers(Answer.YES)) as runtime:
            if problem := await runtime.sandbox.no_trial_because():
                pytest.skip(f"trial runs are needed: {problem}")
            rungs = KnownRungs.of(runtime.places)
            grounds = probe_grounds(runtime.pipeline.session.policy.workspace, "auto")
            assert rungs.found(grounds) is Runs.TRIAL
            if is_known:

                async def gone(*_):
                    raise TrialUnavailable("the kernel says no")

                monkeypatch.setattr(sandbox_module, "run_tried", gone)
                result = await runtime.call("shell", {"command": "touch x"})
                assert result.outcome.status is Status.ERROR and "the kernel says no" in result.shown
                assert rungs.found(grounds) is Runs.REAL and not (tmp_path / "ws" / "x").exists()


@pytest.mark.parametrize("command", ["touch x", "cat f"])
async def test_a_sandbox_that_worked_before_is_first_used_by_a_command(tmp_path, sessions, command) -> None:
    answers = sessions.Answers(*[Answer.YES] * 3)
    for is_known in (False, True):
        before = children(os.getpid())
        async with sessions.session(tmp_path, trial="auto", approver=answers) as runtime:
            if problem := await runtime.sandbox.no_trial_because():
                pytest.skip(f"trial runs are needed: {problem}")
            (tmp_path / "ws" / "f").write_text("what is in f")
            rungs = KnownRungs.of(runtime.places)
            grounds = probe_grounds(runtime.pipeline.session.policy.workspace, "auto")
            if is_known:
                assert children(os.getpid()) == before
                assert runtime.sandbox.level is SandboxLevel.BUBBLEWRAP
                runtime.sandbox._program = "/bin/false"
                result = await runtime.call("shell", {"command": command})
                assert result.outcome.status is Status.ERROR and "could not be made" in result.shown
                assert "what is in f" not in result.shown and not (tmp_path / "ws" / "x").exists()
                assert rungs.found(grounds) is Runs.REAL
            assert (rungs.found(grounds) is Runs.TRIAL) is not is_known
