"""The history stays valid under any order of messages, answers, open calls and storage failures."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from leeward.memory.sessions import Charge, Line
from leeward.runtime.conversation import BROKEN_OFF, History, HistorySnapshot
from leeward.runtime.conversation.history import CANCELLED
from leeward.runtime.providers.interface import Message
from leeward.security.call import ToolCall
from leeward.security.ports import RecordError


class Store:
    """Keeps what it is given, and fails while it is told to."""

    def __init__(self) -> None:
        self.kept: list[tuple[int, str, object]] = []
        self.lines: list[Line] = []
        self.fails = False
        self.warnings: list[str] = []

    def keep(self, line):
        async def written() -> None:
            if self.fails:
                raise RecordError("no room")
            self.lines.append(line)
            self.kept.append((line.turn, line.role, line.content))

        return written

    def conversation(self) -> History:
        return History(self.keep, self.warnings.append)


def calls(*ids: str) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(name, "read", "{}") for name in ids)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("turn"), st.text(max_size=3), st.sampled_from(["", "attached"])),
        st.tuples(
            st.just("reply"),
            st.sampled_from(["", "hm"]),
            st.lists(st.sampled_from(["", "a", "b"]), max_size=3),
        ),
        st.tuples(st.just("answer"), st.integers(0, 3), st.just("result")),
        st.tuples(st.just("clear"), st.none(), st.none()),
    ),
    max_size=12,
)


@given(STEPS)
@example([("turn", "x", ""), ("reply", "", ["a", "a"]), ("answer", 1, "r"), ("reply", "", ["a"])])
@example(
    [
        ("turn", "x", ""),
        ("reply", "", ["", ""]),
        ("clear", None, None),
        ("turn", "y", ""),
        ("reply", "hm", []),
    ]
)
def test_closed_it_is_valid(sessions, steps):
    """A turn asks, answers some, and is closed at any point; the next begins."""
    conversation = Store().conversation()
    waiting: list[str] = []
    for step, first, second in steps:
        if step == "turn":
            conversation.close()
            conversation.say(first, second)
            waiting = []
        elif step == "reply":
            conversation.close()
            waiting = [call.id for call in conversation.reply(first, calls(*second))]
        elif step == "answer" and first < len(waiting):
            conversation.answer(waiting.pop(first), second)
        elif step == "clear":
            conversation.clear()
            waiting = []
    conversation.close()
    sessions.valid(conversation.messages)
    assert "" not in {message.call_id for message in conversation.messages if message.role == "tool"}


def test_what_is_left_open_is_answered_in_order():
    conversation = Store().conversation()
    conversation.say("go")
    first, second, third = conversation.reply("", calls("1", "2", "3"))
    conversation.answer(second.id, "two")
    conversation.close()
    conversation.close()
    told = [(message.call_id, message.text) for message in conversation.messages if message.role == "tool"]
    assert told == [(second.id, "two"), (first.id, CANCELLED), (third.id, CANCELLED)]


def test_ids_of_the_model_are_kept_where_they_are_its_own():
    """Some services refuse ids they did not make, so only a repeated or missing one is replaced."""
    conversation = Store().conversation()
    conversation.say("go")
    first = conversation.reply("", calls("abc123XYZ", "abc123XYZ", ""))
    assert first[0].id == "abc123XYZ" and len({call.id for call in first}) == 3


async def test_what_was_taken_back_was_never_said():
    store = Store()
    conversation = store.conversation()
    conversation.say("one")
    await conversation.store()
    conversation.say("far too much")
    conversation.take_back()
    await conversation.store()
    assert [m.text for m in conversation.messages] == ["one"] and len(store.kept) == 1
    assert conversation.turn == 1
    conversation.say("less")
    await conversation.store()
    assert [line.turn for line in store.lines] == [1, 2] and store.lines[0].place < store.lines[1].place


def test_an_empty_reply_says_nothing():
    conversation = Store().conversation()
    conversation.say("go")
    assert conversation.reply("", ()) == () and [message.role for message in conversation.messages] == [
        "user"
    ]


async def test_what_could_not_be_stored_is_stored_later_in_order():
    store = Store()
    conversation = store.conversation()
    conversation.say("one", "«fenced»")
    await conversation.store()
    store.fails = True
    for text in ("two", "three"):
        conversation.reply(text, ())
        await conversation.store()
    assert len(store.kept) == 1 and store.warnings == [
        "the conversation cannot be stored at the moment: no room"
    ]
    store.fails = False
    conversation.say("four")
    await conversation.store()
    assert [content["text"] for _, _, content in store.kept] == ["one", "two", "three", "four"]
    assert store.kept[0] == (1, "user", {"text": "one", "attached": "«fenced»"})
    assert store.kept[-1][0] == 2
    store.fails = True
    conversation.reply("five", ())
    await conversation.store()
    assert len(store.warnings) == 2


async def test_a_summary_stands_for_all_but_the_persons_words():
    store = Store()
    conversation = store.conversation()
    for turn in ("one", "two"):
        conversation.say(turn, "«page»")
        (call,) = conversation.reply("", calls("a"))
        conversation.answer(call.id, "result")
        conversation.reply(f"done with {turn}", ())
    conversation.compact(5, "«summary»", Charge("m", 7))
    assert [(m.role, m.text) for m in conversation.messages] == [
        ("user", "one"),
        ("user", "two\n\n«summary»"),
        ("assistant", ""),
        ("tool", "result"),
        ("assistant", "done with two"),
    ]
    assert conversation.messages[1].words == "two"
    await conversation.store()
    summary = store.lines[-1]
    assert (summary.role, summary.charge) == ("summary", Charge("m", 7))
    assert summary.content == {"text": "«summary»", "kept": store.lines[5].place}
    conversation.compact(5, "«newer»")
    assert [m.text for m in conversation.messages] == ["one", "two\n\n«newer»"], (
        "a summary gives way to the next"
    )
    await conversation.store()
    conversation.say("three")
    await conversation.store()
    assert store.lines[-2].content["kept"] <= store.lines[-1].place


async def test_of_an_empty_reply_only_what_it_cost_is_kept():
    store = Store()
    conversation = store.conversation()
    conversation.say("go")
    conversation.reply("", (), None, Charge("m", 3, 0))
    assert [m.role for m in conversation.messages] == ["user"]
    await conversation.store()
    assert (store.lines[-1].role, store.lines[-1].charge) == ("assistant", Charge("m", 3, 0))


async def test_what_was_left_open_is_answered_when_it_is_gone_on_with():
    store = Store()
    conversation = store.conversation()
    messages = (
        Message("user", "go"),
        Message("assistant", "", calls("a", "b", "c")),
        Message("tool", "x", call_id="b"),
    )
    conversation.resume(HistorySnapshot(messages, (1, 2, 3), 3, 1))
    assert [(m.call_id, m.text) for m in conversation.messages[2:]] == [
        ("b", "x"),
        ("a", BROKEN_OFF),
        ("c", BROKEN_OFF),
    ]
    await conversation.store()
    assert [(line.place, line.turn, line.role) for line in store.lines] == [(4, 1, "tool"), (5, 1, "tool")]
    conversation.say("on")
    assert conversation.reply("", calls("a"))[0].id != "a", "no id is given twice"


async def test_forgetting_is_kept_too_and_whether_it_is_is_told():
    store = Store()
    conversation = store.conversation()
    conversation.clear()
    assert await conversation.store() and store.lines == []
    conversation.say("one")
    store.fails = True
    conversation.clear()
    assert not await conversation.store()
    store.fails = False
    assert await conversation.store()
    assert [line.role for line in store.lines] == ["user", "clear"]
