from __future__ import annotations

import socket
import ssl

import httpcore
import pytest
import trio

from leeward.security.outcome import NetworkError, PolicyBlocked
from leeward.tools.http.dial import GuardedBackend, reason_of
from leeward.tools.http.resolve import dns_resolver

LOOPBACK = ("127.0.0.0/8",)


def answers(*addresses, log=None):
    async def resolve(host, port):
        if log is not None:
            log.append((host, port))
        return addresses

    return resolve


class Dialled(Exception):
    """Something was connected to."""


class NoNetwork(httpcore.TrioBackend):
    def __init__(self):
        self.dialled = []

    async def connect_tcp(self, host, port, **_):
        self.dialled.append((host, port))
        raise httpcore.ConnectError(f"no {host}")


async def dial(host, *, port=443, timeout=5.0, **options):
    network = NoNetwork()
    with pytest.raises((PolicyBlocked, httpcore.ConnectError, httpcore.ConnectTimeout)) as caught:
        await GuardedBackend(trio_backend=network, **options).connect_tcp(host, port, timeout=timeout)
    return caught.value, network.dialled


@pytest.mark.parametrize(
    "found",
    [
        ("127.0.0.1",), ("10.0.0.1",), ("169.254.169.254",), ("::1",), ("fe80::1%lo",), ("::ffff:127.0.0.1",),
        ("fd00::1",),
        ("64:ff9b::7f00:1",), ("2606:4700::5efe:10.0.0.1",), ("0.0.0.0",), ("93.184.215.14", "192.168.0.1"),
        ("192.168.0.1", "93.184.215.14"), ("not an address",),
    ],
)  # fmt: skip
async def test_one_bad_answer_refuses_all_and_nothing_is_dialled(found):
    error, dialled = await dial("pages.example", resolve=answers(*found))
    assert (
        isinstance(error, PolicyBlocked)
        and "pages.example is not connected to" in str(error)
        and dialled == []
    )


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "::1", "2606:4700::200:5efe:7f00:1", "10.1.2.3", "169.254.169.254", "0.0.0.0"]
)
async def test_addresses_in_the_url_are_judged_without_dns(host):
    log = []
    error, dialled = await dial(host, resolve=answers("93.184.215.14", log=log))
    assert isinstance(error, PolicyBlocked) and dialled == log == []


@pytest.mark.parametrize(
    "host", ["localhost", "x.localhost", "printer.local", "db.internal", "metadata.google.internal"]
)
async def test_local_names_are_refused_before_dns(host):
    log = []
    error, _ = await dial(host, resolve=answers("93.184.215.14", log=log))
    assert isinstance(error, PolicyBlocked) and log == []


@pytest.mark.parametrize(
    ("host", "allowed", "denied"),
    [
        ("evil.net", ("*.pages.example",), ()),
        ("pages.example", ("*.pages.example",), ()),
        ("pages.example", (), ("pages.example",)),
        ("1.1.1.1", ("*.example",), ()),
    ],
)
async def test_hosts_that_are_not_listed_are_refused_before_dns(host, allowed, denied):
    log = []
    error, dialled = await dial(
        host, resolve=answers("93.184.215.14", log=log), allowed=allowed, denied=denied
    )
    assert isinstance(error, PolicyBlocked) and dialled == log == []
    assert "not in allowlist" in str(error) or denied


@pytest.mark.parametrize("port", [0, -1, 65_536])
async def test_ports_that_are_none(port):
    error, dialled = await dial("pages.example", port=port, resolve=answers("93.184.215.14"))
    assert isinstance(error, PolicyBlocked) and dialled == []


async def test_judged_addresses_are_dialled_in_turn_and_the_name_never():
    log = []
    addresses = ("93.184.215.14", "2606:4700::1111", "8.8.8.8")
    error, dialled = await dial("pages.example", resolve=answers(*addresses, log=log))
    assert dialled == [(address, 443) for address in addresses] and str(error) == "no 8.8.8.8"
    assert log == [("pages.example", 443)]


async def test_allowed_networks_are_allowed_and_metadata_never():
    _, dialled = await dial("pages.example", resolve=answers("127.0.0.1"), allow_networks=LOOPBACK)
    assert dialled == [("127.0.0.1", 443)]
    error, dialled = await dial(
        "pages.example", resolve=answers("169.254.169.254"), allow_networks=("169.254.0.0/16",)
    )
    assert isinstance(error, PolicyBlocked) and dialled == []


async def test_names_that_are_not_resolved_are_told():
    async def nowhere(host, port):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    error, _ = await dial("pages.example", resolve=nowhere)
    assert str(error) == "the name pages.example was not resolved: Name or service not known"
    error, _ = await dial("pages.example", resolve=answers())
    assert str(error) == "the name pages.example has no address"


async def test_a_resolver_that_hangs_is_left_in_time(autojump_clock):
    async def hang(host, port):
        await trio.sleep_forever()

    error, _ = await dial("pages.example", resolve=hang, timeout=3)
    assert isinstance(error, httpcore.ConnectTimeout) and trio.current_time() < 4


async def test_names_are_resolved_as_absolute_names(monkeypatch):
    asked = []

    async def getaddrinfo(host, port, **options):
        asked.append((host, port, options["type"]))
        return [
            (2, 1, 6, "", ("93.184.215.14", 443)),
            (2, 1, 6, "", ("93.184.215.14", 443)),
            (10, 1, 6, "", ("2606::1", 443, 0, 0)),
        ]

    monkeypatch.setattr(trio.socket, "getaddrinfo", getaddrinfo)
    assert await dns_resolver("pages.example", 443) == ("93.184.215.14", "2606::1")
    assert asked == [("pages.example.", 443, socket.SOCK_STREAM)]


async def test_local_sockets_are_refused():
    with pytest.raises(PolicyBlocked):
        await GuardedBackend().connect_unix_socket("/var/run/docker.sock")


class Elsewhere(httpcore.AsyncNetworkStream):
    def __init__(self, peer):
        self.peer, self.closed = peer, False

    def get_extra_info(self, info):
        return self.peer if info == "server_addr" else None

    async def aclose(self):
        self.closed = True


@pytest.mark.parametrize(
    ("peer", "is_right"), [(("93.184.215.14", 443), True), (("10.0.0.1", 443), False), (None, False)]
)
async def test_the_peer_is_who_was_dialled(peer, is_right):
    stream = Elsewhere(peer)

    class Network(httpcore.TrioBackend):
        async def connect_tcp(self, host, port, **_):
            return stream

    backend = GuardedBackend(resolve=answers("93.184.215.14"), trio_backend=Network())
    if is_right:
        assert (await backend.connect_tcp("pages.example", 443)).get_extra_info("server_addr") == peer
    else:
        with pytest.raises(PolicyBlocked, match="another address"):
            await backend.connect_tcp("pages.example", 443)
    assert stream.closed is not is_right


def chained(*errors):
    for outer, inner in zip(errors, errors[1:], strict=False):
        outer.__context__ = inner
    return errors[0]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            chained(
                httpcore.ConnectError(""), trio.BrokenResourceError(), OSError(111, "Connection refused"),
            ),
            "Connection refused",
        ),
        (chained(httpcore.ConnectError(""), ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] x")), "TLS failed"),
        (httpcore.ReadError("gone"), "gone"),
        (httpcore.RemoteProtocolError(""), "RemoteProtocolError"),
    ],
)  # fmt: skip
def test_the_reason_is_found_below_the_empty_layers(error, reason):
    assert reason in reason_of(error)


def rebinding(*answers_in_turn):
    """A resolver whose name has another address each time it is asked for."""
    asked = []

    async def resolve(host, port):
        asked.append(host)
        return (answers_in_turn[min(len(asked), len(answers_in_turn)) - 1],)

    resolve.asked = asked
    return resolve


async def rebound(connect) -> tuple[list, list]:
    resolve, network = rebinding("93.184.215.14", "127.0.0.1"), NoNetwork()
    backend = GuardedBackend(resolve=resolve, trio_backend=network)
    with pytest.raises((PolicyBlocked, NetworkError, httpcore.ConnectError)):
        await connect(backend, "pages.example", 443, 5.0)
    return resolve.asked, network.dialled


async def test_what_a_command_reaches_is_resolved_once_and_dialled_by_its_judged_address(planted) -> None:
    asked, dialled = await rebound(GuardedBackend.connect)
    assert asked == ["pages.example"] and dialled == [("93.184.215.14", 443)]
    # One that asks again is led to where nobody judged.
    _, dialled = await rebound(planted("resolved_twice").connect)
    assert dialled == [("127.0.0.1", 443)]


@pytest.mark.parametrize("found", [("10.0.0.1",), ("93.184.215.14", "127.0.0.1"), ("169.254.169.254",)])
async def test_what_a_command_reaches_has_no_address_that_is_not_public(found) -> None:
    network = NoNetwork()
    backend = GuardedBackend(resolve=answers(*found), trio_backend=network)
    with pytest.raises(PolicyBlocked, match="pages.example is not connected to"):
        await backend.connect("pages.example", 443, 5.0)
    assert network.dialled == []
