"""From a question to a lasting rule: edit it, try it on the call, choose its scope and expiry."""

from __future__ import annotations

import pytest
import trio

from leeward.runtime.repl.approve import choose_always, seconds_of
from leeward.runtime.repl.terminal import Closed, Gone, Interrupt
from leeward.security.action import ActionBuilder
from leeward.security.call import Checked, ToolCall, ToolSpec
from leeward.security.kinds import KIND_KEY, Effect
from leeward.security.permissions import Always
from leeward.security.policy import Policy
from leeward.security.ports import Answer, Question
from leeward.security.session import Scope, Session
from leeward.security.verdict import Ask
from screens import sheet

POLICY = Policy(workspace="/ws", home="/home/ada")
HOUR, DAY = 3600.0, 86_400.0


def question(kind="command", value="npm test", always=(("tool", "npm test"),), **fields):
    schema = {"type": "object", "properties": {"v": {"type": "string", KIND_KEY: kind}}}
    spec = ToolSpec("tool", "a tool", schema, Checked, Effect.ALL)
    action = ActionBuilder.of(ToolCall("c1", "tool", f'{{"v": "{value}"}}'), {"tool": spec}).read(
        POLICY, {"/ws/a": "/ws/a"}
    )
    ask = Ask("default", "this call may write", action.atoms, **fields)
    return Question(action, (("permissions", ask),), always, session=Session("s", POLICY, now=1000.0))


class Editor:
    """A person at a line editor: presses Enter on what stands there (None), types something else,
    or leaves.
    """

    def __init__(self, *typed) -> None:
        self.typed, self.stood = list(typed), []

    async def answer(self, prompt, text=""):
        await trio.lowlevel.checkpoint()
        self.stood.append((prompt.strip(), text))
        typed = self.typed.pop(0)
        if isinstance(typed, Exception):
            raise typed
        return text if typed is None else typed


async def chosen(asked, *typed, rules=None):
    editor = Editor(*typed)
    screen, out = sheet(200)
    return await choose_always(asked, rules or asked.always, editor, screen), editor, out.text


@pytest.mark.parametrize(
    ("typed", "always"),
    [
        ((None, "", ""), Always((("tool", "npm test"),))),
        ((None, "s", "never"), Always((("tool", "npm test"),))),
        ((None, "W", "7d"), Always((("tool", "npm test"),), Scope.WORKSPACE, 7 * DAY)),
        ((None, "everywhere", " 1H "), Always((("tool", "npm test"),), Scope.EVERYWHERE, HOUR)),
        (
            ("npm test *", "x", "", "soon", "0d", "30m"),
            Always((("tool", "npm test *"),), Scope.SESSION, 1800.0),
        ),
        (("*", "npm run", "npm 'test", "npm test", "s", ""), Always((("tool", "npm test"),))),
        ((None, "s", "999d", "1d"), Always((("tool", "npm test"),), Scope.SESSION, DAY)),
        ((None, "once"), Answer.YES),
        ((None, "o"), Answer.YES),
        (("",), None),
        (("  ",), None),
        ((Interrupt(),), None),
        ((None, Closed()), None),
        ((None, "w", Interrupt()), None),
        ((Gone(),), None),
    ],
)
async def test_what_is_typed_is_what_is_granted(typed, always) -> None:
    found, editor, _ = await chosen(question(), *typed)
    assert found == always
    assert editor.typed == []


async def test_a_rule_that_would_not_do_is_refused_with_its_reason_and_can_be_mended() -> None:
    found, editor, out = await chosen(question(), "*", "npm run", None, "npm test", "", "")
    assert found == Always((("tool", "npm test"),))
    assert [text for prompt, text in editor.stood if prompt.startswith("rule")] == [
        "npm test",
        "*",
        "npm run",
        "npm run",
    ]
    assert "✗ too wide: name the program" in out
    assert out.count("✗ this call would still be asked about, by permissions") == 2
    assert "allowed in this session: tool npm test" in out


@pytest.mark.parametrize(
    ("typed", "told"),
    [("7d", "7 days"), ("24h", "1 day"), ("36h", "36 hours"), ("30m", "30 minutes"), ("1m", "1 minute")],
)
async def test_the_end_is_told_as_a_person_would(typed, told) -> None:
    _, _, out = await chosen(question(), None, "", typed)
    assert f"allowed in this session for {told}: tool npm test" in out


async def test_each_rule_of_a_line_is_edited() -> None:
    rules = (("tool", "npm test"), ("tool", "npm run x"))
    asked = question(value="npm test ; npm run x", always=rules)
    found, editor, out = await chosen(asked, None, "npm run *", "w", "1d")
    assert found == Always((("tool", "npm test"), ("tool", "npm run *")), Scope.WORKSPACE, DAY)
    assert [prompt for prompt, _ in editor.stood] == [
        "rule 1 of 2: allow tool", "rule 2 of 2: allow tool",
        "where: this [s]ession / this [w]orkspace / [e]verywhere / [o]nce?", "until: 30m, 12h, 7d, or never?",
    ]  # fmt: skip
    assert "allowed in this workspace for 1 day: tool npm run *" in out
    assert "/permissions revoke" in out


async def test_every_call_of_a_tool_is_no_rule_to_edit() -> None:
    found, editor, out = await chosen(question("text", "hello", (("tool", None),)), "", "")
    assert found == Always((("tool", None),))
    assert "this allows every call of tool" in out
    assert len(editor.stood) == 2


async def test_a_rule_that_nothing_can_mend_ends_at_the_question() -> None:
    asked = question("text", "hello", (("tool", None),), force=True)
    found, _, out = await chosen(asked)
    assert found is None
    assert "still be asked" in out


async def test_the_wider_rule_is_where_the_editor_begins() -> None:
    found, editor, _ = await chosen(
        question("path", "a", (("tool", "/ws/a"),)), None, "", "", rules=(("tool", "/ws/*"),)
    )
    assert found == Always((("tool", "/ws/*"),))
    assert editor.stood[0][1] == "/ws/*"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1m", 60),
        ("30 m", 1800),
        ("12h", 12 * HOUR),
        ("7D", 7 * DAY),
        ("", None),
        ("0h", None),
        ("-1h", None),
        ("1", None),
        ("1w", None),
        ("1h30m", None),
        ("١h", None),
        ("9" * 30 + "d", None),
        ("1.5h", None),
    ],
)
def test_a_span_of_time_is_read_in_seconds(text, seconds) -> None:
    assert seconds_of(text) == seconds
