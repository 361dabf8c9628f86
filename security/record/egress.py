"""Build the audit events of every attempt to open a URL.

An attempt is recorded twice: when it was decided (allowed or denied, and by which rule) and, if it was
made, with its result. Both rows have the same call, hop and URL. A connection of a running command is one.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import islice

from ..call import Action, Atom, Exchange
from ..kinds import Effect, Kind
from ..permissions import Asks
from ..session import Decided, Egress, Session
from ..text import redact_text
from ..url import Url
from ..verdict import Decision
from .decisions import decided_event, declined_event

__all__ = ["attempt_events", "connection_event", "redirect_events", "response_event"]

_MOST = 20


def attempt_events(
    decided: Decided, action: Action, decision: Decision, session: Session
) -> tuple[Egress, ...]:
    """Return the events of the URLs a decision is about; none for a tool that neither sends nor brings in."""
    if not action.effects & (Effect.SEND | Effect.BRING_IN):
        return ()
    atoms = (atom for atom in action.of_kind(Kind.URL) if atom.declared)
    return tuple(_attempt(decided, atom, decision, session) for atom in islice(atoms, _MOST))


def _attempt(decided: Decided, atom: Atom, decision: Decision, session: Session) -> Egress:
    return Egress(
        at=decided.at,
        call=decided.call,
        tool=decided.tool,
        hop=decided.hop,
        url=_masked(atom.shown.encode("utf-8", "replace").decode(), session.secrets),
        allowed=decided.allowed,
        gate="grounding" if decided.allowed else decided.gate,
        rule=_ground(atom, decision, session, decided.approver) if decided.allowed else decided.rule,
    )


def _ground(atom: Atom, decision: Decision, session: Session, approver: str) -> str:
    """Return the ground of an allowed URL: how it became known, and who answered a question about it."""
    if not session.policy.url_grounding:
        return "off"
    ground = decision.grounds.get(atom.canonical, "") if isinstance(atom.canonical, Url) else ""
    return f"{ground}; {approver}" if approver else ground


@lru_cache(maxsize=256)
def _masked(text: str, secrets: frozenset[str]) -> str:
    """Return a text without secrets; an attempt has two rows, and most calls the URL of one before."""
    return redact_text(text, secrets)


def redirect_events(
    action: Action, decision: Decision, left: Asks, approver: str, session: Session, number: int, problem: str
) -> tuple[Decided | Egress, ...]:
    """Return the events of a redirect or second try that was judged; `problem` is "" where it may go on.

    Nobody is asked in the midst of a call, so a question is a refusal; so is one hop too many.
    """
    if decision.denial is None and left:
        decided = declined_event(session, action, decision, left, "nobody")
    else:
        # Where a server leads to is nothing that the model came up with.
        decided = replace(decided_event(session, action, decision, approver), use=None)
        if problem and decided.allowed:
            decided = replace(decided, allowed=False, gate="follow", rule="too_many", reason=problem)
    decided = replace(decided, hop=number)
    return decided, *attempt_events(decided, action, decision, session)


def connection_event(
    action: Action, url: str, number: int, session: Session, *, allowed: bool, rule: str, problem: str
) -> Egress:
    """Return the event of a connection that a running command asked for, and that may be made or not."""
    return Egress(
        at=session.now,
        call=action.call.id,
        tool=action.call.tool,
        hop=number,
        url=_masked(url.encode("utf-8", "replace").decode(), session.secrets),
        allowed=allowed,
        gate="hosts",
        rule=rule,
        problem=_masked(problem, session.secrets),
    )


def response_event(action: Action, exchange: Exchange, number: int, session: Session) -> Egress:
    """Return the event of an attempt that ended, well or not."""
    return Egress(
        at=session.now,
        call=action.call.id,
        tool=action.call.tool,
        hop=number,
        url=_masked(exchange.url.text, session.secrets),
        allowed=True,
        ended=True,
        method=exchange.method,
        address=exchange.address,
        http_status=exchange.status,
        sent=exchange.sent,
        received=exchange.received,
        seconds=round(exchange.seconds, 6),
        problem=_masked(exchange.problem, session.secrets),
    )
