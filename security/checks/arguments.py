"""Match arguments against the hallucination patterns of REQ-F-045.

A table of named patterns for identifiers, and the parts of it that apply to paths, destinations and
free text. Matching uses the text alone and takes linear time; whether a path or URL may be used is
decided by the gates after `gates/arguments.py`. Where the requirement is silent:

* An identifier may be written in any script and hold `_ - . : / @ + = ~ ,`, so `owner/name`,
  `urn:isbn:1`, `user:bob@example.com` and base64url pass. It must not begin with `/`, `~/` or a
  drive letter, since a tool that joins it to a folder or address would end up somewhere else.
* An encoded form counts when one pass of decoding reveals it: percent-encoding (also `%uXXXX` and
  overlong UTF-8), full-width and look-alike characters, invisible characters in between.
* In a path, `..` set apart by a backslash is refused: systems disagree on where it leads.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import TypeAlias

from ..kinds import CommandLine, Kind, Unreadable
from ..lazy import dataclass, regex
from ..paths import ResolvedPath
from ..text import CONTROLS, INVISIBLE, find_control, find_invisible, find_tag, folded, without_invisible
from ..url import Destination, Url, parse_url

__all__ = ["MAX_ID_LENGTH", "PATTERNS", "Rejection", "climbs", "rejected_pattern"]

MAX_ID_LENGTH = 4096
"""Characters in an identifier, at most: page tokens and signed keys stay well below."""

Canonical: TypeAlias = "Url | ResolvedPath | CommandLine | Destination | str | Unreadable"


@dataclass(frozen=True, slots=True)
class Rejection:
    """The first pattern of the table that was found, and a value that would pass, where there is one."""

    pattern: str
    suggestion: str | None = None


class _Seen:
    """A text as it is, as it looks (`folded`), and as a reader that decodes it sees it (`decoded`)."""

    __slots__ = ("decoded", "folded", "raw")

    def __init__(self, raw: str) -> None:
        self.raw = raw
        self.folded = folded(raw)
        self.decoded = folded(_decoded(self.folded))

    def gained(self, chars: str) -> bool:
        """Whether decoding reveals more of some of these characters than are there openly."""
        if self.decoded is self.folded:
            return False
        return any(self.decoded.count(char) > self.folded.count(char) for char in chars)


Check: TypeAlias = Callable[[_Seen], bool]
Table: TypeAlias = Sequence[tuple[str, Check]]

_ESCAPE = regex(r"%(?:[0-9A-Fa-f]{2}|[uU][0-9A-Fa-f]{4})")
_ESCAPE_BYTES = regex(rb"%(?:([0-9A-Fa-f]{2})|[uU]([0-9A-Fa-f]{4}))")
# An ASCII character spelled in more bytes than it needs; lenient decoders take the low seven bits.
_OVERLONG = regex(
    rb"(?:[\xc0\xc1]|\xe0[\x80\x81]|\xf0\x80[\x80\x81]|\xf8\x80\x80[\x80\x81]|\xfc\x80\x80\x80[\x80\x81])[\x00-\xff]"
)
_DECODINGS = 4

_METACHARS = ";|&$`()<>\n"
_WITH_USER = regex(r"[a-z][a-z0-9+.-]*://[^/\\?#]*@", re.IGNORECASE)
_WITH_CREDENTIALS = regex(
    r"(?:https?://[^/\\?#]*@|[a-z][a-z0-9+.-]*://[^/\\?#@:]*:[^/\\?#]*@)", re.IGNORECASE
)
_BLANKS = rf"[\s{CONTROLS}]*"
_OPAQUE = r"(?:file|javascript|vbscript|view-source):(?=\S)|data:(?:[a-z]+/[a-z0-9.+-]+)?[;,]"
_SCHEME = regex(
    rf"{_BLANKS}(?:[a-z][a-z0-9+.-]+://|(?:https?|ftps?|sftp|mailto):(?=\S)|{_OPAQUE})", re.IGNORECASE
)
# `https:notes.txt` is a file's name; what begins with a slash behind the colon is meant as a URL.
_PATH_SCHEME = regex(
    rf"{_BLANKS}(?:[a-z][a-z0-9+.-]+://|(?:https?|ftps?|sftp):(?=[/\\])|{_OPAQUE})", re.IGNORECASE
)
# `ext::` and the like make git run a program; `fe80::1` is an address.
_LOCAL_SCHEME = regex(rf"{_BLANKS}(?:{_OPAQUE}|(?![0-9a-f]{{1,4}}::)[a-z][a-z0-9-]+::)", re.IGNORECASE)
_PLACEHOLDER = regex(
    r"<[\w .:-]+>|\{\{?[ ]*[A-Za-z_][\w .:]*\}|^\[[A-Za-z][\w .-]*\]$|^:[A-Za-z]\w*$"
    r"|(?<![A-Za-z])YOUR[_-]?[A-Z]|^(?i:your[_-](?:[a-z]+[_-]){0,4}(?:id|key|token|secret|uuid|project|repo|name|here))$"
    r"|^(?i:insert|replace|enter)[_-](?:[A-Za-z]+[_-]){0,6}(?i:here|me|id)$|[A-Z]_HERE$|^(?i:x{3,}(?:-x+)*)$"
    r"|^(?i:(?:[a-z]+[_-]){0,5}(?:id|uuid|guid|key|token|secret|value|name|slug|number|project|repo)[_-]here)$"
    r"|^(?i:placeholder|change[_-]?me)$|^(?:TODO|TBD|FIXME)$"
)
_SHELL = regex(r"[;|&$`<>*!'\"\\()\[\]{}]")
_DESTINATION_SHELL = regex(r"[;|&$`<>*!'\"\\(){}]")
_NULL = regex(r"(?i:null|undefined|none|nan|nil)")
_EDGES = "".join(map(chr, (*range(0x21), *range(0x7F, 0xA1))))
_SURROGATE = regex(r"[\ud800-\udfff]")
_ROOTED = regex(r"/|~(?:[\w.-]*/|$)|[A-Za-z]:[/\\]")
_DOTS_ONLY = regex(r"(?:^|/)\.+(?:/|$)")
# Beside the marks of ASCII those that occur within words of other scripts (UAX 31, table 3a).
_ID_MARKS = frozenset("_-.:/@+=~,\u00b7\u058a\u05be\u05f3\u05f4\u0f0b\u0f0c\u1361\u2027\u30a0\u30fb")
_DESTINATION_MARKS = _ID_MARKS | frozenset("[]#")
# A channel's name begins with this mark; anywhere else it sets a fragment apart.
_BEHIND = regex("(?<=.)#", re.DOTALL)


def climbs(text: str) -> int:
    """Return how many components of a text are `..`, set apart by slashes or backslashes."""
    return text.replace("\\", "/").split("/").count("..") if ".." in text else 0


def _decoded(text: str) -> str:
    """Undo one layer of percent-encoding the way a lenient server does."""
    if not _ESCAPE.search(text):
        return text
    raw = _ESCAPE_BYTES.sub(_byte, text.encode("utf-8", "surrogatepass"))
    raw = _OVERLONG.sub(lambda found: bytes([(found[0][-2] & 1) << 6 | found[0][-1] & 0x3F]), raw)
    return raw.decode("utf-8", "replace")


def _byte(found: re.Match[bytes]) -> bytes:
    if found[1] is not None:
        return bytes([int(found[1], 16)])
    return chr(int(found[2], 16)).encode("utf-8", "surrogatepass")


def _is_no_identifier(text: str, marks: frozenset[str]) -> bool:
    """Whether a text is empty, too long, rooted, blank in parts, or of other characters than identifiers."""
    if not 0 < len(text) <= MAX_ID_LENGTH or _ROOTED.match(text) or _DOTS_ONLY.search(text):
        return True
    if not any(char.isalnum() or char == "_" for char in text) or unicodedata.category(text[0])[0] == "M":
        return True
    return any(not (char.isalnum() or char in marks or unicodedata.category(char)[0] == "M") for char in text)


def _is_no_destination(text: str, marks: frozenset[str]) -> bool:
    """Whether a text is no destination; a name in capitals and a number in groups may hold single blanks."""
    words = text.split(" ")
    if len(words) > 1 and (text[0].isupper() or text[0].isdigit() or text[0] == "+"):
        return any(not word or word[0] == "-" for word in words) or _is_no_identifier("".join(words), marks)
    return _is_no_identifier(text, marks)


def _found(pattern: re.Pattern[str]) -> Check:
    return lambda seen: pattern.search(seen.raw) is not None


def _scheme(pattern: re.Pattern[str]) -> Check:
    return lambda seen: pattern.match(seen.folded) is not None


def _identifier(
    user: re.Pattern[str],
    scheme: re.Pattern[str],
    shell: re.Pattern[str],
    fragment: re.Pattern[str],
    mismatch: Check,
) -> Table:
    """Return the table of the requirement in its order; identifiers and destinations differ in these."""
    return (
        ("path_traversal", lambda seen: climbs(seen.raw) > 0),
        ("double_encoding", lambda seen: _ESCAPE.search(seen.decoded) is not None),
        ("encoded_traversal", lambda seen: climbs(seen.decoded) > 0),
        ("percent_encoded_separator", lambda seen: seen.gained("/\\")),
        ("encoded_shell_metachar", lambda seen: seen.gained(_METACHARS)),
        ("percent_encoded_segment", lambda seen: _ESCAPE.search(seen.folded) is not None),
        ("embedded_query", _found(re.compile(r"[?&]"))),
        ("fragment_identifier", _found(fragment)),
        ("userinfo", _scheme(user)),
        ("unexpected_scheme", _scheme(scheme)),
        ("placeholder", _found(_PLACEHOLDER)),
        ("control_character", lambda seen: find_control(seen.raw) is not None),
        ("invisible_character", lambda seen: INVISIBLE.search(_SURROGATE.sub("", seen.raw)) is not None),
        ("shell_metachar", _found(shell)),
        ("literal_null", lambda seen: _NULL.fullmatch(seen.folded) is not None),
        ("type_pattern_mismatch", mismatch),
    )


# A program that is given the identifier as an argument takes these for options. Others begin with a
# dash as well: numbers of groups, and what base64url makes of random bytes.
_OPTION = regex(
    r"--[A-Za-z].*|-[A-Za-z]{1,3}|-[a-z]+|-[A-Za-z]{1,4}\d{1,4}|-[A-Za-z][\w-]*=+[^=].*", re.DOTALL
)
_IDENTIFIER: Table = (
    *_identifier(
        _WITH_USER, _SCHEME, _SHELL, regex("#"), lambda seen: _is_no_identifier(seen.raw, _ID_MARKS)
    ),
    ("type_pattern_mismatch", lambda seen: _OPTION.fullmatch(seen.raw) is not None),
)
PATTERNS = tuple(dict.fromkeys(name for name, _ in _IDENTIFIER))
"""The stable names, in the order in which they win."""

_DESTINATION: Table = (
    *_identifier(
        _WITH_CREDENTIALS,
        _LOCAL_SCHEME,
        _DESTINATION_SHELL,
        _BEHIND,
        lambda seen: _is_no_destination(seen.raw, _DESTINATION_MARKS),
    ),
    # `-oProxyCommand=…` as a host is an option to ssh and its like.
    ("type_pattern_mismatch", lambda seen: seen.raw.startswith("-")),
)

_TRAVERSAL: Table = (
    ("path_traversal", lambda seen: climbs(seen.raw) > seen.raw.split("/").count("..")),
    ("encoded_traversal", lambda seen: climbs(seen.decoded) > climbs(seen.raw)),
    ("double_encoding", lambda seen: _climbs_at_last(seen) > climbs(seen.raw)),
)

_PATH: Table = (
    _TRAVERSAL[0],
    ("double_encoding", lambda seen: _ESCAPE.search(seen.decoded) is not None),
    _TRAVERSAL[1],
    ("unexpected_scheme", _scheme(_PATH_SCHEME)),
    ("control_character", lambda seen: find_control(seen.raw) is not None),
    ("invisible_character", lambda seen: find_invisible(_SURROGATE.sub("", seen.raw)) is not None),
    ("type_pattern_mismatch", _found(_SURROGATE)),
)

_TEXT: Table = (
    ("control_character", lambda seen: "\0" in seen.raw),
    ("invisible_character", lambda seen: find_tag(seen.raw) is not None),
    ("type_pattern_mismatch", _found(_SURROGATE)),
)


_UNDECLARED: Table = (*_TRAVERSAL[1:], *_TEXT)


def _climbs_at_last(seen: _Seen) -> int:
    """Count `..` in a text that was decoded as long as decoding changes it, within reason."""
    text = seen.decoded
    for _ in range(_DECODINGS):
        text = folded(_decoded(text))
    return climbs(text)


def rejected_pattern(
    kind: Kind, raw: str, canonical: Canonical = "", *, declared: bool = True
) -> Rejection | None:
    """Return the first pattern of the table that an argument of this kind must not show, or None.

    `canonical` is what the reader of that kind made of it (a `ResolvedPath` for paths, a `Url` or
    `Unreadable` for URLs). Of a string that only could be a path (`declared` is False), nothing but
    traversal is held against it.
    """
    pattern = _first(kind, raw, canonical, declared=declared)
    if pattern is None:
        return None
    if pattern == "path_traversal" and isinstance(canonical, ResolvedPath):
        candidate: str | None = canonical.text
    elif isinstance(canonical, Destination):
        # What mail programs write before it, `Ann Lee <ann@example.com>`, is no part of the address.
        candidate = canonical.text
    else:
        candidate = _corrected(kind, pattern, raw)
    if candidate is None or candidate == raw or not _passes(kind, candidate, declared=declared):
        return Rejection(pattern)
    return Rejection(pattern, candidate)


def _first(kind: Kind, raw: str, canonical: Canonical, *, declared: bool) -> str | None:
    match kind:
        case Kind.RESOURCE_ID:
            return _look_up(_IDENTIFIER, raw)
        case Kind.DESTINATION:
            return _look_up(_DESTINATION, raw)
        case Kind.URL:
            return canonical.pattern if isinstance(canonical, Unreadable) else None
        case Kind.PATH:
            if isinstance(canonical, ResolvedPath) and canonical.escaped:
                return "path_traversal"
            return _look_up(_PATH if declared else _TRAVERSAL, raw)
        case Kind.UNDECLARED:
            return _look_up(_UNDECLARED, raw) if "%" in raw or not raw.isascii() else _look_up_text(raw)
        case _:
            return _look_up_text(raw)


def _look_up(table: Table, raw: str) -> str | None:
    seen = _Seen(raw)
    return next((name for name, check in table if check(seen)), None)


def _look_up_text(raw: str) -> str | None:
    """Look up as `_look_up` does, without folding a long text whose looks do not matter."""
    if raw.isascii() and "\0" not in raw:
        return None
    return _look_up(_TEXT, raw)


def _passes(kind: Kind, candidate: str, *, declared: bool) -> bool:
    if not candidate:
        return False
    if kind is Kind.URL:
        return isinstance(parse_url(candidate), Url)
    if kind is Kind.PATH and climbs(candidate):
        return False
    return _first(kind, candidate, candidate, declared=declared) is None


def _corrected(kind: Kind, pattern: str, raw: str) -> str | None:
    """Return what was probably meant, where that can be computed; the caller checks that it passes."""
    is_name = kind in {Kind.RESOURCE_ID, Kind.DESTINATION}
    match pattern:
        case "percent_encoded_segment":
            return _decoded(raw)
        case "embedded_query":
            return re.split(r"[?&]", raw, maxsplit=1)[0]
        case "fragment_identifier":
            return raw.partition("#")[0] or raw.lstrip("#")
        case "unexpected_scheme":
            return raw.removeprefix("file://") if raw.startswith("file:///") else None
        case "control_character":
            return raw.strip(_EDGES) if is_name or kind in {Kind.PATH, Kind.URL} else raw.replace("\0", "")
        case "invisible_character":
            return INVISIBLE.sub("", raw) if is_name else without_invisible(raw)
        case "shell_metachar":
            return raw.strip("\"'`")
        case "type_pattern_mismatch":
            return raw.strip()
        case _:
            return None
