"""Is it a tool we have, and do the arguments fit its schema?"""

from __future__ import annotations

from ..call import Action
from ..errors import Category
from ..session import Session
from ..verdict import Allow, Deny, Verdict

__all__ = ["known"]


def known(action: Action, _session: Session) -> Verdict:
    """Deny an unknown tool with the nearest name, and arguments that do not fit with every problem."""
    if action.spec is None and not action.problems:
        facts = (("tool", action.call.tool),)
        return Deny(
            "unknown_tool",
            "there is no such tool",
            code="TOOL_NOT_FOUND",
            category=Category.TOOL_NOT_FOUND,
            suggestion=action.nearest,
            facts=facts,
        )
    if action.problems:
        return Deny(
            "schema",
            "the arguments do not fit the tool",
            code="ARG_ERROR",
            category=action.problems[0].category,
            facts=tuple((problem.pointer or "arguments", problem.message) for problem in action.problems),
            detail={
                "phase": "validation",
                "errors": [
                    {"pointer": problem.pointer, "message": problem.message, "category": problem.category}
                    for problem in action.problems
                ],
            },
        )
    return Allow()
