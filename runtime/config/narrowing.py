"""Decide what a workspace's configuration may set: only what is provably stricter than without it.

A key without a `Narrowing` cannot be set by a workspace at all. Every comparison here names the parts of a
new value that are looser than the old one; where it names none, nothing was widened. `models.py` says which
key is compared by which.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from leeward.security.lazy import dataclass
from leeward.security.url import covers_domain

from .toml_lines import KeyPath

__all__ = [
    "ASKS_FIRST",
    "LOWER",
    "LOWER_FROM_ENDLESS",
    "MORE",
    "NARROWER_HOSTS",
    "NO_HIGHER_AUTONOMY",
    "ONLY_ASK_OR_DENY",
    "STAYS_OFF",
    "STAYS_ON",
    "STRONGER_MARKS",
    "SUBSET",
    "WEAKER_TRUST",
    "Narrowing",
    "lower_from",
]

AUTONOMY = ("readonly", "supervised", "full")
MARKS = ("delimit", "datamark", "encode")
TRUST = ("trusted", "verified", "quarantined", "blocked")

Looser: TypeAlias = Callable[[Any, Any], Sequence[KeyPath]]
"""Given what holds and what a workspace says: the paths below the key that are looser; `()` is all of it."""

_ALL: tuple[KeyPath, ...] = ((),)


class _Rule(Protocol):
    @property
    def action(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Narrowing:
    """How a workspace may set a key: the rule in words ("a workspace may only …"), and its proof."""

    words: str
    looser: Looser


def _higher(old: float, new: float) -> Sequence[KeyPath]:
    return _ALL if new > old else ()


def _higher_or_endless(old: float, new: float) -> Sequence[KeyPath]:
    return _higher(old or math.inf, new or math.inf)


def _switched_off(old: bool, new: bool) -> Sequence[KeyPath]:
    return _ALL if old and not new else ()


def _switched_on(old: bool, new: bool) -> Sequence[KeyPath]:
    return _ALL if new and not old else ()


def _not_asking(old: str, new: str) -> Sequence[KeyPath]:
    return _ALL if new not in (old, "ask") else ()


def _longer(old: Sequence[str], new: Sequence[str]) -> Sequence[KeyPath]:
    return tuple((index,) for index, entry in enumerate(new) if entry not in old)


def _shorter(old: Sequence[str], new: Sequence[str]) -> Sequence[KeyPath]:
    return () if set(old) <= set(new) else _ALL


def _wider(old: Sequence[str], new: Sequence[str]) -> Sequence[KeyPath]:
    """Compare lists of hosts, of which an empty one covers all."""
    if not old:
        return ()
    if not new:
        return _ALL
    covered = (any(covers_domain(pattern, entry) for pattern in old) for entry in new)
    return tuple((index,) for index, is_covered in enumerate(covered) if not is_covered)


def _raised(old: str, new: str) -> Sequence[KeyPath]:
    return _ALL if AUTONOMY.index(new) > AUTONOMY.index(old) else ()


def _less_marked(old: str, new: str) -> Sequence[KeyPath]:
    return _ALL if MARKS.index(new) < MARKS.index(old) else ()


def _permitting(_: Sequence[_Rule], new: Sequence[_Rule]) -> Sequence[KeyPath]:
    return tuple((index, "action") for index, rule in enumerate(new) if rule.action == "allow")


def _more_trusted(old: Mapping[str, str], new: Mapping[str, str]) -> Sequence[KeyPath]:
    """Compare with the weakest level where the person set none: its default or its source may give any."""
    unsaid = max((TRUST.index(level) for level in old.values()), default=0)
    unsaid = max(unsaid, TRUST.index("quarantined"))
    return tuple(
        (name,)
        for name, level in new.items()
        if TRUST.index(level) < (TRUST.index(old[name]) if name in old else unsaid)
    )


def lower_from(default: Callable[[], int]) -> Narrowing:
    """Return the rule for a number whose 0 is the machine's default, found when values are compared."""
    return Narrowing(
        "lower it (0 is the default)", lambda old, new: _higher(old or default(), new or default())
    )


LOWER = Narrowing("lower it", _higher)
LOWER_FROM_ENDLESS = Narrowing("lower it (0 is endless)", _higher_or_endless)
STAYS_ON = Narrowing("switch it on", _switched_off)
STAYS_OFF = Narrowing("switch it off", _switched_on)
ASKS_FIRST = Narrowing('say "ask"', _not_asking)
SUBSET = Narrowing("take entries away", _longer)
MORE = Narrowing("add entries", _shorter)
NARROWER_HOSTS = Narrowing("name hosts that are covered already", _wider)
NO_HIGHER_AUTONOMY = Narrowing("lower it", _raised)
ONLY_ASK_OR_DENY = Narrowing('add rules that say "ask" or "deny"', _permitting)
STRONGER_MARKS = Narrowing("mark more strongly", _less_marked)
WEAKER_TRUST = Narrowing("lower trust, below verified where nothing is set yet", _more_trusted)
