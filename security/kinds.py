"""The vocabulary of the gates: what an argument is, what a tool does, and the JSON both come in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Flag, StrEnum, auto
from typing import TypeAlias

__all__ = ["EFFECT_KEY", "KIND_KEY", "LASTS_KEY", "Effect", "Json", "Kind", "Runs", "Unreadable"]


Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"

KIND_KEY = "x-leeward-kind"
"""The JSON Schema keyword under which an argument's schema names its `Kind`."""

EFFECT_KEY = "x-leeward-effect"
"""The keyword by which an argument's schema says "read": so much is done with it, whatever the call does."""


LASTS_KEY = "x-leeward-lasts"
"""The keyword by which a switch says that the call outlives its result where it is on."""


class Effect(Flag):
    """What a tool does to the world. A tool that declares none has all of them."""

    READ = auto()
    WRITE = auto()
    EXECUTE = auto()
    SEND = auto()
    BRING_IN = auto()
    ALL = READ | WRITE | EXECUTE | SEND | BRING_IN


class Kind(StrEnum):
    """What an argument *is*; every gate works on kinds, none on argument names."""

    PATH = "path"
    URL = "url"
    COMMAND = "command"
    RESOURCE_ID = "resource_id"
    DESTINATION = "destination"
    SECRET = "secret"  # noqa: S105 - the name of a kind
    TEXT = "text"
    UNDECLARED = "undeclared"


class Runs(StrEnum):
    """In what a command line runs, the strictest first.

    A trial changes a copy of the workspace and reaches nothing else; what it changed is judged afterwards.
    A read-only run can change nothing. A real run has the rights that the configuration gives to commands.
    """

    TRIAL = "trial"
    READ_ONLY = "read_only"
    REAL = "real"

    @property
    def strictness(self) -> int:
        """How much a run is kept from, for comparison: more for the stricter."""
        return -list(Runs).index(self)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """What a parser returns instead of a guess.

    `pattern` is the stable name of REQ-F-045 where one fits (`userinfo`, `control_character`, …),
    `reason` says in our own words what was wrong; it never quotes the value.
    """

    reason: str
    pattern: str = "type_pattern_mismatch"
