"""Rendering of events: foreign text keeps its place and never controls the terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from leeward.runtime.events import (
    Alert,
    CallEnded,
    CallStarted,
    EndReason,
    LiveOutput,
    RunEvent,
    Text,
    Thinking,
    TurnEnded,
)
from leeward.runtime.providers.interface import ErrorKind, ModelError
from leeward.runtime.repl.render import Renderer
from leeward.security.call import Asker, Outcome, Status, ToolCall, ToolResult
from leeward.security.outcome import Category
from screens import sheet

ESCAPES = (
    "A\x1b]0;pwned\x07B\x1b[2JC\x1b[31;7mD\rE\x9b31mF\u202eG\u200bH\x1bP1$r\x1b\\J\x1b]8;;http://"
    "e\x1b\\K\x7fL\x1b(0M"
)
HOSTILE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u200b\u2066-\u2069]")
CALL = ToolCall("c1", "shell", '{"command": "ls"}')


def drawn(*events: RunEvent, width: int = 60, color: bool = False, make=Renderer, **options) -> str:
    """What a terminal of that width is sent."""
    screen, out = sheet(width, obeys=color)
    renderer = make(screen, **options)
    for event in events:
        renderer(event)
    return out.text


def ended(shown: str = "", status: Status = Status.OK, *, error=None, code=None, call=CALL) -> CallEnded:
    category = None if status is Status.OK else Category.POLICY_BLOCKED
    outcome = Outcome(status, category, "paths" if status is Status.DENIED else None, code)
    return CallEnded(ToolResult(call, outcome, "for the model only", shown, error))


EVERYTHING = (
    Text(ESCAPES),
    CallStarted(ToolCall("c1", ESCAPES, ESCAPES)),
    Alert(ESCAPES),
    ended(
        ESCAPES, Status.DENIED, error={"suggestion": ESCAPES, "facts": [{"name": ESCAPES, "value": ESCAPES}]}
    ),
    ended(ESCAPES, Status.ERROR),
    ended(ESCAPES, Status.TIMEOUT),
    TurnEnded(EndReason.MODEL_ERROR, "", error=ModelError(ESCAPES, ErrorKind.BAD_REQUEST)),
)


@pytest.mark.parametrize("event", EVERYTHING, ids=lambda event: type(event).__name__)
def test_no_event_speaks_to_the_terminal(event):
    said = drawn(event, TurnEnded(EndReason.DONE, ""))
    assert not HOSTILE.search(said)
    assert "A" in said


@pytest.mark.parametrize("size", [1, 2, 3, 7, 200])
def test_a_sequence_split_across_deltas_is_still_one(size):
    pieces = [Text(ESCAPES[start : start + size]) for start in range(0, len(ESCAPES), size)]
    assert drawn(*pieces, TurnEnded(EndReason.DONE, "")) == "ABCD\nEF\\u{202e}G\\u{200b}HJKLM\n"


def test_a_renderer_that_does_not_strip_is_found_out(planted):
    wrong = planted("render").Renderer
    assert HOSTILE.search(drawn(Text(ESCAPES), make=wrong))
    assert "\x1b]0;pwned" in drawn(Text(ESCAPES[:5]), Text(ESCAPES[5:]), make=wrong)
    assert "he\n" in drawn(LiveOutput("c1", "he"), LiveOutput("c1", "llo\n"), make=wrong)


def test_a_turn_from_the_question_to_the_end():
    assert drawn(
        Text("I will "),
        Text("look."),
        CallStarted(CALL),
        LiveOutput("c1", "one\ntw"),
        LiveOutput("c1", "o\nthree"),
        ended("one\ntwo\nthree", code=0),
        Text("Three lines."),
        TurnEnded(EndReason.DONE, ""),
    ).split("\n") == [
        "I will look.",
        '● shell {"command": "ls"}',
        "  │ one",
        "  │ two",
        "  │ three",
        "  └ done",
        "Three lines.",
        "",
    ]


@pytest.mark.parametrize(
    ("events", "lines"),
    [
        ([ended("")], ["  │ (nothing)"]),
        ([ended("a\nb")], ["  │ a", "  │ b"]),
        ([ended("\n".join("abcdef"))], [*(f"  │ {c}" for c in "abcd"), "  └ … 2 more lines · /show 1"]),
        ([ended("\n".join("abcde"))], [*(f"  │ {c}" for c in "abcde")]),
        (
            [ended("\n".join("abcdef"), code=3)],
            [*(f"  │ {c}" for c in "abcd"), "  └ exit code 3 · … 2 more lines · /show 1"],
        ),
        ([LiveOutput("c1", "x\n"), ended("x", code=3)], ["  │ x", "  └ exit code 3"]),
        (
            [LiveOutput("c1", "x\n"), ended("x"), CallStarted(CALL), ended("y")],
            ["  │ x", "  └ done", '● shell {"command": "ls"}', "  │ y"],
        ),
        ([ended("no\nmore", Status.DENIED)], ["  ✗ no · /why 1"]),
        (
            [
                ended(
                    "no",
                    Status.DENIED,
                    error={"suggestion": "/ws/a", "facts": [{"name": "path", "value": "b"}]},
                )
            ],
            ["  ✗ no · /why 1", "  │ path: b", "  │ instead: /ws/a"],
        ),
        ([ended("broke", Status.ERROR)], ["  ✗ broke · /why 1"]),
        (
            [LiveOutput("c1", "half"), ended("too slow", Status.TIMEOUT)],
            ["  │ half", "  ✗ too slow · /why 1"],
        ),
        ([LiveOutput("c1", "half"), TurnEnded(EndReason.CANCELLED, "")], ["  │ half"]),
        ([Text("half"), TurnEnded(EndReason.CANCELLED, "half")], ["half"]),
        ([Text("half"), Alert("look")], ["half", "! look"]),
        (
            [TurnEnded(EndReason.MAX_TURNS, "")],
            ["! stopped: the model was not done after max_turns replies;", "    say 'go on' to continue"],
        ),
        (
            [TurnEnded(EndReason.TIMEOUT, "")],
            ["! stopped: the time of a turn ran out; say 'go on' to", "    continue"],
        ),
        ([TurnEnded(EndReason.MODEL_ERROR, "", error=ModelError("no key", ErrorKind.AUTH))], ["✗ no key"]),
        ([CallStarted(ToolCall("c", "t" * 500, "x" * 500))], ["● " + "t" * 57 + "…"]),
        (
            [CallStarted(ToolCall("c", "read", '{"path": "' + "日" * 50))],
            ['● read {"path": "' + "日" * 21 + "…"],
        ),
        ([ended("a\nb", call=ToolCall("c1", "fetch", "{}", Asker.PERSON))], ["  │ a", "  │ b"]),
        ([TurnEnded(EndReason.DONE, "")], ["(the model gave an empty answer)"]),
        (
            [Thinking("so it "), Thinking("is"), Text("Yes."), TurnEnded(EndReason.DONE, "")],
            ["◦ thought for 0 s · /show 1", "Yes."],
        ),
    ],
)
def test_how_things_end(events, lines):
    assert drawn(*events).rstrip("\n").split("\n") == lines


def test_all_is_shown_to_whoever_wants_it():
    long = "\n".join(map(str, range(50)))
    assert drawn(ended(long), verbose=True).count("│") == 50
    arguments = '{"content": "' + "x" * 200 + '"}'
    assert arguments in drawn(CallStarted(ToolCall("c", "write", arguments)), verbose=True)


def test_running_output_has_a_bound_and_says_so_once():
    said = drawn(*(LiveOutput("c1", "line\n" * 30) for _ in range(20)))
    assert said.count("│ line") == 200
    assert said.count("more output follows") == 1


def test_output_without_a_line_end_is_not_waited_for_for_ever():
    assert drawn(LiveOutput("c1", "x" * 5000)).count("x") == 5000


@given(st.text(st.sampled_from("ab \t\n日👩❤\ufe0f│●"), max_size=300), st.integers(20, 100))
@example("x" * 56 + "● shell {}", 60)
@example("日" * 28 + "✗ no", 60)
@example("\t" * 20 + "! alert", 60)
def test_no_line_of_a_result_begins_where_ours_do(text, width):
    for said in (
        drawn(ended(text), width=width, verbose=True),
        drawn(LiveOutput("c1", text), ended(text), width=width),
    ):
        lines = said.rstrip("\n").split("\n")
        assert all(line.startswith(("  │ ", "  └ ")) or line == "  │" for line in lines)
        assert all(cell_len(line) <= width for line in lines)


def table(rows: Iterable[str], width: int) -> list[str]:
    screen, out = sheet(width)
    screen.block("\n".join(rows))
    return out.text.rstrip("\n").split("\n")


def test_a_table_goes_on_below_its_last_column():
    assert table(["/help     what may be typed here, or there"], 30) == [
        "/help     what may be typed",
        "          here, or there",
    ]
    assert table(["a sentence without any column"], 20) == ["a sentence without", "    any column"]
    assert table(["short", "", "  indented"], 20) == ["short", "", "  indented"]
    assert table(["  - one of several that is long"], 20) == ["  - one of several", "    that is long"]
