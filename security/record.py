"""What of a judgement is written down: from decisions and results to events."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from .action import MAX_NAME
from .answers import APPROVAL, Asks
from .call import Action, ToolResult
from .confidential import secrets_in, shown_arguments
from .errors import Category
from .events import Asked, Decided, Finished
from .secrets import redact_text
from .session import Session
from .verdict import Allow, Ask, Decision, Deny, Verdict

__all__ = ["asked", "decided", "declined", "finished"]

_LONGEST_UNREAD = 4096


def asked(session: Session, action: Action, asks: Asks) -> Asked:
    """Return the event of a call that waits for a person."""
    questions = tuple((gate, ask.question) for gate, ask in asks)
    return Asked(session.now, action.call.id, _tool(action), action.digest, questions)


def decided(session: Session, action: Action, decision: Decision, approver: str) -> Decided:
    """Return the event of a decision: allowed if nothing was denied, whoever answered the Asks.

    Who said yes to what changed meanwhile is named, too: it is no refusal of what the tool or model did.
    """
    judged = _judged(session, action, decision)
    if decision.denial is None:
        return replace(judged, allowed=True, approver=approver)
    gate, denial = decision.denial
    return replace(
        judged,
        gate=gate,
        rule=denial.rule,
        code=denial.code,
        reason=denial.reason,
        category=denial.category,
        approver=approver if gate == APPROVAL else "",
    )


def declined(session: Session, action: Action, decision: Decision, left: Asks, who: str) -> Decided:
    """Return the event of a call whose open questions, `left`, found no yes; `who` may be "nobody"."""
    gate, ask = left[0]
    return replace(
        _judged(session, action, decision),
        gate=gate,
        rule=ask.rule,
        code="INPUT_REQUIRED",
        reason=ask.question,
        category=Category.CONFIRMATION_REQUIRED,
        approver=who,
    )


def _judged(session: Session, action: Action, decision: Decision) -> Decided:
    """Return what every decision has in common, as one that allows nothing."""
    text = shown_arguments(action) if action.arguments else shown_arguments(action)[:_LONGEST_UNREAD]
    text = text.encode("utf-8", "replace").decode()
    return Decided(
        at=session.now,
        call=action.call.id,
        tool=_tool(action),
        digest=action.digest,
        allowed=False,
        arguments=redact_text(text, session.secrets | secrets_in(action)),
        words=tuple((word.gate, _said(word.verdict), word.verdict.rule) for word in decision.words),
    )


def finished(at: float, action: Action, result: ToolResult, seconds: float, detail: str = "") -> Finished:
    """Return the event of a call that came to its end."""
    shown = result.shown.encode("utf-8", "replace")
    return Finished(
        at=at,
        call=action.call.id,
        tool=_tool(action),
        digest=action.digest,
        status=result.outcome.status,
        category=result.outcome.category,
        exit_code=result.outcome.exit_code,
        result=hashlib.sha256(shown).hexdigest(),
        size=len(shown),
        overflow=result.overflow_id,
        seconds=round(seconds, 6),
        detail=detail,
    )


def _tool(action: Action) -> str:
    """The tool's name; of one that no tool can have, as much as identifies the attempt."""
    return action.call.tool[:MAX_NAME].encode("utf-8", "replace").decode()


def _said(verdict: Verdict) -> str:
    match verdict:
        case Allow():
            return "allow"
        case Ask():
            return "ask"
        case Deny():
            return "deny"
