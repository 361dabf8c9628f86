"""The proxy against hostile clients: nothing unjudged is dialled, nothing hangs."""

from __future__ import annotations

import ssl
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from leeward.security.outcome import NetworkError, PolicyBlocked
from leeward.security.url import Url, parse_url
from leeward.tools.proxy.client_hello import ClientHello, NotReadable
from leeward.tools.proxy.server import Bounds, Proxy

OPEN = "pages.example"


@dataclass
class FakeGate:
    """Admits one host, and remembers all it was asked."""

    hosts: tuple[str, ...] = (OPEN,)
    wanted: dict[str, None] = field(default_factory=dict)
    admitted: list[str] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    exchanges: list = field(default_factory=list)

    async def admit(self, target: str, *, is_tunnel: bool) -> tuple[Url, int]:
        url = parse_url(f"https://{target}/" if is_tunnel else target)
        if not isinstance(url, Url) or url.host not in self.hosts:
            await self.refuse(target, "not_allowed", "nobody allowed it")
            raise PolicyBlocked("nobody allowed it")
        self.admitted.append(url.text)
        return url, len(self.admitted)

    async def refuse(self, target: str, rule: str, reason: str) -> None:
        self.refused.append((target, rule))

    def report(self, exchange, number) -> None:
        self.exchanges.append(exchange)


@dataclass
class World:
    """Everything that was dialled, and what came there."""

    gate: FakeGate
    port: int = 0
    dialled: list[tuple[str, int]] = field(default_factory=list)
    arrived: list[bytes] = field(default_factory=list)
    reply: bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
    is_silent: bool = False

    async def ask(self, data: bytes, *, wait: float = 5.0) -> bytes:
        """Send bytes to the proxy and return all it answers until it closes."""
        stream = await trio.open_tcp_stream("127.0.0.1", self.port)
        answer = b""
        with trio.move_on_after(wait):
            try:
                await stream.send_all(data)
                while chunk := await stream.receive_some(65_536):
                    answer += chunk
            except trio.BrokenResourceError:
                pass
        await trio.aclose_forcefully(stream)
        return answer


@asynccontextmanager
async def proxied(bounds: Bounds | None = None, **options):
    """Serve a proxy on loopback whose only host is a server of ours, which notes what comes."""
    gate = FakeGate()
    world = World(gate, **options)

    async def serve(stream: trio.SocketStream) -> None:
        data = b""
        world.arrived.append(data)
        place = len(world.arrived) - 1
        try:
            while chunk := await stream.receive_some(65_536):
                world.arrived[place] += bytes(chunk)
                if world.is_silent:
                    continue
                await stream.send_all(world.reply)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return

    async with trio.open_nursery() as nursery:
        (server,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(partial(trio.serve_listeners, serve, [server]))
        place = server.socket.getsockname()[1]

        async def dial(host: str, port: int, seconds: float):
            world.dialled.append((host, port))
            return await trio.open_tcp_stream("127.0.0.1", place), "127.0.0.1"

        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        world.port = listener.socket.getsockname()[1]
        nursery.start_soon(Proxy(gate, dial, bounds or Bounds()).serve, listener)
        async with listener:
            yield world
            nursery.cancel_scope.cancel()


def hello(name: str | None) -> bytes:
    """The first bytes of a TLS client."""
    out = ssl.MemoryBIO()
    context = ssl.create_default_context()
    context.check_hostname = False
    client = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return out.read()


CONNECT = b"CONNECT pages.example:443 HTTP/1.1\r\nHost: pages.example:443\r\n\r\n"
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


async def test_a_tunnel_carries_what_comes_once_it_says_that_it_is_for_the_host() -> None:
    async with proxied(reply=b"from the server") as world:
        answer = await world.ask(CONNECT + hello("PAGES.example"), wait=0.5)
        assert answer == ESTABLISHED + b"from the server"
        assert world.dialled == [("pages.example", 443)] and world.arrived[0] == hello_like(world.arrived[0])


def hello_like(data: bytes) -> bytes:
    assert data[:1] == b"\x16"
    return data


LIES = {
    "another SNI": hello("evil.example"),
    "the host as a part of one": hello("pages.example.evil.example"),
    "no SNI": hello(None),
    "no TLS": b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    "SSH": b"SSH-2.0-OpenSSH_9.2\r\n",
    "an alert": b"\x15\x03\x01\x00\x02\x02\x28",
    "an empty record": b"\x16\x03\x01\x00\x00" * 10,
    "a long record": b"\x16\x03\x01\xff\xff" + b"\0" * 70_000,
    "another message": b"\x16\x03\x01\x00\x04\x02\x00\x00\x00",
    "a message without an end": b"\x16\x03\x01\x40\x00\x01\xff\xff\xff" + b"\0" * 60_000,
    "nothing but zeros": b"\0" * 200_000,
}


@pytest.mark.parametrize("name", LIES)
async def test_a_tunnel_for_something_else_carries_no_byte(name) -> None:
    async with proxied() as world:
        answer = await world.ask(CONNECT + LIES[name])
        assert answer.startswith(ESTABLISHED) and b"hello" not in answer
        assert b"".join(world.arrived) == b"" and world.gate.refused[-1][1] == "sni"
        assert world.gate.exchanges[-1].problem


def with_extension(kind: int, content: bytes, name: str = OPEN) -> bytes:
    """A first message with one more extension at its end."""
    data = bytearray(hello(name))
    added = kind.to_bytes(2, "big") + len(content).to_bytes(2, "big") + content
    at = 5 + 4 + 2 + 32
    at += 1 + data[at]
    at += 2 + int.from_bytes(data[at : at + 2], "big")
    at += 1 + data[at]
    for start, size in ((3, 2), (6, 3), (at, 2)):
        value = int.from_bytes(data[start : start + size], "big") + len(added)
        data[start : start + size] = value.to_bytes(size, "big")
    return bytes(data) + added


def names(*hosts: bytes) -> bytes:
    listed = b"".join(b"\0" + len(host).to_bytes(2, "big") + host for host in hosts)
    return len(listed).to_bytes(2, "big") + listed


HIDING = {
    "ECH": with_extension(0xFE0D, b"\0" * 40),
    "a second SNI": with_extension(0, names(b"evil.example")),
    "two names": with_extension(0, names(b"pages.example", b"evil.example")),
    "a name that is no text": with_extension(0, names(b"\xff\xfe")),
    "a list that is too long": with_extension(0, b"\xff\xff\0"),
}


@pytest.mark.parametrize("name", HIDING)
async def test_a_first_message_that_may_mean_two_hosts_means_none(name) -> None:
    async with proxied() as world:
        await world.ask(CONNECT + HIDING[name])
        assert b"".join(world.arrived) == b"" and world.gate.refused[-1][1] == "sni"


@given(cuts=st.lists(st.integers(1, 200), max_size=40), splits=st.lists(st.integers(1, 300), max_size=20))
def test_a_first_message_is_the_same_however_it_is_split(cuts, splits) -> None:
    whole = hello("pages.example")
    message, records = whole[5:], b""
    for size in (*splits, len(message)):
        part, message = message[:size], message[size:]
        if part:
            records += b"\x16\x03\x01" + len(part).to_bytes(2, "big") + part
    found, reader = None, ClientHello()
    for size in (*cuts, len(records)):
        part, records = records[:size], records[size:]
        found = found or (reader.feed(part) if part else None)
    assert found == "pages.example"


@given(data=st.binary(max_size=400), keep=st.integers(0, 500))
def test_no_bytes_break_the_reader(data, keep) -> None:
    reader = ClientHello()
    try:
        assert reader.feed(hello("pages.example")[:keep] + data) in (None, "pages.example") or data
    except NotReadable as error:
        assert str(error)


async def test_plain_http_is_written_anew() -> None:
    async with proxied() as world:
        answer = await world.ask(
            b"POST http://pages.example/a/b?c=1 HTTP/1.1\r\nHost: pages.example\r\nContent-Length: 4\r\n"
            b"Proxy-Authorization: Basic eDp5\r\nConnection: keep-alive, x-private\r\nX-Private: 1\r\n"
            b"Upgrade: h2c\r\nX-Kept: 2\r\n\r\nbody"
        )
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n") and answer.endswith(b"hello")
        assert b"connection: close" in answer.lower()
        (sent,) = world.arrived
        head, _, body = sent.partition(b"\r\n\r\n")
        assert head.split(b"\r\n")[0] == b"POST /a/b?c=1 HTTP/1.1" and body == b"body"
        assert b"Host: pages.example\r\n" in head and b"x-kept: 2" in head
        assert not any(word in head.lower() for word in (b"proxy-", b"x-private", b"upgrade", b"h2c"))
        assert world.dialled == [("pages.example", 80)]


# None of these may lead anywhere but to pages.example, and most of them nowhere at all.
SMUGGLED = {
    "another Host": b"GET http://pages.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    "two Hosts": b"GET http://pages.example/ HTTP/1.1\r\nHost: pages.example\r\nHost: evil.example\r\n\r\n",
    "no Host": b"GET http://pages.example/ HTTP/1.1\r\n\r\n",
    "another Host for a tunnel": b"CONNECT pages.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n",
    "two lengths": (
        b"POST http://pages.example/ HTTP/1.1\r\nHost: pages.example\r\nContent-Length: 4\r\n"
        b"Content-Length: 40\r\n\r\nbody"
    ),
    "length and chunks": (
        b"POST http://pages.example/ HTTP/1.1\r\nHost: pages.example\r\nContent-Length: 4\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET http://evil.example/ HTTP/1.1\r\n\r\n"
    ),
    "odd chunks": (
        b"POST http://pages.example/ HTTP/1.1\r\nHost: pages.example\r\n"
        b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"
    ),
    "a blank before a colon": b"GET http://pages.example/ HTTP/1.1\r\nHost : evil.example\r\n\r\n",
    "a folded header": b"GET http://pages.example/ HTTP/1.1\r\nHost: pages.example\r\n evil.example\r\n\r\n",
    "userinfo": b"GET http://pages.example@evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    "userinfo for a tunnel": b"CONNECT pages.example@evil.example:443 HTTP/1.1\r\nHost: x\r\n\r\n",
    "a path as the target": b"GET / HTTP/1.1\r\nHost: pages.example\r\n\r\n",
    "a star": b"OPTIONS * HTTP/1.1\r\nHost: pages.example\r\n\r\n",
    "an address": b"CONNECT 127.0.0.1:443 HTTP/1.1\r\nHost: 127.0.0.1:443\r\n\r\n",
    "an IPv6 literal": b"CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]:443\r\n\r\n",
    "a percent": b"CONNECT pages%2eexample:443 HTTP/1.1\r\nHost: pages%2eexample:443\r\n\r\n",
    "a tunnel with content": (
        b"CONNECT pages.example:443 HTTP/1.1\r\nHost: pages.example\r\nContent-Length: 9\r\n\r\n123456789"
    ),
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00",
    "a long head": b"GET http://pages.example/ HTTP/1.1\r\nHost: pages.example\r\nX: " + b"a" * 100_000,
    "a NUL": b"GET http://pages.example\0.evil.example/ HTTP/1.1\r\nHost: pages.example\r\n\r\n",
    "a blank in the target": (
        b"GET http://pages.example/ http://evil.example/ HTTP/1.1\r\nHost: pages.example\r\n\r\n"
    ),
    "ftp": b"GET ftp://pages.example/ HTTP/1.1\r\nHost: pages.example\r\n\r\n",
}  # fmt: skip


@pytest.mark.parametrize("name", SMUGGLED)
async def test_what_says_two_things_is_refused_with_a_reason_and_dialled_nowhere(name) -> None:
    async with proxied(Bounds(head_seconds=2)) as world:
        answer = await world.ask(SMUGGLED[name])
        assert answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 5")), answer
        assert b"leeward: " in answer and world.dialled == [] and world.arrived == []
        assert len(world.gate.refused) == 1


async def test_of_two_requests_on_one_connection_only_the_first_is_looked_at() -> None:
    first = b"GET http://pages.example/ HTTP/1.1\r\nHost: pages.example\r\n\r\n"
    second = b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    async with proxied() as world:
        answer = await world.ask(first + second)
        assert answer.count(b"HTTP/1.1 200") == 1
        assert world.dialled == [("pages.example", 80)] and b"evil" not in b"".join(world.arrived)


LINES = st.sampled_from(
    [
        b"GET http://pages.example/ HTTP/1.1", b"CONNECT pages.example:443 HTTP/1.1", b"Host: pages.example",
        b"GET http://evil.example/ HTTP/1.1", b"CONNECT evil.example:443 HTTP/1.1", b"Host: evil.example",
        b"Content-Length: 5", b"Transfer-Encoding: chunked", b"Expect: 100-continue", b"", b"0", b"5",
        b"hello", b"GET http://pages.example:80@evil.example/ HTTP/1.1",
        b"CONNECT evil.example:443@pages.example:443 HTTP/1.0",
        b"GET http://pages.example\\@evil.example/ HTTP/1.1", b"Connection: host", b" evil.example",
    ]
)  # fmt: skip


@given(
    lines=st.lists(LINES, max_size=12),
    end=st.sampled_from([b"\r\n", b"\n", b"\r"]),
    rest=st.binary(max_size=60),
)
def test_whatever_is_asked_only_what_was_admitted_is_dialled(lines, end, rest) -> None:
    async def main() -> None:
        async with proxied(Bounds(head_seconds=0.3, idle_seconds=0.3)) as world:
            with trio.fail_after(10):
                await world.ask(end.join(lines) + end * 2 + rest, wait=0.6)
            assert len(world.dialled) == len(world.gate.admitted)
            assert {host for host, _ in world.dialled} <= {"pages.example"}
            assert all(b"Host: evil" not in data for data in world.arrived)

    trio.run(main)


async def test_an_answer_without_an_end_is_ended_by_closing() -> None:
    async with proxied(reply=b"HTTP/1.0 200 OK\r\n\r\nhello", is_silent=False) as world:

        async def ask() -> None:
            answer = await world.ask(b"GET http://pages.example/ HTTP/1.0\r\n\r\n", wait=1)
            assert answer.startswith(b"HTTP/1.1 200") and b"hello" in answer

        await ask()


async def test_slow_clients_and_servers_are_left_in_time() -> None:
    bounds = Bounds(head_seconds=0.3, idle_seconds=0.3)
    async with proxied(bounds, is_silent=True) as world:
        with trio.fail_after(10):
            assert await world.ask(b"GET http://pages", wait=5) == b""
            assert await world.ask(CONNECT, wait=5) == ESTABLISHED
            assert await world.ask(CONNECT + hello(OPEN)[:100], wait=5) == ESTABLISHED
            assert await world.ask(CONNECT + hello(OPEN), wait=5) == ESTABLISHED
            answer = await world.ask(
                b"GET http://pages.example/ HTTP/1.1\r\nHost: pages.example\r\n\r\n", wait=5
            )
            assert answer == b""
        assert [one.problem for one in world.gate.exchanges[:3]] == [
            "the command did not begin with TLS in time",
            "the command did not begin with TLS in time",
            "timed out waiting for data",
        ]


async def test_many_connections_are_served_a_few_at_once_and_then_none() -> None:
    bounds = Bounds(at_once=4, connections=60)
    async with proxied(bounds) as world:
        failed = []

        async def one() -> None:
            try:
                answer = await world.ask(b"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example\r\n\r\n")
            except OSError:
                failed.append(True)
            else:
                assert answer.startswith(b"HTTP/1.1 403") or answer == b""

        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                for _ in range(200):
                    nursery.start_soon(one)
        assert world.dialled == [] and ("", "connections") in world.gate.refused
        with pytest.raises(OSError):
            await trio.open_tcp_stream("127.0.0.1", world.port)


async def test_too_many_bytes_end_everything() -> None:
    bounds = Bounds(total_bytes=100_000)
    async with proxied(bounds, reply=b"x" * 50_000) as world:
        with trio.fail_after(10):
            data = CONNECT + hello(OPEN) + b"y" * 200_000
            await world.ask(data)
        assert ("", "bytes") in world.gate.refused


async def test_a_failed_dial_is_told() -> None:
    async with proxied() as world:

        async def nowhere(host: str, port: int, seconds: float):
            raise NetworkError("no route to host")

        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        world.port = listener.socket.getsockname()[1]
        async with listener, trio.open_nursery() as nursery:
            nursery.start_soon(Proxy(world.gate, nowhere).serve, listener)
            answer = await world.ask(CONNECT)
            assert answer.startswith(b"HTTP/1.1 502 leeward: no route to host")
            nursery.cancel_scope.cancel()


async def carried(lies: dict[str, bytes]) -> list[str]:
    """Return which of some tunnels carried a byte to the server."""
    found = []
    for name, data in lies.items():
        async with proxied(Bounds(head_seconds=0.5, idle_seconds=0.3), is_silent=True) as world:
            await world.ask(CONNECT + data, wait=2)
            if any(world.arrived):
                found.append(name)
    return found


async def test_a_proxy_that_looks_at_no_sni_is_caught(planted, monkeypatch) -> None:
    few = {name: LIES[name] for name in ("another SNI", "no TLS", "no SNI")}
    assert await carried(few) == []
    monkeypatch.setattr("leeward.tools.proxy.tunnel.ClientHello", planted("sni").ClientHello)
    assert await carried(few) == list(few)


async def test_a_proxy_that_trusts_the_host_header_is_caught(planted, monkeypatch) -> None:
    monkeypatch.setattr("leeward.tools.proxy.connection.Connection._target", planted("host_header").target)
    async with proxied() as world:
        world.gate.hosts = (OPEN, "evil.example")
        answer = await world.ask(SMUGGLED["another Host"], wait=2)
        assert not answer.startswith(b"HTTP/1.1 4") and world.dialled == [("evil.example", 80)]
