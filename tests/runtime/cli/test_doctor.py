"""`leeward doctor` says what a command and a model will see, each with what to do about it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest


def findings(leeward, *words: str) -> dict[str, list[dict[str, object]]]:
    """Return what was found, by what was looked at."""
    found: dict[str, list[dict[str, object]]] = {}
    for one in leeward("doctor", *words, "--output", "json").json["data"]["findings"]:
        found.setdefault(one["name"], []).append(one)
    return found


def test_everything_that_is_not_well_says_what_to_do_where_anything_can_be_done(leeward, monkeypatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    found = findings(leeward)
    assert {"sandbox", "programs", "git", "model", "prompt", "database", "terminal", "clock"} <= found.keys()
    assert found["model"][0]["remedy"] == "leeward config init finds one"
    assert "tools and the prompt: some " in str(found["prompt"][0]["said"])
    assert found["clock"][0]["well"] is True and found["clock"][0]["remedy"] is None
    shown = leeward("doctor").out
    assert "\n                    -> leeward config init finds one\n" in shown


def test_who_commits_is_found_in_the_settings_of_git(leeward) -> None:
    (one,) = findings(leeward)["git"]
    assert one["well"] is None and "git config --global user.name" in str(one["remedy"])
    (leeward.home / ".gitconfig").write_text("[user]\n\tname = Ann\n\temail = ann@harbour.example\n")
    (one,) = findings(leeward)["git"]
    assert one["well"] is True and one["remedy"] is None


def test_an_environment_of_the_workspace_is_named(leeward) -> None:
    assert "python" not in findings(leeward)
    (leeward.workspace / ".venv").mkdir()
    assert ".venv in the workspace" in str(findings(leeward)["python"][0]["said"])


@pytest.mark.parametrize(("model", "well"), [("offline", True), ("nobody:x", False), ("openai:x", False)])
def test_a_model_that_cannot_answer_is_a_problem(leeward, model, well) -> None:
    (one,) = findings(leeward, "--model", model)["model"]
    assert one["well"] is well and (one["remedy"] is None) is well
    assert leeward("doctor", "--model", model).code == (0 if well else 4)


def test_a_clock_that_is_years_behind_is_a_problem(leeward, monkeypatch) -> None:
    monkeypatch.setattr("leeward.runtime.diagnosis.findings._RELEASED", datetime.max.replace(tzinfo=UTC))
    ran = leeward("doctor")
    assert ran.code == 4 and "PROBLEM  clock" in ran.out and "certificates" in ran.out


@pytest.mark.parametrize(("mode", "well"), [(0o600, True), (0o640, False), (0o604, False), (0o620, False)])
def test_a_key_file_that_others_can_use_is_a_problem(leeward, mode, well) -> None:
    file = leeward.home / "forge key"
    file.write_text("fake-key-of-a-forge")
    file.chmod(mode)
    leeward.configure(f'[secrets.FORGE]\nfile = "{file}"\nhosts = ["forge.example"]\nprograms = ["forge"]\n')
    (one,) = findings(leeward)["keys"]
    assert one["well"] is well and one["remedy"] == (None if well else f"chmod 600 '{file}'")
