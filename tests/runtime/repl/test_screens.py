"""Ten moments of a chat in a real terminal emulator (tmux), as they stand in docs/screens.md.

LEEWARD_WRITE_SCREENS=1 pytest tests/runtime/repl/test_screens.py      writes that page anew
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

import pytest

from chat_model import serving
from loading import ROOT
from tmux import Tmux

PAGE = ROOT / "docs/screens.md"
WRITES = "LEEWARD_WRITE_SCREENS" in os.environ  # the environment of a test has no such names
HEAD = """\
# Ten screens

What the chat looks like at 80 columns and 24 lines. A test drives these in tmux and compares them.
"""
# How much of the context is left is for each tool that is added to change.
LEFT = re.compile(r"context \d+%")
LIVE = re.compile(r"^. ([a-z][a-z ]*) · \d+ s(?: · [\d.k]+ tokens)? · Ctrl-C stops$", re.MULTILINE)


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
        shown = LEFT.sub("context 98%", shown)
        parts.append(f"## {number}. {title}\n\n```text\n{shown}\n```\n")
    page = "\n".join(parts)
    if WRITES:
        PAGE.write_text(page, encoding="utf-8")
    assert page == PAGE.read_text(encoding="utf-8")
