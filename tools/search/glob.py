"""Translate glob patterns to RE2, so that every pattern matches in linear time."""

from __future__ import annotations

import re

from leeward.memory.patterns import BadPattern, LinearPattern, escaped_pattern, linear_pattern
from leeward.security.lazy import regex
from leeward.security.outcome import InvalidParameters

__all__ = ["glob_expression", "glob_pattern"]

# Two stars or more, as a whole name: beside anything else they are what one is.
_FOLDERS = regex(r"\*{2,}(?:(?P<below>/)|(?=[,}]|\Z))")
_CLASS = regex(r"(?s)\[(?P<no>[!^]?)(?P<members>\]?(?:\[:[a-z]+:\]|\\.|[^\]\\])*)\]")
_MEMBER = regex(r"(?s)(?P<named>\[:[a-z]+:\])|(?P<first>\\.|.)(?:-(?P<last>\\.|.))?")
_NOTHING = r"^\x00-\x{10ffff}"
_WITHOUT_SLASH = {"[:graph:]": "!-.0-~", "[:print:]": " -.0-~", "[:punct:]": r"!-.:-@\[-`{-~"}


def glob_pattern(pattern: str) -> LinearPattern:
    """Return a compiled expression for relative paths with `/` between names.

    `*` and `?` stay within a name, `[abc]` and `[!abc]` are one character of it, `**` as a whole name
    is any number of folders, `{a,b}` is either, a backslash takes the next character as it is. A pattern
    without a slash matches the last name at any depth.

    Raises:
        InvalidParameters: the pattern is empty, absolute or climbs, or it cannot be compiled.
    """
    pattern = pattern.removeprefix("./")
    if not pattern.strip("/"):
        raise InvalidParameters("the pattern is empty")
    if pattern.startswith(("/", "~")) or ".." in pattern.split("/"):
        raise InvalidParameters("the pattern is relative to 'path' and cannot leave it; set 'path' instead")
    pattern = pattern.rstrip("/")
    if "/" not in pattern:
        pattern = "**/" + pattern
    try:
        return linear_pattern(glob_expression(pattern))
    except BadPattern as error:
        raise InvalidParameters("the pattern cannot be read as a glob pattern") from error


def glob_expression(pattern: str, *, braces: bool = True) -> str:
    """Return the RE2 expression for a whole relative path; without `braces` these are literal."""
    return "(?s)" + _Translation(pattern, braces=braces).run()


class _Translation:
    """One pass over a pattern, character by character."""

    def __init__(self, pattern: str, *, braces: bool) -> None:
        self._text = pattern
        self._at = 0
        self._depth = 0
        self._balanced = braces and pattern.count("{") == pattern.count("}")

    def run(self) -> str:
        parts = []
        while self._at < len(self._text):
            parts.append(self._next())
        return "".join(parts)

    def _next(self) -> str:
        whole = _FOLDERS.match(self._text, self._at)
        if whole is not None and self._begins_name():
            self._at = whole.end()
            return "(?:[^/]+/)*" if whole["below"] else ".*"
        char = self._text[self._at]
        self._at += 1
        match char:
            case "*":
                return "[^/]*"
            case "?":
                return "[^/]"
            case "[":
                return self._class()
            case "\\" if self._at < len(self._text):
                self._at += 1
                return self._literal(self._text[self._at - 1])
            case "{" | "}" | "," if self._balanced:
                return self._brace(char)
            case _:
                return self._literal(char)

    def _begins_name(self) -> bool:
        return self._at == 0 or self._text[self._at - 1] == "/"

    def _class(self) -> str:
        """Translate `[...]`; without an end it is a bracket like any other character."""
        found = _CLASS.match(self._text, self._at - 1)
        if found is None:
            return self._literal("[")
        self._at = found.end()
        members = "".join(map(_member, _MEMBER.finditer(found["members"])))
        return f"[^/{members}]" if found["no"] else f"[{members or _NOTHING}]"

    def _brace(self, char: str) -> str:
        if char == "," and not self._depth:
            return ","
        if char == "}" and not self._depth:
            return self._literal(char)
        self._depth += {"{": 1, "}": -1, ",": 0}[char]
        return {"{": "(?:", "}": ")", ",": "|"}[char]

    @staticmethod
    def _literal(char: str) -> str:
        return escaped_pattern(char)


def _member(found: re.Match[str]) -> str:
    """Translate a character, a range or a named kind of a class, without the slash, which is in no name."""
    if found["named"]:
        return _WITHOUT_SLASH.get(found["named"], found["named"])
    first = found["first"][-1]
    last = (found["last"] or first)[-1]
    ranges = ((first, "."), ("0", last)) if first <= "/" <= last else ((first, last),)
    # A range the wrong way round is left to RE2 to refuse.
    wanted = ranges if len(ranges) == 1 else [one for one in ranges if one[0] <= one[1]]
    return "".join(f"\\x{{{ord(low):x}}}-\\x{{{ord(high):x}}}" for low, high in wanted)
