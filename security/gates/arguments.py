"""Denies identifiers, paths and URLs that show a hallucination pattern (REQ-F-045).

The patterns are in `checks/arguments.py`. This gate checks every string of a call against those of its
kind and reports all matches at once, so that a model can correct the call in one attempt.
"""

from __future__ import annotations

from ..call import Action
from ..checks import PATTERNS, Rejection, rejected_pattern
from ..kinds import Json
from ..outcome import Category
from ..session import Session
from ..verdict import Allow, Deny, Verdict

__all__ = ["arguments"]


def arguments(action: Action, _session: Session) -> Verdict:
    """Deny with `INVALID_AGENT_INPUT` if any argument shows a rejected pattern; the first one leads."""
    found = _rejections(action)
    if not found:
        return Allow()
    errors = [_error(pointer, raw, rejection) for pointer, (raw, rejection) in found.items()]
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


def _rejections(action: Action) -> dict[str, tuple[str, Rejection]]:
    """Return each bad argument with its whole value and the pattern that wins, in the order given."""
    found, whole = dict[str, tuple[str, Rejection]](), dict[str, str]()
    # Nobody made up the names of what a trial run changed.
    for atom in action.atoms if action.of is None else ():
        # The first atom of a place is the argument itself, the ones behind it are parts read out of it.
        whole.setdefault(atom.pointer, atom.raw)
        rejection = rejected_pattern(atom.kind, atom.raw, atom.canonical, declared=atom.declared)
        if rejection is None:
            continue
        raw = whole[atom.pointer]
        if raw != atom.raw:
            rejection = Rejection(rejection.pattern)
        if atom.pointer not in found or _rank(rejection) < _rank(found[atom.pointer][1]):
            found[atom.pointer] = (raw, rejection)
    return found


def _rank(rejection: Rejection) -> int:
    return PATTERNS.index(rejection.pattern) if rejection.pattern in PATTERNS else len(PATTERNS)


def _error(pointer: str, raw: str, rejection: Rejection) -> dict[str, Json]:
    name = _name(pointer)
    error: dict[str, Json] = {
        "message": f"Argument '{name}' contains a rejected pattern",
        "argument": name,
        "input_value": raw,
        "rejected_pattern": rejection.pattern,
        "phase": "validation",
        "retryable": False,
    }
    if rejection.suggestion is not None:
        error["suggestion"] = rejection.suggestion
    return error


def _name(pointer: str) -> str:
    """Return the argument's name: its JSON pointer as a dotted path (`items.0.id`)."""
    parts = pointer.removesuffix("#").split("/")[1:]
    return ".".join(part.replace("~1", "/").replace("~0", "~") for part in parts) or "arguments"
