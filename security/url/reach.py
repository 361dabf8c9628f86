"""Rules for hosts that a running command may reach: `host`, `*.host`, with or without a port.

Without a port a rule speaks of https alone. A port that is named may be spoken to in the clear, too, for then
the person saw it. No rule speaks of an address: nobody can tell whose it is.
"""

from __future__ import annotations

from collections.abc import Iterable

from .hosts import domain_pattern, in_domains, is_address
from .parse import DEFAULT_PORTS, Url

__all__ = ["is_reached", "reach_of_url", "reach_rule"]

_HTTPS = DEFAULT_PORTS["https"]
_HIGHEST = 65_535


def reach_rule(text: str) -> str:
    """Return a rule in canonical form.

    Raises:
        ValueError: it is none; the message says what is wrong.
    """
    host, colon, port = text.partition(":")
    pattern = domain_pattern(host)
    if is_address(pattern):
        raise ValueError("name a host, not an address")
    if not colon:
        return pattern
    if not (port.isascii() and port.isdecimal() and 0 < int(port) <= _HIGHEST):
        raise ValueError("the port must be from 1 to 65535")
    return pattern if int(port) == _HTTPS else f"{pattern}:{int(port)}"


def reach_of_url(url: Url) -> str:
    """Return the narrowest rule for a URL's host and port; none opens plain http to the port of https."""
    return url.host if url.port == _HTTPS else f"{url.host}:{url.port}"


def is_reached(url: Url, rules: Iterable[str], in_the_clear: Iterable[str] = ()) -> bool:
    """Whether a URL may be reached by some rules; hosts `in_the_clear` may be spoken to without TLS."""
    usual = DEFAULT_PORTS[url.scheme]
    for rule in rules:
        host, _, port = rule.partition(":")
        if not in_domains(url.host, (host,)):
            continue
        if port and int(port) == url.port:
            return True
        if not port and url.port == usual and (url.scheme == "https" or in_domains(url.host, in_the_clear)):
            return True
    return False
