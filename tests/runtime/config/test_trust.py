"""Trust in what a workspace brings holds for its contents: accepted, refused, changed, headless."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from leeward.runtime.config import Trust, brought_by, purpose_of, set_trusted, trust_of, trusted_now
from leeward.runtime.config.trust import FILE

READONLY = '[permissions]\nautonomy = "readonly"\n'
WRITE = ("check", "write", '{"path": "a", "content": "b"}', "--output", "json")
OFFLINE = ("-p", "hello", "--model", "offline")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    workspace = tmp_path.resolve() / "work"
    workspace.mkdir(exist_ok=True)
    return workspace


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path.resolve() / "data"


def bring(folder: Path, **files: str) -> None:
    for name, text in files.items():
        place = name.replace("__", "/").replace("_md", ".md").replace("_toml", ".toml")
        path = folder / (f".{place[1:]}" if place.startswith("_") else place)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_a_folder_that_brings_nothing_is_not_asked_about(folder: Path, data: Path) -> None:
    bring(folder, README_md="x", pkg__notes_md="y", AGENTS_md=" \n")
    assert trust_of(data, folder) == Trust()


def test_what_it_brings_is_named_until_it_is_answered_for(folder: Path, data: Path) -> None:
    bring(folder, AGENTS_md="a", pkg__CLAUDE_md="b", node_modules__x__AGENTS_md="c")
    (folder / ".leeward" / "commands").mkdir(parents=True)
    (folder / ".leeward" / "commands" / "fix.md").write_text("Fix it.")
    (folder / ".mcp.json").write_text("{}")
    trust = trust_of(data, folder)
    assert trust.unanswered == ("AGENTS.md", ".mcp.json", ".leeward/commands/fix.md")
    assert trust.answer is None and not trust.files and not trust.reads_configuration
    set_trusted(data, folder, True)
    trust = trust_of(data, folder)
    assert trust.answer is True and trust.unanswered == () and not trust.changed
    assert set(trust.files) == {"AGENTS.md", ".mcp.json", ".leeward/commands/fix.md", "pkg/CLAUDE.md"}
    assert trust.files == trusted_now(folder).files == brought_by(folder, nested=True)


def test_a_yes_holds_for_these_contents_alone(folder: Path, data: Path) -> None:
    bring(folder, AGENTS_md="a", CLAUDE_md="b", pkg__AGENTS_md="c", _leeward__config_toml="#")
    set_trusted(data, folder, True)
    bring(folder, CLAUDE_md="other", pkg__AGENTS_md="other", LEEWARD_md="new")
    trust = trust_of(data, folder)
    assert (
        trust.answer is True and trust.changed and set(trust.files) == {"AGENTS.md", ".leeward/config.toml"}
    )
    assert trust.reads_configuration
    assert sorted(trust.unanswered) == ["CLAUDE.md", "LEEWARD.md", "pkg/AGENTS.md"]
    bring(folder, CLAUDE_md="b", pkg__AGENTS_md="c")
    (folder / "LEEWARD.md").unlink()
    assert trust_of(data, folder).unanswered == (), "as it was again"
    (folder / "AGENTS.md").unlink()
    assert trust_of(data, folder).unanswered == (), "a file that is gone does nothing"


def test_a_no_holds_whatever_comes_later(folder: Path, data: Path) -> None:
    bring(folder, AGENTS_md="a")
    set_trusted(data, folder, False)
    bring(folder, AGENTS_md="b", CLAUDE_md="c")
    assert trust_of(data, folder) == Trust(answer=False)


@pytest.mark.parametrize("answer", [True, {"trusted": True, "files": {"AGENTS.md": 1}}])
def test_an_answer_of_an_early_release_is_for_no_contents(folder: Path, data: Path, answer: object) -> None:
    data.mkdir()
    (data / FILE).write_text(json.dumps({str(folder): answer}))
    (data / FILE).chmod(0o600)
    assert trust_of(data, folder).unanswered == ()
    bring(folder, AGENTS_md="a")
    assert trust_of(data, folder).unanswered == ("AGENTS.md",)


def test_files_that_lie_elsewhere_are_not_brought(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "x.md").write_text("not yours")
    (folder / "AGENTS.md").symlink_to(tmp_path / "x.md")
    (folder / ".leeward").mkdir()
    (folder / ".leeward" / "commands").symlink_to(tmp_path)
    os.mkfifo(folder / "CLAUDE.md")
    (folder / "LEEWARD.md").mkdir()
    assert brought_by(folder, nested=True) == {}
    (folder / ".leeward" / "config.toml").symlink_to(tmp_path / "nowhere")
    assert list(brought_by(folder)) == [".leeward/config.toml"], "it is asked about, not passed over"


def test_each_file_has_a_purpose() -> None:
    assert purpose_of("pkg/AGENTS.md") == "instructions for the model, for pkg/; they permit nothing"
    assert "can only tighten" in purpose_of(".leeward/config.toml")
    assert "/fix" in purpose_of(".leeward/commands/fix.md")


# ------------------------------------------------------------------ headless


def test_headless_instructions_are_left_out_and_named_until_somebody_answers(leeward) -> None:
    bring(leeward.workspace, AGENTS_md="Be brief.")
    ran = leeward(*OFFLINE)
    assert ran.code == 0 and "AGENTS.md: not read; --trust-workspace" in ran.err
    for words in ((*OFFLINE, "--trust-workspace"), ("config", "trust"), OFFLINE):
        ran = leeward(*words)
        assert ran.code == 0 and "not read" not in ran.err
    bring(leeward.workspace, AGENTS_md="Be brief, and obey me.")
    assert "AGENTS.md: not read" in leeward(*OFFLINE).err
    assert leeward("config", "distrust").code == 0
    assert "AGENTS.md" not in leeward(*OFFLINE).err, "a no was an answer"


def test_headless_configuration_is_an_open_question_also_when_it_changed(leeward) -> None:
    bring(leeward.workspace, _leeward__config_toml=READONLY)
    assert leeward(*WRITE).json["error"]["code"] == "INPUT_REQUIRED"
    assert leeward(*WRITE, "--trust-workspace").json["data"]["rule"] == "readonly"
    assert leeward(*WRITE).code == 4, "the flag answers for one run"
    leeward("config", "trust")
    assert leeward(*WRITE).json["data"]["rule"] == "readonly"
    (leeward.workspace / ".leeward" / "config.toml").write_text("# looser now\n")
    ran = leeward(*WRITE)
    assert (ran.code, ran.json["error"]["code"]) == (4, "INPUT_REQUIRED")
    assert "--trust-workspace" in ran.json["error"]["suggestion"]


def test_config_trust_lists_what_it_answers_for(leeward) -> None:
    bring(leeward.workspace, AGENTS_md="a", pkg__AGENTS_md="b")
    out = leeward("config", "trust").out
    assert "what it brings is read as it is now" in out
    assert "  AGENTS.md " in out and "  pkg/AGENTS.md " in out


# ------------------------------------------------------------------ at a terminal


def test_the_question_is_asked_once_and_again_when_it_changed(tty, leeward) -> None:
    bring(leeward.workspace, AGENTS_md="Be brief.", CLAUDE_md="Be kind.", pkg__AGENTS_md="Be quick.")
    at = tty()
    seen = at.see("[y]es / [n]o?")
    assert "Trust this folder? It brings:" in seen
    assert "AGENTS.md      instructions for the model; they permit nothing" in seen and "CLAUDE.md" in seen
    assert "pkg/AGENTS.md  instructions for the model, for pkg/" in seen
    at.type("y")
    at.prompt()
    at.type("/exit", "\r")
    assert at.ended() == 0
    again = tty()
    assert "Trust this folder" not in again.prompt()
    again.type("/exit", "\r")
    assert again.ended() == 0
    bring(leeward.workspace, CLAUDE_md="Be a pirate \x1b[2J\n")
    third = tty()
    seen = third.see("[y]es / [n]o?")
    assert "Since you did, it has changed:" in seen and "CLAUDE.md" in seen and "AGENTS.md" not in seen
    third.type("n")
    third.prompt()
    third.type("/exit", "\r")
    assert third.ended() == 0
    fourth = tty()
    assert "Trust this folder" not in fourth.prompt(), "a no holds"
