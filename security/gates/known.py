"""Deny unknown tools, and arguments that do not fit the tool's schema."""

from __future__ import annotations

from ..call import Action, SchemaProblem
from ..checks import pattern_errors, rejections
from ..kinds import Json
from ..outcome import Category
from ..session import Session
from ..verdict import Allow, Deny, Verdict

__all__ = ["known"]


def known(action: Action, _session: Session) -> Verdict:
    """Deny an unknown tool with the nearest name, and arguments that do not fit with every problem."""
    if all(problem.category is Category.TOOL_NOT_FOUND for problem in action.problems) and not action.spec:
        # A name that no tool can have is the one problem there is then, and says more than that.
        reasons = ["there is no such tool", *(problem.message for problem in action.problems)]
        return Deny(
            "unknown_tool",
            "; ".join(reasons),
            code="TOOL_NOT_FOUND",
            category=Category.TOOL_NOT_FOUND,
            suggestion=action.nearest,
            facts=(("tool", action.call.tool),),
        )
    if action.problems:
        bad = rejections(action)
        facts = (
            # A validator's sentence may quote names that a model chose, so the whole of it is a value.
            *(("argument", f"{problem.pointer} {problem.message}".strip()) for problem in action.problems),
            *(("rejected pattern", f"{pointer} {bad[pointer][1].pattern}") for pointer in bad),
        )
        return Deny(
            "schema",
            "the arguments do not fit the tool's schema",
            code="ARG_ERROR",
            category=action.problems[0].category,
            facts=facts,
            detail={
                "phase": "validation",
                "errors": [
                    *map(_schema_error, action.problems),
                    *(
                        {"pointer": pointer} | error
                        for pointer, error in zip(bad, pattern_errors(bad), strict=True)
                    ),
                ],
            },
        )
    return Allow()


def _schema_error(problem: SchemaProblem) -> dict[str, Json]:
    return {"pointer": problem.pointer, "message": problem.message, "category": problem.category}
