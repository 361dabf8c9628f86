"""Ten moments of a chat in a real terminal emulator (tmux), as they stand in docs/screens.md.

LEEWARD_WRITE_SCREENS=1 pytest tests/runtime/repl/test_screens.py      writes that page anew
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from chat_model import serving
from loading import ROOT

PAGE = ROOT / "docs/screens.md"
PATIENCE = 60.0
WRITES = "LEEWARD_WRITE_SCREENS" in os.environ  # the environment of a test has no such names
HEAD = """\
# Ten screens

What the chat looks like at 80 columns and 24 lines. A test drives these in tmux and compares them.
"""
LIVE = re.compile(r"^. ([a-z][a-z ]*) · \d+ s(?: · [\d.k]+ tokens)? · Ctrl-C stops$", re.MULTILINE)
SOCKETS = itertools.count()


class Tmux:
    """A program in a terminal of tmux's."""

    def __init__(self, folder: Path, command: list[str], environment: dict[str, str]) -> None:
        # A socket of its own: a server that is still ending takes nobody.
        self._tmux = ["tmux", "-S", str(folder / f"tmux-{next(SOCKETS)}"), "-f", "/dev/null"]
        around = [f"{name}={value}" for name, value in environment.items()]
        self(
            "new-session",
            "-d",
            "-x",
            "80",
            "-y",
            "24",
            "-c",
            environment["WORK"],
            "env",
            "-i",
            *around,
            *command,
        )

    def __call__(self, *words: str) -> str:
        done = subprocess.run([*self._tmux, *words], capture_output=True, text=True, check=True, timeout=60)
        return done.stdout

    def press(self, *keys: str) -> None:
        self("send-keys", *keys)

    def say(self, text: str) -> None:
        self("send-keys", "-l", text)
        self.see(f" {text}")
        self.press("Enter")

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self("capture-pane", "-p").split("\n")).rstrip("\n")

    def see(self, wanted: str | Callable[[str], object]) -> str:
        deadline = time.monotonic() + PATIENCE
        fits = wanted if callable(wanted) else lambda text: wanted in text
        while not fits(text := self.text):
            assert time.monotonic() < deadline, f"waited for {wanted!r}; the screen shows:\n{text}"
            time.sleep(0.05)
        return text

    def idle(self) -> str:
        return self.see(lambda text: re.search(r"^(?:[a-z]+ )?›\n[^\n]+ · [^\n]+\Z", text, re.MULTILINE))

    def clear(self) -> None:
        self.idle()
        self.press("C-l")
        self.see(lambda text: len(text.split("\n")) == 2)


def moments(at: Tmux, model) -> list[tuple[str, str]]:
    """Drive a chat; return what each moment is, and the screen."""
    screens = []
    at.clear()
    at.say("ferry")
    at.see("The sea is wide.")
    screens.append(("An answer, rendered; what was thought is one line", at.idle()))
    at.clear()
    at.say("slow")
    at.see("Second, which is not")
    at.say("what is next?")
    at("send-keys", "-l", "and th")
    screens.append(
        ("While one waits: the block that comes, a queued message, one that is typed", at.see("» and th"))
    )
    at.press("C-c")
    at.see("You said: what is next?")
    at.press("C-u")
    screens.append(("Stopped: what came is kept, and the queued message was sent", at.idle()))
    at.clear()
    at.say("ponder")
    screens.append(
        (
            "Reasoning, dimmed, while it comes",
            at.see(lambda text: "◦ Let me" in text and "thinking ·" in text),
        )
    )
    at.press("Escape")
    at.see("■ stopped")
    at.clear()
    at.say("edit")
    screens.append(("A question: why first, then the change, answered by one key", at.see("[y]es / [n]o")))
    at.press("d")
    at.see("no, because:")
    at("send-keys", "-l", "it leaves at nine")
    at.press("Enter")
    at.see("Edited.")
    screens.append(("A no that says why: the words go to the model", at.idle()))
    at.clear()
    at.say("big")
    at.see("[s]how all")
    at.press("y")
    refused = at.see(lambda text: re.search(r"no yes before all .*\n +\[s\]how all / ", text))
    screens.append(("No yes before the end was seen", refused))
    at.press("s")
    at.see("q leaves")
    at.press("G")
    screens.append(("All of it in the pager", at.see("+a line of a long file\n\n")))
    at.press("q")
    at.see("[y]es / [n]o")
    at.press("n")
    at.see("Written.")
    at.clear()
    at("send-keys", "-l", "/a")
    screens.append(("Commands are completed", at.see(lambda text: "/audit" in text and "/autonomy" in text)))
    at.press("C-c")
    at.clear()
    at.press("BTab")
    at.see("readonly ›")
    at.say("touch")
    at.see("Made.")
    screens.append(("Another level by Shift-Tab, and a refusal", at.idle()))
    return screens


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_the_screens_are_those_of_the_page(leeward):
    with serving() as model, tempfile.TemporaryDirectory(prefix="hb", dir="/tmp") as name:
        folder = Path(name).resolve()
        (folder / "notes.md").write_text("# Harbour\n\nThe ferry leaves at seven.\n", encoding="utf-8")
        leeward.configure(model.config())
        around = {**leeward.environment, "TERM": "tmux-256color", "WORK": name}
        around.pop("PYTHONWARNINGS")
        at = Tmux(leeward.home, leeward.argv(), around)
        try:
            screens = moments(at, model)
        finally:
            at("kill-server")
    parts = [HEAD]
    for number, (title, screen) in enumerate(screens, 1):
        shown = LIVE.sub(r"✻ \1 · 2 s · 10 tokens · Ctrl-C stops", screen.replace(name, "/home/ann/harbour"))
        parts.append(f"## {number}. {title}\n\n```text\n{shown}\n```\n")
    page = "\n".join(parts)
    if WRITES:
        PAGE.write_text(page, encoding="utf-8")
    assert page == PAGE.read_text(encoding="utf-8")
