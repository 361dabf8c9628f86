"""Denies unknown tools, and arguments that do not fit a tool's schema."""

from __future__ import annotations

from ..call import Action, SchemaProblem
from ..outcome import Category
from ..session import Session
from ..verdict import Allow, Deny, Verdict

__all__ = ["known"]


def known(action: Action, _session: Session) -> Verdict:
    """Deny an unknown tool with the nearest name, and arguments that do not fit with every problem."""
    if all(problem.category is Category.TOOL_NOT_FOUND for problem in action.problems) and not action.spec:
        # A name that no tool can have is the one problem there is then, and says more than that.
        said = [problem.message for problem in action.problems]
        facts = (("tool", action.call.tool),)
        return Deny(
            "unknown_tool",
            "; ".join(("there is no such tool", *said)),
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
            # In a validator's sentence may stand names that a model chose, so it is a value as a whole.
            facts=tuple(("argument", _told(problem)) for problem in action.problems),
            detail={
                "phase": "validation",
                "errors": [
                    {"pointer": problem.pointer, "message": problem.message, "category": problem.category}
                    for problem in action.problems
                ],
            },
        )
    return Allow()


def _told(problem: SchemaProblem) -> str:
    return f"{problem.pointer} {problem.message}".strip()
