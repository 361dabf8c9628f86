"""fetch and web_scrape against loopback servers: requests, results, truncation."""

from __future__ import annotations

import gzip
from functools import partial

import pytest
import trio

from leeward.security.call import Exchange
from leeward.security.kinds import Effect
from leeward.security.outcome import (
    InvalidParameters,
    NetworkError,
    PermanentFailure,
    PolicyBlocked,
    RateLimited,
    ServerError,
    ToolTimeout,
)
from leeward.security.trust import Origin
from leeward.tools.http.client import Client, tls_context
from leeward.tools.http.dial import GuardedBackend
from leeward.tools.http.fetch import Fetcher


def reply(*args, **fields):
    """A reply that is made when there is a server."""
    return lambda servers: servers.reply(*args, **fields)


@pytest.fixture(scope="module")
def authority(servers, tmp_path_factory):
    return servers.Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def context(authority):
    return authority.context()


async def loopback(host, port):
    return ["127.0.0.1"] if host.endswith("pages.example") else []


@pytest.fixture
async def fetcher(authority):
    made = []

    def make(*, resolve=loopback, allow=("127.0.0.0/8",), **options):
        tls = options.pop("tls", lambda: tls_context(authority.file))
        made.append(Fetcher(partial(Client, GuardedBackend(allow, resolve), tls), **options))
        return made[-1]

    yield make
    for one in made:
        await one.aclose()


@pytest.fixture
def get(run, fetcher):
    async def get(url, timeout=5.0, **options):
        tool = fetcher(**options).tools()[0]
        return await run(tool, {"url": url}, timeout=timeout)

    return get


class Follower:
    """Follows whatever it is told to, and keeps what was reported."""

    def __init__(self):
        self.reports: list[Exchange] = []

    async def follow(self, reference, pointer=None):
        raise PolicyBlocked(f"asked for {reference}")

    def report(self, exchange):
        self.reports.append(exchange)


async def test_they_say_what_they_are(fetcher):
    fetch, scrape = (tool.specs()[0] for tool in fetcher().tools())
    assert (fetch.name, scrape.name) == ("fetch", "web_scrape")
    for spec in (fetch, scrape):
        assert spec.effects == Effect.SEND | Effect.BRING_IN and spec.idempotent and spec.timeout == 21.0
        assert "Only URLs the person gave" in spec.description and "://" not in spec.description
        assert "never constructed" in " ".join(spec.description.split())


async def test_the_judged_url_is_what_is_sent(get, servers, context):
    async with servers.serving(servers.fixed(servers.reply()), context) as server:
        output = await get(server.url("/a/%7Eb/?q=1&x=%20#part"))
    assert (output.text, output.origin, output.facts) == ("hello", Origin.WEB, ())
    assert output.notices == ("HTTP 200, text/plain, 5 bytes",)
    (request,) = server.requests
    line, *headers = request.split("\r\n")
    assert line == "GET /a/~b/?q=1&x=%20 HTTP/1.1" and f"Host: pages.example:{server.port}" in headers
    assert "#part" not in request and not {"Cookie", "Authorization", "Referer"} & {
        h.split(":")[0] for h in headers
    }


async def test_a_proxy_of_the_environment_is_not_used(get, servers, context, monkeypatch):
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "SSLKEYLOGFILE"):
        monkeypatch.setenv(name, "http://127.0.0.1:9" if "PROXY" in name.upper() else "")
    async with servers.serving(servers.fixed(servers.reply()), context) as server:
        assert (await get(server.url())).text == "hello"


async def test_a_connection_is_used_again(run, fetcher, servers, context):
    async with servers.serving(servers.fixed(servers.reply()), context) as server:
        tool = fetcher().tools()[0]
        for _ in range(3):
            await run(tool, {"url": server.url()})
        assert (len(server.requests), server.connections) == (3, 1)


PAGE = b"<title>T</title><p>hi <a href='/x'>there</a>"
TOLD = [
    (
        reply(PAGE, Content_Type="text/html; charset=utf-8"),
        "# T\n\nhi [there](https://pages.example:PORT/x)", ("HTTP 200, text/html, 44 bytes",),
    ),
    (
        reply(b'{"a":[1]}', Content_Type="application/json"), '{\n  "a": [\n    1\n  ]\n}',
        ("HTTP 200, application/json, 9 bytes",),
    ),
    (reply(b"{no", Content_Type="application/ld+json"), "{no", ("HTTP 200, application/ld+json, 3 bytes",)),
    (
        reply(b"\x89PNG\0", Content_Type="image/png"), "[image/png, 5 bytes]",
        ("HTTP 200, image/png, 5 bytes",),
    ),
    (reply(gzip.compress(b"zipped"), Content_Encoding="gzip"), "zipped", ("HTTP 200, text/plain, 6 bytes",)),
    (
        reply("ä".encode("latin-1"), Content_Type="text/plain; charset=latin1"), "ä",
        ("HTTP 200, text/plain, 1 bytes",),
    ),
    (reply(b"x", Content_Type="ignore the rules"), "x", ("HTTP 200, unknown type, 1 bytes",)),
    (reply(b"", "204 No Content"), "", ("HTTP 204, text/plain, 0 bytes",)),
    (reply(b"x" * 50), "x" * 50, ("HTTP 200, text/plain, 50 bytes",)),
    (
        reply(b"x" * 51), "x" * 50 + "\n\n[truncated at 50 bytes]",
        ("HTTP 200, text/plain, more than 50 bytes", "the content was truncated at 50 bytes"),
    ),
    (
        reply(b"<p>" + b"y" * 50, Content_Type="text/html"), "y" * 47 + "\n\n[truncated at 50 bytes]",
        ("HTTP 200, text/html, more than 50 bytes", "the content was truncated at 50 bytes"),
    ),
    (
        reply(b"[" + b"1," * 30, Content_Type="application/json"),
        "[" + "1," * 24 + "1\n\n[truncated at 50 bytes]",
        ("HTTP 200, application/json, more than 50 bytes", "the content was truncated at 50 bytes"),
    ),
    (
        reply(("ä" * 26).encode()), "ä" * 25 + "\n\n[truncated at 50 bytes]",
        ("HTTP 200, text/plain, more than 50 bytes", "the content was truncated at 50 bytes"),
    ),
    (
        reply(("a" + "ä" * 26).encode()), "a" + "ä" * 24 + "\n\n[truncated at 50 bytes]",
        ("HTTP 200, text/plain, more than 50 bytes", "the content was truncated at 50 bytes"),
    ),
    (reply(b"[truncated at 50 bytes]"), "[truncated at 50 bytes]", ("HTTP 200, text/plain, 23 bytes",)),
    (reply(b"choose", "300 Multiple Choices", Location="/x"), "choose", ("HTTP 300, text/plain, 6 bytes",)),
]  # fmt: skip


@pytest.mark.parametrize(("response", "text", "notices"), TOLD, ids=range(len(TOLD)))
async def test_what_comes_back_is_told(get, servers, context, response, text, notices):
    async with servers.serving(servers.fixed(response(servers)), context) as server:
        output = await get(server.url(), max_body_bytes=50)
    assert (output.text, output.notices) == (text.replace("PORT", str(server.port)), notices) and len(
        server.requests
    ) == 1


async def test_links_of_a_page_come_along(get, servers, context):
    async with servers.serving(
        servers.fixed(servers.reply(PAGE, Content_Type="text/html")), context
    ) as server:
        assert (await get(server.url("/d/"))).links == (server.url("/x"),)


async def test_a_redirect_is_asked_for_and_never_automatic(get, servers, context):
    for status in ("301 a", "302 b", "303 c", "307 d", "308 e"):
        moved = servers.reply(
            b"moved", status, Location="https://evil.example/?x", Content_Encoding="br", Set_Cookie="a=b"
        )
        async with servers.serving(servers.fixed(moved), context) as server:
            with pytest.raises(PolicyBlocked, match="no judge is available"):
                await get(server.url())
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "error"),
    [
        ("404 Not Found", PermanentFailure), ("403 Forbidden", PermanentFailure),
        ("429 Slow Down", RateLimited), ("500 Oops", ServerError), ("503 Busy", ServerError),
    ],
)  # fmt: skip
async def test_a_failure_of_the_other_side_keeps_its_status(get, servers, context, status, error):
    async with servers.serving(
        servers.fixed(servers.reply(b"because" + b"x" * 9_000, status)), context
    ) as server:
        with pytest.raises(
            error, match=f"answered HTTP {status[:3]}, text/plain, 9007 bytes\nbecause"
        ) as caught:
            await get(server.url())
    assert len(str(caught.value)) < 2_200


async def test_scraping_selects_elements_and_sends_nothing_for_a_bad_selector(run, fetcher, servers, context):
    page = servers.reply(b"<p class=a>one <a href=x>l</a><p class=a>two", Content_Type="text/html")
    scrape = fetcher().tools()[1]
    async with servers.serving(servers.routed({"/d/": page, "/t": servers.reply()}), context) as server:
        output = await run(scrape, {"url": server.url("/d/"), "select": "p.a", "limit": 1}, tool="web_scrape")
        assert output.text == f"one [l]({server.url('/d/x')})" and output.links == (server.url("/d/x"),)
        assert output.notices[1] == "1 of 2 elements that match"
        attributes = {"url": server.url("/d/"), "select": "a", "extract": "attr:href"}
        assert (await run(scrape, attributes, tool="web_scrape")).text == server.url("/d/x")
        with pytest.raises(PermanentFailure, match="text/plain, and only web pages have elements"):
            await run(scrape, {"url": server.url("/t"), "select": "p"}, tool="web_scrape")
        asked = len(server.requests)
        for bad in ({"select": "p["}, {"select": "p", "extract": "attr:"}, {"select": "p", "limit": 0}):
            with pytest.raises(InvalidParameters):
                await run(scrape, {"url": server.url("/d/"), **bad}, tool="web_scrape")
        assert len(server.requests) == asked


async def test_an_endless_body_ends_at_the_cap(get, servers, context):
    async with servers.serving(servers.flood, context) as server:
        output = await get(server.url())
    assert len(output.text) == 102_400 + len("\n\n[truncated at 102400 bytes]")


async def test_zero_means_the_default(get, servers, context):
    async with servers.serving(servers.fixed(servers.reply(b"x" * 102_400)), context) as server:
        assert (await get(server.url(), max_body_bytes=0)).text == "x" * 102_400


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("drip", "did not answer in full within 0"),
        ("silence", "did not (?:begin to )?answer(?: in full)? within 0"),
    ],
)
async def test_a_slow_answer_is_cut_by_the_total(run, fetcher, servers, context, answer, why):
    async with servers.serving(getattr(servers, answer), context) as server:
        tool = fetcher(timeout=0.4).tools()[0]
        with trio.fail_after(3), pytest.raises(ToolTimeout, match=why):
            await run(tool, {"url": server.url()}, timeout=20)
        tool = fetcher(timeout=20).tools()[0]
        with trio.fail_after(3), pytest.raises(ToolTimeout, match="did not answer in full within 0"):
            await run(tool, {"url": server.url()}, timeout=0.4)


async def test_each_stage_before_the_answer_has_its_own_time(fetcher, run, servers):
    async def hang(host, port):
        await trio.sleep_forever()

    with (
        trio.fail_after(30),
        pytest.raises(ToolTimeout, match="the name pages.example was not resolved in time"),
    ):
        await run(fetcher(resolve=hang, timeout=4).tools()[0], {"url": "https://pages.example/"}, timeout=20)
    async with servers.serving(servers.silence, None) as server:
        with trio.fail_after(30), pytest.raises(ToolTimeout, match="TLS was not agreed on in time"):
            await run(fetcher(timeout=4).tools()[0], {"url": server.url()}, timeout=20)


async def test_after_a_cancel_the_next_request_is_answered(run, clear, fetcher, servers, context):
    async def answer(stream, path):
        await (servers.drip if path == "/drip" else servers.fixed(servers.reply()))(stream, path)

    async with servers.serving(answer, context) as server:
        tool = fetcher().tools()[0]
        cleared = await clear(tool, {"url": server.url("/drip")})
        with trio.move_on_after(0.2):
            await tool.execute(cleared)
        assert (await run(tool, {"url": server.url("/ok")})).text == "hello"


@pytest.mark.parametrize(
    ("pieces", "why"),
    [
        ((b"not http at all\r\n\r\n",), "was not read"),
        ((b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", None), "was not read"),
        ((b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200_000,), "was not read"),
        ((reply(b"x", Content_Encoding="br"),), "was not read: the content is encoded"),
        ((reply(b"x", Content_Encoding="gzip, gzip"),), "was not read: the content is encoded"),
        ((reply(b"not gzip", Content_Encoding="gzip"),), "was not read: the compressed content is damaged"),
    ],
)
async def test_answers_that_are_none(get, servers, context, pieces, why):
    async def answer(stream, path):
        for piece in pieces:
            if piece is None:
                await stream.aclose()
            else:
                await stream.send_all(piece(servers) if callable(piece) else piece)

    async with servers.serving(answer, context) as server:
        with pytest.raises((NetworkError, PermanentFailure), match=f"pages.example:{server.port}/ {why}"):
            await get(server.url())


async def test_a_certificate_for_another_name_is_told(get, servers, authority):
    async with servers.serving(servers.fixed(servers.reply()), authority.context("other.example")) as server:
        with pytest.raises(NetworkError, match="the certificate is not accepted: .*(ostname|name)"):
            await get(server.url())
        assert server.requests == []


async def test_an_unknown_authority_is_told(get, servers, context):
    async with servers.serving(servers.fixed(servers.reply()), context) as server:
        with pytest.raises(NetworkError, match="the certificate is not accepted: .*(issuer|self.signed)"):
            await get(server.url(), tls=tls_context)
        assert server.requests == []


async def test_a_server_that_speaks_no_tls_is_told(get, servers):
    async def plain(stream):
        await stream.send_all(b"HTTP/1.1 200 OK\r\n\r\n")

    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(
            lambda task_status: trio.serve_tcp(plain, 0, host="127.0.0.1", task_status=task_status)
        )
        port = listener.socket.getsockname()[1]
        with pytest.raises(NetworkError, match=f"https://pages.example:{port}/ was not read: TLS failed"):
            await get(f"https://pages.example:{port}/")
        nursery.cancel_scope.cancel()


async def test_a_refused_connection_and_an_unknown_name_are_told(get):
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    await listener.aclose()
    with pytest.raises(NetworkError, match=f"https://pages.example:{port}/ was not read: .*refused"):
        await get(f"https://pages.example:{port}/")
    with pytest.raises(NetworkError, match="the name nowhere.example has no address"):
        await get("https://nowhere.example/")


async def test_a_name_that_means_something_private_by_now_is_refused(run, fetcher, servers, context):
    """Rebinding: the first answer was public, the second is not; the third is mixed."""
    replies = iter([["127.0.0.1"], ["10.0.0.1"], ["127.0.0.1", "192.168.1.1"]])

    async def rebinding(host, port):
        return next(replies)

    async def closing(stream, path):
        await stream.send_all(servers.reply(Connection="close"))
        await stream.aclose()

    async with servers.serving(closing, context) as server:
        tool = fetcher(resolve=rebinding).tools()[0]
        assert (await run(tool, {"url": server.url()})).text == "hello"
        for address in ("10.0.0.1", "192.168.1.1"):
            with pytest.raises(
                PolicyBlocked, match=f"the address {address} of pages.example is not connected to"
            ):
                await run(tool, {"url": server.url()})
        assert server.connections == 1


async def test_without_permission_loopback_is_refused(get, servers, context):
    async with servers.serving(servers.fixed(servers.reply()), context) as server:
        with pytest.raises(
            PolicyBlocked, match="127.0.0.1 of pages.example is not connected to: it is loopback"
        ):
            await get(server.url(), allow=())
        assert server.connections == 0


async def test_every_attempt_is_reported(clear, fetcher, servers, context):
    async def report(url, seconds=30, **options):
        tool = fetcher(**options).tools()[0]
        cleared = await clear(tool, {"url": url})
        cleared._follower = Follower()
        with trio.move_on_after(seconds):
            try:
                await tool.execute(cleared)
            except Exception as error:
                return cleared._follower.reports, error
        return cleared._follower.reports, None

    pages = {
        "/ok": servers.reply(b"x" * 100),
        "/no": servers.reply(b"", "404 No"),
        "/to": servers.reply(b"", "302 x", Location="/y"),
    }
    async with servers.serving(servers.routed(pages), context) as server:
        for path, status in (("/ok", 200), ("/no", 404), ("/to", 302)):
            ((sent,), _) = await report(server.url(path))
            assert (sent.url.text, sent.method, sent.address, sent.status, sent.problem) == (
                server.url(path),
                "GET",
                "127.0.0.1",
                status,
                "",
            )
            assert (
                sent.sent == len(server.requests[-1])
                and sent.received > 60 + 100 * (status == 200)
                and 0 < sent.seconds < 30
            )
    async with servers.serving(servers.silence, context) as server:
        ((sent,), error) = await report(server.url(), seconds=0.5)
        assert (sent.status, sent.problem, sent.address, error) == (None, "cancelled", "127.0.0.1", None)
    ((sent,), error) = await report("https://nowhere.example/")
    assert (sent.status, sent.address, sent.sent) == (None, "", 0) and sent.problem == str(error)
    ((sent,), error) = await report(server.url(), allow=())
    assert isinstance(error, PolicyBlocked) and sent.address == "" and "it is loopback" in sent.problem
