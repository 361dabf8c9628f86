"""HTTP/2: one connection serves many requests, even after aborted ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import pytest
import trio

from leeward.security.url import parse_url
from leeward.tools.http.client import Client, tls_context
from leeward.tools.http.dial import GuardedBackend
from leeward.tools.http.streams import _Frames

CAP = 1_000


@dataclass
class App:
    """Answers `/flood` and `/more` without an end, `/half` with half of one, `/slow` never, `/big` with a
    megabyte.
    """

    clients: set = field(default_factory=set)
    asked: list = field(default_factory=list)
    started: trio.Event = field(default_factory=trio.Event)

    async def __call__(self, scope, receive, send):
        while scope["type"] == "lifespan":
            await send({"type": (await receive())["type"] + ".complete"})
        path = scope["path"]
        self.clients.add(scope["client"])
        headers = dict(scope["headers"])
        self.asked.append(
            (
                scope["http_version"],
                scope["scheme"],
                headers.get(b"host", b"").decode(),
                scope["raw_path"].decode(),
            )
        )
        self.started.set()
        if path == "/slow":
            await trio.sleep_forever()
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]}
        )
        if path == "/flood":
            await self.flood(receive, send)
            return
        if path in ("/half", "/more"):
            size = CAP // 2 if path == "/half" else CAP * 2
            await send({"type": "http.response.body", "body": b"x" * size, "more_body": True})
            await trio.sleep_forever()
        body = b"y" * 1_000_000 if path == "/big" else path.encode()
        await send({"type": "http.response.body", "body": body})

    async def flood(self, receive, send):
        """Send until the client is seen to have left the stream."""

        async def until_left():
            while (await receive())["type"] != "http.disconnect":
                pass
            nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(until_left)
            while True:
                await trio.lowlevel.checkpoint()
                await send({"type": "http.response.body", "body": b"x" * 16_000, "more_body": True})


@pytest.fixture
async def network(servers, tmp_path):
    authority, app = servers.Authority(tmp_path), App()
    dialled = []

    async def loopback(host, port):
        dialled.append(host)
        return ["127.0.0.1"]

    async with servers.http2(app, authority.files("pages.example")) as port:
        client = Client(
            GuardedBackend(("127.0.0.0/8",), loopback), partial(tls_context, authority.file), CAP, 5.0
        )

        async def get(path, seconds=5.0):
            reports = []
            with trio.fail_after(6):
                answer = await client.get(
                    parse_url(f"https://pages.example:{port}{path}"),
                    trio.current_time() + seconds,
                    reports.append,
                )
            return answer, reports[0]

        yield get, app, dialled
        await client.aclose()


async def test_requests_share_one_connection(network):
    get, app, dialled = network
    answer, report = await get("/first")
    assert answer.body.content == b"/first" and report.address == "127.0.0.1"
    async with trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(get, f"/{number}")
    assert len(app.clients) == len(dialled) == 1 and len(app.asked) == 9
    version, scheme, host, path = app.asked[0]
    assert (version, scheme, path) == ("2", "https", "/first") and host.startswith("pages.example:")


async def test_what_is_sent_is_what_was_judged(network):
    get, app, _ = network
    await get("/a/~b/?q=1&x=%20#part")
    assert app.asked[-1][3] == "/a/~b/"


async def test_an_endless_answer_is_cut_and_the_connection_lives_on(network):
    """Without an end to the stream, what still comes on it would fill the window of all others."""
    get, app, dialled = network
    for _ in range(6):
        answer, _ = await get("/flood")
        assert len(answer.body.content) == CAP and answer.body.is_truncated
        answer, _ = await get("/after")
        assert answer.body.content == b"/after"
    for _ in range(30):
        assert (await get("/big"))[0].body.is_truncated
    assert (await get("/last"))[0].body.content == b"/last"
    assert len(app.clients) == len(dialled) == 1


@pytest.mark.parametrize("path", ["/half", "/flood", "/slow"])
async def test_after_a_cancel_the_next_request_uses_the_same_connection(network, path):
    get, app, dialled = network
    await get("/first")
    for _ in range(3):
        app.started = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(get, path)
            await app.started.wait()
            await trio.sleep(0.02)
            nursery.cancel_scope.cancel()
        answer, _ = await get("/next")
        assert answer.body.content == b"/next"
    assert len(app.clients) == len(dialled) == 1


async def test_more_streams_than_a_server_allows_at_once_can_be_cut(network):
    """An abandoned stream that stayed open would count against the server's limit (100) for ever."""
    get, app, _ = network
    for _ in range(110):
        assert (await get("/more"))[0].body.is_truncated
    assert (await get("/last"))[0].body.content == b"/last"
    assert len(app.clients) == 1


FRAMES = [
    b"\0\0\0\4\0\0\0\0\0",
    b"\0\0\3\0\0\0\0\0\1abc",
    b"\0\1\0\0\0\0\0\0\1" + b"x" * 256,
    b"\0\0\4\x03\0\0\0\0\3\0\0\0\1",
]
RESET = b"\0\0\4\x03\0\0\0\0\5\0\0\0\x08"


@pytest.mark.parametrize("size", [1, 2, 8, 9, 10, 13, 100, 1_000])
@pytest.mark.parametrize("end_at", range(0, 300, 37))
def test_a_frame_of_ours_stands_between_theirs(size, end_at):
    """However the bytes were cut: all of theirs come through, in order, and ours stands at the end of a
    frame.
    """
    data, frames, passed = b"".join(FRAMES), _Frames(), b""
    for start in range(0, len(data), size):
        if start <= end_at < start + size:
            frames.ended.append(5)
        passed += frames.between() + frames.passed(data[start : start + size])
    passed += frames.between()
    position = passed.index(RESET)
    assert passed.replace(RESET, b"") == data and passed.count(RESET) == 1
    assert position in {sum(map(len, FRAMES[:count])) for count in range(len(FRAMES) + 1)}
    assert position >= end_at // size * size or position == 0 == end_at // size
