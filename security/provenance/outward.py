"""What calls of a session took outward, and which yes to one is good for the next.

`let_out` are the keyed marks of pieces of secrets, over the whole session; `carried_to` the hosts that a yes
lets be sent what no word is like. For the turn alone: `sent`, the marks of what tools sent to whom, and
`confirmed`, tools each with a call of whose result the person let it use a value.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ..lazy import dataclass

__all__ = ["Outward", "sent_mark"]

_NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Outward:
    """What went out in a session, and what may go out again."""

    let_out: frozenset[str] = _NOTHING
    carried_to: frozenset[str] = _NOTHING
    sent: frozenset[str] = _NOTHING
    confirmed: frozenset[tuple[str, str]] = frozenset()

    def with_call(self, let_out: Sequence[str], sent: str) -> Outward:
        """Return what is known once a call took something outward."""
        if not let_out and not sent:
            return self
        return replace(
            self, let_out=self.let_out.union(let_out), sent=self.sent | {sent} if sent else self.sent
        )

    def with_yes(self, hosts: Iterable[str], texts: Iterable[tuple[str, str]]) -> Outward:
        """Return what is known once the person let a call use values of some texts, or reach some hosts."""
        return replace(self, carried_to=self.carried_to.union(hosts), confirmed=self.confirmed.union(texts))

    def in_new_turn(self) -> Outward:
        """Return what stays when a turn begins."""
        return replace(self, sent=_NOTHING, confirmed=frozenset())

    def cleared(self) -> Outward:
        """Return what stays when a conversation is forgotten: what is outside stays there."""
        return Outward(self.let_out)


def sent_mark(tool: str, places: Iterable[str], key: bytes) -> str:
    """Return what is recorded of a tool that sends something to places; "" where there are none."""
    named = sorted(places)
    text = "\0".join((tool, *named)).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=8, key=key).hexdigest() if named else ""
