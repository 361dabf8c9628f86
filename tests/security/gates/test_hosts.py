"""The gate `hosts`: public destinations over https, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType, ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leeward.security.call import Action, Atom, ToolCall
from leeward.security.gates import hosts
from leeward.security.kinds import Effect, Kind
from leeward.security.policy import Policy
from leeward.security.session import Session, UrlsAdded, apply_events
from leeward.security.url import Provenance, Url, parse_url
from leeward.security.verdict import Allow, Deny, Verdict

Gate = Callable[[Action, Session], Verdict]


def action_with(*urls: str) -> Action:
    atoms = tuple(Atom(Kind.URL, f"/{n}", text, parse_url(text)) for n, text in enumerate(urls))
    return Action(ToolCall("1", "any_tool", "{}"), None, MappingProxyType({}), "", (), atoms, Effect.ALL)


def session_with(*networks: str) -> Session:
    return Session("s", Policy("/w", "/h", allow_networks=networks))


# What a call asks for, the networks allowed, the rule of the refusal or "" where there is none.
CASES: list[tuple[list[str], list[str], str]] = [
    ([], [], ""),
    (["https://example.com/"], [], ""),
    (["https://example.com:8443/", "https://b.org"], [], ""),
    (["https://1.1.1.1/"], [], ""),
    (["https://[2606:4700::1111]/"], [], ""),
    (["https://localhost.example.com/"], [], ""),
    (["https://10.example.com/"], [], ""),
    (["https://10.1.2.3/"], ["10.1.0.0/16"], ""),
    (["https://127.0.0.1:8443/"], ["127.0.0.0/8"], ""),
    (["http://example.com/"], [], "https_only"),
    (["HTTP://example.com:443/"], [], "https_only"),
    (["https://example.com/", "http://example.com/"], [], "https_only"),
    (["http://10.1.2.3/"], ["10.1.0.0/16"], "https_only"),
    (["https://localhost/"], [], "refused_host"),
    (["http://localhost/"], [], "refused_host"),
    (["https://LOCALHOST.:8443/"], [], "refused_host"),
    (["https://app.localhost/"], [], "refused_host"),
    (["https://db.internal/"], [], "refused_host"),
    (["https://printer.local/"], [], "refused_host"),
    (["https://nas.home.arpa/"], [], "refused_host"),
    (["https://metadata.google.internal/"], [], "refused_host"),
    (["https://intranet/"], [], "refused_host"),
    (["https://127.0.0.1/"], [], "refused_host"),
    (["https://127.1/"], [], "refused_host"),
    (["https://2130706433/"], [], "refused_host"),
    (["https://0x7f.0.0.1/"], [], "refused_host"),
    (["https://0177.0.0.1/"], [], "refused_host"),
    (["https://①②⑦.0.0.1/"], [], "refused_host"),
    (["https://0/"], [], "refused_host"),
    (["https://[::1]/"], [], "refused_host"),
    (["https://[::]/"], [], "refused_host"),
    (["https://[::ffff:127.0.0.1]/"], [], "refused_host"),
    (["https://[2606:4700::5efe:7f00:1]/"], [], "refused_host"),
    (["https://[64:ff9b::a00:1]/"], [], "refused_host"),
    (["https://[fe80::1]/"], [], "refused_host"),
    (["https://10.0.0.1/"], [], "refused_host"),
    (["https://10.2.0.1/"], ["10.1.0.0/16"], "refused_host"),
    (["https://169.254.169.254/"], ["0.0.0.0/0"], "refused_host"),
    (["https://example.com/", "https://192.168.0.1/"], [], "refused_host"),
    (["https://example.com@127.0.0.1/"], [], "unreadable"),
    (["https:\\\\127.0.0.1/"], [], "unreadable"),
    (["file://localhost/etc/passwd"], [], "unreadable"),
    (["https://example.com/", "https:/127.0.0.1/"], [], "unreadable"),
]


def failures(gate: Gate) -> list[str]:
    """Tell in which cases a gate does not say the right word."""
    wrong = []
    for urls, networks, rule in CASES:
        try:
            said = gate(action_with(*urls), session_with(*networks))
        except LookupError as error:
            wrong.append(f"{urls}: {error}")
            continue
        if isinstance(said, Deny) != bool(rule) or said.rule != rule:
            wrong.append(f"{urls}: {said}")
    return wrong


def test_the_gate_says_the_right_word() -> None:
    assert failures(hosts) == []


def test_the_obvious_wrong_gate_is_caught(planted: Callable[[str], ModuleType]) -> None:
    caught = failures(planted("hosts").hosts)
    assert any("2130706433" in case for case in caught)
    assert any("10.example.com" in case for case in caught)


def test_a_refusal_names_what_the_host_is() -> None:
    said = hosts(action_with("https://169.254.169.254/latest"), session_with())
    assert isinstance(said, Deny)
    assert said.reason == "fetch rejected: the host is not on the public internet (cloud metadata)"
    assert said.facts == (("url", "https://169.254.169.254/latest"), ("host", "169.254.169.254"))


@pytest.mark.parametrize(
    ("plain", "secure"),
    [
        ("http://example.com/a?b#c", "https://example.com/a?b#c"),
        ("http://example.com:8080/", "https://example.com:8080/"),
    ],
)
def test_plain_http_is_refused_with_the_https_form(plain: str, secure: str) -> None:
    known = apply_events(session_with(), UrlsAdded(0.0, (secure,), Provenance.PERSON))
    said = hosts(action_with(plain), known)
    assert isinstance(said, Deny)
    assert said.suggestion == secure
    assert hosts(action_with(secure), known) == Allow()


def test_an_https_form_that_would_be_refused_itself_is_not_suggested() -> None:
    said = hosts(action_with("http://example.com/"), session_with())
    assert isinstance(said, Deny) and said.suggestion is None


def test_a_network_that_is_none_refuses_rather_than_allows() -> None:
    with pytest.raises(ValueError, match="everything"):
        hosts(action_with("https://10.0.0.1/"), session_with("everything"))


@given(st.lists(st.sampled_from([case[0][0] for case in CASES if case[0]]), max_size=4))
def test_one_url_more_never_turns_a_no_into_a_yes(urls: list[str]) -> None:
    single = [isinstance(hosts(action_with(url), session_with()), Deny) for url in urls]
    assert isinstance(hosts(action_with(*urls), session_with()), Deny) == any(single)


@given(st.ip_addresses())
def test_a_reason_never_quotes_the_value(address: object) -> None:
    text = f"[{address}]" if ":" in str(address) else str(address)
    url = parse_url(f"https://{text}/")
    assert isinstance(url, Url)
    said = hosts(action_with(url.text), session_with())
    assert isinstance(said, Allow) or url.host not in said.reason
