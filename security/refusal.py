"""How a refusal or a failure is told: to the model as fenced text, to a program as a JSON object.

Our words stand outside the marks; every value that a model, a page or a program wrote stands inside.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias, TypeVar

from .call import Outcome, Status, ToolCall, ToolResult
from .filters import Source, inline, label
from .kinds import Json
from .outcome import Category, ToolError
from .policy import KEEP
from .trust import Origin
from .verdict import Ask, Deny

__all__ = [
    "Told",
    "broken",
    "cancelled",
    "caught",
    "class_name",
    "error_object",
    "failed",
    "question_object",
    "refused",
    "result_of",
    "unanswered",
    "unrecorded",
    "withheld",
]

T = TypeVar("T")
U = TypeVar("U")

Told: TypeAlias = Callable[[Exception], ToolResult]
"""What tells an exception as the result of a call."""

_NOT_FOR_TOOLS = frozenset({Category.CANCELLED, Category.CONFIRMATION_REQUIRED})
_CODE = re.compile(r"[A-Z][A-Z0-9_]{0,63}")
_CLASS = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_DISCARDED = "what the command changed was discarded"
_OUR_WORDS = re.compile(r"[a-z]+(?: [a-z]+)*")


def error_object(denial: Deny, gate: str) -> dict[str, Json]:
    """Return the JSON object of a Deny: `code`, `message`, `gate`, `rule`, `phase`, `retryable`, details."""
    about: dict[str, Json] = {"gate": gate, "rule": denial.rule}
    if denial.suggestion is not None:
        about["suggestion"] = denial.suggestion
    if denial.facts:
        about["facts"] = _facts(denial.facts)
    return _object(denial.code, denial.reason, "judgement", denial.category, about) | dict(denial.detail)


def question_object(
    asks: tuple[tuple[str, Ask], ...], message: str, code: str = "INPUT_REQUIRED"
) -> dict[str, Json]:
    """Return the JSON object of questions that found no yes; the first one's gate and rule stand for all."""
    (gate, first), *_ = asks
    about: dict[str, Json] = {"gate": gate, "rule": first.rule}
    about["asks"] = [{"gate": name, "question": ask.question} for name, ask in asks]
    if first.facts:
        about["facts"] = _facts(first.facts)
    suggestion = next((ask.suggestion for _, ask in asks if ask.suggestion is not None), None)
    if suggestion is not None:
        about["suggestion"] = suggestion
    return _object(code, message, "approval", Category.CONFIRMATION_REQUIRED, about)


def _object(
    code: str, message: str, phase: str, category: Category, about: dict[str, Json] | None = None
) -> dict[str, Json]:
    """Return what every JSON object of an error has, and what this one is about."""
    retryable = phase == "execution" and category.retryable
    found: dict[str, Json] = {"code": code, "message": message, "phase": phase, "retryable": retryable}
    return found | (about or {}) | {"category": str(category)}


def _facts(facts: tuple[tuple[str, str], ...]) -> Json:
    return [{"name": name, "value": value} for name, value in facts]


def refused(call: ToolCall, denial: Deny, gate: str) -> ToolResult:
    """Return the result of a call that a gate denied."""
    what = (
        f"{_DISCARDED}, refused"
        if call.tool == KEEP and gate != "known"
        else f"{call_name(call)} was refused"
    )
    lines = [f"{what} by {gate} ({denial.rule}): {denial.reason}"]
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
    lines = [f"{_DISCARDED if call.tool == KEEP else f'{call_name(call)} was not run'}: {who}"]
    lines += [f"{gate} asked: {ask.question}" for gate, ask in asks]
    lines += [f"suggestion: {label(ask.suggestion)}" for _, ask in asks if ask.suggestion is not None]
    error = question_object(asks, lines[0], "INPUT_REQUIRED" if nobody else "DECLINED")
    outcome = Outcome(Status.DENIED, Category.CONFIRMATION_REQUIRED, asks[0][0])
    return ToolResult(call, outcome, "\n".join(lines), lines[0], error)


def failed(call: ToolCall, secrets: frozenset[str], error: Exception) -> ToolResult:
    """Return the result of a call that ran and failed; what the error says may quote the other side.

    Who wrote the tool wrote the error's class, too: a category counts where it is one of ours that a
    tool can have, a code where it has the form of one.
    """
    category, code = Category.PERMANENT_FAILURE, None
    if isinstance(error, ToolError):
        if isinstance(error.category, Category) and error.category not in _NOT_FOR_TOOLS:
            category = error.category
        code = _CODE.fullmatch(error.code) if isinstance(error.code, str) else None
        message = str(error)
    else:
        message = f"it broke: {type(error).__name__}: {error}"
    # A subclass of str may turn into another text each time it is looked at.
    said = inline(str.__str__(message), Source("error", Origin.WEB, secrets=secrets))
    began = f"{call_name(call)} failed ({category}): "
    found = _object(code[0] if code else str(category).upper(), said.plain, "execution", category)
    status = Status.TIMEOUT if category is Category.TIMEOUT else Status.ERROR
    return ToolResult(call, Outcome(status, category), began + said.text, began + said.plain, found)


def class_name(error: Exception) -> str:
    """Return the name of an error's class, which can be any text, where it is a name."""
    name = type(error).__name__
    return name if _CLASS.fullmatch(name) else "of a class without a proper name"


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


def withheld(call: ToolCall, error: Exception) -> ToolResult:
    """Return the result of a call whose text could not be screened; no word of it is in here."""
    text = f"{call_name(call)} ran, but its output is withheld: a filter failed ({class_name(error)})"
    return _without_a_word(call, text, "WITHHELD", "screening")


def broken(call: ToolCall, _error: Exception) -> ToolResult:
    """Return the result of a call whose failure could not even be told; nothing of it is looked at."""
    text = f"{call_name(call)} failed in a way that cannot be told"
    return _without_a_word(call, text, "PERMANENT_FAILURE", "execution")


def _without_a_word(call: ToolCall, text: str, code: str, phase: str) -> ToolResult:
    outcome = Outcome(Status.ERROR, Category.PERMANENT_FAILURE)
    return ToolResult(call, outcome, text, text, _object(code, text, phase, Category.PERMANENT_FAILURE))


def cancelled(call: ToolCall) -> ToolResult:
    """Return the result of a call that was stopped before it came to an end."""
    text = f"{call_name(call)} was cancelled"
    error = _object("CANCELLED", text, "execution", Category.CANCELLED)
    return ToolResult(call, Outcome(Status.CANCELLED, Category.CANCELLED), text, text, error)


async def result_of(step: Awaitable[ToolResult], tell: Told, call: ToolCall) -> ToolResult:
    """Whatever an executor, a filter or a port raises is a result, and `tell` says which."""
    return await caught(caught(step, tell), partial(broken, call))


async def caught(step: Awaitable[T], told: Callable[[Exception], U]) -> T | U:
    """Return what comes of a step, or what is told of the exception it raised."""
    try:
        return await step
    except Exception as error:  # noqa: BLE001 — one of the three: what others raise is an outcome
        return told(error)
