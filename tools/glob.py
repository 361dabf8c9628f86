"""What does a glob pattern mean? Translated to RE2, so that no pattern takes more than linear time."""

from __future__ import annotations

from typing import Any

from leeward.memory import BadPattern, escaped_pattern, linear_pattern
from leeward.security import InvalidParameters

__all__ = ["glob_expression", "glob_pattern"]


def glob_pattern(pattern: str) -> Any:
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
    """Return the RE2 expression for a whole relative path; without `braces` these stand for themselves."""
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
        for taken, meaning in (("**/", "(?:[^/]+/)*"), ("**", ".*")):
            if self._text.startswith(taken, self._at) and self._begins_name():
                self._at += len(taken)
                return meaning
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
        start = self._at + (self._text[self._at : self._at + 1] in ("!", "^"))
        end = self._text.find("]", start + 1)
        if end < 0:
            return self._literal("[")
        negated = start > self._at
        body = self._text[start:end].replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")
        body = body.replace("^", "\\^").replace("&", "\\&")
        self._at = end + 1
        return f"[^/{body}]" if negated else f"[{body}]"

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
