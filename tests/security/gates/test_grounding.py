"""The gate `grounding`: only URLs that the person gave or that a followed page links to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType, ModuleType

import pytest

from leeward.security.call import Action, Atom, ToolCall
from leeward.security.gates import grounding
from leeward.security.kinds import Effect, Kind
from leeward.security.policy import Policy
from leeward.security.session import Session
from leeward.security.url import Ledger, Provenance, Url, parse_url
from leeward.security.verdict import Allow, Ask, Deny, Verdict

Gate = Callable[[Action, Session], Verdict]


def action_with(*urls: str, kind: Kind = Kind.URL) -> Action:
    read: Callable[[str], object] = parse_url if kind is Kind.URL else str
    # type: ignore[arg-type]
    atoms = tuple(Atom(kind, f"/{n}", text, read(text)) for n, text in enumerate(urls))
    return Action(ToolCall("1", "any_tool", "{}"), None, MappingProxyType({}), "", (), atoms, Effect.ALL)


def session_with(
    known: Sequence[str], provenance: Provenance = Provenance.PERSON, enabled: bool = True
) -> Session:
    urls = [url for url in map(parse_url, known) if isinstance(url, Url)]
    return Session(
        "s", Policy("/w", "/h", url_grounding=enabled), ledger=Ledger().with_urls(urls, provenance)
    )


GOOD = ["https://good.com/a"]

# What is known, what a call asks for, the word, the rule.
CASES: list[tuple[list[str], list[str], type[Verdict], str]] = [
    (GOOD, ["https://good.com/a"], Allow, ""),
    (GOOD, ["HTTPS://GOOD.com:443/%61/"], Allow, ""),
    (GOOD, ["https://good.com/a/b"], Allow, ""),
    (GOOD, ["https://good.com"], Allow, ""),
    (["http://good.com/a"], ["https://good.com/a"], Allow, ""),
    ([*GOOD, "https://b.org/"], ["https://good.com/a", "https://b.org/x"], Allow, ""),
    (["https://good.com/?q=1"], ["https://good.com/?q=1"], Allow, ""),
    (GOOD, [], Allow, ""),
    ([], [], Allow, ""),
    ([], ["https://good.com/a"], Deny, "not_provided"),
    (GOOD, ["https://invented.com/"], Deny, "not_provided"),
    (["https://good.com"], ["https://good.com.evil.net"], Deny, "not_provided"),
    (["https://good.com"], ["https://good.community/"], Deny, "not_provided"),
    (["https://good.com"], ["https://good.com@evil.net/"], Deny, "unreadable"),
    (["https://good.com"], ["https://good.com\\.evil.net/"], Deny, "unreadable"),
    (GOOD, ["https://good.com/ab"], Deny, "not_provided"),
    (GOOD, ["https://good.com/b"], Deny, "not_provided"),
    (GOOD, ["https://good.com/a/../b"], Deny, "unreadable"),
    (GOOD, ["https://good.com/a/%2e%2e/b"], Deny, "unreadable"),
    (GOOD, ["http://good.com/a"], Deny, "not_provided"),
    (GOOD, ["https://good.com:8443/a"], Deny, "not_provided"),
    (GOOD, ["https://good.com/a", "https://evil.net/"], Deny, "not_provided"),
    (GOOD, ["https://good.com/a?x=1", "https://evil.net/"], Deny, "not_provided"),
    (GOOD, ["https://evil.net/", "not a url"], Deny, "not_provided"),
    (GOOD, ["file:///etc/passwd"], Deny, "unreadable"),
    (GOOD, ["https://good.com/a?leak=1"], Ask, "added_query"),
    (GOOD, ["https://good.com/a/b#leak"], Ask, "added_query"),
    (GOOD, ["https://good.com/a", "https://good.com/a?x=1"], Ask, "added_query"),
]


def failures(gate: Gate) -> list[str]:
    """Tell in which cases a gate does not say the right word."""
    wrong = []
    for known, asked, word, rule in CASES:
        said = gate(action_with(*asked), session_with(known))
        if not isinstance(said, word) or said.rule != rule:
            wrong.append(f"{known} {asked}: {said}")
    return wrong


def test_the_gate_says_the_right_word() -> None:
    assert failures(grounding) == []


def test_the_obvious_wrong_gate_is_caught(planted: Callable[[str], ModuleType]) -> None:
    caught = failures(planted("grounding").grounding)
    assert any("good.com.evil.net" in case for case in caught)
    assert any("leak" in case for case in caught)


def test_a_refusal_tells_what_was_asked_for_and_what_is_known() -> None:
    said = grounding(action_with("https://good.com/b"), session_with(GOOD))
    assert isinstance(said, Deny)
    assert said.reason == "fetch rejected: URL was not provided by the user"
    assert said.facts == (("url", "https://good.com/b"), ("nearest known", "https://good.com/a"))
    assert said.suggestion == "https://good.com/a"
    unknown = grounding(action_with("https://evil.net/"), session_with([]))
    assert isinstance(unknown, Deny)
    assert (unknown.facts, unknown.suggestion) == ((("url", "https://evil.net/"),), None)


def test_a_question_shows_what_was_added_and_is_about_nothing_else() -> None:
    action = action_with("https://good.com/a", "https://good.com/a?x=1#y", "https://good.com/a/b?z")
    said = grounding(action, session_with(GOOD))
    assert isinstance(said, Ask)
    assert said.about == action.atoms[1:]
    assert said.facts == (("added", "?x=1#y"), ("added", "?z"))
    assert not said.force


def test_a_word_that_could_be_a_file_is_asked_about() -> None:
    known = session_with(["https://docs.rs/tokio"], Provenance.HINT)
    said = grounding(action_with("https://docs.rs/tokio"), known)
    assert isinstance(said, Ask)
    assert (said.rule, said.facts) == ("bare_host", (("url", "https://docs.rs/tokio"),))
    both = grounding(action_with("https://docs.rs/tokio", "https://docs.rs/tokio?x"), known)
    assert isinstance(both, Ask)
    assert (both.rule, both.facts) == ("added_query", (("url", "https://docs.rs/tokio"), ("added", "?x")))
    assert isinstance(grounding(action_with("https://docs.rs/serde"), known), Deny)


@pytest.mark.parametrize("provenance", [Provenance.LINK, Provenance.SEARCH, Provenance.REDIRECT])
def test_what_was_found_is_followed_exactly(provenance: Provenance) -> None:
    known = session_with(["https://good.com/a?x=1"], provenance)
    assert grounding(action_with("https://good.com/a?x=1"), known) == Allow()
    for text in ("https://good.com/a", "https://good.com/a/b", "https://good.com/", "https://good.com/a?x=2"):
        assert isinstance(grounding(action_with(text), known), Deny), text


def test_off_is_said_and_other_kinds_are_left_alone() -> None:
    assert grounding(action_with("https://evil.net/", "x"), session_with([], enabled=False)) == Allow("off")
    for kind in (Kind.TEXT, Kind.SECRET, Kind.UNDECLARED):
        assert grounding(action_with("https://evil.net/", kind=kind), session_with([])) == Allow()
