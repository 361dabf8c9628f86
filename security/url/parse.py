"""Parse a URL into the one canonical form that is judged, shown, recorded, grounded and sent.

There is one parser for all uses, and the form is `Url.text`. Browsers and HTTP clients repair broken
URLs, each in its own way; here a URL that would need a repair is refused, so that no two readers can
disagree. `extract.py` finds URLs in text, `hosts.py` judges where they lead, and `ledger.py` decides
whether they may be opened.
"""

from __future__ import annotations

import re
import unicodedata

import ada_url

from ..kinds import Unreadable
from ..lazy import dataclass, regex
from ..text import is_invisible, is_ordinary

__all__ = ["DEFAULT_PORTS", "MAX_BYTES", "Url", "comparable", "join_url", "parse_url", "same_site"]

DEFAULT_PORTS = {"https": 443, "http": 80}

MAX_BYTES = 8192
"""The longest URL that is read, in bytes of its text as given and of its canonical form."""

_SCHEME = regex(r"(?P<name>[A-Za-z][A-Za-z0-9+.-]*):(?P<rest>.*)", re.DOTALL)
_PARTS = regex(r"(?P<slashes>/*)(?P<authority>[^/?#]*)(?P<path>[^?#]*)", re.DOTALL)
_BEHIND_HOST = regex(r"[^:/?#]*://[^/?#]*[/?#]")
_PORT_ONLY = regex(r"\d+(?:[/?#]|$)")
_ESCAPE = regex(r"%([0-9A-Fa-f]{2})?")
_STRAY_PERCENT = regex(r"%(?![0-9A-Fa-f]{2})")
_ESCAPED_BYTE = regex(rb"%([0-9A-Fa-f]{2})")
_LABEL = regex(r"[a-z0-9_-]{1,63}")
_LONGEST_HOST = 253  # RFC 1035, 2.3.4
_UNRESERVED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~")  # RFC 3986, 2.3

_SPELLED_EITHER_WAY = str.maketrans({mark: f"%{ord(mark):02X}" for mark in "()!*'"})

_DOUBLE_ENCODING = regex(r"%25(?:25)*(?:2e|2f|5c)", re.IGNORECASE)
_ENCODED_DOTS = regex(r"%2e%2e|\.%2e|%2e\.", re.IGNORECASE)
_DECODINGS = 4

# Longer UTF-8 forms of `.`, `/` and `\` are invalid, and still decoded by careless servers.
_OVERLONG = {
    b"\xc0\xae": b".", b"\xe0\x80\xae": b".", b"\xc0\xaf": b"/", b"\xe0\x80\xaf": b"/",
    b"\xc1\x9c": b"/", b"\xe0\x81\x9c": b"/",
}  # fmt: skip
# NFKC folds full-width forms; these are only drawn like a slash or a dot.
_DRAWN_ALIKE = str.maketrans(dict.fromkeys("\\\u2044\u2215\u29f8\u2216\u29f5", "/") | {"\u3002": "."})
_DELIMITERS = "/\\?#@:[]%"


@dataclass(frozen=True, slots=True)
class Url:
    """A parsed URL. `text` is the canonical form that is judged, shown, recorded and sent.

    `host` is ASCII, lower case, without a trailing dot, IPv6 without brackets; `port` is explicit;
    `segments` are the path's parts as they are sent, percent-encoding normalised, without the
    empty part behind a last slash. An empty query or fragment is None.
    """

    text: str
    scheme: str
    host: str
    port: int
    segments: tuple[str, ...]
    query: str | None
    fragment: str | None

    def __str__(self) -> str:
        return self.text

    @property
    def target(self) -> str:
        """The path and query as in the request line; a fragment is never sent."""
        start = self.text.index("/", len(self.scheme) + len("://"))
        return self.text[start:].partition("#")[0]


def parse_url(raw: str) -> Url | Unreadable:
    """Read a URL into its canonical form, or say why it was not read.

    The canonical form is a fixed point: reading `Url.text` again gives the same `Url`. Host and
    path follow the WHATWG URL standard, percent-encoding is normalised as in RFC 3986, 6.2.2.
    """
    problem = _size_problem(raw) or _character_problem(raw)
    if problem is not None:
        return problem
    scheme = _SCHEME.fullmatch(raw)
    if scheme is None or _is_host_and_port(scheme["name"], scheme["rest"]):
        return Unreadable("a URL begins with https://")
    if scheme["name"].lower() not in DEFAULT_PORTS:
        return Unreadable("only https and http URLs are read", "unexpected_scheme")
    parts = _PARTS.match(scheme["rest"])
    if parts is None or parts["slashes"] != "//":
        return Unreadable("there must be exactly two slashes between the scheme and the host")
    path = _STRAY_PERCENT.sub("%25", parts["path"])
    return _authority_problem(parts["authority"]) or _path_problem(path) or _canonical(raw)


def _is_host_and_port(name: str, rest: str) -> bool:
    """Tell `example.com:8080/x` and `localhost:8080` from a URL of some unknown scheme."""
    return "." in name or _PORT_ONLY.match(rest) is not None


def _size_problem(raw: str) -> Unreadable | None:
    if not raw:
        return Unreadable("there is no URL")
    if len(raw) > MAX_BYTES or len(raw.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        return Unreadable("the URL is longer than 8 KiB")
    return None


def _character_problem(raw: str) -> Unreadable | None:
    """Refuse what a client would trim, drop, or turn into another character without a word."""
    if not (raw.isascii() and raw.isprintable()):
        for position, character in enumerate(raw):
            category = unicodedata.category(character)
            if category in {"Cc", "Zl", "Zp"}:
                return Unreadable("the URL holds a control character", "control_character")
            if category == "Cs":
                return Unreadable("the URL holds half of a character")
            if is_invisible(character) and not _is_part_of_a_word(raw, position):
                return Unreadable("the URL holds an invisible character", "invisible_character")
    if any(character.isspace() for character in raw):
        return Unreadable("the URL holds a blank")
    if "\\" in raw:
        climbs = "..\\" in raw or "\\.." in raw
        pattern = "path_traversal" if climbs else "type_pattern_mismatch"
        return Unreadable("the URL holds a backslash", pattern)
    return None


def _is_part_of_a_word(raw: str, position: int) -> bool:
    """Whether an invisible character is one that some writing needs there, and comes after the host.

    It is percent-encoded there, so that it shows. A host must not hold one at all.
    """
    return _BEHIND_HOST.match(raw, 0, position) is not None and is_ordinary(raw, position)


def _authority_problem(authority: str) -> Unreadable | None:
    folded = unicodedata.normalize("NFKC", authority).translate(_DRAWN_ALIKE)
    if "@" in folded:
        return Unreadable("the URL carries a user name or password", "userinfo")
    if not authority or authority.startswith(":"):
        return Unreadable("the URL names no host")
    if "%" in authority:
        return Unreadable("the host is percent-encoded", "percent_encoded_segment")
    if any(folded.count(mark) != authority.count(mark) for mark in _DELIMITERS):
        return Unreadable("the host holds a character that becomes a delimiter")
    return None


def _path_problem(path: str) -> Unreadable | None:
    """Refuse dot segments in every spelling: the path that is judged must be the path that is served."""
    if ".." in _parts(path):
        return Unreadable("the path climbs with dot segments", "path_traversal")
    if _DOUBLE_ENCODING.search(path):
        return Unreadable("the path is percent-encoded twice", "double_encoding")
    if _ENCODED_DOTS.search(path):
        return Unreadable("the path climbs with encoded dots", "encoded_traversal")
    return _hidden_problem(path)


def _hidden_problem(path: str) -> Unreadable | None:
    """Decode a path as often as a server might, and look again at what comes out."""
    plain_dots = _parts(path).count(".")
    decoded, pattern = path, "encoded_traversal"
    for _ in range(_DECODINGS):
        before, decoded = decoded, _decoded(decoded)
        if any(unicodedata.category(character) == "Cc" for character in decoded):
            return Unreadable("the path holds an encoded control character", "control_character")
        folded = _parts(unicodedata.normalize("NFKC", decoded).translate(_DRAWN_ALIKE))
        if ".." in folded or folded.count(".") > plain_dots:
            return Unreadable("the path climbs with encoded dots or slashes", pattern)
        if decoded == before:
            return None
        pattern = "double_encoding"
    return Unreadable("the path is percent-encoded many times", "double_encoding")


def _parts(path: str) -> list[str]:
    """Split a path; some servers cut `;parameters` off a segment before they look for dots."""
    return [part.partition(";")[0].strip() for part in path.split("/")]


def _decoded(path: str) -> str:
    data = _ESCAPED_BYTE.sub(lambda match: bytes.fromhex(match[1].decode()), path.encode())
    for overlong, plain in _OVERLONG.items():
        data = data.replace(overlong, plain)
    return data.decode(errors="replace")


def _normalised(part: str) -> str:
    """Decode escapes that need not be, write the others in capitals, escape a stray percent sign."""
    return _ESCAPE.sub(_normalised_escape, part)


def _normalised_escape(match: re.Match[str]) -> str:
    if match[1] is None:
        return "%25"
    character = chr(int(match[1], 16))
    return character if character in _UNRESERVED else match[0].upper()


def comparable(part: str) -> str:
    """Return a canonical path or query with the marks escaped that some writers escape and others do not.

    `/C_(x)` and `/C_%28x%29` are two texts and, to every server that follows RFC 2396, one page. For
    comparing only; what is sent stays as it was written.
    """
    return part.translate(_SPELLED_EITHER_WAY)


def _canonical(raw: str) -> Url | Unreadable:
    try:
        parsed = ada_url.URL(raw)
    except ValueError:
        return Unreadable("the host or port is not one that can be connected to")
    scheme = parsed.protocol.removesuffix(":")
    host = parsed.hostname.removesuffix(".")
    if parsed.host_type is ada_url.HostType.DEFAULT and not _is_host_name(host):
        return Unreadable("the host is not a name that can be looked up")
    port = int(parsed.port or DEFAULT_PORTS[scheme])
    if port == 0:
        return Unreadable("invalid port 0")
    path = _normalised(parsed.pathname)
    query, fragment = _normalised(parsed.search[1:]) or None, _normalised(parsed.hash[1:]) or None
    text = f"{scheme}://{host}" + (f":{port}" if parsed.port else "") + path
    text += (f"?{query}" if query else "") + (f"#{fragment}" if fragment else "")
    if len(text) > MAX_BYTES:
        return Unreadable("the URL is longer than 8 KiB once it is encoded")
    segments = tuple(path.removesuffix("/").split("/")[1:])
    return Url(text, scheme, host.strip("[]"), port, segments, query, fragment)


def _is_host_name(host: str) -> bool:
    return len(host) <= _LONGEST_HOST and all(_LABEL.fullmatch(label) for label in host.split("."))


def join_url(base: Url, reference: str) -> Url | Unreadable:
    """Read what a page or a redirect refers to: a URL of its own, or one relative to its place.

    Dot segments of a relative path are resolved as in RFC 3986, 5.2.4, since `../` is how pages
    refer to what is above them; all else that a client would repair is refused, as by `parse_url`.
    """
    if not reference or _SCHEME.fullmatch(reference):
        return parse_url(reference) if reference else base
    origin = base.text[: base.text.index("/", len(base.scheme) + len("://"))]
    if reference.startswith("//"):
        return parse_url(f"{base.scheme}:{reference}")
    path = base.target.partition("?")[0]
    match reference[0]:
        case "#":
            return parse_url(f"{origin}{base.target}{reference}")
        case "?":
            return parse_url(f"{origin}{path}{reference}")
    relative = re.split(r"[?#]", reference, maxsplit=1)[0]
    rest = reference[len(relative) :]
    below = relative if relative.startswith("/") else path[: path.rindex("/") + 1] + relative
    return parse_url(origin + _without_dots(below) + rest)


def _without_dots(path: str) -> str:
    kept: list[str] = []
    parts = path.split("/")[1:]
    for position, part in enumerate(parts):
        is_last = position == len(parts) - 1
        if part == "..":
            kept[-1:] = []
        elif part != ".":
            kept.append(part)
        if is_last and part in (".", ".."):
            kept.append("")
    return "/" + "/".join(kept)


def same_site(one: Url, other: Url) -> bool:
    """Whether two URLs lie with the same scheme, port and host, or hosts that differ by a leading `www.`."""
    if (one.scheme, one.port) != (other.scheme, other.port):
        return False
    shorter, longer = sorted((one.host, other.host), key=len)
    return longer in (shorter, f"www.{shorter}")
