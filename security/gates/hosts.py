"""Deny hosts that are not allowed or not public, and plain http; ask about hosts a command wants to reach.

The name or literal is judged as written, before any DNS lookup; the address a name resolves to is
judged by the same `judge_address` when it is used. Whether the person gave the URL is for the
`grounding` gate. A command that has no network but single hosts is asked about them before it runs; what it
may reach is in `checks/network.py`.
"""

from __future__ import annotations

from .. import command
from ..call import Action, Atom
from ..checks import acceptable_url, network_word, refused_host, unreadable_url
from ..kinds import CommandLine, Kind
from ..policy import Policy
from ..session import Session
from ..url import Destination, DestinationKind, Url, host_facts, in_domains, listed_problem
from ..verdict import Deny, Verdict

__all__ = ["hosts"]


def hosts(action: Action, session: Session) -> Verdict:
    """Deny the first place that is unreadable, not listed, not public, or not spoken to over https.

    Else ask about the hosts that a command is to reach, all at once.
    """
    for atom in action.of_kind(Kind.URL, Kind.DESTINATION):
        denial = _of_destination(atom, session.policy) or _of_url(atom, action, session)
        if denial is not None:
            return denial
    for atom in action.of_kind(Kind.COMMAND):
        denial = _of_command(atom, session.policy)
        if denial is not None:
            return denial
    return network_word(action, session)


def _of_command(atom: Atom, policy: Policy) -> Deny | None:
    """Hold the hosts a command names against the lists; where else it may reach is for `commands`."""
    for host in command.hosts_of(atom.canonical) if isinstance(atom.canonical, CommandLine) else ():
        unlisted = listed_problem(host, policy.domain_allowlist, policy.domain_denylist)
        if unlisted is not None:
            facts = (("host", host),)
            return Deny(unlisted[0], f"the command would reach a host: {unlisted[1]}", facts=facts)
    return None


def _of_destination(atom: Atom, policy: Policy) -> Deny | None:
    """Judge the host of a destination; mail goes to the servers that a domain names, not to its host."""
    place = atom.canonical
    if not isinstance(place, Destination) or place.kind is DestinationKind.MAIL:
        return None
    return refused_host(place.host, policy, (("destination", place.text),))


def _of_url(atom: Atom, action: Action, session: Session) -> Deny | None:
    url, policy = atom.canonical, session.policy
    if atom.kind is not Kind.URL:
        return None
    if not isinstance(url, Url):
        return unreadable_url(atom)
    facts = (("url", url.text), ("host", url.host), *host_facts(url))
    denial = refused_host(url.host, policy, facts)
    if denial is None and url.scheme != "https" and not in_domains(url.host, policy.allow_http):
        secure = acceptable_url(
            "https" + url.text.removeprefix(url.scheme), action.call.tool, action, session
        )
        return Deny("https_only", "fetch rejected: only https is allowed", suggestion=secure, facts=facts)
    return denial
