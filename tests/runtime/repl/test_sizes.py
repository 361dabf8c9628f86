"""At three sizes of a real terminal: each key of a question, a pager, what is stopped and restored."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from chat_model import serving
from tmux import Tmux

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]
SIZES = [(80, 24), (120, 40), (40, 24)]
NEEDS_TRIALS = pytest.mark.skipif(shutil.which("bwrap") is None, reason="nothing runs on trial without bwrap")


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="hb", dir="/tmp") as name:
        (Path(name) / "notes.md").write_text("# Harbour\n\nThe ferry leaves at seven.\n", encoding="utf-8")
        yield Path(name).resolve()


@contextmanager
def chatting(
    leeward, folder: Path, size=(80, 24), command=(), terminal="tmux-256color"
) -> Iterator[tuple[Tmux, Any]]:
    with serving() as model:
        leeward.configure(model.config())
        around = {**leeward.environment, "TERM": terminal, "WORK": str(folder), "PS1": "$ ", "ENV": ""}
        around.pop("PYTHONWARNINGS")
        at = Tmux(leeward.home, [*command] or leeward.argv(), around, size)
        try:
            yield at, model
        finally:
            at("kill-server")


def asked(at: Tmux, line: str, key: str, wanted: str = "[y]es") -> str:
    """Say a line, wait for its question, and press a key; return the screen that showed the question."""
    at.clear()
    at.say(line)
    screen = at.see(wanted)
    at.press(key)
    return screen


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_each_key_at_a_question(leeward, folder, size) -> None:
    poem = folder / "poem.txt"
    with chatting(leeward, folder, size) as (at, model):
        screen = asked(at, "write", "y")
        at.see("Written.")
        assert poem.exists() and max(map(len, screen.split("\n"))) <= size[0]
        assert screen.index("asks:") < screen.index("wants to run:")
        poem.unlink()
        asked(at, "write", "n")
        at.see("said no" if size[0] > 40 else "no ·")
        asked(at, "write", "d")
        at.see("no, because:")
        at("send-keys", "-l", "prose, please")
        at.press("Enter")
        at.see("Written.")
        assert "prose, please" in str(model.requests[-1]["messages"][-1])
        asked(at, "write", "x")
        at.see("one of the keys")
        at.press("?")
        at.see("/why explains")
        at.press("n")
        at.see("Written.")
        assert not poem.exists()
        asked(at, "write", "a")
        at.see("Written.")
        at.clear()
        at.say("write")
        at.see("Written.")
        assert poem.exists()
        at.clear()
        at.say("three")
        # Three fit together where there are columns enough; after that each is asked about by itself.
        is_together = "to all" in at.see(lambda text: "[A]lways" in text or "[o]ne by one" in text)
        assert is_together is (size[0] > 40)
        if is_together:
            at.press("o")
            at.see("[A]lways")
        at.press("A")
        for prompt in ("allow write", "where:", "until:"):
            at.see(prompt)
            at.press("Enter")
        for name in ("b.txt", "c.txt") if is_together else ("c.txt",):
            at.see(
                lambda text, name=name: (
                    name in text.rpartition("wants to run:")[2]
                    and text.split("\n")[-2].endswith(("[?]", "one"))
                )
            )
            at.press("n")
        at.see("Three written.")
        assert (folder / "a.txt").exists() and not (folder / "b.txt").exists()
        if size[0] == 120:
            (folder / "a.txt").unlink()
            screen = asked(at, "three", "y", "[o]ne by one")
            assert "question 2 of 2" in screen, "a rule covers the first by now"
            at.see("Three written.")
            assert (folder / "a.txt").exists() and (folder / "b.txt").exists()
        at.clear()
        at.say("both")
        at.see("[o]ne by one")
        at.press("y")
        at.see("Both read.")
        asked(at, "big", "y", "[s]how all")
        at.see("no yes before")
        at.press("s")
        at.see("q leaves")
        at.press("G")
        at.see(lambda text: re.search("^ line [12][0-9][0-9] of", text, re.MULTILINE))
        at.press("q")
        at.see("[y]es")
        at.press("y")
        at.see("Written.")
        assert len((folder / "big.txt").read_text().split("\n")) == 201


@NEEDS_TRIALS
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_what_a_trial_changed_is_walked_and_kept_or_discarded(leeward, folder, size) -> None:
    line = "run sh -c 'echo a>x; rm notes.md; mkdir d; echo b>d/y'"
    leeward.trial = "auto"
    with chatting(leeward, folder, size) as (at, _):
        for key, is_kept in (("n", False), ("y", True)):
            at.clear()
            at("send-keys", "-l", line)
            at.press("Enter")
            at.see("[y] keep" if size[1] > 24 or size[0] > 40 else "[s]how all")
            at.press("s")
            screen = at.see("q leaves")
            assert "keep what it changed" in screen
            at.press("G")
            at.press("q")
            at.see("[y] keep")
            at.press(key)
            at.see("That ran.")
            assert (folder / "x").exists() is is_kept and (folder / "notes.md").exists() is not is_kept


def processes(word: str) -> list[str]:
    found = subprocess.run(["pgrep", "-f", word], capture_output=True, text=True, check=False)
    return found.stdout.split()


@NEEDS_TRIALS
def test_ctrl_c_ends_a_child_that_will_not_and_what_came_is_kept(leeward, folder) -> None:
    line = """run sh -c 'trap "" TERM INT HUP; (trap "" TERM; exec sleep 98761) & echo begun; sleep 98761'"""
    with chatting(leeward, folder) as (at, _):
        at("send-keys", "-l", line)
        at.press("Enter")
        at.see("[y]es")
        at.press("y")
        at.see("begun")
        at.press("C-c")
        screen = at.idle()
        assert "■ stopped" in screen and "begun" in screen, screen
        assert not processes("sleep 98761")


def test_a_window_that_changes_while_an_answer_comes(leeward, folder) -> None:
    with chatting(leeward, folder) as (at, model):
        at.idle()
        at.say("slow")
        at.see("Second, which is not")
        for columns, lines in ((50, 20), (120, 40), (40, 15)):
            at("resize-window", "-x", str(columns), "-y", str(lines))
            at.see("Second, which is")
        model.release.set()
        at.see("finished.")
        assert at.idle().count("First paragraph.") == 1


@pytest.mark.parametrize(("number", "code"), [("TERM", 143), ("HUP", 143)])
def test_a_signal_leaves_the_terminal_as_it_was(leeward, folder, number, code) -> None:
    with chatting(leeward, folder, command=["sh", "-i"]) as (at, _):
        at.see("$")
        words = " ".join(leeward.argv())
        at("send-keys", "-l", f"clear; stty -a > before; {words}; echo left $?; stty -a > after")
        at.press("Enter")
        at.idle()
        at.say("slow")
        at.see("Second, which is not")
        (shell,) = at("list-panes", "-F", "#{pane_pid}").split()
        (child,) = subprocess.run(
            ["pgrep", "-P", shell], capture_output=True, text=True, check=True
        ).stdout.split()
        subprocess.run(["kill", f"-{number}", child], check=True)
        at.see(lambda text: re.search(rf"left {code}\n", text))
        at("send-keys", "-l", "echo ec''hoed")
        at.see("echo ec''hoed")
        at.press("Enter")
        at.see("echoed")
    assert (folder / "before").read_text() == (folder / "after").read_text()


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_rendering_completion_and_paste(leeward, folder, size) -> None:
    with chatting(leeward, folder, size) as (at, model):
        at.clear()
        at.say("ferry")
        at.see("The sea is wide.")
        screen = at.idle()
        assert max(map(len, screen.split("\n"))) <= size[0]
        assert "**" not in screen and "```" not in screen and "|---" not in screen
        assert "def leaves(hour: int) -> bool:" in screen
        at.clear()
        at("send-keys", "-l", "/aut")
        at.press("Tab")
        at.see("/autonomy")
        at("send-keys", "-l", " read")
        at.press("Tab")
        at.see("/autonomy readonly")
        at.press("C-c")
        at.clear()
        at("send-keys", "-l", "see @not")
        at.press("Tab")
        at.see("see @notes.md")
        at.press("C-c")
        at.clear()
        at("set-buffer", "/exit\nsecond line")
        at("paste-buffer", "-p")
        at.see("second line")
        at.press("Enter")
        at.see("You said: /exit")
        at("set-buffer", "a long line\n" * 200)
        at("paste-buffer", "-p")
        at.see("[paste 1: 201 lines]")
        at.press("Enter")
        at.see("You said: [paste 1: 201 lines]")
        assert str(model.requests[-1]["messages"][-1]["content"]).count("a long line") == 200


def test_a_value_is_trusted_and_a_rule_is_widened(leeward, folder) -> None:
    (folder / "links.md").write_text("See https://docs.example/guide for more.\n", encoding="utf-8")
    with chatting(leeward, folder, (120, 40)) as (at, _):
        asked(at, "link", "t", "[t]rust the value")
        at.see("Tried.")
        assert "allowed in this session: " in at.text
        at.clear()
        at.say("link")
        at.see("Tried.")
        assert "[t]rust" not in at.text
        asked(at, "write", "w", "[w]ider")
        for prompt in ("allow write", "where:", "until:"):
            at.see(prompt)
            at.press("Enter")
        at.see("Written.")
        at.clear()
        at.say("big")
        at.see("Written.")
        assert (folder / "big.txt").exists(), "a wider rule covers the other file"


def test_a_terminal_that_can_nothing(leeward, folder) -> None:
    with chatting(leeward, folder, terminal="dumb") as (at, model):
        at.see("›")
        at("send-keys", "-l", "ferry")
        at.press("Enter")
        at.see("The sea is wide.")
        at("send-keys", "-l", "write")
        at.press("Enter")
        at.see("[y]es")
        at("send-keys", "-l", "y")
        at.press("Enter")
        at.see("Written.")
        assert (folder / "poem.txt").exists()
        assert not re.search(r"[\x1b\x07]|\[\d+m", at.text)
        at("send-keys", "-l", "/exit")
        at.press("Enter")
