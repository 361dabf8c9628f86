"""Strategies for single lines: noise, ends, matches, repetitions.

Each is a frozen model of its parameters with one pure function `decide`. Those that read the form of a report
are in `reports.py`, what finds lines that say the same in `similar.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from leeward.memory.patterns import LinearPattern, line_pattern

from .page import Decision, Fold, Page, matching
from .similar import normalised

__all__ = [
    "LONGEST_PATTERN",
    "Count",
    "Dedup",
    "KeepMatching",
    "Parameters",
    "Patterns",
    "StripAnnotated",
    "StripNoise",
    "Truncate",
    "joined",
]

LONGEST_PATTERN = 500
_MOST_PATTERNS = 50
_MOST_LINES = 100_000


def _is_pattern(text: str) -> str:
    """Refuse what RE2 does not take; `BadPattern` is a `ValueError`, whose words pydantic passes on."""
    line_pattern(text)
    return text


LinePattern = Annotated[str, Field(min_length=1, max_length=LONGEST_PATTERN), AfterValidator(_is_pattern)]
Patterns: TypeAlias = Annotated[
    tuple[LinePattern, ...], Field(strict=False, min_length=1, max_length=_MOST_PATTERNS)
]
Count: TypeAlias = Annotated[int, Field(ge=0, le=_MOST_LINES)]


class Parameters(BaseModel):
    """What all strategies have in common: nothing is guessed, and nothing unknown is passed over."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True, strict=True)


@lru_cache(maxsize=256)
def joined(patterns: Sequence[str]) -> LinearPattern:
    """Return one expression for lines that match any of several patterns."""
    return line_pattern("|".join(f"(?:{pattern})" for pattern in patterns))


class StripNoise(Parameters):
    """Leave out lines that match one of the patterns."""

    kind: Literal["strip_noise"] = "strip_noise"
    patterns: Patterns

    def decide(self, page: Page) -> Decision:
        """Name the noise."""
        return Decision(dropped=matching(joined(self.patterns), page))


class Truncate(Parameters):
    """Of more than `max_lines` lines show the first `head` and the last `tail`; twice that of a failure."""

    kind: Literal["truncate"] = "truncate"
    max_lines: Annotated[int, Field(ge=1, le=_MOST_LINES)]
    head: Count
    tail: Count

    def decide(self, page: Page) -> Decision:
        """Name the middle."""
        factor = 2 if page.failed else 1
        if len(page.lines) <= self.max_lines * factor:
            return Decision()
        return Decision(
            dropped=range(self.head * factor, len(page.lines) - self.tail * factor), is_blind=True
        )


class KeepMatching(Parameters):
    """Show only lines that match one of the patterns, and `before` and `after` lines around each."""

    kind: Literal["keep_matching"] = "keep_matching"
    patterns: Patterns
    before: Count = 0
    after: Count = 0

    def decide(self, page: Page) -> Decision:
        """Name everything else."""
        wanted = bytearray(len(page.lines))
        for index in matching(joined(self.patterns), page):
            first, last = max(0, index - self.before), min(len(wanted), index + self.after + 1)
            wanted[first:last] = b"\1" * (last - first)
        return Decision(
            dropped=[index for index, is_wanted in enumerate(wanted) if not is_wanted], is_blind=True
        )


class StripAnnotated(Parameters):
    """Leave out the steps of a long job, but for the first and last few, and say how many there were.

    `patterns` are the steps; a step that matches `summary` tells how the job ended, and stays.
    """

    kind: Literal["strip_annotated"] = "strip_annotated"
    patterns: Patterns
    summary: LinePattern | None = None
    head: Count = 0
    tail: Count = 0

    def decide(self, page: Page) -> Decision:
        """Name the steps between."""
        steps = list(matching(joined(self.patterns), page))
        if self.summary is not None:
            kept = set(matching(joined((self.summary,)), page))
            steps = [index for index in steps if index not in kept]
        factor = 2 if page.failed else 1
        between = steps[self.head * factor : len(steps) - self.tail * factor]
        if not between:
            return Decision()
        gone = set(between)
        beside = next(
            (
                index
                for index in (between[0] - 1, *range(len(page.lines)))
                if index >= 0 and index not in gone
            ),
            0,
        )
        note = f"{len(between)} of {len(steps)} steps left out"
        return Decision(dropped=between, notes={beside: note})


class Dedup(Parameters):
    """Show lines that say the same once, with their number; times, addresses and ids do not tell them apart.

    `scope` is whether they must be adjacent ("run"), or may be anywhere in the output ("all").
    """

    kind: Literal["dedup"] = "dedup"
    scope: Literal["run", "all"] = "run"

    def decide(self, page: Page) -> Decision:
        """Fold lines into the first of their kind."""
        keys = normalised(page.block).split(b"\n")
        return Decision(folds=(_runs if self.scope == "run" else _groups)(keys))


# A short line, such as a bracket, says nothing by itself: elsewhere it is not the same.
_SHORT = 12


def _groups(keys: Sequence[bytes]) -> list[Fold]:
    found: dict[bytes, list[int]] = {}
    for index, key in enumerate(keys):
        if len(key) >= _SHORT:
            found.setdefault(key, []).append(index)
    return [Fold(members[0], members[1:]) for members in found.values() if len(members) > 1]


def _runs(keys: Sequence[bytes]) -> list[Fold]:
    folds, first = [], 0
    for index in range(1, len(keys) + 1):
        if index == len(keys) or keys[index] != keys[first]:
            if index - first > 1:
                folds.append(Fold(first, range(first + 1, index)))
            first = index
    return folds
