"""Parse the expectations of a script, and compare them with what a step did. Pure.

    !expect denied TOOL [GATE]     a call was refused (asked for and not answered counts, too)
    !expect allowed TOOL           a call was let through, however it ended then
    !expect asked TOOL             a call needed a yes that nobody was there to give
    !expect text "…"               the answer, a result or a slash command's text holds this
    !expect error CATEGORY         a call that was let through failed for this reason
    !expect audit "…"              a record of the step holds this
    !expect exit N                 the last program of the step ended with this code
    !expect file PATH ["…"]        there is such a file, and it holds this
    !expect no-file PATH           there is nothing of that name

`script.py` says which step a line belongs to.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from leeward.security.call import Status, ToolResult
from leeward.security.lazy import dataclass
from leeward.security.outcome import Category
from leeward.security.pipeline import GATES

from ..console import was_asked

if TYPE_CHECKING:
    from ..events import TurnEnded

__all__ = [
    "ABOUT_FILES",
    "Expectation",
    "FoundFile",
    "Happened",
    "found_instead",
    "read_expectation",
    "unnamed_denials",
]

# Beside the gates, what changed while the person was asked is refused, and what cannot be recorded.
_GATES = (*(gate.__name__ for gate in GATES), "approval", "audit")
_ARGUMENTS = {
    "denied": (1, 2),
    "allowed": (1, 1),
    "asked": (1, 1),
    "text": (1, 1),
    "error": (1, 1),
    "audit": (1, 1),
    "exit": (1, 1),
    "file": (1, 2),
    "no-file": (1, 1),
}
ABOUT_FILES = ("file", "no-file")
"""Expectations whose value is a path; what is there is `Happened.files`."""
_SHOWN = 300


@dataclass(frozen=True, slots=True)
class Expectation:
    """One `!expect` line: its words, and its place in the script."""

    line: int
    word: str
    value: str
    detail: str = ""
    file: str = ""

    def __str__(self) -> str:
        value = f'"{self.value}"' if self.word in {"text", "audit"} else self.value
        detail = f'"{self.detail}"' if self.word == "file" and self.detail else self.detail
        return " ".join(filter(None, (self.word, value, detail)))

    def names(self, result: ToolResult) -> bool:
        """Whether it is about this refusal, so that it comes as no surprise."""
        if self.word == "asked":
            return was_asked(result) and result.call.tool == self.value
        if self.word != "denied" or result.call.tool != self.value:
            return False
        return result.outcome.status is Status.DENIED and self.detail in ("", result.outcome.gate)


@dataclass(frozen=True, slots=True)
class FoundFile:
    """What has the name of an expectation about a file: its `text`, and what of it may be `shown`.

    `unread` says why its text is not known, `refused` why nothing is known of it, which meets no expectation.
    """

    text: str = field(default="", repr=False)
    shown: str = ""
    unread: str = ""
    refused: str = ""


@dataclass(slots=True)
class Happened:
    """The outcome of a step: its turns and calls, all text that was shown, and its records as text."""

    turns: list[TurnEnded] = field(default_factory=list)
    results: list[ToolResult] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    audit: list[str] = field(default_factory=list)
    files: dict[str, FoundFile | None] = field(default_factory=dict)


def read_expectation(text: str, line: int) -> Expectation:
    """Read the words behind `!expect`.

    Raises:
        ValueError: it cannot be read; the message says what is expected.
    """
    try:
        words = shlex.split(text)
    except ValueError:
        raise ValueError("a quotation is not closed") from None
    word = words[0] if words else ""
    if word not in _ARGUMENTS:
        raise ValueError(f"!expect {word}: {_known(word, _ARGUMENTS)}")
    least, most = _ARGUMENTS[word]
    if not least <= len(words) - 1 <= most:
        raise ValueError(f'!expect {word} takes {_counted(least, most)}; text with blanks wants "quotes"')
    _check(word, words[1:])
    return Expectation(line, word, words[1], *words[2:])


def _check(word: str, values: Sequence[str]) -> None:
    if not values[0]:
        raise ValueError(f"!expect {word}: an empty word is in everything")
    if word == "error" and values[0] not in set(Category):
        raise ValueError(f"!expect error {values[0]}: {_known(values[0], Category)}")
    if word == "exit" and re.fullmatch(r"[0-9]{1,3}", values[0]) is None:
        raise ValueError(f"!expect exit {values[0]}: expected a number from 0 to 255")
    if word == "denied" and len(values) > 1 and values[1] not in _GATES:
        raise ValueError(f"!expect {word} {values[0]} {values[1]}: {_known(values[1], _GATES)}")


def _known(word: str, names: Iterable[str]) -> str:
    listed = [str(name) for name in names]
    near = difflib.get_close_matches(word, listed, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"{hint}expected one of {', '.join(listed)}"


def _counted(least: int, most: int) -> str:
    return f"{least} word" if least == most else f"{least} or {most} words"


def found_instead(expected: Expectation, happened: Happened) -> str | None:
    """Return None where an expectation was met, else what was found in its place."""
    if expected.word in ABOUT_FILES:
        return _file_instead(expected, happened.files.get(expected.value))
    if expected.word in {"text", "audit"}:
        texts = happened.audit if expected.word == "audit" else happened.texts
        return None if any(expected.value in text for text in texts) else _quoted(texts)
    if any(_meets(expected, result) for result in happened.results):
        return None
    if expected.word == "exit":
        codes = [r.outcome.exit_code for r in happened.results if r.outcome.exit_code is not None]
        # Only the last program speaks; an earlier one with the right code does not help.
        return None if codes and codes[-1] == int(expected.value) else _programs(codes)
    return "; ".join(map(_result_line, happened.results)) or "no call"


def _file_instead(expected: Expectation, found: FoundFile | None) -> str | None:
    if found is not None and found.refused:
        return found.refused
    if expected.word == "no-file":
        return None if found is None else "there is one"
    if found is None:
        return "there is none"
    if not expected.detail:
        return None
    if found.unread:
        return f"not read: {found.unread}"
    return None if expected.detail in found.text else _quoted([found.shown])


def _meets(expected: Expectation, result: ToolResult) -> bool:
    match expected.word:
        case "denied" | "asked":
            return expected.names(result)
        case "allowed":
            return result.call.tool == expected.value and result.outcome.status is not Status.DENIED
        case "error":
            is_error = result.outcome.status not in {Status.OK, Status.DENIED}
            return is_error and result.outcome.category == expected.value
    return False


def _programs(codes: Sequence[int]) -> str:
    return f"exit {codes[-1]}" if codes else "no program ran"


def _result_line(result: ToolResult) -> str:
    """Name a call's outcome in the words of an expectation."""
    outcome = result.outcome
    if outcome.status is Status.DENIED:
        return f"{'asked' if was_asked(result) else 'denied'} {result.call.tool} {outcome.gate}"
    failed = f", error {outcome.category}" if outcome.category is not None else ""
    return f"allowed {result.call.tool}{failed}"


def _quoted(texts: Sequence[str]) -> str:
    whole = "\n".join(texts).strip()
    if not whole:
        return "nothing"
    return whole if len(whole) <= _SHOWN else f"{whole[:_SHOWN]}…"


def unnamed_denials(results: Iterable[ToolResult], expected: Iterable[Expectation]) -> list[ToolResult]:
    """Return the refusals that no expectation of their step named."""
    known = tuple(expected)
    return [
        result
        for result in results
        if result.outcome.status is Status.DENIED and not any(one.names(result) for one in known)
    ]
