"""How a refusal or a failure is told: to the model as fenced text, to a program as a JSON object.

Our words stand outside the marks; every value that a model, a page or a program wrote stands inside.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from .call import Json, Outcome, Status, ToolCall, ToolResult
from .errors import Category, PermanentFailure, ToolError
from .filters import Source, inline, label
from .label import Origin
from .verdict import Ask, Deny

__all__ = ["Told", "cancelled", "error_object", "failed", "refused", "unanswered", "unrecorded", "withheld"]

Told: TypeAlias = Callable[[ToolCall, Exception, frozenset[str]], ToolResult]
"""What tells a call's exception as a result, given the values known to be secret."""

_STATUS = {Category.TIMEOUT: Status.TIMEOUT, Category.CANCELLED: Status.CANCELLED}
_OUR_WORDS = re.compile(r"[a-z]+(?: [a-z]+)*")


def error_object(denial: Deny, gate: str) -> dict[str, Json]:
    """Return the JSON object of a Deny: `code`, `message`, `gate`, `rule`, `phase`, `retryable`, details."""
    found: dict[str, Json] = {
        "code": denial.code,
        "message": denial.reason,
        "phase": "judgement",
        "retryable": False,
        "gate": gate,
        "rule": denial.rule,
        "category": str(denial.category),
    }
    if denial.suggestion is not None:
        found["suggestion"] = denial.suggestion
    if denial.facts:
        found["facts"] = [{"name": name, "value": value} for name, value in denial.facts]
    return found | dict(denial.detail)


def refused(call: ToolCall, denial: Deny, gate: str) -> ToolResult:
    """Return the result of a call that a gate denied."""
    lines = [f"{call_name(call)} was refused by {gate} ({denial.rule}): {denial.reason}"]
    lines += [f"{_fact_name(name)}: {label(value)}" for name, value in denial.facts]
    if denial.suggestion is not None:
        lines.append(f"suggestion: {label(denial.suggestion)}")
    outcome = Outcome(Status.DENIED, denial.category, gate)
    return ToolResult(call, outcome, "\n".join(lines), lines[0], error_object(denial, gate))


def _fact_name(name: str) -> str:
    """A fact's name is ours, or points at an argument, whose name a model chose."""
    return name if _OUR_WORDS.fullmatch(name) else label(name)


def unanswered(call: ToolCall, asks: tuple[tuple[str, Ask], ...], nobody: bool) -> ToolResult:
    """Return the result of a call whose questions were answered with no, or by nobody."""
    who = "nobody is here to say yes" if nobody else "the person said no"
    lines = [f"{call_name(call)} was not run: {who}"]
    lines += [f"{gate} asked: {ask.question}" for gate, ask in asks]
    error: dict[str, Json] = {
        "code": "INPUT_REQUIRED" if nobody else "DECLINED",
        "message": lines[0],
        "phase": "approval",
        "retryable": False,
        "gate": asks[0][0],
        "rule": asks[0][1].rule,
        "category": str(Category.CONFIRMATION_REQUIRED),
        "asks": [{"gate": gate, "question": ask.question} for gate, ask in asks],
    }
    outcome = Outcome(Status.DENIED, Category.CONFIRMATION_REQUIRED, asks[0][0])
    return ToolResult(call, outcome, "\n".join(lines), lines[0], error)


def failed(call: ToolCall, error: Exception, secrets: frozenset[str]) -> ToolResult:
    """Return the result of a call that ran and failed; what the error says may quote the other side."""
    if not isinstance(error, ToolError):
        error = PermanentFailure(f"it broke: {type(error).__name__}: {error}")
    said = inline(str(error), Source("error", Origin.WEB, secrets=secrets))
    began = f"{call_name(call)} failed ({error.category}): "
    found: dict[str, Json] = {
        "code": error.code or str(error.category).upper(),
        "message": said.plain,
        "phase": "execution",
        "retryable": error.category.retryable,
        "category": str(error.category),
    }
    outcome = Outcome(_STATUS.get(error.category, Status.ERROR), error.category)
    return ToolResult(call, outcome, began + said.text, began + said.plain, found)


def call_name(call: ToolCall) -> str:
    """Return a tool's name as words of ours; one that no tool could have is fenced."""
    plain = call.tool.isascii() and call.tool.replace("_", "").isalnum() and len(call.tool) <= 64
    return call.tool if plain else label(call.tool)


def unrecorded(call: ToolCall, why: str) -> ToolResult:
    """Return the result of a call that did not start because the audit could not be written."""
    denial = Deny(
        "unrecorded",
        "the decision could not be recorded, so the call was not started",
        code="AUDIT_UNAVAILABLE",
        facts=(("why", why),),
    )
    return refused(call, denial, "audit")


def withheld(call: ToolCall, error: Exception, _secrets: frozenset[str]) -> ToolResult:
    """Return the result of a call whose text could not be screened; no word of it is in here."""
    text = f"{call_name(call)} ran, but its output is withheld: a filter failed ({type(error).__name__})"
    found: dict[str, Json] = {
        "code": "WITHHELD",
        "message": text,
        "phase": "screening",
        "retryable": False,
        "category": str(Category.PERMANENT_FAILURE),
    }
    outcome = Outcome(Status.ERROR, Category.PERMANENT_FAILURE)
    return ToolResult(call, outcome, text, text, found)


def cancelled(call: ToolCall) -> ToolResult:
    """Return the result of a call that was stopped before it came to an end."""
    text = f"{call_name(call)} was cancelled"
    found: dict[str, Json] = {
        "code": "CANCELLED",
        "message": text,
        "phase": "execution",
        "retryable": False,
        "category": str(Category.CANCELLED),
    }
    return ToolResult(call, Outcome(Status.CANCELLED, Category.CANCELLED), text, text, found)
