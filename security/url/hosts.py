"""Decide whether a host may be reached: address classes, host lists, look-alikes.

The address table is that of the IANA special-purpose address registries (IPv4 and IPv6, as of 2025), kept
here so that the answer does not change with the Python version. The dialler asks again with every address it
gets. A pattern is a host as it is, or `*.` and a host for every name below it but not the host itself. Hosts
are shown in ASCII, as sent; how a name would look in a browser, and that it mixes scripts or is drawn like
Latin letters (`text/scripts.py`), is shown beside it by the "highly restrictive" level of UTS 39, 5.2.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias

from ..text import mixes_scripts, skeleton
from .parse import Url, parse_url

__all__ = [
    "covers_domain",
    "domain_pattern",
    "host_facts",
    "host_warning",
    "in_domains",
    "is_address",
    "judge_address",
    "judge_host",
    "listed_problem",
]


_ENCODED = "xn--"


def host_warning(host: str) -> str | None:
    """Return what is odd about a canonical host, with what it looks like, or None for an ordinary one.

    The answer quotes the host in its own script: it is for a person's eyes or goes inside a fence.
    """
    labels = [_decoded(label) for label in host.split(".")]
    shown = ".".join(labels)
    if shown == host:
        return None
    if any(mixes_scripts(label) for label in labels):
        return f"the host mixes scripts: {shown} is not what it looks like"
    drawn = [skeleton(label) for label in labels]
    if any(one.isascii() and not other.isascii() for one, other in zip(drawn, labels, strict=True)):
        return f"the host is drawn like {'.'.join(drawn)} in letters of another script: {shown}"
    return None


def host_facts(url: Url) -> tuple[tuple[str, str], ...]:
    """Return the warning about a URL's host as a fact of an Ask or Deny; nothing for an ordinary host."""
    warning = host_warning(url.host)
    return (("warning", warning),) if warning is not None else ()


def _decoded(label: str) -> str:
    if not label.startswith(_ENCODED):
        return label
    try:
        return label.removeprefix(_ENCODED).encode("ascii").decode("punycode")
    except UnicodeError:
        return label


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
        raise ValueError("give a host alone, without scheme, port or path")
    url = parse_url(f"https://{host}/")
    if not isinstance(url, Url):
        raise ValueError(url.reason)  # noqa: TRY004 — the text is wrong, not its type
    if is_below and is_address(url.host):
        raise ValueError("an address has no subdomains")
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


Address: TypeAlias = IPv4Address | IPv6Address

_METADATA = frozenset(
    map(
        ip_address,
        (
            "169.254.169.254",  # AWS, Google, Azure, DigitalOcean, OpenStack and most others
            "169.254.169.253",  # AWS, resolver
            "169.254.169.123",  # AWS, time
            "169.254.170.2",  # AWS, credentials of a container
            "169.254.170.23",  # AWS, credentials of a pod
            "169.254.42.42",  # Scaleway
            "169.254.0.23",  # Tencent
            "168.63.129.16",  # Azure, host agent
            "192.0.0.192",  # Oracle
            "100.100.100.200",  # Alibaba
            "fd00:ec2::254",  # AWS
            "fd00:ec2::253",
            "fd00:ec2::123",
            "fd00:ec2::23",
            "fd20:ce::254",  # Google
            "fd00:42::42",  # Scaleway
            "fe80::a9fe:a9fe",  # OpenStack
        ),
    )
)

_PUBLIC = None

# The first network that contains an address names it, so exceptions come before what they are part of.
_IPV4: tuple[tuple[IPv4Network, str], ...] = tuple(
    (IPv4Network(network), name)
    for network, name in (
        ("0.0.0.0/8", "this network"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "carrier-grade NAT"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "IETF protocol"),  # The anycast ones in it, too, lead to the nearest gateway.
        ("192.0.2.0/24", "documentation"),
        ("192.88.99.0/24", "6to4 relay"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "benchmarking"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("255.255.255.255/32", "broadcast"),
        ("240.0.0.0/4", "reserved"),
    )
)
_IPV6: tuple[tuple[IPv6Network, str | None], ...] = tuple(
    (IPv6Network(network), name)
    for network, name in (
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("100::/64", "discard"),
        ("100:0:0:1::/64", "discard"),
        ("2001:2::/48", "benchmarking"),
        ("2001:3::/32", _PUBLIC),  # Automatic multicast tunnelling
        ("2001:4:112::/48", _PUBLIC),  # AS112
        ("2001:10::/28", "ORCHID"),
        ("2001:20::/28", "ORCHID"),
        ("2001::/23", "IETF protocol"),
        ("2001:db8::/32", "documentation"),
        ("3fff::/20", "documentation"),
        ("2000::/3", _PUBLIC),
        ("5f00::/16", "segment routing"),
        ("fc00::/7", "unique local"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
        ("::/0", "reserved"),
    )
)

_LOW_32_BITS = tuple(
    map(
        IPv6Network,
        (
            "::ffff:0:0/96",  # mapped: RFC 4291, 2.5.5.2
            "::ffff:0:0:0/96",  # translated: RFC 2765, 2.1
            "::/96",  # compatible, deprecated: RFC 4291, 2.5.5.1
            "64:ff9b::/96",  # NAT64: RFC 6052, 2.1
        ),
    )
)
_LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")  # RFC 8215
_6TO4 = IPv6Network("2002::/16")  # RFC 3056, 2
_TEREDO = IPv6Network("2001::/32")  # RFC 4380, 4
_ISATAP = 0x0000_5EFE  # The upper half of an interface identifier: RFC 5214, 6.1
_UNIVERSAL_BIT = 0x0200_0000

_LOCAL_NAMES = {
    "localhost": "loopback",
    "localdomain": "local name",
    "internal": "internal name",
    "local": "local name",
    "home.arpa": "home network",
}
_METADATA_HOSTS = (
    "metadata.google.internal metadata.goog metadata.azure.internal metadata.azure.com metadata "
    "instance-data.ec2.internal instance-data metadata.packet.net metadata.platformequinix.com "
    "metadata.tencentyun.com metadata.service.consul rancher-metadata"
)
_METADATA_NAMES = frozenset(_METADATA_HOSTS.split())


def judge_address(address: str | Address, allow_networks: Sequence[str] = ()) -> str | None:
    """Return None for a public or expressly allowed address, else the name of what it is.

    An address that embeds an IPv4 address is judged by that one; an ISATAP address, which any prefix
    can have, by its prefix as well. Cloud metadata is never allowed.

    Raises:
        ValueError: an entry of `allow_networks` is not a network.
    """
    allowed = _networks(tuple(allow_networks))
    try:
        found = ip_address(address) if isinstance(address, str) else address
    except ValueError:
        return "not an address"
    if isinstance(found, IPv6Address) and found.scope_id is not None:
        found = IPv6Address(int(found))
    reached = _reached(found) if isinstance(found, IPv6Address) else (found,)
    if not _METADATA.isdisjoint((found, *reached)):
        return "cloud metadata"
    refused = (_named(one) for one in reached if not _is_in(one, allowed))
    return None if _is_in(found, allowed) else next(filter(None, refused), None)


def judge_host(host: str, allow_networks: Sequence[str] = ()) -> str | None:
    """Return None for a host that may be looked up, else the name of what it is. `host` is canonical.

    Raises:
        ValueError: an entry of `allow_networks` is not a network.
    """
    name = host.lower().removesuffix(".")
    labels = name.split(".")
    if ":" in name or labels[-1].isdecimal() or labels[-1].startswith("0x"):
        return judge_address(name, allow_networks)
    if name in _METADATA_NAMES:
        return "cloud metadata"
    for suffix, what in _LOCAL_NAMES.items():
        if name == suffix or name.endswith(f".{suffix}"):
            return what
    if len(labels) == 1:
        # It would be completed by the search domain of whatever network this machine is in.
        return "name without a domain"
    return None


@lru_cache(maxsize=64)
def _networks(written: tuple[str, ...]) -> tuple[IPv4Network | IPv6Network, ...]:
    return tuple(map(ip_network, written))


def _is_in(address: Address, networks: Sequence[IPv4Network | IPv6Network]) -> bool:
    return any(address in network for network in networks)


def _named(address: Address) -> str | None:
    if isinstance(address, IPv4Address):
        return next((name for network, name in _IPV4 if address in network), _PUBLIC)
    return next(name for network, name in _IPV6 if address in network)


def _reached(address: IPv6Address) -> tuple[Address, ...]:
    """Return the addresses that packets to an IPv6 address may end up at."""
    bits = int(address)
    # What a prefix embeds is where packets end up; its own range says nothing more.
    by_prefix = tuple(_embedded(address)) or (address,)
    if (bits >> 32 & 0xFFFF_FFFF) & ~_UNIVERSAL_BIT == _ISATAP:
        # A host with a tunnel sends them to the IPv4 address, one without to where the prefix leads.
        return (IPv4Address(bits & 0xFFFF_FFFF), *by_prefix)
    return by_prefix


def _embedded(address: IPv6Address) -> Iterator[IPv4Address]:
    """Yield the IPv4 addresses that the prefix of an IPv6 address says its packets are for."""
    bits = int(address)
    if bits <= 1:
        return
    if any(address in network for network in _LOW_32_BITS):
        yield IPv4Address(bits & 0xFFFF_FFFF)
    elif address in _6TO4:
        yield IPv4Address(bits >> 80 & 0xFFFF_FFFF)
    elif address in _TEREDO:
        yield IPv4Address(~bits & 0xFFFF_FFFF)
        if server := bits >> 64 & 0xFFFF_FFFF:
            yield IPv4Address(server)
    elif address in _LOCAL_NAT64:
        yield from _translated(bits)


def _translated(bits: int) -> list[IPv4Address]:
    """Return what the low bits may mean for each length of a local prefix (RFC 6052, 2.2).

    The length is not in the address. A layout is left out if bits it wants to be zero are not, or
    if it leads to 0.0.0.0/8 while another one does not: then it is the wrong reading.
    """
    below_prefix = bits & (1 << 80) - 1
    if below_prefix >> 56 & 0xFF:
        return []
    packed = below_prefix >> 64 << 56 | below_prefix & (1 << 56) - 1
    fitting = [packed >> unused & 0xFFFF_FFFF for unused in (40, 32, 24, 0) if not packed & (1 << unused) - 1]
    return [IPv4Address(one) for one in fitting if one >> 24] or [IPv4Address(max(fitting))]
