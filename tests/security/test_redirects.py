"""Redirects of a running call: judged by the same gates, recorded before sending, bounded."""

from __future__ import annotations

import json

import pytest

from leeward.security.call import Asker, Cleared, Exchange, Status
from leeward.security.judge import Judge
from leeward.security.kinds import Effect, Kind
from leeward.security.outcome import Category, Output, PolicyBlocked
from leeward.security.policy import CallLimits, Rule, RuleAction
from leeward.security.ports import Answer
from leeward.security.session import Decided, Egress, Session, UrlsAdded, apply_events
from leeward.security.trust import TrustLevel
from leeward.security.url import Provenance, parse_url
from loading import rows_beside
from masks import kinds

ROWS = rows_beside(__file__)

FETCH = Effect.SEND | Effect.BRING_IN


class Opens:
    """A tool that follows what it is told to, and notes where it got."""

    def __init__(
        self, *references: str, links: tuple[str, ...] = (), pointer: str | None = None, tries: int = 1
    ) -> None:
        self.references, self.links, self.pointer = references, links, pointer
        self.opened: list[str] = []
        self.cleared = None

    async def __call__(self, cleared) -> Output:
        self.cleared = cleared
        self.opened.append(cleared.url(self.pointer or "/url").text)
        for reference in self.references:
            cleared.report(Exchange(parse_url(self.opened[-1]), "GET", "1.1.1.1", 302, 10, 20, 0.5))
            self.opened.append((await cleared.follow(reference, self.pointer)).text)
        cleared.report(Exchange(parse_url(self.opened[-1]), "GET", "1.1.1.1", 200, 10, 20, 0.5))
        return Output("page", links=self.links)


async def run(make, tool, url, said=(), asker=Asker.MODEL, kinds=None, arguments=None, spec=None, **policy):
    fields = {"effects": FETCH, "kinds": kinds or {"url": Kind.URL}, **(spec or {})}
    desk = make.desk(make.spec("fetch", **fields), start=make.session(said=said or [url], **policy))
    desk.executor.does = {"fetch": tool}
    result = await desk.run("fetch", arguments or {"url": url}, asker=asker)
    return desk, result


A = "https://good.com/a"

# What the person gave, what is asked for, the hops; where it got, and what became known by it.
HOPS = ROWS["hops"]


@pytest.mark.parametrize(("said", "url", "hops", "opened", "known"), HOPS)
async def test_redirects_that_are_followed(make, said, url, hops, opened, known) -> None:
    tool = Opens(*hops)
    desk, result = await run(make, tool, url, said)
    assert result.outcome.category is None and tool.opened == [url, *opened]
    found = [entry.text for entry, how in desk.session.ledger.entries() if how is Provenance.REDIRECT]
    assert found == known
    decided = [(event.hop, event.allowed) for event in desk.audit.of(Decided)]
    assert decided == [(hop, True) for hop in range(len(hops) + 1)]


REFUSED = [
    (
        ["https://good.com"],
        "https://good.com/r/other.org",
        "https://other.org/SECRET",
        "grounding refused it (not_provided)",
    ),
    (
        ["https://good.com"],
        "https://good.com/r",
        "https://good.com:8443/x",
        "grounding refused it (not_provided)",
    ),
    (
        ["https://good.com"],
        "https://good.com/r",
        "https://sub.good.com/x",
        "grounding refused it (not_provided)",
    ),
    (
        ["https://good.com"],
        "https://good.com/r",
        "https://www.www.good.com/x",
        "grounding refused it (not_provided)",
    ),
    ([A], A, "http://good.com/a", "hosts refused it (https_only)"),
    ([A], A, "https://10.0.0.1/", "hosts refused it (refused_host)"),
    ([A], A, "https://169.254.169.254/latest", "hosts refused it (refused_host)"),
    ([A], A, "https://localhost/", "hosts refused it (refused_host)"),
    ([A], A, "https://denied.org/", "hosts refused it (domain_denylist)"),
    ([A], A, "file:///etc/passwd", "arguments refused it (unexpected_scheme)"),
    ([A], A, "https://user:pw@other.org/", "arguments refused it (userinfo)"),
    ([A], A, "https://other.org\\@evil.net/", "arguments refused it"),
    ([A], A, "https://other.org/%2e%2e/x", "arguments refused it (encoded_traversal)"),
    ([A], A, "https://other.org/\nx", "arguments refused it (control_character)"),
    ([A], A, "https://o\u200bther.org/", "arguments refused it (invisible_character)"),
    ([A], A, "https://other.org:0/", "arguments refused it (type_pattern_mismatch)"),
    ([A], A, "javascript:alert(1)", "arguments refused it"),
    ([A], A, "/" + "x" * 9_000, "arguments refused it"),
]


@pytest.mark.parametrize(("said", "url", "hop", "why"), REFUSED)
async def test_redirects_that_are_refused_fail_the_request_with_the_hop_named(
    make, said, url, hop, why
) -> None:
    tool = Opens(hop)
    desk, result = await run(make, tool, url, said, domain_denylist=("denied.org",))
    assert tool.opened == [url]
    assert result.outcome.category is Category.POLICY_BLOCKED
    message = (
        kinds(result.error["message"])
        .replace("\\", "")
        .replace("u{200b}", "")
        .replace("[url-password]", "user:pw")
    )
    assert message.startswith("a redirect was not followed: ") and why in message
    assert "; it leads to " + hop[:40].partition("\n")[0].replace("\\", "").replace("\u200b", "") in message
    assert [(event.hop, event.allowed) for event in desk.audit.of(Decided)] == [(0, True), (1, False)]
    refused = desk.audit.of(Egress)[-1]
    assert (refused.hop, refused.allowed, refused.ended) == (1, False, False) and refused.gate in why
    assert len(desk.session.ledger) == len(said) and desk.session.breaker.total == 0


async def test_a_redirect_in_two_steps_carries_no_more_than_one(make) -> None:
    """A server adds a slash to what it was asked; the next call asks for that, and is sent to
    another site.
    """
    desk = make.desk(
        make.spec("fetch", effects=FETCH, kinds={"url": Kind.URL}),
        start=make.session(said=["https://good.com"]),
    )
    for first, links, second in [
        ("/r/other.org/x", (), "https://good.com/r/other.org/x/y"),
        ("/page", ("https://good.com/out/other.org/x",), "https://good.com/out/other.org/x"),
    ]:
        desk.executor.does = {"fetch": Opens(*([] if links else [second]), links=links)}
        assert (
            await desk.run("fetch", {"url": f"https://good.com{first}"}, call_id=f"1{first}")
        ).error is None
        assert second in {entry.text for entry, _ in desk.session.ledger.entries()}
        tool = Opens("https://other.org/x")
        desk.executor.does = {"fetch": tool}
        result = await desk.run("fetch", {"url": second}, call_id=f"2{first}")
        assert tool.opened == [second] and "grounding refused it" in result.error["message"]
    desk.executor.does = {"fetch": Opens(links=("https://good.com/out",))}
    await desk.run("fetch", {"url": "https://good.com"}, call_id="3")
    desk.executor.does = {"fetch": Opens("https://other.org/x")}
    assert (await desk.run("fetch", {"url": "https://good.com/out"}, call_id="4")).error is None


async def test_a_question_in_the_midst_of_a_call_is_a_refusal(make) -> None:
    ask = Rule("fetch", RuleAction.ASK, "other.org", where="config.toml:1")
    tool = Opens("https://other.org/x")
    desk, result = await run(make, tool, A, rules=(ask,))
    assert (
        "not followed: permissions would ask about it: a permission rule asks about this; it leads to "
        "https://other.org/x"
    ) in result.error["message"]
    assert desk.approver.questions == [] and tool.opened == [A]
    assert desk.audit.of(Decided)[-1].approver == "nobody"
    # What the person answered beforehand is an answer here, too; what they typed is not.
    tool, allow = (
        Opens("https://other.org/x"),
        Rule("fetch", RuleAction.ALLOW, "other.org/*", where="config.toml:2"),
    )
    verified = {"level": TrustLevel.VERIFIED}
    await run(
        make,
        tool,
        A,
        rules=(Rule("fetch", RuleAction.ALLOW, "good.com/*", where="config.toml:1"), allow),
        spec=verified,
    )
    assert tool.opened[-1] == "https://other.org/x"
    tool = Opens("https://other.org/x")
    _, result = await run(make, tool, A, asker=Asker.PERSON, rules=(ask,))
    assert tool.opened == [A] and result.outcome.category is Category.POLICY_BLOCKED


async def test_a_fourth_redirect_is_one_too_many(make) -> None:
    tool = Opens("/1", "/2", "/3", "/4")
    desk, result = await run(make, tool, A)
    assert tool.opened[-1] == "https://good.com/3"
    assert (
        "not followed: 3 redirects are followed at most; it leads to https://good.com/4"
        in result.error["message"]
    )
    last = desk.audit.of(Egress)[-1]
    assert (last.hop, last.allowed, last.gate, last.rule) == (4, False, "follow", "too_many")


async def test_a_second_try_is_judged_and_there_is_no_third(make) -> None:
    tool = Opens(A)
    desk, _ = await run(make, tool, A)
    assert tool.opened == [A, A] and len(desk.session.ledger) == 1
    tool = Opens(parse_url(A))
    await run(make, tool, A)
    assert tool.opened == [A, A]
    tool = Opens(A, A)
    _, result = await run(make, tool, A)
    assert tool.opened == [A, A] and "tried 2 times at most" in result.error["message"]


async def test_nothing_goes_out_before_it_is_on_record(make) -> None:
    class Watch(Opens):
        async def __call__(self, cleared):
            self.cleared = cleared
            url = await cleared.follow("/b")
            committed = desk.audit.committed
            assert any(isinstance(event, Decided) and event.hop == 1 and event.allowed for event in committed)
            assert any(
                isinstance(event, Egress) and event.url == url.text and not event.ended for event in committed
            )
            desk.audit.refuses = lambda event: getattr(event, "hop", 0) == 2
            with pytest.raises(PolicyBlocked, match="could not be recorded, so nothing was opened"):
                await cleared.follow("/c")
            desk.audit.refuses = lambda event: False
            return Output("done")

    desk = make.desk(make.spec("fetch", effects=FETCH, kinds={"url": Kind.URL}), start=make.session(said=[A]))
    desk.executor.does = {"fetch": Watch()}
    assert (await desk.run("fetch", {"url": A})).text.startswith("«UNTRUSTED")


async def test_a_hop_is_no_call_of_the_budget(make) -> None:
    tool = Opens("/1", "/2")
    desk, result = await run(make, tool, A, calls=CallLimits(per_turn=1, per_session=1))
    assert result.error is None and desk.session.calls_this_session == 1


async def test_the_call_over_nothing_is_followed_or_reported(make) -> None:
    for tool in (Opens(), Opens("https://10.0.0.1/")):
        desk, _ = await run(make, tool, A)
        before = len(desk.audit.committed)
        with pytest.raises(PolicyBlocked, match="the call has ended"):
            await tool.cleared.follow("/b")
        tool.cleared.report(Exchange(parse_url(A), "GET"))
        await desk.pipeline.note()
        assert len(desk.audit.committed) == before


async def test_with_several_urls_it_must_be_said_which(make) -> None:
    kinds, both = (
        {"url": Kind.URL, "and": Kind.URL, "q": None},
        {"url": A, "and": "https://b.org/1", "q": "see https://b.org/1"},
    )
    tool = Opens("/x")
    _, result = await run(make, tool, A, [A, "https://b.org/1"], kinds=kinds, arguments=both)
    assert "no URL was judged for this argument" in result.error["message"]
    tool = Opens("/x", pointer="/and")
    desk, _ = await run(make, tool, A, [A, "https://b.org/1"], kinds=kinds, arguments=both)
    assert tool.opened == ["https://b.org/1", "https://b.org/x"]
    assert '"and":"https://b.org/x"' in desk.audit.of(Decided)[-1].arguments
    _, result = await run(
        make, Opens("/x", pointer="/q"), A, [A, "https://b.org/1"], kinds=kinds, arguments=both
    )
    assert result.error is not None


async def test_what_became_of_each_attempt_is_on_record_with_secrets_masked(make) -> None:
    key = "sk-test-" + "0" * 40
    tool = Opens(f"/b?k={key}")
    desk, _ = await run(make, tool, A)
    rows = [
        (row.hop, row.ended, row.allowed, row.gate, row.rule, row.http_status)
        for row in desk.audit.of(Egress)
    ]
    assert rows == [
        (0, False, True, "grounding", "person", None), (0, True, True, None, "", 302),
        (1, False, True, "grounding", "redirect", None), (1, True, True, None, "", 200),
    ]  # fmt: skip
    assert not any(key in repr(event) for event in desk.audit.committed if not isinstance(event, UrlsAdded))
    ended = desk.audit.of(Egress)[1]
    assert (ended.method, ended.address, ended.sent, ended.received, ended.seconds) == (
        "GET",
        "1.1.1.1",
        10,
        20,
        0.5,
    )
    _, _ = await run(make, Opens(), "https://evil.net/", [A])


async def test_refused_calls_are_attempts_on_record_too(make) -> None:
    desk, _ = await run(make, Opens(), "https://evil.net/", [A])
    (row,) = desk.audit.of(Egress)
    assert (row.url, row.allowed, row.gate, row.rule) == (
        "https://evil.net/",
        False,
        "grounding",
        "not_provided",
    )
    desk, _ = await run(make, Opens(), "https://evil.net/", [A], spec={"effects": Effect.READ})
    assert desk.audit.of(Egress) == []


LINKS = (
    "https://good.com/x",
    "https://www.good.com/y?z",
    "https://other.org/w",
    "http://good.com/x",
    "nonsense",
    "https://good.com/" + "l" * 3_000,
)


async def test_links_of_an_opened_page_become_known_with_how(make) -> None:
    desk, _ = await run(make, Opens(links=LINKS), A)
    assert [(entry.text, how) for entry, how in desk.session.ledger.entries()][1:] == [
        ("https://good.com/x", Provenance.LINK), ("https://www.good.com/y?z", Provenance.LINK),
        ("https://other.org/w", Provenance.FOREIGN), ("http://good.com/x", Provenance.FOREIGN),
    ]  # fmt: skip
    assert len([event for event in desk.audit.committed if isinstance(event, UrlsAdded)]) == 2
    again = Session("s_test", desk.session.policy)
    for event in desk.audit.committed:
        again = apply_events(again, event)
    assert set(LINKS[:4]) <= {entry.text for entry, _ in again.ledger.entries()}


async def test_the_site_of_a_page_is_that_of_its_final_url(make) -> None:
    desk, _ = await run(make, Opens("https://other.org/p", links=LINKS), A)
    known = {entry.text: how for entry, how in desk.session.ledger.entries()}
    assert (known["https://other.org/w"], known["https://good.com/x"]) == (
        Provenance.LINK,
        Provenance.FOREIGN,
    )
    assert "https://other.org/p" not in known


async def test_only_trusted_tools_are_believed_about_links_and_only_flagged_ones_about_results(make) -> None:
    verified = {"level": TrustLevel.VERIFIED}
    desk = make.desk(
        make.spec("fetch", effects=FETCH, kinds={"url": Kind.URL}, **verified), start=make.session(said=[A])
    )
    desk.executor.does, desk.approver.answers[0] = {"fetch": Opens(links=LINKS)}, Answer.YES
    await desk.run("fetch", {"url": A})
    assert len(desk.session.ledger) == 1
    search = make.spec("search", effects=FETCH, kinds={"q": Kind.TEXT}, **verified)
    for flagged, count in ((frozenset(), 0), (frozenset({"search"}), 2)):
        desk = make.desk(search, start=make.session(search_tools=flagged))
        desk.executor.does = {"search": Output("1. https://found.org/a\n2. see https://found.org/b.")}
        desk.approver.answers[0] = Answer.YES
        await desk.run("search", {"q": "x"})
        assert [how for _, how in desk.session.ledger.entries()] == [Provenance.SEARCH] * count


async def test_without_a_pipeline_nothing_is_followed(make) -> None:
    action = make.action(make.spec(effects=FETCH, kinds={"url": Kind.URL}), {"url": A})
    cleared = Cleared(action, 0, None)
    with pytest.raises(PolicyBlocked):
        await cleared.follow("/b")
    cleared.report(Exchange(parse_url(A), "GET"))


async def test_call_question_and_hop_are_judged_by_one_judge(make, monkeypatch) -> None:
    asked: list[tuple[str, str]] = []
    read, rule = Judge.read, Judge.rule

    async def reading(judge, call):
        asked.append(("read", json.loads(call.arguments)["url"]))
        return await read(judge, call)

    def ruling(judge, action, session=None):
        asked.append(("rule", str(action.arguments["url"])))
        return rule(judge, action, session)

    monkeypatch.setattr(Judge, "read", reading)
    monkeypatch.setattr(Judge, "rule", ruling)
    await run(make, Opens("/b"), A, ["https://good.com"])
    hop = "https://good.com/b"
    assert asked == [("read", A), ("rule", A), ("read", hop), ("rule", hop)]
    asked.clear()
    desk = make.desk(
        make.spec("send", effects=Effect.WRITE, kinds={"url": Kind.URL}), start=make.session(said=[A])
    )
    desk.approver.answers[0] = Answer.YES
    assert (await desk.run("send", {"url": A})).outcome.status is Status.OK
    assert asked == [("read", A), ("rule", A), ("rule", A), ("read", A), ("rule", A)]
