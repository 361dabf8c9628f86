"""What a server connects to is on record with the call it did that for, and ends with it."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest
import trio
import trio.testing

from leeward.security.outcome import PolicyBlocked
from leeward.security.url import parse_url
from leeward.tools.mcp import CallGate
from leeward.tools.proxy.server import Proxy

SOON = 30.0
ASKED = b"GET http://pages.example/%s HTTP/1.1\r\nHost: pages.example\r\n\r\n"


@dataclass
class Call:
    """The gatekeeper of one call: what it admitted, and what was reported to it."""

    hosts: tuple[str, ...] = ("pages.example",)
    admitted: list[str] = field(default_factory=list)
    reported: list[str] = field(default_factory=list)

    async def admit(self, target, *, is_tunnel):
        url = parse_url(target)
        self.admitted.append(url.text.removeprefix("http://pages.example"))
        return url, len(self.admitted)

    async def refuse(self, target, rule, reason):
        self.admitted.append(rule)

    def report(self, exchange, number):
        self.reported.append(self.admitted[number - 1])
        assert exchange.url.text == "http://pages.example" + self.admitted[number - 1]


@asynccontextmanager
async def proxied(gate):
    """Serve a proxy whose only host answers nothing; yield what asks it for a path, as a program would."""

    async def silent(stream):
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while await stream.receive_some(1000):
                pass

    async with trio.open_nursery() as nursery:
        (far,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, silent, [far])

        async def dial(_host, _port, _seconds):
            return await trio.open_tcp_stream(*far.socket.getsockname()), "127.0.0.1"

        (near,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        served = Proxy(gate, dial)
        gate.drop = served.drop
        nursery.start_soon(served.serve, near)

        async def ask(path):
            stream = await stack.enter_async_context(await trio.open_tcp_stream(*near.socket.getsockname()))
            await stream.send_all(ASKED % path)
            return stream

        async with AsyncExitStack() as stack, near:
            try:
                yield ask
            finally:
                nursery.cancel_scope.cancel()


async def until(true):
    with trio.fail_after(SOON):
        while not true():
            await trio.sleep(0.01)


async def two_calls(gate):
    """Begin a second call while the first is working; return what each admitted and was reported."""
    first, second, asked = Call(), Call(), trio.Event()

    async def other():
        async with gate.during(second):
            await asked.wait()

    async with proxied(gate) as ask, trio.open_nursery() as nursery:
        async with gate.during(first):
            await ask(b"first")
            await until(lambda: first.admitted)
            nursery.start_soon(other)
            await trio.testing.wait_all_tasks_blocked(0.05)
            await ask(b"later")
            await until(lambda: len(first.admitted) + len(second.admitted) == 2)
            asked.set()
    return first, second


async def test_a_connection_is_on_record_with_the_call_it_was_made_for():
    first, second = await two_calls(CallGate())
    assert sorted(first.admitted) == sorted(first.reported) == ["/first", "/later"]
    assert not second.admitted and not second.reported


async def test_a_gate_that_is_of_the_last_call_is_found_wrong(planted):
    gate = planted("call_gate").LastCall()
    first, second = await two_calls(gate)
    assert (first.admitted, second.admitted) == (["/first"], ["/later"]) and not first.reported


async def test_a_connection_ends_with_its_call():
    gate, call = CallGate(), Call()
    async with proxied(gate) as ask:
        async with gate.during(call):
            stream = await ask(b"first")
            await until(lambda: call.admitted)
        assert call.reported == ["/first"]
        with trio.fail_after(SOON), suppress(trio.BrokenResourceError):
            while await stream.receive_some(1000):
                pass


async def test_between_calls_nothing_is_reached():
    gate = CallGate()
    async with proxied(gate) as ask:
        stream = await ask(b"between")
        answer = b""
        with trio.fail_after(SOON):
            while chunk := await stream.receive_some(1000):
                answer += chunk
        assert b" 403 " in answer and b"between calls" in answer
        with pytest.raises(PolicyBlocked):
            await gate.admit("pages.example:443", is_tunnel=True)


async def test_a_call_that_is_cancelled_while_it_waits_leaves_the_gate_to_the_other():
    gate, call = CallGate(), Call()

    async def waits():
        async with gate.during(Call()):
            raise AssertionError("two calls at once")

    async with gate.during(call), trio.open_nursery() as nursery:
        nursery.start_soon(waits)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
        assert list(gate.hosts) == ["pages.example"]
    assert not gate.hosts
