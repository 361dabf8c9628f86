"""Is this host among those the person listed?

A pattern is a host as it is, or `*.` and a host for every name below it but not the host itself. It
is read once, where the configuration is read; the gate and the dialler ask the same questions.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from .parse import Url, parse_url

__all__ = ["covers_domain", "domain_pattern", "in_domains", "is_address", "listed_problem"]

_BELOW = "*."


def domain_pattern(text: str) -> str:
    """Return a pattern in canonical form: lower case, IDNA, without a trailing dot.

    Raises:
        ValueError: it is no host and no `*.` before one; the message says what is wrong.
    """
    is_below = text.startswith(_BELOW)
    host = text.removeprefix(_BELOW)
    if "*" in host:
        raise ValueError("a wildcard is a leading *. and nothing else")
    if any(mark in host for mark in "/?#@\\: \t"):
        raise ValueError("a host stands alone, without scheme, port or path")
    url = parse_url(f"https://{host}/")
    if not isinstance(url, Url):
        raise ValueError(url.reason)  # noqa: TRY004 — the text is wrong, not its type
    if is_below and is_address(url.host):
        raise ValueError("nothing lies below an address")
    return f"{_BELOW}{url.host}" if is_below else url.host


def in_domains(host: str, patterns: Iterable[str]) -> bool:
    """Whether a canonical host is covered by any of some canonical patterns."""
    return any(_covers(pattern, host) for pattern in patterns)


def covers_domain(pattern: str, other: str) -> bool:
    """Whether every host that `other` covers is covered by `pattern`; both canonical."""
    if other.startswith(_BELOW):
        return pattern.startswith(_BELOW) and f".{other.removeprefix(_BELOW)}".endswith(pattern[1:])
    return _covers(pattern, other)


def _covers(pattern: str, host: str) -> bool:
    if pattern.startswith(_BELOW):
        return host.endswith(pattern[1:]) and not is_address(host)
    return host == pattern


def is_address(host: str) -> bool:
    """Whether a canonical host is an IP address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def listed_problem(host: str, allowed: tuple[str, ...], denied: tuple[str, ...]) -> tuple[str, str] | None:
    """Return the rule and the reason for which the lists refuse a canonical host, or None.

    An empty list of allowed hosts allows all. While there is one, an address is refused whatever it
    says: nobody can tell whose it is.
    """
    if in_domains(host, denied):
        return "domain_denylist", "the host is in denylist"
    if not allowed:
        return None
    if is_address(host):
        return "domain_allowlist", "an address is not in allowlist, which names hosts"
    if not in_domains(host, allowed):
        return "domain_allowlist", "the host is not in allowlist"
    return None
