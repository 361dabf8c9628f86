"""Any stored session becomes a valid conversation without losing a message."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.memory.sessions import Recall, TranscriptEntry
from leeward.runtime.conversation import BROKEN_OFF, History
from leeward.runtime.sessions.history import origins_of, taken_up
from leeward.security.ports import RecordError
from leeward.security.trust import Origin

IDS = st.sampled_from(["a", "b", "c", "d"])
CALLS = st.lists(IDS.map(lambda call: [call, "read", "{}"]), max_size=3)
SAID = st.one_of(
    st.fixed_dictionaries(
        {
            "role": st.just("user"),
            "content": st.fixed_dictionaries(
                {"text": st.sampled_from(["hi", ""])}, optional={"attached": st.just("«x»")}
            ),
        }
    ),
    st.fixed_dictionaries(
        {
            "role": st.just("assistant"),
            "content": st.fixed_dictionaries({"text": st.sampled_from(["", "ok"]), "calls": CALLS}),
        }
    ),
    st.fixed_dictionaries(
        {"role": st.just("tool"), "content": st.fixed_dictionaries({"text": st.just("r"), "call_id": IDS})}
    ),
    st.fixed_dictionaries({"role": st.just("summary"), "content": st.just({"text": "«s»", "kept": 0})}),
    st.fixed_dictionaries({"role": st.just("clear"), "content": st.none()}),
)


def entry(place, role, content, origin=Origin.TOOL):
    return TranscriptEntry(place, 1, role, content, origin, seq=place)


def recalled(said, words=(), summary=None):
    rest = tuple(entry(place, **one) for place, one in enumerate(said, start=10))
    return Recall(words, summary, rest, (), 100, 5)


@given(st.lists(SAID, max_size=12), st.booleans())
@example(
    [{"role": "assistant", "content": {"text": "", "calls": [["a", "read", "{}"], ["a", "read", "{}"]]}}],
    False,
)
@example(
    [
        {"role": "tool", "content": {"text": "r", "call_id": "a"}},
        {"role": "assistant", "content": {"text": "", "calls": [["a", "read", "{}"]]}},
    ],
    True,
)
@example(
    [
        {"role": "assistant", "content": {"text": "", "calls": [["a", "r", "{}"], ["b", "r", "{}"]]}},
        {"role": "tool", "content": {"text": "r", "call_id": "b"}},
        {"role": "user", "content": {"text": "hi"}},
    ],
    False,
)
def test_any_history_comes_back_valid(sessions, said, has_summary) -> None:
    summary = entry(9, "summary", {"text": "«s»", "kept": 10}, Origin.WEB) if has_summary else None
    words = (entry(1, "user", {"text": "first", "attached": "«page»"}),) if has_summary else ()
    taken = taken_up(recalled(said, words, summary))
    conversation = History(lambda _: None, lambda _: None)
    conversation.resume(taken)
    sessions.valid(conversation.messages)
    assert len(taken.places) == len(taken.messages) and list(taken.places) == sorted(taken.places)
    spoken = [m.text for m in taken.messages if m.role == "user"]
    assert spoken[len(words) :] == [
        m["content"]["text"] + ("\n\n«x»" if m["content"].get("attached") else "")
        for m in said
        if m["role"] == "user"
    ]
    if has_summary:
        assert spoken[0] == "first\n\n«s»"
    else:
        assert all("«s»" not in m.text for m in taken.messages), "a summary in the middle is not said twice"


def test_the_obvious_way_is_found_wrong(sessions, planted) -> None:
    said = [
        {"role": "assistant", "content": {"text": "", "calls": [["a", "read", "{}"]]}},
        {"role": "user", "content": {"text": "on"}},
    ]
    for rest in (said, [{"role": "tool", "content": {"text": "r", "call_id": "a"}}]):
        for way, is_valid in ((taken_up, True), (planted("taken_up").taken_up, False)):
            conversation = History(lambda _: None, lambda _: None)
            conversation.resume(way(recalled(rest)))
            try:
                sessions.valid(conversation.messages)
            except AssertionError:
                assert not is_valid
            else:
                assert is_valid


def test_a_hole_in_the_middle_is_said_to_be_one() -> None:
    said = [
        {"role": "user", "content": {"text": "go"}},
        {"role": "assistant", "content": {"text": "", "calls": [["a", "read", "{}"]]}},
        {"role": "user", "content": {"text": "on"}},
    ]
    assert [m.text for m in taken_up(recalled(said)).messages] == ["go", "", BROKEN_OFF, "on"]


def test_whose_words_come_back() -> None:
    rest = (
        entry(1, "user", {"text": "x"}, Origin.PERSON),
        entry(2, "tool", {"text": "x", "call_id": "a"}, Origin.WEB),
        entry(3, "tool", {"text": "x", "call_id": "b"}),
    )
    assert origins_of(Recall((), None, rest, (), 3, 1)) == {Origin.WEB}
    assert origins_of(Recall((), entry(1, "summary", {"text": "s"}, Origin.MCP), (), (), 3, 1)) == {
        Origin.MCP
    }
    for said, origins in (
        ({}, {Origin.WEB}),
        ({"brought": "workspace"}, {Origin.WORKSPACE}),
        ({"brought": "tool"}, set()),
    ):
        assert (
            origins_of(
                Recall(
                    (),
                    None,
                    (entry(1, "user", {"text": "x", "attached": "«p»", **said}, Origin.PERSON),),
                    (),
                    1,
                    1,
                )
            )
            == origins
        )
    with pytest.raises(RecordError, match="entry 1 of"):
        origins_of(
            Recall(
                (),
                None,
                (entry(1, "user", {"text": "x", "attached": "«p»", "brought": "god"}, Origin.PERSON),),
                (),
                1,
                1,
            )
        )


@pytest.mark.parametrize(
    ("role", "content"),
    [
        ("user", "just a text"),
        ("user", {"attached": "x"}),
        ("tool", {"text": "r"}),
        ("assistant", {"text": "x", "calls": [["a", "b"]]}),
        ("assistant", {"text": 5}),
        ("user", None),
        ("assistant", {"text": "x", "calls": 5}),
    ],
)
def test_what_is_none_of_ours_is_told(role, content) -> None:
    with pytest.raises(RecordError, match="entry 10 of the conversation cannot be read"):
        taken_up(recalled([{"role": role, "content": content}]))
