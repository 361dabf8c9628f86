"""Keeps as much of the end as fits: half of a call with it."""

from __future__ import annotations

from collections.abc import Sequence

from leeward.runtime.conversation.window import MessageSize


def first_kept(messages: Sequence[MessageSize], tail: float) -> int:
    kept = len(messages)
    for place in reversed(range(len(messages))):
        tail -= messages[place].size
        if tail < 0:
            break
        kept = place
    return kept if kept < len(messages) else max(kept - 1, 0)
