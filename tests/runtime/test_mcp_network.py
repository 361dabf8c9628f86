"""What servers reach: services over TLS and programs by host, judged and on record with the call."""

from __future__ import annotations

import json
import math
import sys
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from leeward.memory.audit import event_of
from leeward.runtime.config import load
from leeward.runtime.mcp import Network, PersonsGate, connection, named_servers
from leeward.security.call import Status
from leeward.security.outcome import PolicyBlocked, ToolError
from leeward.security.policy import Policy
from leeward.security.sandbox import SandboxLevel
from leeward.security.trust import TrustLevel
from leeward.tools.mcp import CallGate, KnownServer, Server, Surroundings
from leeward.tools.mcp.http import _events

pytest.importorskip("mcp", reason="the MCP SDK is not installed")

SCRIPT = Path(__file__).parents[1] / "support" / "mcp_server.py"
TOOL = {
    "name": "echo",
    "description": "Returns the text.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
}
NETWORK = '[tools.fetch]\nallow_networks = ["127.0.0.0/8"]\nca_file = "{ca}"\n'
SERVICE = '[mcp.servers.far]\nurl = "https://pages.example:{port}/mcp"\nbearer_env = "FAR_TOKEN"\n'
READS = '[mcp.servers.far.tools.echo]\neffects = ["read"]\narguments = {{ text = "text" }}\n'


async def on_loopback(_host, _port):
    return ["127.0.0.1"]


@dataclass
class Far:
    """A service that answers by JSON or by events, and refuses in a chosen way."""

    mode: str = "json"
    port: int = 0
    heads: list = field(default_factory=list)
    held: int = 0

    async def serve(self, stream):
        try:
            while True:
                head, _, rest = await self._read(stream)
                if not head:
                    return
                self.heads.append(head)
                if self.mode == "holds" and b"tools/call" in rest and b"hold" in rest:
                    await self._held(stream)
                    return
                await stream.send_all(self._answer(head, rest))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    async def _held(self, stream):
        self.held += 1
        with suppress(trio.BrokenResourceError):
            await stream.receive_some(1)
        self.held -= 1

    async def _read(self, stream):
        data = b""
        while b"\r\n\r\n" not in data:
            chunk = await stream.receive_some(65536)
            if not chunk:
                return "", "", b""
            data += bytes(chunk)
        head, _, body = data.partition(b"\r\n\r\n")
        told = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")]
        length = int(told[0].split(b":")[1]) if told else 0
        while len(body) < length:
            body += bytes(await stream.receive_some(65536))
        return head.decode("latin-1"), "", body

    def _answer(self, head, body):
        if head.startswith("DELETE"):
            return b"HTTP/1.1 204 No Content\r\n\r\n"
        if self.mode == "moved":
            return b"HTTP/1.1 307 Moved\r\nLocation: https://evil.example/\r\nContent-Length: 0\r\n\r\n"
        if self.mode == "locked":
            return b"HTTP/1.1 401 No\r\nContent-Length: 4\r\n\r\nwho?"
        request = json.loads(body)
        if "id" not in request:
            return b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
        results = {
            "initialize": {
                "protocolVersion": request.get("params", {}).get("protocolVersion"),
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "far", "version": "2"},
            },
            "tools/list": {"tools": [TOOL]},
            "tools/call": {"content": [{"type": "text", "text": "from afar"}]},
        }
        text = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": results[request["method"]]})
        kind = "application/json"
        if self.mode == "events":
            kind, text = "text/event-stream", f": hello\r\nevent: message\r\ndata: {text}\r\n\r\n"
        if self.mode == "huge":
            text += " " * (5 << 20)
        more = "Mcp-Session-Id: s1\r\n" if request["method"] == "initialize" else ""
        top = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n{more}Content-Length: {len(text)}\r\n\r\n"
        return (top + text).encode()


@asynccontextmanager
async def far_away(authority, mode="json"):
    far = Far(mode)
    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        far.port = listener.socket.getsockname()[1]
        secure = trio.SSLListener(listener, authority.context("pages.example"), https_compatible=True)
        nursery.start_soon(trio.serve_listeners, far.serve, [secure])
        yield far
        nursery.cancel_scope.cancel()


@pytest.fixture
def authority(servers, tmp_path):
    return servers.Authority(tmp_path)


@asynccontextmanager
async def listed(sessions, folder, config, gated=True):
    """A server as `leeward mcp test` starts it."""
    where = sessions.places(folder.resolve())
    (where.config / "config.toml").write_text(config)
    loaded = load(config_dir=where.config, environment={})
    names = named_servers(loaded.config, where)
    fetch = loaded.config.tools.fetch
    policy = Policy(str(where.workspace), str(where.home), allow_networks=fetch.allow_networks)
    connect = connection(None, Network(policy, on_loopback, fetch.ca_file or ""), {})
    settings = names.named["far"]
    server = Server(settings, Surroundings(connect, policy.workspace))
    gate = server.gate.during(PersonsGate(policy, settings.reached)) if gated else nullcontext()
    async with gate, server.opened():
        yield names, server


@pytest.mark.parametrize("mode", ["json", "events"])
async def test_a_service_is_judged_and_on_record_with_each_call(
    sessions, authority, tmp_path, monkeypatch, mode
):
    monkeypatch.setenv("FAR_TOKEN", "sk-test-" + "9" * 40)
    async with far_away(authority, mode) as far:
        config = NETWORK.format(ca=authority.file) + SERVICE.format(port=far.port) + READS.format()
        async with sessions.session(tmp_path, config, resolve=on_loopback) as runtime:
            assert not far.heads and runtime.tools.spec("far__echo") is None
        async with listed(sessions, tmp_path, config) as (names, server):
            found = await server.refresh()
            names.store.put(server.settings, KnownServer(found))
        assert far.heads[-1].startswith("DELETE") and "Mcp-Session-Id: s1" in far.heads[-1]
        asked = len(far.heads)
        approver = sessions.Answers(*sessions.YES)
        async with sessions.session(tmp_path, config, resolve=on_loopback, approver=approver) as runtime:
            assert len(far.heads) == asked
            refused = await runtime.call("far__echo", {"text": "x"})
            assert (refused.outcome.gate, refused.error["rule"]) == ("trust", "quarantined")
            spec = runtime.tools.spec("far__echo")
            assert "SEND" in str(spec.effects) and len(far.heads) == asked
            await runtime.set_trust("far__echo", spec.level.__class__.TRUSTED)
            result = await runtime.call("far__echo", {"text": "x"})
            assert result.outcome.status is Status.OK and "from afar" in result.text, result.text
            assert approver.questions
            rows = await sessions.rows(runtime)
            egress = [event_of(row.kind, row.body) for row in rows if row.kind == "egress"]
            place = f"https://pages.example:{far.port}/"
            assert egress and all(event.url.startswith(place) for event in egress)
            assert any(event.http_status == 200 and event.address == "127.0.0.1" for event in egress)
        assert "Authorization: Bearer sk-test-9" in far.heads[-1]
        assert "MCP-Protocol-Version: 20" in far.heads[-1]


REFUSALS = {
    "moved": "leads elsewhere",
    "locked": r"another token \(HTTP 401\).*who\?",
    "huge": "more than 4 MiB",
}


@pytest.mark.parametrize(("mode", "words"), REFUSALS.items())
async def test_what_a_service_answers_otherwise_ends_the_connection(
    sessions, authority, tmp_path, mode, words
):
    async with far_away(authority, mode) as far:
        config = NETWORK.format(ca=authority.file) + SERVICE.format(port=far.port)
        async with listed(sessions, tmp_path, config) as (_, server):
            with pytest.raises(ToolError, match=words):
                await server.refresh()


async def test_a_call_that_is_cancelled_is_not_waited_for_any_longer(sessions, authority, tmp_path):
    async with far_away(authority, "holds") as far:
        config = NETWORK.format(ca=authority.file) + SERVICE.format(port=far.port)
        async with listed(sessions, tmp_path, config) as (_, server):
            tool = (await server.refresh()).tools["echo"]

            async def call(text, deadline):
                async def hear(_message):
                    pass

                return await server.call(tool, {"text": text}, deadline, hear)

            for _ in range(3):
                async with trio.open_nursery() as nursery:
                    for _ in range(10):
                        nursery.start_soon(call, "hold", math.inf)
                    while far.held < 10:
                        await trio.sleep(0.01)
                    nursery.cancel_scope.cancel()
            with trio.fail_after(30):
                assert (await call("quick", math.inf)).text == "from afar"
                while far.held:
                    await trio.sleep(0.01)


async def test_a_service_is_called_again_after_a_call_that_was_cancelled(sessions, authority, tmp_path):
    """The cancelled request ends with its call; that nothing more may be sent then ends no connection."""
    async with far_away(authority, "holds") as far:
        config = NETWORK.format(ca=authority.file) + SERVICE.format(port=far.port) + READS.format()
        async with listed(sessions, tmp_path, config) as (names, server):
            names.store.put(server.settings, KnownServer(await server.refresh()))
        approver = sessions.Answers(*sessions.YES)
        async with sessions.session(tmp_path, config, resolve=on_loopback, approver=approver) as runtime:
            await runtime.set_trust("far__echo", TrustLevel.TRUSTED)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(runtime.call, "far__echo", {"text": "hold"})
                with trio.fail_after(60):
                    while not far.held:
                        await trio.sleep(0.01)
                nursery.cancel_scope.cancel()
            with trio.fail_after(60):
                while far.held:
                    await trio.sleep(0.01)
                result = await runtime.call("far__echo", {"text": "quick"})
            assert result.outcome.status is Status.OK, result.text
            assert runtime.servers.servers["far"].starts == 1
            rows = await sessions.rows(runtime)
            egress = [event_of(row.kind, row.body) for row in rows if row.kind == "egress"]
            ended = {event.call for event in egress if event.ended}
            assert len(ended) == 2 and ended == {event.call for event in egress}


@given(
    st.lists(st.sampled_from(["data: a", "data:", "data:  b", ": c", "event: d", "", "", "id"]), max_size=12),
    st.sampled_from(["\n", "\r\n"]),
    st.data(),
)
def test_events_are_the_same_however_they_arrive(lines, ending, data):
    raw = "".join(line + ending for line in lines).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=9)))
    blocks = "\n".join(lines + [""]).split("\n\n")[:-1]
    expected = [
        "\n".join(line[5:].removeprefix(" ") for line in block.split("\n") if line.startswith("data:"))
        for block in blocks
        if "data:" in block
    ]

    async def chunks():
        for start, end in pairwise([0, *cuts, len(raw)]):
            yield raw[start:end]

    async def read():
        return [event.decode() async for event in _events(chunks())]

    assert trio.run(read) == expected


async def test_what_may_not_be_reached_is_not(sessions, authority, servers, tmp_path):
    """Without a call, a list of hosts, a private network opened, TLS, or a trusted certificate."""
    async with far_away(authority) as far:
        usual = NETWORK.format(ca=authority.file) + SERVICE.format(port=far.port)
        async with listed(sessions, tmp_path, usual, gated=False) as (_, server):
            with pytest.raises(ToolError, match="between calls"):
                await server.refresh()
        service = SERVICE.format(port=far.port)
        in_the_clear = service.replace("https", "http")
        cases = {
            service: "private|loopback|not connected to",
            NETWORK.format(ca=authority.file) + in_the_clear: "https",
            f'[tools.fetch]\nallow_networks = ["127.0.0.0/8"]\n{service}': "certificate",
        }
        for config, words in cases.items():
            async with listed(sessions, tmp_path, config) as (_, server):
                with pytest.raises(ToolError, match=words):
                    await server.refresh()
        assert not far.heads


async def test_a_program_reaches_its_hosts_during_a_call_and_nothing_else(sessions, authority, tmp_path):
    async with far_away(authority) as far:
        command = json.dumps([sys.executable, "-S", str(SCRIPT), "connects", str(far.port)])
        config = (
            NETWORK.format(ca=authority.file)
            + f'[mcp.servers.near]\ncommand = {command}\nhosts = ["pages.example:{far.port}"]\n'
        )
        approver = sessions.Answers(*sessions.YES)
        async with sessions.session(tmp_path, config, resolve=on_loopback, approver=approver) as runtime:
            if runtime.sandbox.level is not SandboxLevel.BUBBLEWRAP:
                pytest.skip("a network by host needs bubblewrap")
            await runtime.set_trust("near__echo", type(runtime.tools.spec("near__echo").level).TRUSTED)
            opened = await runtime.call("near__echo", {"text": f"pages.example:{far.port}"})
            assert "200" in opened.shown, opened
            closed = await runtime.call("near__echo", {"text": "other.example:443"})
            assert "403" in closed.shown, closed
            rows = await sessions.rows(runtime)
            egress = [event_of(row.kind, row.body) for row in rows if row.kind == "egress"]
            assert {(event.allowed, event.url) for event in egress if not event.ended} == {
                (True, f"https://pages.example:{far.port}/"),
                (False, "https://other.example/"),
            }


def test_the_gate_between_calls_is_closed():
    gate = CallGate()

    async def tried():
        with pytest.raises(PolicyBlocked):
            await gate.admit("example.com:443", is_tunnel=True)

    trio.run(tried)
    assert not gate.hosts and not gate.wanted
