"""Which programs run others, and where among their words does what they run begin?

The table is `wrappers.toml`. What is run in turn is read by `unwrap.py`; whether a wrapper adds
nothing of its own to what it runs is told here, for `quiet.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from ..programs import Parsed, parse_options, table
from ..syntax import Assignment, Word, is_harmless, literal

__all__ = [
    "Wrapper",
    "added_by_wrapper",
    "behind_a_value",
    "is_transparent",
    "parsed_of",
    "split_string",
    "wrapper_of",
]

_SHELLS = frozenset("sh bash dash zsh ksh mksh ash rbash posh yash".split())
_SPLIT = re.compile(r"-(?P<flags>[iv0]*)S|--split-string(?P<mark>=?)")
_PLAIN_WORDS = re.compile(r"[A-Za-z0-9_@%+=:,./ -]+")
_VERSION = re.compile(r"(?<=[A-Za-z])[0-9.]+$")
_ERROR_SETTINGS = frozenset("errexit nounset pipefail xtrace".split())


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A line of the table, with its defaults."""

    runs: str
    options: str = ""
    operands: int = 0
    code: tuple[str, ...] = ()
    spelled: str = ""
    assigns: bool = False
    given: bool = False
    fed: bool = False
    script: tuple[str, ...] = ()
    unless: str = ""
    lenient: bool = False
    privilege: bool = False
    quiet: str | None = None


@lru_cache(maxsize=1)
def _wrappers() -> dict[str, Wrapper]:
    found = {}
    for group in table("wrappers.toml").values():
        for name, line in group.items():
            fields: dict[str, Any] = dict(line)
            for key in ("code", "script"):
                fields[key] = tuple(fields.get(key, "").split())
            found[name] = Wrapper(**fields)
    return found


def wrapper_of(program: str, words: tuple[Word, ...]) -> Wrapper | None:
    """Return what the table says of a program, or of it with its first word, or None."""
    wrappers = _wrappers()
    if program in _SHELLS:
        return wrappers["sh"]
    if len(words) > 1 and (found := wrappers.get(f"{program} {words[1].text}")):
        # The sub-command stands where an operand would; it is skipped like one.
        return replace(found, operands=found.operands + 1)
    return wrappers.get(program) or wrappers.get(_VERSION.sub("", program))


def parsed_of(words: tuple[Word, ...], found: Wrapper) -> Parsed:
    """Return a wrapper's own options, and as operands all that stands behind them."""
    is_runner = len(words) > 1 and f"{words[0].text.rpartition('/')[2]} {words[1].text}" in _wrappers()
    if is_runner or (found.operands and found.lenient and words[1:] and not words[1].text.startswith("-")):
        # The sub-command of a runner stands in front of the runner's own options.
        parsed = parse_options(words[2:], found.options, stops=True)
        return replace(parsed, operands=(words[1], *parsed.operands))
    return parse_options(words[1:], found.options, stops=True)


def behind_a_value(words: tuple[Word, ...], first: Word) -> tuple[Word, ...]:
    """Return what is run if the word taken for a program is the value of the unknown option before it."""
    at = next((at for at, word in enumerate(words) if word is first), 1)
    before = words[at - 1].text
    if not before.startswith("-") or "=" in before or before == "--":
        return ()
    rest = words[at + 1 :]
    while rest and rest[0].text.startswith("-"):
        rest = rest[1:]
    return rest


def split_string(words: tuple[Word, ...]) -> tuple[Word, ...] | None:
    """Return how `env` calls itself again once it has split the value of `-S`, where that is plain words."""
    for at, word in enumerate(words[1:], 1):
        found = _SPLIT.match(word.text)
        if found is None and not word.text.startswith("-"):
            return None
        if found is not None:
            rest = words[at + 1 :]
            text = word.text[found.end() :]
            if found["mark"] != "=" and not text and rest:
                text, rest = rest[0].text, rest[1:]
            flags = (literal(f"-{found['flags']}"),) if found["flags"] else ()
            if _PLAIN_WORDS.fullmatch(text) is None:
                return None
            return (*words[:at], *flags, *map(literal, text.split()), *rest)
    return None


def is_transparent(program: str, words: tuple[Word, ...]) -> bool:
    """Whether a program can be as quiet as what it runs."""
    found = wrapper_of(program, words)
    return found is not None and found.quiet is not None and (found.runs != "shell" or program in _PLAIN)


_PLAIN = frozenset({"sh", "bash", "dash"})


def added_by_wrapper(program: str, words: tuple[Word, ...]) -> Word | None:
    """Return the word by which a wrapper does more than run something, or None.

    Only the options the table calls quiet add nothing; another could read, write, move, or change how
    what follows is taken.
    """
    found = wrapper_of(program, words)
    if found is None or found.quiet is None:
        return words[0]
    parsed = parse_options(words[1:], found.quiet, stops=True)
    if parsed.unknown is not None:
        return parsed.unknown
    for name, value, _ in parsed.options:
        if value is not None and (not value.is_literal or not _is_plain(program, name, value.text)):
            return value
    for word in parsed.operands:
        name, mark, text = word.text.partition("=")
        if not found.assigns or not mark:
            break
        if not is_harmless(Assignment(name, literal(text))):
            return word
    return None


def _is_plain(program: str, name: str, value: str) -> bool:
    """Whether the value of an option changes nothing; a shell's `-o` may only say how errors end it."""
    return program not in _PLAIN or name != "-o" or value in _ERROR_SETTINGS
