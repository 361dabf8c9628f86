"""What is dropped first, and where a summary ends: never the person's words, never half of a call."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.runtime.conversation.window import MessageSize, first_kept, oldest_first


def test_the_oldest_go_first_and_no_more_of_them_than_must() -> None:
    gains = [(2, 500.0), (4, 10.0), (6, 500.0), (8, 500.0)]
    assert list(oldest_first(gains, 0)) == []
    assert list(oldest_first(gains, 400)) == [2]
    assert list(oldest_first(gains, 501)) == [2, 6], "what gains next to nothing stays as it is"
    assert list(oldest_first(gains, 9999)) == [2, 6, 8]


def test_no_gain_is_worked_out_in_vain() -> None:
    asked = []

    def gains():
        for place in range(100):
            asked.append(place)
            yield place, 500.0

    assert list(oldest_first(gains(), 900)) == [0, 1] and len(asked) == 3


U, A, T = MessageSize("user", 10), MessageSize("assistant", 10), MessageSize("tool", 100)
C = MessageSize("assistant", 10, has_calls=True)


def test_what_the_model_has_not_read_stays() -> None:
    assert first_kept([U, C, T, T, C, T], 0) == 4, "the results of its last calls"
    assert first_kept([U, C, T, A, U], 0) == 4, "or what the person said last"
    assert first_kept([U, C, T, C, T, A, U], 125) == 3, "and before that, what there is room for"
    assert first_kept([U, C, T, C, T, A, U], 20) == 5
    assert first_kept([U, C, T, C, T, A, U], 115) == 5, "a result stays with its call"


def test_where_only_the_person_spoke_there_is_nothing_to_sum_up() -> None:
    assert (
        first_kept([], 0) == first_kept([U], 0) == first_kept([U, U, U], 0) == first_kept([U, C, T], 0) == 0
    )
    assert first_kept([U, A, U], 1000) == 0, "nor where all of it has room"


MESSAGES = st.lists(
    st.sampled_from([U, A, C]).flatmap(
        lambda m: st.just([m]) if m is not C else st.integers(1, 3).map(lambda n: [C, *[T] * n])
    ),
    max_size=12,
)


def test_the_obvious_cut_is_found_wrong(planted) -> None:
    with pytest.raises(AssertionError):
        between_whole_exchanges(planted("first_kept").first_kept, [U, C, T, C, T], 105)


@given(MESSAGES, st.floats(0, 500))
@example([[U], [C, T], [U]], 0.0)
def test_a_cut_is_always_between_whole_exchanges(parts, tail) -> None:
    between_whole_exchanges(first_kept, [message for part in parts for message in part], tail)


def between_whole_exchanges(first_kept, messages, tail) -> None:
    kept = first_kept(messages, tail)
    assert 0 <= kept < max(len(messages), 1)
    if kept:
        assert messages[kept].role != "tool"
        assert any(message.role != "user" for message in messages[:kept])
        unread = max(n for n, message in enumerate(messages) if message.role == "user" or message.has_calls)
        assert kept <= unread
        assert sum(message.size for message in messages[kept:unread]) <= tail
