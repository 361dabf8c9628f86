"""Match URLs against the patterns of rules.

    [scheme://]host[:port][/path glob]

The URL parser reads the parts of a pattern, so that a pattern of `münchen.de` or `X.com.` matches the
host that will be contacted. A pattern the parser refuses can match nothing; `url_problem` reports it
where rules are read.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import lru_cache

from ..lazy import dataclass, regex
from .extract import is_host_like
from .parse import DEFAULT_PORTS, Url, comparable, parse_url

__all__ = ["UrlPattern", "url_pattern", "url_problem"]

_FORM = regex(
    r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://)?(?P<host>[^/]*?)(?::(?P<port>\d+))?(?P<path>/.*)?", re.DOTALL
)
_WILDCARD = regex(r"(\[[^]]*\]|[*?]+)")
_SCHEMES = (*DEFAULT_PORTS, "ssh")
"""Those a canonical form can begin with: URLs are https or http, repositories ssh."""


@dataclass(frozen=True, slots=True)
class UrlPattern:
    """A pattern in canonical form. None means any; a host may be `*` or begin with `*.`."""

    scheme: str | None
    host: str
    port: int | None
    path: str | None

    def matches(self, url: Url, *, widely: bool = False) -> bool:
        """Whether scheme, host, port and path fit; without a path it speaks of the whole host.

        Without a port it means the scheme's own, and without a query none; `widely` it means any.
        """
        usual = url.port if widely else DEFAULT_PORTS[url.scheme]
        if self.scheme not in (None, url.scheme) or (self.port or usual) != url.port:
            return False
        if not self._matches_host(url.host):
            return False
        path, mark, query = url.target.partition("?")
        paths = {path, path.rstrip("/") or "/"}
        sent = {f"{path}{mark}{query}" for path in paths} | (paths if widely else set())
        return self.path is None or any(self._matches_target(target) for target in sent)

    def _matches_target(self, target: str) -> bool:
        path = self.path or ""
        return fnmatchcase(target, path) or fnmatchcase(comparable(target), _comparable_glob(path))

    def _matches_host(self, host: str) -> bool:
        if self.host.startswith("*."):
            return host.endswith(self.host[1:])
        return self.host in ("*", host)


@lru_cache(maxsize=1024)
def url_pattern(text: str) -> UrlPattern | None:
    """Return what a pattern says of URLs, or None where it can match none."""
    found = _FORM.fullmatch(text)
    scheme = found["scheme"].lower() if found and found["scheme"] else None
    if found is None or scheme not in (None, *DEFAULT_PORTS):
        return None
    below, host = ("*.", found["host"][2:]) if found["host"].startswith("*.") else ("", found["host"])
    port = f":{found['port']}" if found["port"] else ""
    # `[[]` is how the narrowest pattern of an address spells its bracket.
    named = "any.example" if host == "*" else host.replace("[[]", "[")
    read = parse_url(f"{scheme or 'https'}://{named}{port}/")
    path = _canonical_path(found["path"]) if found["path"] else ""
    if not isinstance(read, Url) or read.target != "/" or "*" in read.host or path is None:
        return None
    host = "*" if not below and host == "*" else below + read.host
    return UrlPattern(scheme, host, read.port if port else None, path or None)


def _canonical_path(path: str) -> str | None:
    """Return a path glob as paths are sent, with its wildcards unchanged; None if no path is sent so."""
    pieces = []
    for piece in _WILDCARD.split(path):
        if _WILDCARD.fullmatch(piece):
            pieces.append(piece)
            continue
        # A letter on either side keeps dots at the ends of a piece from being resolved.
        read = parse_url(f"https://any.example/x{piece}x")
        if not isinstance(read, Url) or read.fragment is not None:
            return None
        pieces.append(read.target[2:-1])
    return "".join(pieces)


@lru_cache(maxsize=1024)
def _comparable_glob(path: str) -> str:
    """Return a path glob with its literal parts as `comparable` writes them; `[*]` is a literal, too."""
    pieces = _WILDCARD.split(path)
    literals = (piece[1] if re.fullmatch(r"\[[^!?\[]\]", piece) else piece for piece in pieces)
    return "".join(
        literal if literal == piece and _WILDCARD.fullmatch(piece) else comparable(literal)
        for literal, piece in zip(literals, pieces, strict=True)
    )


def url_problem(text: str) -> str | None:
    """Say why a pattern that is meant for URLs can match none, or None; also where it is meant for others."""
    if any(char.isspace() for char in text):
        return None
    scheme, written_out, rest = text.partition("://")
    if written_out and re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", scheme) and scheme.lower() not in _SCHEMES:
        return "a URL begins with https:// or http://"
    is_meant = scheme.lower() in DEFAULT_PORTS if written_out else is_host_like(text)
    if not is_meant or url_pattern(text) is not None:
        return None
    host = re.split(r"[/?#]", rest if written_out else text, maxsplit=1)[0]
    if "*" in host.removeprefix("*."):
        return "a host may only begin with `*.`"
    if "@" in host:
        return "a URL with a user name is never opened"
    if re.search(r":\d+$", host):
        return "there is no such port, or no such host"
    return "no URL can match this; a query follows a path, as in /search[?]q=*"
