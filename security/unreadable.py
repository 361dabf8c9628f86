"""The value that stands where a reader could not tell what it was given."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Unreadable"]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """What a parser returns instead of a guess.

    `pattern` is the stable name of REQ-F-045 where one fits (`userinfo`, `control_character`, …),
    `reason` says in our own words what was wrong; it never quotes the value.
    """

    reason: str
    pattern: str = "type_pattern_mismatch"
