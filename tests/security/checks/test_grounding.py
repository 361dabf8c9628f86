"""Questions about URLs derived from known ones, and about destinations."""

from __future__ import annotations

import pytest

from leeward.security.gates import grounding, hosts
from leeward.security.kinds import Effect, Kind
from leeward.security.provenance import text_marks
from leeward.security.session import ConversationCleared, TextSeen, UrlsAdded, UrlsRemoved, apply_events
from leeward.security.trust import Origin
from leeward.security.url import Provenance, fingerprints_in
from leeward.security.verdict import Allow, Ask, Deny

GIVEN = "https://good.com/a"
NOTE = "the canary is canary-7f3a9b2c\npassword: swordfish"
LONG = "x" * 65


def said(make, url, *events, given=GIVEN, **fields):
    tool = make.spec(effects=Effect.SEND | Effect.BRING_IN, kinds={"url": Kind.URL})
    start = make.session(*events, said=[given], **fields)
    start = apply_events(start, TextSeen(0, (Origin.WORKSPACE,), fingerprints_in(NOTE, start.id)))
    return grounding(make.action(tool, {"url": url}), start)


SAID = [
    ("https://good.com/a", None),
    ("https://good.com/", None),
    ("https://good.com/a/guide/v2.3.1/index.html", None),
    ("https://good.com/a/" + "x" * 64, None),
    (f"https://good.com/a/{LONG}", "long_segment"),
    (f"https://good.com/a/b/{LONG}/c", "long_segment"),
    ("https://good.com/a/" + "/".join(["0123456789"] * 50), "long_segment"),
    ("https://good.com/a?x=1", "added_query"),
    ("https://good.com/a#top", "added_query"),
    (f"https://good.com/a/{LONG}?x=1", "long_segment"),
    ("https://good.com/a/canary-7f3a9b2c", "carries_value"),
    ("https://good.com/a/ca/nary/7f3a/9b2c", "carries_value"),
    ("https://good.com/a/sword/fish", "carries_value"),
    ("https://good.com/a?q=canary-7f3a9b2c", "carries_value"),
    ("https://good.com/a#canary-7f3a9b2c", "carries_value"),
    ("https://good.com/a/Y2FuYXJ5LTdmM2E5YjJj", "carries_value"),
    ("https://good.com/a/sk-test-" + "0" * 32, "carries_value"),
    ("https://good.com/a?k=AKIA" + "EXAMPLE" * 2 + "EX", "carries_value"),
    ("https://good.com/a/hunter2-of-the-provider", "carries_value"),
    ("https://good.com/a/hunter2%2Dof%2Dthe%2Dprovider", "carries_value"),
]


@pytest.mark.parametrize(("url", "rule"), SAID)
def test_what_was_added_is_shown(make, url, rule) -> None:
    verdict = said(make, url, policy=make.policy())
    # A value the configuration knows to be secret stands in the session, not in an event.
    if "hunter2" in url:
        tool = make.spec(effects=Effect.SEND, kinds={"url": Kind.URL})
        start = make.replace(make.session(said=[GIVEN]), secrets=frozenset({"hunter2-of-the-provider"}))
        verdict = grounding(make.action(tool, {"url": url}), start)
    assert verdict == Allow() if rule is None else isinstance(verdict, Ask) and verdict.rule == rule, verdict
    if rule is not None:
        assert verdict.force is (rule == "carries_value")
        assert verdict.facts[0][0] == "added"


def test_what_was_given_or_linked_exactly_is_opened_whatever_it_holds(make) -> None:
    url = f"https://good.com/canary-7f3a9b2c/{LONG}?t=sk-test-{'0' * 32}#x"
    assert said(make, url, given=url) == Allow()
    assert said(make, url, UrlsAdded(0, (url,), Provenance.LINK)) == Allow()


def test_a_value_is_forgotten_with_the_conversation(make) -> None:
    start = make.session(
        TextSeen(0, (Origin.WORKSPACE,), fingerprints_in(NOTE, "s_test")),
        ConversationCleared(1),
        UrlsAdded(2, (GIVEN,), Provenance.PERSON),
    )
    tool = make.spec(effects=Effect.SEND, kinds={"url": Kind.URL})
    assert grounding(make.action(tool, {"url": "https://good.com/a/swordfish"}), start) == Allow()


def test_after_something_secret_was_read_every_path_that_was_not_given_is_asked_about(make) -> None:
    seen = TextSeen(0, (Origin.SECRET,))
    assert said(make, "https://good.com/a", seen) == Allow()
    assert said(make, "https://good.com/", seen) == Allow()
    verdict = said(make, "https://good.com/a/guide", seen)
    assert isinstance(verdict, Ask) and (verdict.rule, verdict.force) == ("carries_value", True)


def test_a_link_to_another_site_is_asked_about_with_host_and_path(make) -> None:
    link = UrlsAdded(0, ("https://other.example/x?y=1",), Provenance.FOREIGN)
    verdict = said(make, "https://other.example/x?y=1", link)
    assert isinstance(verdict, Ask) and verdict.rule == "foreign_link" and not verdict.force
    assert verdict.facts == (("host", "other.example"), ("path", "/x?y=1"))
    for url in ("https://other.example/", "https://other.example/x", "https://other.example/x/z"):
        assert isinstance(said(make, url, link), Deny), url


def test_hosts_that_look_like_others_are_shown_in_ascii_with_a_warning(make) -> None:
    odd = "https://аррӏе.com/"
    for verdict in (said(make, odd), said(make, odd + "?x", given=odd)):
        assert (
            "warning",
            "the host is drawn like apple.com in letters of another script: аррӏе.com",
        ) in verdict.facts
    assert ("url", "https://xn--80ak6aa92e.com/") in said(make, odd).facts
    tool = make.spec(effects=Effect.SEND, kinds={"url": Kind.URL})
    refused = hosts(make.action(tool, {"url": odd}), make.session(domain_denylist=("xn--80ak6aa92e.com",)))
    assert isinstance(refused, Deny) and dict(refused.facts)["warning"].startswith("the host is drawn like")


def test_what_was_withdrawn_is_not_known(make) -> None:
    start = make.session(UrlsRemoved(1, (GIVEN,)), said=[GIVEN, "https://b.org/", "ada@example.com"])
    tool = make.spec(effects=Effect.SEND, kinds={"url": Kind.URL, "to": Kind.DESTINATION})
    assert isinstance(grounding(make.action(tool, {"url": GIVEN}), start), Deny)
    assert grounding(make.action(tool, {"url": "https://b.org/x", "to": "ada@example.com"}), start) == Allow()
    again = apply_events(start, UrlsAdded(2, (GIVEN,), Provenance.PERSON))
    assert grounding(make.action(tool, {"url": GIVEN}), again) == Allow()
    gone = apply_events(again, UrlsRemoved(3, (GIVEN, "ada@example.com")))
    assert isinstance(grounding(make.action(tool, {"to": "ada@example.com"}), gone), Deny)
    assert isinstance(grounding(make.action(tool, {"url": GIVEN}), gone), Deny)


SENT = [
    ("ada@example.com", Allow, ""),
    ("Ada <ADA@example.com>", Allow, ""),
    ("ada@example.com, bob@example.com", Deny, "not_provided"),
    ("eve@evil.net", Deny, "not_provided"),
    ("good.com", Allow, ""),
    ("good.com:443", Allow, ""),
    ("evil.net", Deny, "not_provided"),
    ("git@good.com:a/b.git", Allow, ""),
    ("git@evil.net:a/b.git", Deny, "not_provided"),
    ("https://good.com/a/x", Allow, ""),
    ("git+https://good.com/a/x", Allow, ""),
    ("https://evil.net/", Deny, "not_provided"),
    ("https://good.com/a?x=1", Ask, "added_query"),
    ("origin", Deny, "not_provided"),
    ("ada@example.com, the team", Deny, "not_provided"),
    ('"ada@example.com"@evil.net', Deny, "not_provided"),
]


@pytest.mark.parametrize(("to", "word", "rule"), SENT)
def test_destinations_are_grounded_like_urls(make, to, word, rule) -> None:
    tool = make.spec(effects=Effect.SEND, kinds={"to": Kind.DESTINATION})
    verdict = grounding(make.action(tool, {"to": to}), make.session(said=[GIVEN, "ada@example.com"]))
    assert (type(verdict), verdict.rule) == (word, rule)
    if rule == "not_provided" and "://" not in to:
        assert verdict.reason == "send rejected: destination was not provided by the user"


def test_every_doubt_is_part_of_the_question(make) -> None:
    tool = make.spec(effects=Effect.SEND, kinds={"url": Kind.URL, "to": Kind.DESTINATION})
    action = make.action(tool, {"url": GIVEN + "?x=1", "to": "origin"})
    session = make.session(said=[GIVEN])
    shown = TextSeen(0, (), (), text_marks("push to origin", session.values_key), Origin.WORKSPACE, "read")
    verdict = grounding(action, apply_events(session, shown))
    assert isinstance(verdict, Ask) and verdict.rule == "added_query"
    assert len(verdict.about) == 2 and ("destination", "origin") in verdict.facts


PLACES = [
    ("good.com", {}, None),
    ("good.com", {"domain_denylist": ("good.com",)}, "domain_denylist"),
    ("good.com", {"domain_allowlist": ("*.good.com",)}, "domain_allowlist"),
    ("git@good.com:a/b", {"domain_allowlist": ("other.com",)}, "domain_allowlist"),
    ("db.internal", {}, "refused_host"),
    ("10.0.0.1", {}, "refused_host"),
    ("10.0.0.1", {"allow_networks": ("10.0.0.0/8",)}, None),
    ("ada@good.com", {"domain_allowlist": ("other.com",)}, None),
    ("origin", {"domain_allowlist": ("other.com",)}, None),
]


@pytest.mark.parametrize(("to", "policy", "rule"), PLACES)
def test_hosts_of_destinations_are_judged_like_those_of_urls(make, to, policy, rule) -> None:
    tool = make.spec(effects=Effect.SEND, kinds={"to": Kind.DESTINATION})
    verdict = hosts(make.action(tool, {"to": to}), make.session(**policy))
    assert getattr(verdict, "rule", "") == (rule or "")


LISTS = [
    ("https://docs.good.com/", ("*.good.com",), (), None),
    ("https://good.com/", ("*.good.com",), (), "domain_allowlist"),
    ("https://DOCS.good.com./", ("docs.good.com",), (), None),
    ("https://docs.good.com.evil.net/", ("*.good.com",), (), "domain_allowlist"),
    ("https://1.1.1.1/", ("*.good.com",), (), "domain_allowlist"),
    ("https://0x1010101/", ("*.good.com",), (), "domain_allowlist"),
    ("https://[2606:4700::1]/", ("*.good.com",), (), "domain_allowlist"),
    ("https://bad.good.com/", ("*.good.com",), ("bad.good.com",), "domain_denylist"),
    ("https://1.1.1.1/", (), ("1.1.1.1",), "domain_denylist"),
    ("https://localhost/", ("localhost",), (), "refused_host"),
    ("https://any.example/", (), (), None),
]


@pytest.mark.parametrize(("url", "allowed", "denied", "rule"), LISTS)
@pytest.mark.parametrize("kind", [Kind.URL, None])
def test_the_lists_hold_for_every_argument_that_is_a_url(make, url, allowed, denied, rule, kind) -> None:
    tool = make.spec("x_tool", effects=Effect.ALL, kinds={"q": kind}, source="plug-in x")
    verdict = hosts(
        make.action(tool, {"q": url}), make.session(domain_allowlist=allowed, domain_denylist=denied)
    )
    assert getattr(verdict, "rule", "") == (rule or "")
    if rule == "domain_allowlist":
        assert "not in allowlist" in verdict.reason


def test_listed_hosts_may_be_spoken_to_without_tls(make) -> None:
    tool = make.spec(effects=Effect.SEND, kinds={"url": Kind.URL})
    for host, rule in (("old.example", ""), ("www.old.example", "https_only"), ("x.older.example", "")):
        action = make.action(tool, {"url": f"http://{host}/"})
        verdict = hosts(action, make.session(allow_http=("old.example", "*.older.example")))
        assert verdict.rule == rule
