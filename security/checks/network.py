"""Decide which hosts a command may reach: named in the line, configured, to be asked about, or refused.

The gate `hosts` judges by these before a line runs, and `connections.py` by the same ones each connection
that the running command makes.
"""

from __future__ import annotations

from collections.abc import Iterable

from .. import command
from ..call import Action, Atom
from ..kinds import CommandLine, Kind, Runs, Unreadable
from ..permissions import lent_to
from ..policy import NETWORK, Autonomy, Policy
from ..session import Session
from ..text import redact_text
from ..url import Url, is_reached, judge_host, listed_problem, parse_url, percent_decoded, reach_of_url
from ..verdict import Allow, Ask, Deny, Verdict

__all__ = [
    "carries_secret",
    "closed_hosts",
    "host_atom",
    "is_by_host",
    "network_question",
    "network_word",
    "refused_host",
    "url_of_rule",
]

_QUESTION = "the sandbox has no network; allow these hosts? this line may send there whatever it can read"
_HEADLESS = "; [tools.sandbox] allow_hosts answers that beforehand"
_AGAIN = (
    "it tried to reach these hosts, and failed; allow them and run it again, on trial? it may send there "
)
_WHAT_IT_READS = "whatever it can read"


def refused_host(
    host: str, policy: Policy, facts: tuple[tuple[str, str], ...], what: str = "fetch rejected"
) -> Deny | None:
    """Return the refusal of a canonical host that is not listed or not public, or None."""
    unlisted = listed_problem(host, policy.domain_allowlist, policy.domain_denylist)
    if unlisted is not None:
        return Deny(unlisted[0], f"{what}: {unlisted[1]}", facts=facts)
    kind = judge_host(host, policy.allow_networks)
    if kind is not None:
        return Deny("refused_host", f"{what}: the host is not on the public internet ({kind})", facts=facts)
    return None


def is_by_host(action: Action, atom: Atom, policy: Policy) -> bool:
    """Whether all that a command line may connect to is reached by single hosts, or not at all."""
    return _urls_of(action, atom, policy) is not None


def _urls_of(action: Action, atom: Atom, policy: Policy) -> tuple[Url, ...] | None:
    line = atom.canonical
    if not (policy.sandbox.by_host and action.may_be_tried and isinstance(line, CommandLine)):
        return None
    return command.urls_by_proxy(line, policy.allow_networks)


def closed_hosts(action: Action, session: Session) -> tuple[str, ...]:
    """Return as rules the hosts that an action is to reach, but for those that are open to every command."""
    policy = session.policy
    urls = [url_of_rule(atom.shown) for atom in action.of_kind(Kind.HOST)]
    for atom in action.of_kind(Kind.COMMAND):
        urls += _urls_of(action, atom, policy) or ()
    closed = (url for url in urls if not is_reached(url, policy.sandbox.allow_hosts, policy.allow_http))
    return tuple(dict.fromkeys(map(reach_of_url, closed)))


def network_word(action: Action, session: Session) -> Verdict:
    """Judge the hosts that an action is to reach: each must be one that a tool might open; ask about them."""
    for atom in action.of_kind(Kind.HOST):
        facts = (("host", atom.shown),)
        denial = refused_host(atom.shown.partition(":")[0], session.policy, facts, "host refused")
        if denial is not None:
            return denial
    if lent_to(action, session.policy):
        # It reaches the hosts of what it is lent, which the person named for that.
        return Allow()
    closed = closed_hosts(action, session)
    if not closed:
        # A second run is one on trial also where nothing is left to be asked.
        return Allow(runs=Runs.TRIAL if action.of_kind(Kind.HOST) else Runs.REAL)
    if session.policy.autonomy is Autonomy.READONLY:
        return Deny("readonly", "autonomy is readonly: commands have no network")
    return network_question(action, closed, session)


def url_of_rule(rule: str) -> Url:
    """Return the root of what a rule without a wildcard speaks of."""
    url = parse_url(f"https://{rule}/")
    if isinstance(url, Unreadable):
        raise ValueError(url.reason)  # noqa: TRY004 — the text is wrong, not its type
    return url


def host_atom(rule: str, pointer: str) -> Atom:
    """Return what a question or an answer about a host speaks of."""
    return Atom(Kind.HOST, pointer, rule, rule)


def network_question(action: Action, hosts: Iterable[str], session: Session) -> Ask:
    """Return the question about hosts that an action is to reach."""
    question = _QUESTION if action.of is None else f"{_AGAIN}{_WHAT_IT_READS}"
    about = tuple(host_atom(host, "/network") for host in hosts)
    facts = tuple(_fact(atom.shown, session) for atom in about)
    headless = _HEADLESS if session.policy.headless else ""
    return Ask(NETWORK, f"{question}{headless}", about, facts=facts, runs=Runs.TRIAL)


def _fact(host: str, session: Session) -> tuple[str, str]:
    """Return a host with how it is known: whether the person named it says much of what it is for."""
    known = {place.host for place, _ in session.ledger.entries()}
    return ("host" if url_of_rule(host).host in known else "host that you did not name", host)


def carries_secret(url: Url, session: Session) -> bool:
    """Whether a URL that is sent in the clear holds a credential, or a value that was read in private."""
    decoded = percent_decoded(url.target)
    if any(redact_text(text, session.secrets) != text for text in (url.target, decoded)):
        return True
    return len(session.seen) > 0 and session.seen.carried_by(url.target, session.marks_key)
