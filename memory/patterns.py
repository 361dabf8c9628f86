"""Compile patterns written by a model with RE2, so that matching takes linear time on any text.

The caller decides what is matched, and how a bad pattern is reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import AnyStr, Protocol

import re2

from leeward.security.lazy import regex

__all__ = ["BadPattern", "LinearPattern", "PatternSet", "escaped_pattern", "line_pattern", "linear_pattern"]


_ENDS_OF_TEXT = regex(r"\\[AzZ]|\(\?[a-zA-Z]*-[a-zA-Z]*m")


class BadPattern(ValueError):
    """A search pattern cannot be read; the message says why."""


class LinearPattern(Protocol):
    """An expression that RE2 has compiled, for text or UTF-8 bytes."""

    def search(self, text: AnyStr, pos: int = ..., endpos: int = ..., /) -> re.Match[AnyStr] | None:
        """Return the first match."""
        ...

    def fullmatch(self, text: AnyStr, pos: int = ..., endpos: int = ..., /) -> re.Match[AnyStr] | None:
        """Return the match of the whole text."""
        ...

    def finditer(self, text: AnyStr, pos: int = ..., endpos: int = ..., /) -> Iterator[re.Match[AnyStr]]:
        """Return all matches, from left to right."""
        ...


def linear_pattern(pattern: str, *, within_lines: bool = False) -> LinearPattern:
    """Return a compiled expression for text or UTF-8 bytes; `within_lines`, nothing in it matches a line end.

    Raises:
        BadPattern: RE2 does not understand it.
    """
    options = re2.Options()
    # Without this the library writes what is wrong with a pattern to the terminal.
    options.log_errors = False
    options.never_nl = within_lines
    try:
        compiled: LinearPattern = re2.compile(pattern, options)
    except re2.error as error:
        (message, *_) = error.args or ("no reason given",)
        words = message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)
        raise BadPattern(f"the pattern is no RE2 expression: {words}") from error
    except UnicodeEncodeError as error:
        raise BadPattern("the pattern holds characters that no text can hold") from error
    return compiled


def line_pattern(pattern: str) -> LinearPattern:
    """Return an expression whose matches in many lines are the whole lines in which `pattern` is found.

    In it `^` and `$` are the ends of a line.

    Raises:
        BadPattern: RE2 does not understand it, or it speaks of the ends of the whole text.
    """
    linear_pattern(pattern)
    if _ENDS_OF_TEXT.search(pattern) is not None:
        raise BadPattern("the pattern names the ends of a text; ^ and $ are those of a line")
    return linear_pattern(f"(?m)^.*(?:{pattern}).*$", within_lines=True)


class PatternSet:
    """Several expressions that are held against a whole text at once."""

    def __init__(self, patterns: Iterable[str]) -> None:
        """Compile them.

        Raises:
            BadPattern: RE2 does not understand one, or they are too much together.
        """
        options = re2.Options()
        options.log_errors = False
        self._set = re2.Set.FullMatchSet(options)
        try:
            self._count = len([self._set.Add(pattern) for pattern in patterns])
            self._set.Compile()
        except (re2.error, UnicodeEncodeError) as error:
            raise BadPattern("a pattern of the set is no RE2 expression") from error

    def matching(self, text: str) -> list[int]:
        """Return the numbers, from 0, of those that match, the highest first."""
        return sorted(self._set.Match(text) or (), reverse=True) if self._count else []


def escaped_pattern(text: str) -> str:
    """Return the expression that matches exactly a text."""
    escaped: str = re2.escape(text)
    return escaped
