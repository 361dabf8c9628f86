"""Read a pattern of file names as a shell and `find` do: wildcards, sets in brackets, escaped characters.

The meaning of a token is never narrower than what any shell takes it for. A set matches any one
character, since what is in it depends on the language. Where shells disagree about the end of a set, the
rest of the pattern matches any text. A bracket behind which none closes is a character like any other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import translate

from ..lazy import dataclass, regex

__all__ = ["WildcardToken", "wildcard_expression", "wildcard_tokens"]

_PLAIN = r"\*+|\?|\\.|."
# A wildcard in brackets is that character. A set ends at the first bracket that is neither its first
# character, nor escaped, nor the end of a named class; one that never ends, or holds `[.`, `[=` or `[:`
# without a class, takes all that is left, so no text is gone through more than a few times. The group is not
# possessive, for what begins it differs: before Python 3.11.5 such groups of alternatives match too little.
_PIECE = regex(
    r"(?P<one>\[[*?\[]\])"
    r"|(?P<set>\[(?:\^(?!\])|(?!\^)!?+\]?+)(?:\[:\w{0,32}:\]|\\.|(?!\[[.=:])[^\]\\])*\])"
    rf"|(?P<rest>\[.*+)|{_PLAIN}",
    re.DOTALL,
)
_UNCLOSED_PIECE = regex(_PLAIN, re.DOTALL)


@dataclass(frozen=True, slots=True)
class WildcardToken:
    """A piece of a pattern.

    `wildcard` is "*" for any text, "?" for any one character, "" for the character `text`. Of a wildcard,
    `text` is how it is written.
    """

    wildcard: str
    text: str


def wildcard_tokens(pattern: str) -> list[WildcardToken]:
    """Return the pieces of a pattern in order, in time linear in its length."""
    closed = pattern.rfind("]") + 1
    found = [_token(match) for match in _PIECE.finditer(pattern, 0, closed)]
    return found + [_plain_token(text) for text in _UNCLOSED_PIECE.findall(pattern, closed)]


def _token(match: re.Match[str]) -> WildcardToken:
    text = match[0]
    if match["one"]:
        return WildcardToken("", text[1])
    if match["set"]:
        return WildcardToken("?", text)
    return WildcardToken("*", text) if match["rest"] else _plain_token(text)


def _plain_token(text: str) -> WildcardToken:
    if text[0] in "*?":
        return WildcardToken(text[0], text)
    return WildcardToken("", text[-1])


def wildcard_expression(tokens: Sequence[WildcardToken]) -> re.Pattern[str]:
    """Return what matches all names that these tokens match.

    The library's expression stays with the first match of the part behind a star, so it never goes back
    further than to that.
    """
    return re.compile(translate("".join(token.wildcard or _escaped(token.text) for token in tokens)))


def _escaped(character: str) -> str:
    return f"[{character}]" if character in "*?[" else character
