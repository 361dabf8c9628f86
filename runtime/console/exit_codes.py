"""Map the outcome of a call to the exit code of the command that made it."""

from __future__ import annotations

from leeward.security.call import Status, ToolResult
from leeward.security.outcome import Category

from ..exits import Exit

__all__ = ["exit_of_denial", "exit_of_result", "was_asked"]

_REFUSED = {
    "TOOL_NOT_FOUND": Exit.NOT_FOUND,
    "ARG_ERROR": Exit.ARG_ERROR,
    "INVALID_AGENT_INPUT": Exit.ARG_ERROR,
    "INPUT_REQUIRED": Exit.PRECONDITION,
    "AUDIT_UNAVAILABLE": Exit.GENERAL_ERROR,
}


_ABSENT = {"TOOL_NOT_FOUND", "NOT_FOUND"}


def exit_of_denial(code: str) -> Exit:
    """Return the exit code for the code of a refusal; every other gate's no is a `PERMISSION_DENIED`."""
    return _REFUSED.get(code, Exit.PERMISSION_DENIED)


def exit_of_result(result: ToolResult) -> Exit:
    """Return the exit code for a call's result; a program's own exit code is a result, not a failure."""
    match result.outcome.status:
        case Status.OK:
            return Exit.SUCCESS
        case Status.TIMEOUT:
            return Exit.TIMEOUT
        case Status.DENIED:
            return exit_of_denial(str((result.error or {}).get("code", "")))
    return Exit.NOT_FOUND if (result.error or {}).get("code") in _ABSENT else Exit.GENERAL_ERROR


def was_asked(result: ToolResult) -> bool:
    """Whether a call was not run because its question found no yes."""
    outcome = result.outcome
    return outcome.status is Status.DENIED and outcome.category is Category.CONFIRMATION_REQUIRED
