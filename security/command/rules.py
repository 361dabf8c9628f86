"""What people configure about commands, held against what was read and never against the text.

blocked_commands   never run: the words of an entry, in any order behind the program's name
allowed_commands   run without a question: the words of an entry, globs, a last `*` for any further
confirm_patterns   always asked about: a construct ("$(", "`", "<(", ">(", "<<<") or words as above
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from fnmatch import fnmatchcase

from .nouns import CommandLine

__all__ = ["DEFAULT_CONFIRM", "ShellRules", "allows", "blocked_by", "confirmed_by"]

DEFAULT_CONFIRM = ("$(", "`", "<(", ">(", "<<<", "eval")

_CONSTRUCTS = frozenset({"$(", "`", "<(", ">(", "<<<", "<<"})


@dataclass(frozen=True, slots=True)
class ShellRules:
    """`[tools.shell]` as far as the gate needs it."""

    blocked: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    confirm: tuple[str, ...] = DEFAULT_CONFIRM


def blocked_by(argv: tuple[str, ...], rules: ShellRules) -> str | None:
    """Return the entry of `blocked_commands` that speaks of an action, or None."""
    return next((entry for entry in rules.blocked if _speaks_of(_words(entry), argv)), None)


def confirmed_by(line: CommandLine, rules: ShellRules) -> str | None:
    """Return the entry of `confirm_patterns` that speaks of a line, or None."""
    for entry in rules.confirm:
        if entry.strip() in _CONSTRUCTS:
            if entry.strip() in line.constructs:
                return entry
        elif any(_speaks_of(_words(entry), argv) for argv in line.actions):
            return entry
    return None


def allows(argv: tuple[str, ...], rules: ShellRules) -> bool:
    """Whether an entry of `allowed_commands` covers an action."""
    return any(_covers(_words(entry), argv) for entry in rules.allowed)


def _words(entry: str) -> list[str]:
    try:
        return shlex.split(entry)
    except ValueError:
        return entry.split()


def _speaks_of(words: list[str], argv: tuple[str, ...]) -> bool:
    """Whether a program by any path has every word of an entry among its own; flags may be joined."""
    if not words or not argv:
        return False
    called = (argv[0], argv[0].rpartition("/")[2])
    if not any(fnmatchcase(name, words[0]) for name in called):
        return False
    return all(_has(word, argv[1:]) for word in words[1:] if word != "*")


def _has(word: str, rest: tuple[str, ...]) -> bool:
    if re.fullmatch(r"-[A-Za-z]+", word):
        flags = {letter for text in rest if re.match(r"-[A-Za-z]", text) for letter in text[1:]}
        if set(word[1:]) <= flags:
            return True
    # An open word shows its pieces between marks; a rule means what it says without them.
    return any(fnmatchcase(text, word) or fnmatchcase(text.translate(_MARKS), word) for text in rest)


_MARKS = str.maketrans("", "", "⟨⟩")


def _covers(words: list[str], argv: tuple[str, ...]) -> bool:
    if words and words[-1] == "*":
        return len(argv) >= len(words) - 1 and all(map(fnmatchcase, argv, words[:-1]))
    return len(words) == len(argv) and all(map(fnmatchcase, argv, words))
