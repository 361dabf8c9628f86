"""Connections of a running command: judged by host, recorded first, refused with a reason."""

from __future__ import annotations

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from leeward.security.call import Rerun
from leeward.security.kinds import Effect, Kind, Runs
from leeward.security.outcome import Output, PolicyBlocked
from leeward.security.policy import Rule, RuleAction, Sandboxing
from leeward.security.ports import Answer
from leeward.security.session import Decided, Egress
from leeward.security.url import Url, is_reached, parse_url, reach_rule

BY_HOST = Sandboxing(
    "bubblewrap", rung=Runs.TRIAL, allow_hosts=("pages.example", "*.wide.example", "odd.example:8080")
)


@pytest.fixture
def connected(make):
    """Return what becomes of requests that a running command makes of its network."""
    properties = {"command": {"type": "string", "x-leeward-kind": Kind.COMMAND}}
    shell = make.spec("shell", Effect.ALL, schema={"type": "object", "properties": properties})

    async def connected(*targets: str, is_tunnel: bool = True, sandbox: Sandboxing = BY_HOST, **policy):
        desk = make.desk(shell, sandbox=sandbox, **policy)
        desk.says(Answer.NOBODY)
        told: list[str | Url] = []

        async def run(cleared):
            for target in targets:
                try:
                    url, _ = await cleared.gatekeeper.admit(target, is_tunnel=is_tunnel)
                    told.append(url)
                except PolicyBlocked as blocked:
                    told.append(str(blocked))
            desk.gatekeeper = cleared.gatekeeper
            return Output("", exit_code=0)

        desk.executor.does["shell"] = run
        await desk.run("shell", {"command": "make all"})
        return desk, told

    return connected


async def test_an_allowed_host_is_on_record_before_it_is_reached(connected) -> None:
    desk, (url,) = await connected("pages.example:443")
    assert url.host == "pages.example"
    [event] = desk.audit.of(Egress)
    assert (event.allowed, event.url, event.gate, event.rule) == (
        True,
        "https://pages.example/",
        "hosts",
        "network",
    )
    [decided] = desk.audit.of(Decided)
    assert decided.hosts == BY_HOST.allow_hosts


REFUSED = {
    "other.example:443": "nobody allowed other.example",
    "pages.example:8443": "nobody allowed pages.example:8443",
    "pages.example:80": "nobody allowed pages.example:80",
    "wide.example:443": "nobody allowed wide.example",
    "pages.example.evil.example:443": "nobody allowed",
    "evilpages.example:443": "nobody allowed",
    "dns.google:443": "nobody allowed",
    "127.0.0.1:443": "only host names can be reached",
    "1.1.1.1:443": "only host names can be reached",
    "0x7f.1:443": "not written as it is looked up",
    "127.1:443": "not written as it is looked up",
    "2130706433:443": "not written as it is looked up",
    "[::1]:443": "HOST:PORT",
    "::1:443": "HOST:PORT",
    "pages.example.:443": "not written as it is looked up",
    "pages%2eexample:443": "percent-encoded",
    "user@pages.example:443": "HOST:PORT",
    "pages.example": "HOST:PORT",
    "pages.example:": "HOST:PORT",
    "pages.example:99999": "",
    "pages.example:0": "",
    "pages.example/x:443": "HOST:PORT",
    "localhost:443": "loopback",
    "metadata.google.internal:443": "cloud metadata",
    "printer.local:443": "local name",
    "intranet:443": "name without a domain",
    "ｐages.example:443": "not written as it is looked up",
    "pages.example\n:443": "",
    "": "HOST:PORT",
}


@pytest.mark.parametrize("target", REFUSED)
async def test_anything_else_is_refused_with_the_reason_and_on_record(connected, target) -> None:
    desk, (told,) = await connected(target)
    assert isinstance(told, str) and REFUSED[target] in told
    [event] = desk.audit.of(Egress)
    assert not event.allowed and event.problem


@pytest.mark.parametrize("target", ["PAGES.example:443", "a.wide.example:443", "odd.example:8080"])
async def test_what_a_rule_speaks_of_is_admitted(connected, target) -> None:
    _, (url,) = await connected(target)
    assert isinstance(url, Url)


@pytest.mark.parametrize(
    ("target", "policy", "is_admitted"),
    [
        ("http://pages.example/", {}, False),
        ("http://pages.example/", {"allow_http": ("pages.example",)}, True),
        ("http://odd.example:8080/x?y", {}, True),
        ("https://pages.example/", {}, False),
        ("http://odd.example:8080@evil.example/", {}, False),
        ("http://odd.example.:8080/", {}, False),
        ("ftp://odd.example:8080/", {}, False),
        ("/x", {}, False),
    ],
)
async def test_plain_requests_need_a_port_that_was_named_or_a_host_that_may_be_spoken_to_so(
    connected, target, policy, is_admitted
) -> None:
    _, (told,) = await connected(target, is_tunnel=False, **policy)
    assert isinstance(told, Url) is is_admitted, told


async def test_a_plain_request_that_carries_a_secret_is_refused(connected) -> None:
    secret = "ghp_" + "a1B2" * 9
    _, (told,) = await connected(f"http://odd.example:8080/?k={secret}", is_tunnel=False)
    assert "contains a secret" in str(told)


@pytest.mark.parametrize(
    "policy",
    [{"domain_denylist": ("pages.example",)}, {"domain_allowlist": ("other.example",)}],
)
async def test_the_lists_outweigh_what_was_allowed_and_lead_to_no_offer(connected, policy) -> None:
    desk, (told,) = await connected("pages.example:443", **policy)
    assert isinstance(told, str) and not desk.gatekeeper.wanted


async def test_refusals_are_recorded_once_each_and_not_without_end(connected) -> None:
    hosts = [f"h{number}.example:443" for number in range(150)]
    desk, told = await connected(*hosts, *hosts)
    assert len(told) == 300 and len(desk.audit.of(Egress)) == 101
    assert "not recorded one by one" in desk.audit.of(Egress)[-1].problem
    assert desk.gatekeeper.refused == 300 and len(desk.gatekeeper.wanted) == 20


async def test_when_the_record_fails_nothing_is_connected_to(connected, make) -> None:
    properties = {"command": {"type": "string", "x-leeward-kind": Kind.COMMAND}}
    shell = make.spec("shell", Effect.ALL, schema={"type": "object", "properties": properties})
    desk = make.desk(shell, sandbox=BY_HOST)
    told = []

    async def run(cleared):
        desk.audit.refuses = lambda event: isinstance(event, Egress)
        try:
            told.append(await cleared.gatekeeper.admit("pages.example:443", is_tunnel=True))
        except PolicyBlocked as blocked:
            told.append(str(blocked))
        desk.audit.refuses = lambda _: False
        return Output("", exit_code=0)

    desk.executor.does["shell"] = run
    await desk.run("shell", {"command": "make all"})
    assert "could not be recorded" in told[0]


async def test_after_the_call_nothing_is_admitted(connected) -> None:
    desk, _ = await connected()
    with pytest.raises(PolicyBlocked, match="the call has ended"):
        await desk.gatekeeper.admit("pages.example:443", is_tunnel=True)


@given(text=st.text(max_size=40) | st.sampled_from(["pages.example:443", "pages.example", "*.pages.example"]))
def test_rules_are_fixed_points_and_speak_of_no_address(text) -> None:
    try:
        rule = reach_rule(text)
    except ValueError as error:
        assert str(error)
        return
    assert reach_rule(rule) == rule
    url = parse_url("https://127.0.0.1/")
    assert isinstance(url, Url) and not is_reached(url, (rule,))


async def test_a_line_is_not_run_for_ever_where_a_rule_answers_for_each_host_it_comes_up_with(make) -> None:
    properties = {"command": {"type": "string", "x-leeward-kind": Kind.COMMAND}}
    shell = make.spec("shell", Effect.ALL, schema={"type": "object", "properties": properties})
    desk = make.desk(shell, sandbox=BY_HOST, rules=(Rule("network", RuleAction.ALLOW, "*.open.example"),))
    runs: list[str] = []

    async def run(cleared):
        runs.append(cleared.action.call.id)
        cleared.offer(Rerun((f"h{len(runs)}.open.example",), run))
        return Output("", exit_code=1)

    desk.executor.does["shell"] = run
    with trio.fail_after(20):
        result = await desk.run("shell", {"command": "make all"})
    assert 1 < len(runs) < 20 and not desk.approver.questions and result.outcome.exit_code == 1


async def test_a_second_run_whose_hosts_were_allowed_meanwhile_is_on_record_as_one_on_trial(make) -> None:
    properties = {"command": {"type": "string", "x-leeward-kind": Kind.COMMAND}}
    shell = make.spec("shell", Effect.ALL, schema={"type": "object", "properties": properties})
    desk = make.desk(shell, sandbox=BY_HOST)
    ran: list[Runs] = []

    async def run(cleared):
        ran.append(cleared.runs)
        if len(ran) == 1:
            cleared.offer(Rerun(("pages.example",), run))
        return Output("", exit_code=0)

    desk.executor.does["shell"] = run
    await desk.run("shell", {"command": "make all"})
    assert ran == [Runs.TRIAL, Runs.TRIAL] and not desk.approver.questions
    assert [one.runs for one in desk.audit.of(Decided)] == ran
