"""For any text as a URL: exactly the judged URL is sent, or nothing."""

from __future__ import annotations

from functools import partial

import h11
import httpcore
import trio
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.security.session import Egress
from leeward.security.url import Url, parse_url
from leeward.tools.http.client import Client, tls_context
from leeward.tools.http.dial import GuardedBackend
from leeward.tools.http.fetch import Fetcher


class Wire(httpcore.AsyncNetworkStream):
    """A server in memory: it writes down whom it was taken for and what it was asked."""

    def __init__(self, log, address, port):
        self.log, self.peer = log, (address, port)
        self.server, self.answer = h11.Connection(h11.SERVER), b""

    async def write(self, buffer, timeout=None):
        await trio.lowlevel.checkpoint()
        self.server.receive_data(buffer)
        event = self.server.next_event()
        if isinstance(event, h11.Request):
            fields = [(name.decode(), value.decode()) for name, value in event.headers]
            self.log.append(
                ("asked", event.method.decode(), event.target.decode(), dict(fields)["host"], len(fields))
            )
            self.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"

    async def read(self, max_bytes, timeout=None):
        await trio.lowlevel.checkpoint()
        answer, self.answer = self.answer, b""
        return answer

    async def aclose(self):
        await trio.lowlevel.checkpoint()

    async def start_tls(self, ssl_context, server_hostname=None, timeout=None):
        await trio.lowlevel.checkpoint()
        self.log.append(("tls", server_hostname))
        return self

    def get_extra_info(self, info):
        return self.peer if info == "server_addr" else None


class World(httpcore.TrioBackend):
    def __init__(self, log):
        self.log = log

    async def connect_tcp(self, host, port, **_):
        await trio.lowlevel.checkpoint()
        self.log.append(("connected", host, port))
        return Wire(self.log, host, port)


CONTEXT = tls_context()


async def opened(make, text):
    """Have a model open a text as a URL; return what was judged, and what the world saw."""
    log = []

    async def resolve(host, port):
        await trio.lowlevel.checkpoint()
        log.append(("resolved", host, port))
        return ["93.184.215.14"]

    backend = GuardedBackend(resolve=resolve, trio_backend=World(log))
    fetcher = Fetcher(partial(Client, backend, lambda: CONTEXT))
    tool = fetcher.tools()[0]
    desk = make.desk(tool.specs()[0], start=make.session(url_grounding=False, allow_http=("plain.example",)))
    desk.executor.does = {"fetch": tool.execute}
    result = await desk.run("fetch", {"url": text})
    await fetcher.aclose()
    return desk, result, log


def check(make, text):
    desk, result, log = trio.run(opened, make, text)
    judged = parse_url(text)
    if result.outcome.status.value == "denied":
        assert log == []
        return
    assert isinstance(judged, Url)
    steps = {step[0]: step[1:] for step in log}
    assert len(steps) == len(log)
    method, target, authority, headers = steps["asked"]
    assert (method, headers) == ("GET", 4)
    assert f"{judged.scheme}://{authority}{target}" == judged.text.partition("#")[0]
    assert parse_url(f"{judged.scheme}://{authority}{target}").host == judged.host
    assert steps.get("tls", (judged.host,)) == (judged.host,) and ("tls" in steps) == (
        judged.scheme == "https"
    )
    assert steps["connected"][1] == judged.port
    if "resolved" in steps:
        assert steps["resolved"] == (judged.host, judged.port) and steps["connected"][0] == "93.184.215.14"
    else:
        assert steps["connected"][0] == judged.host
    assert {row.url for row in desk.audit.of(Egress)} == {judged.text}


SCHEMES = st.sampled_from(
    [
        "https://",
        "HTTPS://",
        "http://",
        "https:",
        "https:/",
        "https:///",
        "https:\\\\",
        "//",
        "",
        "ftp://",
        "file:///",
        "https://\t",
    ]
)
HOSTS = st.sampled_from(
    [
        "good.com", "GOOD.com.", "good.com..", "plain.example", "münchen.de", "xn--mnchen-3ya.de",
        "ｇｏｏｄ.com", "go\u200bod.com", "good。com", "1.1.1.1",
        "0x1010101", "16843009", "1.1", "0177.0.0.1", "127.1", "[2606:4700::1111]", "[::ffff:1.1.1.1]",
        "[::1]", "localhost", "10.0.0.1", "a_b.com", "",
        "good.com%2eevil.net", "good.com%00.evil.net", "good.com,evil.net", "good.com evil.net", "*",
        "good.com\\evil.net", "xn--a.com", "-a.com", "ⓖood.com",
    ]
)  # fmt: skip
USERS = st.sampled_from(["", "", "", "user@", "user:pw@", "@", "evil.net@", "%40@"])
PORTS = st.sampled_from(
    ["", "", "", ":443", ":80", ":8443", ":0", ":65536", ":-1", ":", ":08443", ":4 43", ":443@evil.net"]
)
PIECES = st.sampled_from(
    [
        "a",
        "b c",
        "..",
        ".",
        "%2e%2e",
        "%2F",
        "%5c",
        "%00",
        "%0d%0aX:1",
        "~",
        "%7e",
        "é",
        "日本",
        "?",
        "#",
        "&",
        "=",
        ";",
        "@",
        ":",
        "//",
        "\\",
        "%",
        "%zz",
        "'",
        '"',
        "<",
        "\r\n",
        "\0",
        "\u202e",
        "+",
    ]
)
TAILS = st.lists(PIECES, max_size=5).map("/".join)
NEAR = st.tuples(SCHEMES, USERS, HOSTS, PORTS, st.sampled_from(["/", "", "?", "#", "\\"]), TAILS).map("".join)
GOOD = st.tuples(
    st.sampled_from(["https://"]),
    st.sampled_from(["good.com", "GOOD.com.", "münchen.de", "0x1010101", "[2606:4700::1111]"]),
    PORTS,
    st.just("/"),
    TAILS,
).map("".join)


@given(st.one_of(NEAR, GOOD, st.text(max_size=40), st.text(max_size=40).map("https://good.com/{}".format)))
@example("https://good.com")
@example("https://GOOD.com.:443/%7Ea/?q=%2f&é#x")
@example("https://good.com:0/")
@example("https://good.com/\r\nHost: evil.net")
@example("https://good.com\\@evil.net/")
@example("http://plain.example:8080/a b")
@example("https://[::ffff:1.1.1.1]/")
@example("https://[2606:4700::1111]:8443/?")
def test_what_is_judged_is_sent_or_nothing_is(make, text):
    check(make, text)


def test_the_table_reaches_the_world_at_all(make):
    """The property would hold of a product that sends nothing."""
    sent = 0
    for host in ("good.com", "GOOD.com.", "münchen.de", "0x1010101", "[2606:4700::1111]", "good。com"):
        _, result, log = trio.run(opened, make, f"https://{host}:8443/a/%7Eb?q=1#x")
        sent += result.error is None and len(log) >= 3
    assert sent == 6
