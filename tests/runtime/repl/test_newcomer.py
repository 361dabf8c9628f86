"""A newcomer's minute, the trust question, and every command, each in a real terminal emulator (tmux)."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from chat_model import serving
from leeward.runtime.slash import COMMANDS
from loading import ROOT
from tmux import Tmux

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


@contextmanager
def terminal(leeward, folder: Path, command: list[str]) -> Iterator[Any]:
    around = {**leeward.environment, "TERM": "tmux-256color", "WORK": str(folder), "PS1": "$ ", "ENV": ""}
    around.pop("PYTHONWARNINGS")
    around["PATH"] = f"{Path(sys.executable).parent}:{around['PATH']}"
    at = Tmux(leeward.home, command, around)
    try:
        yield at
    finally:
        at("kill-server")


@pytest.fixture
def folder() -> Iterator[Path]:
    # A short name: the path of a socket has little room, and the screen 80 columns.
    with tempfile.TemporaryDirectory(prefix="hb", dir="/tmp") as name:
        yield Path(name).resolve()


def typed(at, line: str) -> None:
    """Type a line at the shell's prompt, which has no margin."""
    at("send-keys", "-l", line)
    at.press("Enter")


def test_from_nothing_to_a_first_answer(leeward, folder) -> None:
    server = [sys.executable, str(ROOT / "bench" / "model_server.py")]
    with subprocess.Popen(server, stdout=subprocess.PIPE, text=True) as model:
        assert model.stdout is not None
        url = model.stdout.readline().strip()
        try:
            with terminal(leeward, folder, ["sh", "-i"]) as at:
                at.see("$")
                typed(at, "leeward -p hello")
                at.see("leeward config init")
                typed(at, f"clear; leeward config init --url {url}")
                at.see("local:answer answers.")
                typed(at, "clear; leeward")
                at.see("local:answer")
                at.idle()
                at.say("hello")
                at.see(lambda text: re.search(r"^(?!.*(?:hello|local:)).*\w{2,}", text, re.MULTILINE))
                screen = at.idle()
                assert "offline" not in screen and "error" not in screen.lower()
                at.say("/cost")
                assert re.search(r"this session +[1-9]\d* tokens in, [1-9]", at.see("this session"))
        finally:
            model.kill()
    assert "local:answer" in leeward.config.read_text()


def test_the_trust_question_accepted_refused_and_changed(leeward, folder) -> None:
    (folder / "AGENTS.md").write_text("Use tabs.\n")
    leeward.configure('[llm]\nmodel = "offline"\n')

    def asked(key: str, *wanted: str) -> None:
        with terminal(leeward, folder, leeward.argv()) as at:
            screen = at.see("[y]es / [n]o")
            assert all(one in screen for one in ("AGENTS.md", *wanted)), screen
            at.press(key)
            at.idle()

    def not_asked() -> None:
        with terminal(leeward, folder, leeward.argv()) as at:
            assert "Trust this folder" not in at.idle()

    asked("y", "Trust this folder? It brings:")
    not_asked()
    (folder / "AGENTS.md").write_text("Obey me.\n")
    asked("n", "Trust this folder still?", "it has changed")
    (folder / "AGENTS.md").write_text("Obey me again.\n")
    not_asked()
    headless = leeward("-p", "hello", "--workspace", str(folder), "--model", "offline")
    assert headless.code == 0 and "Trust this folder" not in headless.err


# What is typed, and what of the answer is waited for.
ONCE = {
    "help": ("/help rights", "/permissions [allow"),
    "status": ("/status", "autonomy"),
    "todo": ("/todo", "the model has no task list"),
    "config": ("/config llm", "llm."),
    "skill": ("/skill", "skill"),
    "tools": ("/tools", "trusted"),
    "model": ("/model", ":"),
    "cost": ("/cost", "this session"),
    "context": ("/context", "tokens go with"),
    "permissions": ("/permissions", "no rules"),
    "autonomy": ("/autonomy", "autonomy supervised"),
    "trust": ("/trust", "built in"),
    "mcp": ("/mcp", "no servers"),
    "labels": ("/labels", "nothing was read"),
    "browse": ("/browse https://127.0.0.1/", "refused"),
    "why": ("/why 1", "fetch"),
    "audit": ("/audit 3", "fetch"),
    "show": ("/show 99", "nothing is kept under 99"),
    "overflow": ("/overflow", "nothing was too long"),
    "memory": ("/memory", "no notes"),
    "undo": ("/undo", "undo"),
    "redo": ("/redo", "undone"),
    "diff": ("/diff", "no call"),
    "jobs": ("/jobs", "nothing runs"),
    "init": ("/init", "Two looked at."),
    "copy": ("/copy", "characters were handed to"),
    "doctor": ("/doctor", "clock"),
    "plan": ("/plan sail", "You said: sail"),
    "export": ("/export a.html", "written to"),
    "compact": ("/compact", ""),
    "sessions": ("/sessions", ""),
    "fork": ("/fork", ""),
    "clear": ("/clear", "are forgotten"),
    "new": ("/new", "session "),
    "resume": ("/resume s_nothing", "no session"),
}


def answer_of(screen: str, line: str) -> str:
    """What stands between a command and the next prompt; a line break where nothing does yet."""
    if f"› {line}" not in screen:  # Scrolled away by its answer.
        return screen
    found = re.search(rf"› {re.escape(line)}\n(.*\S.*)\n(?:[a-z]+ )?›\n[^\n]+\Z", screen, re.DOTALL)
    return found[1] if found is not None else "\n"


@pytest.mark.slow
def test_every_command_once(leeward, folder) -> None:
    assert {command.name for command in COMMANDS} == {*ONCE, "exit", "editor"}
    with serving() as model:
        leeward.configure(model.config())
        with terminal(leeward, folder, [*leeward.argv(), "--autonomy", "supervised"]) as at:
            for name, (line, wanted) in ONCE.items():
                at.clear()
                at.say(line)
                at.see(
                    lambda text, wanted=wanted, line=line: (
                        answer_of(text, line) != "\n" and wanted in answer_of(text, line)
                    )
                )
                screen = at.idle()
                assert "Traceback" not in screen and "there is no /" not in screen, name
            at.clear()
            at.say("/plan drop")
            at.say("/exit")
    assert (folder / "a.html").exists()


def test_the_answer_is_copied_and_the_next_message_written_in_an_editor(leeward, folder) -> None:
    editor = folder / "editor"
    editor.write_text('#!/bin/sh\necho "written elsewhere" > "$1"\n')
    editor.chmod(0o755)
    with serving() as model:
        leeward.configure(model.config())
        with terminal(leeward, folder, ["env", f"EDITOR={editor}", *leeward.argv()]) as at:
            at.idle()
            at("set-option", "-s", "set-clipboard", "on")
            at.say("/copy")
            at.see("there is no answer yet")
            at.say("hello")
            at.see("You said: hello")
            at.idle()
            at.say("/copy")
            at.see("characters were handed to the terminal's clipboard")
            assert at("show-buffer") == "You said: hello"
            at.clear()
            at.say("/editor")
            at.see("› written elsewhere")
            at.press("Enter")
            at.see("You said: written elsewhere")


def test_a_number_on_the_screen_is_explained(leeward, folder) -> None:
    leeward.configure('[llm]\nmodel = "offline"\n')
    with terminal(leeward, folder, leeward.argv()) as at:
        at.idle()
        at.say("/browse https://127.0.0.1/")
        at.see("· /why 1")
        at.say("!true")
        at.idle()
        at.clear()
        at.say("/why 1")
        at.see("fetch")
        screen = at.idle()
        assert "fetch" in screen and "true" not in screen


def test_the_configuration_is_edited_as_a_draft_that_is_checked(leeward, folder) -> None:
    editor, file = folder / "my editor", leeward.config
    editor.write_text('#!/bin/sh\ncat "$0.text" > "$1"\nexit "$(cat "$0.code")"\n')
    editor.chmod(0o755)
    leeward.configure("[agent]\nmax_turns = 7  # mine\n")
    draft = file.with_name(f"{file.name}.draft")

    def edits(text: str, code: int = 0) -> None:
        editor.with_name("my editor.text").write_text(text)
        editor.with_name("my editor.code").write_text(str(code))
        typed(at, f"clear; EDITOR=\"'{editor}'\" leeward config edit; echo code $?")

    with terminal(leeward, folder, ["sh", "-i"]) as at:
        at.see("$")
        edits("[agent]\nmax_turn = 9\n")
        screen = at.see("code 2")
        assert "max_turn" in screen and "did you mean" in screen
        assert "max_turns = 7" in file.read_text() and draft.read_text() == "[agent]\nmax_turn = 9\n"
        assert draft.stat().st_mode & 0o777 == 0o600
        edits("[agent]\nmax_turns = 9\n", 3)
        at.see("code 1")
        assert "max_turns = 7" in file.read_text()
        edits("[agent]\nmax_turns = 9\n")
        at.see("code 0")
        assert file.read_text() == "[agent]\nmax_turns = 9\n" and not draft.exists()
        edits("[agent]\nmax_turns = 9\n")
        at.see("nothing was changed")
        typed(at, "clear; EDITOR=/nowhere leeward config edit; echo code $?")
        at.see("code 4")
        assert file.read_text() == "[agent]\nmax_turns = 9\n"
    assert leeward("config", "edit").code == 4


def test_a_session_is_picked_from_a_list(leeward, folder) -> None:
    with serving() as model:
        leeward.configure(model.config())
        with terminal(leeward, folder, leeward.argv()) as at:
            at.idle()
            at.say("/resume")
            at.see("this workspace has no other session")
            for word in ("zeroth", "first", "second"):
                at.say(word)
                at.see(f"You said: {word}")
                at.idle()
                at.say("/new")
                at.see("session s_")
                at.clear()
            at.say("/resume")
            screen = at.see("which? [1]")
            assert re.search(r" 1  s_.* second\n +2  s_.* first\n +3  s_.* zeroth\n", screen)
            typed(at, "2")
            at.see("You said: first")
            at.clear()
            at.say("/resume")
            at.see("which? [1]")
            at.press("C-c")
            at.idle()
