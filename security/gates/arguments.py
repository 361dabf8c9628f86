"""Deny identifiers, paths and URLs that match a hallucination pattern (REQ-F-045).

The patterns are in `checks/arguments.py`. This gate checks every string of a call against those of its
kind and reports all matches at once, so that a model can correct the call in one attempt.
"""

from __future__ import annotations

from ..call import Action
from ..checks import pattern_errors, rejections
from ..outcome import Category
from ..session import Session
from ..verdict import Allow, Deny, Verdict

__all__ = ["arguments"]


def arguments(action: Action, _session: Session) -> Verdict:
    """Deny with `INVALID_AGENT_INPUT` if any argument shows a rejected pattern; the first one leads."""
    found = rejections(action)
    if not found:
        return Allow()
    errors = pattern_errors(found)
    first_raw, first = next(iter(found.values()))
    detail = dict(errors[0])
    if len(errors) > 1:
        detail["errors"] = errors
    return Deny(
        first.pattern,
        "an argument contains a rejected pattern",
        code="INVALID_AGENT_INPUT",
        category=Category.INVALID_PARAMETERS,
        suggestion=first.suggestion,
        facts=(("argument", str(detail["argument"])), ("value", first_raw)),
        detail=detail,
    )
