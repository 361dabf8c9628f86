"""What of a judgement is written down: from decisions and results to events."""

from __future__ import annotations

import hashlib

from .action import MAX_NAME, canonical_json
from .call import Action, ToolResult
from .errors import Category
from .secrets import redact_text
from .session import Asked, Decided, Finished
from .verdict import Allow, Ask, Decision, Deny, Verdict

__all__ = ["asked", "decided", "declined", "finished"]


def asked(at: float, action: Action, asks: tuple[tuple[str, Ask], ...]) -> Asked:
    """Return the event of a call that waits for a person."""
    questions = tuple((gate, ask.question) for gate, ask in asks)
    return Asked(at, action.call.id, _tool(action), action.digest, questions)


def decided(
    at: float, action: Action, decision: Decision, approver: str, secrets: frozenset[str]
) -> Decided:
    """Return the event of a decision: allowed if nothing was denied, whoever answered the Asks."""
    gate, denial = decision.denial or (None, None)
    return Decided(
        at=at,
        call=action.call.id,
        tool=_tool(action),
        digest=action.digest,
        allowed=denial is None,
        gate=gate,
        rule=denial.rule if denial else "",
        code=denial.code if denial else "",
        reason=denial.reason if denial else "",
        category=denial.category if denial else None,
        arguments=_redacted_arguments(action, secrets),
        words=_words(decision),
        approver=approver if denial is None else "",
    )


def declined(
    at: float,
    action: Action,
    decision: Decision,
    left: tuple[tuple[str, Ask], ...],
    who: str,
    secrets: frozenset[str],
) -> Decided:
    """Return the event of a call whose open questions, `left`, found no yes; `who` may be "nobody"."""
    gate, ask = left[0]
    return Decided(
        at=at,
        call=action.call.id,
        tool=_tool(action),
        digest=action.digest,
        allowed=False,
        gate=gate,
        rule=ask.rule,
        code="INPUT_REQUIRED",
        reason=ask.question,
        category=Category.CONFIRMATION_REQUIRED,
        arguments=_redacted_arguments(action, secrets),
        words=_words(decision),
        approver=who,
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


def _redacted_arguments(action: Action, secrets: frozenset[str]) -> str:
    """The canonical arguments without secrets; what was not even JSON is kept as the text it was, cut."""
    text = canonical_json(action.arguments) if action.arguments else action.call.arguments[:4096]
    return redact_text(text.encode("utf-8", "replace").decode(), secrets)


def _words(decision: Decision) -> tuple[tuple[str, str, str], ...]:
    return tuple((word.gate, _said(word.verdict), word.verdict.rule) for word in decision.words)


def _said(verdict: Verdict) -> str:
    match verdict:
        case Allow():
            return "allow"
        case Ask():
            return "ask"
        case Deny():
            return "deny"
