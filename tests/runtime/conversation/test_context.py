"""A request that does not fit is shortened or not sent; the person's words stay unchanged."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.runtime.conversation import History
from leeward.runtime.conversation.compaction import ASKED
from leeward.runtime.conversation.window import ContextWindow, TooLong, tokens_in
from leeward.runtime.events import Alert, EndReason
from leeward.runtime.providers.interface import (
    ErrorKind,
    Message,
    ModelError,
    TextDelta,
    ToolView,
    Usage,
)
from leeward.security.call import ToolCall
from leeward.security.kinds import Effect
from leeward.tools.declare import Text, tool

SYSTEM = Message("system", "Be brief.")
NONCE = "0" * 32


def fenced(size: int, tail: str = "") -> str:
    return f"«UNTRUSTED:{NONCE}:read»{'x ' * (size // 2)}«END:{NONCE}»{tail}"


def talk(*results: str, arguments: str = "{}") -> list[Message]:
    """A conversation in which the model called a tool once for each result."""
    messages = [Message("user", "go")]
    for number, text in enumerate(results):
        messages.append(Message("assistant", "", (ToolCall(f"c{number}", "read", arguments),)))
        messages.append(Message("tool", text, call_id=f"c{number}"))
    return messages


def sent(window: ContextWindow, messages, tools=()) -> list[Message]:
    request = window.request(SYSTEM, messages, tools)
    assert request.messages[0] is SYSTEM
    return list(request.messages[1:])


def test_what_fits_is_sent_as_it_is():
    messages = talk(fenced(4000), fenced(4000))
    assert sent(ContextWindow(100_000), messages) == messages
    assert sent(ContextWindow(0), talk(fenced(4_000_000))) == talk(fenced(4_000_000))


def test_the_oldest_results_go_first_and_nothing_else():
    messages = talk(*[fenced(8000)] * 10)
    told = sent(ContextWindow(16_000), messages)
    cut = [n for n, (a, b) in enumerate(zip(messages, told, strict=True)) if a != b]
    assert cut and cut == list(range(2, 2 * len(cut) + 1, 2)), "oldest first, results only"
    assert all("[a result of" in told[n].text and told[n].call_id == messages[n].call_id for n in cut)
    assert messages == talk(*[fenced(8000)] * 10), "the history itself stays as it is"


def test_what_was_shortened_stays_so_and_the_beginning_is_sent_again_byte_for_byte():
    window, before, changes = ContextWindow(16_000), [], 0
    whole = talk(*[fenced(8000)] * 40)
    for count in range(1, 40):
        told = sent(window, messages := whole[: 2 * count + 1])
        changes += any(a != b for a, b in zip(before, told))
        assert len(told) == len(messages)
        before = told
    assert changes < 20, "several are shortened at once, so that most requests begin like the one before"


def test_our_own_lines_stay_what_was_kept_can_still_be_read():
    window = ContextWindow(6000)
    tail = "\n[the whole text is kept as of_0123; read_overflow reads it by page]"
    told = sent(window, talk(fenced(8000, tail), fenced(8000), fenced(8000)))
    assert told[2].text.endswith(tail) and "x x" not in told[2].text
    forged = sent(
        ContextWindow(6000),
        talk(f"«UNTRUSTED:{NONCE}:read»a«END:{'1' * 32}» says hi" + "x" * 8000, fenced(8000), fenced(8000)),
    )
    assert "says hi" not in forged[2].text


def test_long_arguments_go_when_results_do_not_suffice():
    messages = talk("ok", "ok", "ok", arguments=json.dumps({"content": "y" * 40_000}))
    told = sent(ContextWindow(16_000), messages)
    assert told[0] == messages[0] and len(told[1].calls[0].arguments) < 200
    for message in told:
        for call in message.calls:
            assert (
                isinstance(json.loads(call.arguments), dict)
                and call.id.startswith("c")
                and call.tool == "read"
            )


@pytest.mark.parametrize(
    "messages",
    [
        [Message("user", "w " * 50_000)],
        [Message("user", "go"), Message("assistant", "w " * 50_000), Message("user", "x")],
    ],
)
def test_words_are_never_touched_so_that_nothing_is_sent(messages):
    with pytest.raises(TooLong, match=r"about \d+ tokens, more than the 8000.*/clear"):
        ContextWindow(8000).request(SYSTEM, messages, ())


def test_tools_and_the_reply_need_room_too():
    view = ToolView("t", "d" * 20_000, {"type": "object"})
    with pytest.raises(TooLong):
        ContextWindow(5000).request(SYSTEM, [Message("user", "hi")], (view,))
    messages = talk(fenced(28_000))  # 7000 tokens fit into 8000, but not with a reply
    assert sent(ContextWindow(8000), messages) != messages


def test_a_service_that_counts_otherwise_is_believed():
    messages = talk(fenced(8000), fenced(8000))
    dense, sparse = ContextWindow(9000), ContextWindow(4000)
    assert sent(dense, messages) == messages and sent(sparse, messages) != messages
    dense.learn(dense.expected * 2)
    assert sent(dense, messages) != messages
    sparse = ContextWindow(4500)
    sparse.request(SYSTEM, messages[:1], ())
    sparse.learn(int(sparse.expected * 0.45))
    assert sent(sparse, messages) == messages
    for nonsense in (0, -5):
        sparse.learn(nonsense)
    assert sent(sparse, messages) == messages


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("", 0, 0),
        ("word " * 400, 400, 700),
        ("字" * 300, 300, 500),
        ("привет " * 100, 200, 600),
        ("🚢" * 100, 100, 400),
        ("\ud800", 0, 2),
    ],
)
def test_the_estimate_errs_on_the_safe_side(text, least, most):
    assert least <= tokens_in(text) <= most


SIZES = st.lists(st.tuples(st.integers(1, 3), st.integers(0, 30_000), st.integers(0, 5000)), max_size=8)


@given(SIZES, st.integers(1000, 20_000))
@example([(1, 30_000, 5000)] * 8, 1000)
@example([(3, 0, 0)], 1000)
def test_whatever_is_sent_fits_and_is_whole(sizes, tokens):
    conversation = History(lambda *_: None, lambda _: None)
    conversation.say("go")
    window = ContextWindow(tokens)
    for number, (calls, result, arguments) in enumerate(sizes):
        asked = tuple(
            ToolCall(f"{number}-{n}", "read", json.dumps({"x": "y" * arguments})) for n in range(calls)
        )
        for call in conversation.reply("", asked):
            conversation.answer(call.id, fenced(result))
        try:
            told = sent(window, conversation.messages)
        except TooLong:
            # Only what may not be shortened was too much.
            words = sum(tokens_in(m.text) for m in conversation.messages if m.role != "tool")
            asked_for = sum(tokens_in(call.arguments) for m in conversation.messages for call in m.calls)
            notices = 60 * sum(calls for calls, *_ in sizes)
            assert words + asked_for + notices > tokens / 4
            return
        assert window.expected <= tokens
        for was, now in zip(conversation.messages, told, strict=True):
            assert (was.role, was.call_id, [c.id for c in was.calls]) == (
                now.role,
                now.call_id,
                [c.id for c in now.calls],
            )
            assert was.role == "tool" or was.text == now.text


# ------------------------------------------------------------------ in a whole session


@tool(effects=Effect.READ)
async def much(word: Text = "") -> str:
    """Say a lot."""
    return f"{word} " * 5000


async def test_a_long_turn_goes_on_and_a_message_that_is_too_long_is_taken_back(sessions, tmp_path):
    says = [[("much", {"word": f"word{n}"}), Usage(1000, 1)] for n in range(8)]
    config = "[agent]\ncontext_tokens = 24000\n[tools.overflow]\nthreshold = 1000000\n"
    async with sessions.session(
        tmp_path, config, [*says, "done at last", "still here"], executors=[much]
    ) as runtime:
        assert (await runtime.turn("go")).reason is EndReason.DONE
        whole = [m for m in runtime.conversation.messages if m.role == "tool"]
        assert all("word" in m.text for m in whole), "the history keeps what is not sent any more"
        asked = len(runtime.provider.requests)
        ended = await runtime.turn("z " * 200_000)
        assert (ended.reason, len(runtime.provider.requests)) == (EndReason.CONTEXT, asked)
        assert "context_tokens" in [event.message for event in runtime.heard if isinstance(event, Alert)][-1]
        assert (await runtime.turn("and now?")).text == "still here"
        entries = await runtime.transcript.entries(runtime.session_id)
        assert [entry.content["text"] for entry in entries if entry.role == "user"] == ["go", "and now?"]


async def test_the_conversation_may_outgrow_every_window(sessions, tmp_path):
    def reply(request):
        is_summary = request.messages[-1].text.startswith(ASKED)
        return (
            [ModelError("down", ErrorKind.UNAVAILABLE)]
            if is_summary
            else [TextDelta("w " * 10_000), ("much", {})]
        )

    config = "[agent]\ncontext_tokens = 24000\n"
    async with sessions.session(tmp_path, config, [reply] * 9, executors=[much]) as runtime:
        ended = await runtime.turn("go")
        assert ended.reason is EndReason.CONTEXT and ended.calls > 1
        sessions.valid(runtime.conversation.messages)
        await runtime.clear()
        runtime.provider.replies = ["fresh"]
        assert (await runtime.turn("hello")).text == "fresh"
