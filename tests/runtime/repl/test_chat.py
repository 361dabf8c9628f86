"""A day at the chat, against a model server that streams: what is on the screen, and which key does what."""

from __future__ import annotations

import re

import pytest

from chat_model import STORIES, call, say, serving

ENTER, TAB, UP, ESC, SHIFT_TAB = "\r", "\t", "\x1b[A", "\x1b", "\x1b[Z"
CTRL_C, CTRL_O = "\x03", "\x0f"
OBEYED = re.compile(rb"pwned|\x1b\[2J[^\x1b]*C|\x1b\[31m|\xc2\x9b|\xe2\x80[\xaa-\xae]|\x1b\]|\x07")
COLOR = re.compile(rb"\x1b\[(?:\d+;)*(?:3[0-7]|9[0-7])(?:;\d+)*m")

STORIES["job"] = [[call("shell", command="sleep 600", background=True)], [say("It runs.")]]


@pytest.fixture
def model():
    with serving() as server:
        yield server


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (120, 40), (40, 24)])
def test_an_answer_is_rendered_and_nothing_in_it_is_obeyed(tty, leeward, model, columns, rows):
    leeward.configure(model.config())
    at = tty(columns=columns, rows=rows, **({"NO_COLOR": "1"} if columns == 40 else {}))
    at.prompt()
    at.type("ferry", ENTER)
    at.see(lambda text: "The sea is wide." in text and "answering" not in text)
    text = at.prompt()
    assert all(len(line) <= columns for line in text.split("\n"))
    assert "**" not in text and "```" not in text and "|---" not in text
    assert "▌ The sea is wide." in text and "\n    • and a hat" in text
    assert "  def leaves(hour: int) -> bool:\n      return hour == 7  # sharp" in text
    if rows > 30:
        assert "the plan (https://ferry.example/plan)" in text and "\nThe ferry\n" in text
        east = next(line for line in text.split("\n") if line.startswith("east"))
        assert east.index("7:00") + 4 == text.split("\n")[text.split("\n").index(east) + 1].index("19:30") + 5
    at.type("hostile", ENTER)
    at.see(lambda text: "(http://h.example/" in text)
    at.prompt()
    assert not OBEYED.search(at.raw)
    at.type("/show 1", ENTER)
    at.see("q leaves")
    assert "The person asks about the ferry." in at.text
    at.type("q")
    at.prompt()
    at.type("empty", ENTER)
    at.see("(the model gave an empty answer)")
    at.prompt()
    at.type("big", ENTER)
    at.see("[s]how all")
    at.type("s")
    at.see("q leaves")
    at.type("q")
    at.see("[s]how all / ")
    at.type("n")
    at.see("Written.")
    assert bool(COLOR.search(at.raw)) is (columns != 40), "NO_COLOR"


@pytest.mark.parametrize(("background", "faint"), [("15;0", (34,)), ("0;15", (33, *range(90, 98)))])
def test_code_is_readable_on_a_dark_and_a_light_background(tty, leeward, model, background, faint):
    leeward.configure(model.config())
    at = tty(COLORFGBG=background)
    at.prompt()
    at.type("ferry", ENTER)
    at.see("The sea is wide.")
    at.prompt()
    (line,) = [line for line in at.raw.split(b"\n") if b"leaves" in line and b"def" in line]
    used = {int(code) for codes in re.findall(rb"\x1b\[([\d;]+)m", line) for code in codes.split(b";")}
    assert used & set(range(30, 98)), "code is highlighted"
    assert not used & set(faint)


def test_what_one_waits_for_is_seen_and_stopped(tty, leeward, model):
    leeward.configure(model.config())
    at = tty(rows=24)
    at.prompt()
    at.type("slow", ENTER)
    at.see(lambda text: "First paragraph." in text and "Second, which is not" in text and "answering" in text)
    at.see(lambda text: re.search(r"answering · [1-9]\d* s · \d+ tokens · Ctrl-C stops", text))
    at.type("next one", ENTER, "and mo")
    at.see(lambda text: "queued: next one" in text and "\n» and mo" in text)
    at.type(CTRL_C)
    at.see("■ stopped; what came so far is kept")
    assert model.dropped.wait(30)
    text = at.see(lambda text: "You said: next one" in text and "\n› and mo" in text)
    assert text.count("Second, which is not") == 1, "the partial answer is kept, once"
    at.type(CTRL_C, "ponder", ENTER)
    at.see(lambda text: "◦ Let me think about it." in text and "thinking ·" in text)
    at.type(ESC)
    at.see("■ stopped", 2)
    at.prompt()
    # Scroll-back holds what was printed, once and whole.
    at.resize(24, 60)
    at.type("long", ENTER)
    at.see(lambda text: "Line 60 of many." in text)
    at.prompt()
    assert b"Line 1 of many." in at.raw and b"Line 31 of many." in at.raw


def test_a_terminal_that_moves_no_cursor(tty, leeward, model):
    leeward.configure(model.config())
    at = tty(TERM="dumb")
    at.see(lambda text: text.endswith("›"))
    at.type("ferry", ENTER)
    at.see("▌ The sea is wide.")
    at.type("write", ENTER)
    at.see("[y]es / [n]o")
    at.type("y", ENTER)
    at.see("Written.")
    assert (leeward.workspace / "poem.txt").exists()
    assert b"\x1b" not in at.raw


def test_files_lines_of_ones_own_notes_and_pastes(tty, leeward, model):
    leeward.configure(model.config())
    (leeward.workspace / "sub").mkdir()
    (leeward.workspace / "sub/deep.txt").write_text("one\ntwo\nthree\nfour\n", encoding="utf-8")
    at = tty()
    at.prompt()
    at.type("tell of @no")
    at.see("notes.md")
    at.type(TAB)
    at.see("› tell of @notes.md")
    at.type(" and @sub/deep.txt:2-3 and @sub/", ENTER)
    at.see("You said: tell of")
    at.prompt()
    sent = model.requests[-1]["messages"][-1]["content"]
    assert "the ferry leaves at seven" in sent and "two\nthree" in sent and "four" not in sent
    assert "deep.txt" in sent.rpartition("«UNTRUSTED:")[2], "a folder is listed"
    assert sent.count("«UNTRUSTED:") == 3

    at.type("!echo $((40 + 2)) > made; cat made", ENTER)
    at.see("│ 42")
    at.prompt()
    assert (leeward.workspace / "made").read_text() == "42\n", "it ran for real"
    at.type("#the ferry is red", ENTER)
    at.see("● memory_save")
    at.prompt()
    assert "the ferry is red" in at.say("/memory")
    at.paste("\n".join(f"line {number} of @notes.md https://pasted.example/{number}" for number in range(20)))
    at.see("› [paste 1: 20 lines]")
    at.type(ENTER)
    at.see("You said: [paste 1: 20 lines]")
    at.prompt()
    sent = model.requests[-1]["messages"][-1]["content"]
    assert "The person ran: echo" in sent and "42" in sent
    assert "line 19 of @notes.md" in sent and "the ferry leaves" not in sent, "what is pasted names no file"
    known = at.say("/browse")
    assert "https://pasted.example/7" in known
    records = leeward("audit", "list", "--output", "json").json["data"]["records"]
    asked = [record["body"]["asker"] for record in records if record["kind"] == "decision"]
    assert {*asked} == {"person"}


def test_levels_and_leaving_with_something_running(tty, leeward, model):
    leeward.configure(model.config() + '[[permissions.rules]]\ntool = "shell"\naction = "allow"\n')
    at = tty()
    at.prompt()
    at.type(SHIFT_TAB)
    at.see("\nreadonly ›\n")
    at.type("touch", ENTER)
    at.see("✗ shell refused: autonomy is readonly")
    at.type("/autonomy sup")
    at.see(" supervised\n")
    at.type(TAB)
    at.see("› /autonomy supervised")
    at.type(ENTER)
    at.see("autonomy supervised")
    at.see(lambda text: text.split("\n")[-2] == "›")
    at.type("job", ENTER)
    at.see("It runs.")
    at.see("· 1 job")
    at.type("/exit", ENTER)
    at.see("a command still runs in the background; leaving ends them")
    at.type("n")
    at.prompt()
    at.type("/jobs stop job_1", ENTER)
    at.see("! job_1")
    at.prompt()
    at.type("/exit", ENTER)
    assert at.ended() == 0 and at.is_restored
    records = leeward("audit", "list", "--output", "json").json["data"]["records"]
    levels = [record["body"]["autonomy_now"] for record in records if record["kind"] == "autonomy"]
    assert levels == ["readonly", "supervised"]
