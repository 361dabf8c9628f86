"""What of a conversation goes first when it gets too long? Chosen here, carried out by the runtime.

First the oldest outputs of tools; then everything but the latest messages gives way to a summary. What
the person said is never chosen. Pure, like the choice of what to forget should be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

__all__ = ["Weighed", "first_kept", "oldest_first"]

_WORTH_IT = 80  # tokens below which cutting gains nothing


@dataclass(frozen=True, slots=True)
class Weighed:
    """A message: who says it ("user", "assistant" or "tool"), its tokens, and whether it asks for calls."""

    role: str
    size: float
    has_calls: bool = False


def oldest_first(gains: Iterable[tuple[int, float]], excess: float) -> Iterator[int]:
    """Yield the places of what is cut until so many tokens are gained; `gains` tells them, oldest first.

    What gains next to nothing stays as it is.
    """
    for place, gain in gains:
        if excess <= 0:
            return
        if gain > _WORTH_IT:
            excess -= gain
            yield place


def first_kept(messages: Sequence[Weighed], tail: float) -> int:
    """Return the first message that stays when all before it are summed up, 0 if there is nothing to sum up.

    At least what the model has not read yet stays: the person's last message, or the results of its last
    calls. So do the messages before that, as far as `tail` tokens reach. A result stays with its call.
    """
    unread = [n for n, message in enumerate(messages) if message.role == "user" or message.has_calls]
    kept = unread[-1] if unread else 0
    left = tail
    for place in reversed(range(kept)):
        left -= messages[place].size
        if left < 0:
            break
        if messages[place].role != "tool":
            kept = place
    return kept if any(message.role != "user" for message in messages[:kept]) else 0
