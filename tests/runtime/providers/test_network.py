"""Whole sessions against loopback servers: redirects, host lists, links, destinations, and the audit."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import pytest
import trio

from leeward.runtime.audit.commands import _attempts
from leeward.runtime.audit.text import egress_lines
from leeward.runtime.slash import dispatch, parse
from leeward.security.url import Provenance

HOSTS = ("docs.example", "www.docs.example", "other.example", "listed.example", "evil.example")


@pytest.fixture(scope="module")
def authority(servers, tmp_path_factory):
    return servers.Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def context(authority):
    return authority.context(*HOSTS)


@pytest.fixture
def at_work(servers, sessions, authority, context, tmp_path):
    """Open a session whose names all lie on loopback, beside a server with these pages."""

    @asynccontextmanager
    async def at_work(pages, config="", **options):
        resolved = []

        async def resolve(host, port):
            resolved.append(host)
            return ("10.0.0.7",) if host == "evil.example" else ("127.0.0.1",)

        base = f'[tools.fetch]\nallow_networks = ["127.0.0.0/8"]\nca_file = "{authority.file}"\n'
        answer = servers.routed(pages) if isinstance(pages, dict) else pages
        async with servers.serving(answer, context) as server:
            options.setdefault("resolve", resolve)
            async with sessions.session(
                tmp_path, base + config.replace("{port}", str(server.port)), **options
            ) as runtime:
                runtime.resolved = resolved
                yield runtime, server

    return at_work


async def fetch(runtime, url, tool="fetch", **more):
    return await runtime.call(tool, {"url": url, **more})


async def egress(runtime, sessions):
    return [dict(row.body) for row in await sessions.rows(runtime, "egress")]


def moved(servers, to, status="302 Found"):
    return servers.reply(b"moved", status, Location=to, Set_Cookie="track=1", WWW_Authenticate="Basic")


async def test_redirects_are_followed_and_each_hop_is_on_record(at_work, servers, sessions):
    pages = {
        "/a": moved(servers, "/b"),
        "/b": moved(servers, "HOME/c?x=1", "308 x"),
        "/c?x=1": servers.reply(b"the end"),
    }
    async with at_work(pages) as (runtime, server):
        pages["/b"] = moved(servers, server.url("/c?x=1", "other.example"))
        await runtime.give(server.url("/a", "docs.example"), Provenance.PERSON)
        result = await fetch(runtime, server.url("/a", "docs.example"))
        assert "the end" in result.text and "2 redirects were followed" in result.shown
        final = server.url("/c?x=1", "other.example")
        assert f"[final URL: {final}]" in result.shown and f"{final}«END" in result.text
        assert [server.targets, server.hosts] == [
            ["/a", "/b", "/c?x=1"],
            ["docs.example", "docs.example", "other.example"],
        ]
        assert not any(
            name in head for head in server.requests[1:] for name in ("Cookie", "Authorization", "Referer")
        )
        rows = await egress(runtime, sessions)
        assert [(row["hop"], row["ended"], row["http_status"]) for row in rows] == [
            (0, False, None), (0, True, 302), (1, False, None), (1, True, 302), (2, False, None),
            (2, True, 200),
        ]  # fmt: skip
        assert [row["rule"] for row in rows if not row["ended"]] == ["person", "redirect", "redirect"]
        assert {row["address"] for row in rows if row["ended"]} == {"127.0.0.1"}
        assert all(row["sent"] > 50 and row["received"] > 50 for row in rows if row["ended"])
        known = {entry.text: how for entry, how in runtime.pipeline.session.ledger.entries()}
        assert known == {
            server.url("/a", "docs.example"): Provenance.PERSON,
            server.url("/b", "docs.example"): Provenance.REDIRECT,
        }


BAD = [
    ("https://10.0.0.1/x", "hosts refused it (refused_host)"),
    ("https://localhost/x", "hosts refused it (refused_host)"),
    ("https://169.254.169.254/latest", "hosts refused it (refused_host)"),
    ("https://denied.example/x", "hosts refused it (domain_denylist)"),
    ("http://docs.example/x", "hosts refused it (https_only)"),
    ("file:///etc/passwd", "arguments refused it (unexpected_scheme)"),
    ("https://u:p@docs.example/", "arguments refused it (userinfo)"),
    ("//[::1]/x", "hosts refused it (refused_host)"),
]


@pytest.mark.parametrize(("to", "why"), BAD)
async def test_a_refused_hop_fails_the_request_and_nothing_is_sent(at_work, servers, sessions, to, why):
    async with at_work({"/a": moved(servers, to)}, 'domain_denylist = ["denied.example"]\n') as (
        runtime,
        server,
    ):
        url = server.url("/a", "docs.example")
        await runtime.give(url, Provenance.PERSON)
        result = await fetch(runtime, url)
        assert result.error["category"] == "policy_blocked" and why in result.error["message"]
        assert server.targets == ["/a"] and runtime.resolved == ["docs.example"]
        last = (await egress(runtime, sessions))[-1]
        assert (last["hop"], last["allowed"], last["ended"]) == (1, False, False) and last["gate"] in why


async def test_a_name_that_turns_out_private_is_refused_on_a_hop_too(at_work, servers, sessions):
    async with at_work({"/a": moved(servers, "https://evil.example/x")}) as (runtime, server):
        url = server.url("/a", "docs.example")
        await runtime.give(url, Provenance.PERSON)
        result = await fetch(runtime, url)
        assert (
            result.error["category"] == "policy_blocked"
            and "10.0.0.7 of evil.example is not connected to" in result.error["message"]
        )
        last = (await egress(runtime, sessions))[-1]
        assert last["ended"] and last["http_status"] is None and "it is private" in last["problem"]


async def test_a_connection_that_was_left_is_not_used_again_and_the_second_try_is_on_record(
    at_work, servers, sessions
):
    asked = []

    async def answer(stream, path):
        asked.append(path)
        if len(asked) == 2:
            await stream.aclose()
        else:
            await stream.send_all(servers.reply())

    async with at_work(answer) as (runtime, server):
        url = server.url("/a", "docs.example")
        await runtime.give(url, Provenance.PERSON)
        for _ in range(2):
            assert (await fetch(runtime, url)).error is None
        assert asked == ["/a"] * 3 and server.connections == 2
        rows = [(row["hop"], row["ended"], row["http_status"]) for row in await egress(runtime, sessions)]
        assert rows == [
            (0, False, None),
            (0, True, 200),
            (0, False, None),
            (0, True, None),
            (1, False, None),
            (1, True, 200),
        ]


async def test_four_redirects_are_one_too_many(at_work, servers):
    pages = {f"/{n}": moved(servers, f"/{n + 1}") for n in range(6)}
    async with at_work(pages) as (runtime, server):
        await runtime.give(server.url("/0", "docs.example"), Provenance.PERSON)
        result = await fetch(runtime, server.url("/0", "docs.example"))
        assert (
            "3 redirects are followed at most; it leads to" in result.error["message"]
            and result.error["category"] == "policy_blocked"
        )
        assert server.targets == ["/0", "/1", "/2", "/3"]


async def test_an_open_redirect_below_a_given_url_carries_nothing_away(at_work, servers):
    async with at_work(
        lambda stream, path: stream.send_all(
            moved(servers, "https://other.example:1/" + path.rpartition("/")[2])
        )
    ) as (runtime, server):
        await runtime.give(server.url("/", "docs.example"), Provenance.PERSON)
        result = await fetch(runtime, server.url("/r/launch-on-tuesday", "docs.example"))
        assert "grounding refused it (not_provided)" in result.error["message"]
        assert runtime.resolved == ["docs.example"] and len(server.requests) == 1


async def test_lists_are_asked_before_dns_and_of_every_tool(at_work, servers):
    config = 'domain_allowlist = ["*.docs.example", "listed.example"]\n'
    async with at_work({"/a": servers.reply()}, config) as (runtime, server):
        for host, allowed in (
            ("listed.example", True),
            ("www.docs.example", True),
            ("docs.example", False),
            ("127.0.0.1", False),
        ):
            url = server.url("/a", host)
            await runtime.give(url, Provenance.PERSON)
            for tool, more in (("fetch", {}), ("web_scrape", {"select": "p"})):
                result = await fetch(runtime, url, tool, **more)
                assert (result.outcome.gate == "hosts") is not allowed
                assert allowed or "not in allowlist" in result.text
        assert set(runtime.resolved) == {"listed.example", "www.docs.example"}


async def test_plain_http_is_for_listed_hosts(sessions, servers, tmp_path):
    async def resolve(host, port):
        return ("127.0.0.1",)

    config = '[tools.fetch]\nallow_networks = ["127.0.0.0/8"]\nallow_http = ["old.example"]\n'
    async with (
        servers.serving(servers.fixed(servers.reply()), None) as server,
        sessions.session(tmp_path, config, resolve=resolve) as runtime,
    ):
        for host, status in (("old.example", "ok"), ("new.example", "denied")):
            url = server.url("/", host, "http")
            await runtime.give(url, Provenance.PERSON)
            assert (await fetch(runtime, url)).outcome.status.value == status
    assert server.hosts == ["old.example"]


PAGE = (
    "<title>T</title><a href='/x?page=2'>next</a> <a href='https://www.docs.example:PORT/w'>www</a> <a "
    "href='https://other.example:PORT/o'>o</a>"
)


async def test_links_become_known_as_they_stand_on_an_opened_page(at_work, servers, sessions):
    pages = {
        path: servers.reply(b"page", Content_Type="text/html") for path in ("/x?page=2", "/w", "/o", "/x")
    }
    async with at_work(pages) as (runtime, server):
        pages["/d/a"] = servers.reply(
            PAGE.replace("PORT", str(server.port)).encode(), Content_Type="text/html"
        )
        await runtime.give(server.url("/d/a", "docs.example"), Provenance.PERSON)
        assert (await fetch(runtime, server.url("/x?page=2", "docs.example"))).outcome.gate == "grounding"
        result = await fetch(runtime, server.url("/d/a", "docs.example"))
        assert f"[next]({server.url('/x?page=2', 'docs.example')})" in result.text
        for host, path, ended in [
            ("docs.example", "/x?page=2", "ok"), ("www.docs.example", "/w", "ok"),
            ("docs.example", "/x", "denied"),
            ("docs.example", "/x?page=3", "denied"), ("docs.example", "/x?page=2&s=1", "denied"),
            ("www.docs.example", "/", "denied"),
        ]:  # fmt: skip
            assert (await fetch(runtime, server.url(path, host))).outcome.status.value == ended, path
        asked = await fetch(runtime, server.url("/o", "other.example"))
        assert asked.error["code"] == "INPUT_REQUIRED" and "a link that leads to another site" in str(
            asked.error
        )
        rows = [row["rule"] for row in await egress(runtime, sessions) if row["allowed"] and not row["ended"]]
        assert rows == ["person", "link", "link"]
        await runtime.clear()
        assert (await fetch(runtime, server.url("/x?page=2", "docs.example"))).outcome.gate == "grounding"


async def test_browse_lists_what_is_known_and_forgets_one(at_work, servers):
    async with at_work(
        {"/a": servers.reply(b"<a href='/b'>b</a>", Content_Type="text/html")},
        (
            "[security.pre_execution_verify.url_grounding]\nurls = ['https://wiki.example/x', "
            "'ops@corp.example']\n"
        ),
    ) as (runtime, server):

        async def typed(line):
            return await dispatch(runtime, parse(line))

        url = server.url("/a", "docs.example")
        assert (await typed(f"/browse {url}")).text
        listed = (await typed("/browse")).text.splitlines()
        assert [line.split() for line in listed] == [
            ["config", "https://wiki.example/x"], ["config", "ops@corp.example"], ["slash", "command", url],
            ["link", server.url("/b", "docs.example")],
        ]  # fmt: skip
        assert (await typed(f"/browse --forget {url}")).text == f"forgotten: {url}"
        assert (await fetch(runtime, url)).outcome.gate == "grounding"
        assert (await typed("/browse --forget ops@corp.example")).text == "forgotten: ops@corp.example"
        below = "forgotten: https://wiki.example/x/y; https://wiki.example/x still covers it"
        assert (await typed("/browse --forget https://wiki.example/x/y")).text == below
        assert (await typed("/browse --forget")).failed
        await runtime.clear()
        assert (await typed("/browse")).text.split() == [
            "config",
            "https://wiki.example/x",
            "config",
            "ops@corp.example",
        ]


async def test_other_tasks_go_on_while_a_page_is_slow(at_work, servers):
    async def answer(stream, path):
        await (servers.silence if path == "/slow" else servers.fixed(servers.reply()))(stream, path)

    async with at_work(answer, "timeout = 3.0\n") as (runtime, server):
        await runtime.give(
            f"{server.url('/slow', 'docs.example')} {server.url('/ok', 'docs.example')}", Provenance.PERSON
        )
        results = {}

        async def get(path):
            results[path] = await fetch(runtime, server.url(path, "docs.example"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(get, "/slow")
            nursery.start_soon(get, "/ok")
        assert results["/ok"].error is None and results["/slow"].error["category"] == "timeout"
        assert "did not begin to answer within 2.25 s" in results["/slow"].error["message"]


async def test_the_record_can_be_listed(at_work, servers, sessions, capsys, monkeypatch, tmp_path):
    async with at_work({"/a": moved(servers, "/b"), "/b": servers.reply()}) as (runtime, server):
        await runtime.give(server.url("/a", "docs.example"), Provenance.PERSON)
        await fetch(runtime, server.url("/a", "docs.example"))
        await fetch(runtime, "https://evil.example/")
        lines = list(egress_lines(_attempts(await sessions.rows(runtime, "egress"))))
    assert len(lines) == 3
    assert (
        f"GET {server.url('/a', 'docs.example')} allowed by grounding (person), HTTP 302 from 127.0.0.1, "
        in lines[0]
    )
    assert (
        f"hop 1: GET {server.url('/b', 'docs.example')} allowed by grounding (redirect), HTTP 200 from "
        f"127.0.0.1, "
    ) in lines[1]
    assert lines[2].endswith("https://evil.example/ refused by grounding (not_provided)")
    assert json.dumps(lines)
