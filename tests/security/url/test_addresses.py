"""Which addresses and hosts are public."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.security.url import Url, judge_address, judge_host, parse_url
from loading import rows_beside

ROWS = rows_beside(__file__)

REFUSED = {
    "this network": ["0.0.0.0", "0.255.255.255"],
    "private": [
        "10.0.0.0",
        "10.255.255.255",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.0.1",
        "192.168.255.255",
    ],
    "carrier-grade NAT": ["100.64.0.0", "100.127.255.255"],
    "loopback": ["127.0.0.1", "127.255.255.254", "::1"],
    "link-local": ["169.254.0.1", "169.254.255.255", "fe80::1", "febf::1", "fe80::1%eth0"],
    "IETF protocol": ["192.0.0.1", "192.0.0.255", "2001:1::1", "2001:1ff::"],
    "benchmarking": ["198.18.0.1", "198.19.255.255", "2001:2::1"],
    "documentation": ["192.0.2.1", "198.51.100.7", "203.0.113.255", "2001:db8::1", "3fff::1"],
    "multicast": ["224.0.0.1", "239.255.255.255", "ff02::1"],
    "reserved": ["240.0.0.1", "255.255.255.254", "4000::1", "::1:0:0:0:1", "64:ff9b:2::1", "e000::1"],
    "broadcast": ["255.255.255.255"],
    "6to4 relay": ["192.88.99.1"],
    "site-local": ["fec0::1", "feff::1"],
    "unique local": ["fc00::1", "fd12:3456::1"],
    "discard": ["100::1"],
    "ORCHID": ["2001:10::1", "2001:2f:ffff::1"],
    "segment routing": ["5f00::1"],
    "unspecified": ["::"],
    "cloud metadata": [
        "169.254.169.254",
        "168.63.129.16",
        "192.0.0.192",
        "100.100.100.200",
        "fd00:ec2::254",
        "fd20:ce::254",
        "169.254.170.2",
    ],
    "not an address": ["", "example.com", "1.2.3", "::g", "127.1"],
}

PUBLIC = ROWS["public"]


# Public prefixes, so that what refuses is the embedded address alone.
ISATAP = ("2606:4700:10:20::5efe:0:0", "2606:4700:10:20:200:5efe:0:0", "2002:808:808:1::5efe:0:0")


def embeddings(v4: IPv4Address) -> list[IPv6Address]:
    """Every form in which an IPv6 address carries this IPv4 address."""
    low, teredo_server = int(v4), int(IPv4Address("65.54.227.120"))
    split = (low >> 16) << 64 | (low & 0xFFFF) << 40
    return [
        IPv6Address(int(IPv6Address("::ffff:0:0")) | low),
        IPv6Address(int(IPv6Address("::ffff:0:0:0")) | low),
        IPv6Address(low),
        IPv6Address(int(IPv6Address("64:ff9b::")) | low),
        IPv6Address(int(IPv6Address("64:ff9b:1::")) | low),
        IPv6Address(int(IPv6Address("64:ff9b:1::")) | split),
        IPv6Address(int(IPv6Address("2002::")) | low << 80 | 1),
        IPv6Address(int(IPv6Address("2001::")) | teredo_server << 64 | (~low & 0xFFFF_FFFF)),
        *(IPv6Address(int(IPv6Address(prefix)) | low) for prefix in ISATAP),
    ]


@pytest.mark.parametrize(("what", "address"), [(what, one) for what, many in REFUSED.items() for one in many])
def test_what_is_not_public_is_named(what: str, address: str) -> None:
    assert judge_address(address) == what


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_not_refused(address: str) -> None:
    assert judge_address(address) is None
    assert judge_address(ip_address(address)) is None


@pytest.mark.parametrize("address", [one for many in REFUSED.values() for one in many if one.count(".") == 3])
def test_an_embedded_address_is_what_counts(address: str) -> None:
    v4 = IPv4Address(address)
    for embedded in embeddings(v4):
        assert judge_address(embedded) is not None, embedded
        if int(embedded) > 1 and embedded not in IPv6Network("64:ff9b:1::/48"):
            assert judge_address(embedded) == judge_address(v4), embedded


@given(st.ip_addresses(v=4))
@example(IPv4Address("8.8.8.8"))
@example(IPv4Address("127.0.0.1"))
def test_no_embedding_makes_an_address_public(v4: IPv4Address) -> None:
    for embedded in embeddings(v4):
        verdict = judge_address(embedded)
        assert verdict is not None or judge_address(v4) in {None, "this network"}, embedded
        if int(v4) > 1 and embedded not in IPv6Network(
            "64:ff9b:1::/48"
        ):  # Its layout is a guess: other readings may refuse.
            assert verdict == judge_address(v4), embedded


@pytest.mark.parametrize("identifier", ["0:5efe", "200:5efe"])
def test_an_isatap_address_needs_a_public_prefix_and_a_public_client(identifier: str) -> None:
    assert judge_address(f"2606:4700:0:1:{identifier}:808:808") is None
    assert judge_address(f"2606:4700:0:1:{identifier}:7f00:1") == "loopback"
    assert judge_address(f"fe80::{identifier}:10.0.0.1%eth0") == "private"
    assert judge_address(f"fe80::{identifier}:8.8.8.8") == "link-local"
    assert judge_address(f"2002:a00:1:1:{identifier}:8.8.8.8") == "private"
    assert judge_address(f"fd12:0:0:1:{identifier}:a9fe:a9fe", ("::/0", "0.0.0.0/0")) == "cloud metadata"
    assert judge_host(f"2606:4700:0:1:{identifier}:c0a8:1") == "private"


@pytest.mark.parametrize("identifier", ["0:5eff", "100:5efe", "202:5efe", "5efe:0", "0:5ef"])
def test_an_interface_identifier_that_only_looks_like_isatap_embeds_nothing(identifier: str) -> None:
    assert judge_address(f"2606:4700:0:1:{identifier}:7f00:1") is None


def test_named_networks_are_allowed_and_nothing_beside_them() -> None:
    allowed = ("10.1.0.0/16", "fd12::/16", "127.0.0.0/8")
    assert judge_address("10.1.2.3", allowed) is None
    assert judge_address("::ffff:10.1.2.3", allowed) is None
    assert judge_address("fd12::5", allowed) is None
    assert judge_address("10.2.0.1", allowed) == "private"
    assert judge_address("fd13::5", allowed) == "unique local"
    # A Teredo address by way of an allowed server, to a client that is not.
    assert judge_address("2001:0:7f00:1::f5fd:fffe", allowed) == "private"
    with pytest.raises(ValueError, match="network"):
        judge_address("8.8.8.8", ("ten.0.0.0/8",))


@pytest.mark.parametrize(
    "address",
    [*REFUSED["cloud metadata"], "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1"],
)
def test_metadata_is_never_allowed(address: str) -> None:
    assert judge_address(address, ("0.0.0.0/0", "::/0")) == "cloud metadata"


HOSTS = {
    "loopback": ["localhost", "LOCALHOST.", "app.localhost", "127.0.0.1", "::1", "::ffff:127.0.0.1"],
    "internal name": ["db.internal", "internal"],
    "local name": ["printer.local", "local", "localhost.localdomain"],
    "home network": ["nas.home.arpa", "home.arpa"],
    "cloud metadata": [
        "metadata.google.internal",
        "metadata",
        "metadata.goog",
        "169.254.169.254",
        "fd00:ec2::254",
    ],
    "name without a domain": ["intranet", "wiki", "com"],
    "private": ["10.0.0.1", "192.168.1.1"],
    "not an address": ["127.1", "2130706433", "a.0x7f"],
}


@pytest.mark.parametrize(("what", "host"), [(what, one) for what, many in HOSTS.items() for one in many])
def test_hosts_that_are_not_looked_up(what: str, host: str) -> None:
    assert judge_host(host) == what


@pytest.mark.parametrize(
    "host",
    [
        "example.com",
        "localhost.example.com",
        "mylocalhost.com",
        "internal.example.com",
        "notlocal.org",
        "home.arpa.example.com",
        "thelocal.se",
        "1.1.1.1",
        "1e100.net",
        "2606:4700::1111",
        "local.ch",
        "10.example.com",
    ],
)
def test_public_hosts_are_looked_up(host: str) -> None:
    assert judge_host(host) is None


@pytest.mark.parametrize(
    "spelling",
    [
        "2130706433",
        "0x7f000001",
        "017700000001",
        "127.1",
        "0x7f.0.0.1",
        "127.0.0.1.",
        "①②⑦.0.0.1",
        "127。0。0。1",
        "[::ffff:7f00:1]",
        "ｌｏｃａｌｈｏｓｔ",
        "LocalHost.",
    ],
)
def test_no_spelling_of_loopback_passes_both_parser_and_table(spelling: str) -> None:
    url = parse_url(f"https://{spelling}/")
    assert isinstance(url, Url)
    assert judge_host(url.host) == "loopback"
