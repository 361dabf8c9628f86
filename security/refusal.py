"""Format refusals and failures: fenced text for the model, a JSON object for programs.

Our words are outside the marks; every value that a model, a page or a program wrote is inside.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias, TypeVar

from .call import AGAIN, Outcome, Status, ToolCall, ToolResult
from .filters import Screened, Source, inline, label, suspect
from .kinds import Json
from .lazy import regex
from .outcome import Category, ToolError
from .policy import KEEP
from .trust import Origin
from .verdict import Ask, Deny

__all__ = [
    "AsResult",
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

AsResult: TypeAlias = Callable[[Exception], ToolResult]
"""Makes the result of a call from the exception that ended it."""

_NOT_FOR_TOOLS = frozenset({Category.CANCELLED, Category.CONFIRMATION_REQUIRED})
_CODE = regex(r"[A-Z][A-Z0-9_]{0,63}")
_CLASS = regex(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_DISCARDED = "what the command changed was discarded"
# Fixed phrases of the contract, which scripts and models look for. They name the call already.
_PHRASE = regex(r"^(?:fetch|send|host) (?:rejected|refused): ")
_OUR_WORDS = regex(r"[a-z]+(?: [a-z]+)*")


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
    """Return the JSON object of questions that found no yes; gate and rule are those of the first one."""
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
    if call.tool == KEEP and gate != "known":
        what = f"{_DISCARDED}: refused"
    else:
        # A name that no tool has can be a whole sentence of somebody else's.
        name = label(call.tool) if gate == "known" and denial.rule == "unknown_tool" else call_name(call)
        what = f"{name} refused{' a second run that may write' if call.id.endswith(AGAIN) else ''}"
    why = _PHRASE.sub("", denial.reason)
    first = f"{what}: {why}" if why == denial.reason else denial.reason
    lines = [first, f"gate: {gate} ({denial.rule})"]
    lines += [f"{_fact_name(name)}: {label(value)}" for name, value in denial.facts]
    if denial.suggestion is not None:
        lines.append(f"suggestion: {label(denial.suggestion)}")
    if "way_out" in denial.detail:
        lines.append(f"way out: {denial.detail['way_out']}")
    outcome = Outcome(Status.DENIED, denial.category, gate)
    shown = f"{what}: {denial.advice or why}"
    return ToolResult(call, outcome, "\n".join(lines), shown, error_object(denial, gate))


def _fact_name(name: str) -> str:
    """A fact's name is ours, or points at an argument, whose name a model chose."""
    return name if _OUR_WORDS.fullmatch(name) else label(name)


def unanswered(
    call: ToolCall, asks: tuple[tuple[str, Ask], ...], nobody: bool, words: str = ""
) -> ToolResult:
    """Return the result of a call whose questions were answered with no, or by nobody.

    `words` are the person's own about why, and go to the model as such.
    """
    who = "nobody is here to say yes" if nobody else "the person said no"
    not_run = (
        f"{call_name(call)} was not run{' again, so that it could write' if call.id.endswith(AGAIN) else ''}"
    )
    lines = [f"{_DISCARDED if call.tool == KEEP else not_run}: {who}"]
    lines += [f"the person says why: {words}"] if words else []
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
    source = Source("error", Origin.WEB, secrets=secrets)
    shown = inline(str.__str__(message), source)
    notices = "".join(f"\n[{notice}]" for notice in suspect(Screened(shown.plain), source).notices)
    began = f"{call_name(call)} failed ({category}): "
    found = _object(code[0] if code else str(category).upper(), shown.plain, "execution", category)
    status = Status.TIMEOUT if category is Category.TIMEOUT else Status.ERROR
    return ToolResult(
        call, Outcome(status, category), began + shown.text + notices, began + shown.plain, found
    )


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
    """Return the result of a call whose failure could not even be shown; nothing of it is looked at."""
    text = f"{call_name(call)} failed, and its error could not be shown"
    return _without_a_word(call, text, "PERMANENT_FAILURE", "execution")


def _without_a_word(call: ToolCall, text: str, code: str, phase: str) -> ToolResult:
    outcome = Outcome(Status.ERROR, Category.PERMANENT_FAILURE)
    return ToolResult(call, outcome, text, text, _object(code, text, phase, Category.PERMANENT_FAILURE))


def cancelled(call: ToolCall) -> ToolResult:
    """Return the result of a call that was stopped before it came to an end."""
    text = f"{call_name(call)} was cancelled"
    error = _object("CANCELLED", text, "execution", Category.CANCELLED)
    return ToolResult(call, Outcome(Status.CANCELLED, Category.CANCELLED), text, text, error)


async def result_of(step: Awaitable[ToolResult], as_result: AsResult, call: ToolCall) -> ToolResult:
    """Return the result of a step. What an executor, a filter or a port raises is made a result, too."""
    return await caught(caught(step, as_result), partial(broken, call))


async def caught(step: Awaitable[T], describe: Callable[[Exception], U]) -> T | U:
    """Return the result of a step, or what `describe` makes of the exception that it raised."""
    try:
        return await step
    except Exception as error:  # noqa: BLE001 — what others raise is an outcome
        return describe(error)
