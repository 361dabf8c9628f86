"""Does every path stay inside the workspace, off protected and secret files?

Judged by the normalised text and by what it resolves to: either may be the one that leaves.
"""

from __future__ import annotations

from ..call import Action, Atom, Effect, Kind, Place
from ..policy import Policy
from ..session import Session
from ..verdict import Allow, Ask, Deny, Verdict
from ..workspace import is_inside, protected_reason, secret_reason

__all__ = ["paths"]


def paths(action: Action, session: Session) -> Verdict:
    """Deny secret and protected files and unreadable paths; ask about whatever lies outside."""
    outside: list[Atom] = []
    for atom in action.of_kind(Kind.PATH):
        if not isinstance(atom.canonical, Place):
            return Deny("unreadable", "a path could not be read", facts=(("path", atom.raw),))
        denial = _forbidden(atom.canonical, action.effects, session.policy)
        if denial is not None:
            return denial
        allowed = (session.policy.workspace, *session.policy.allowed_paths)
        if not all(is_inside(path, *allowed) for path in _both(atom.canonical)):
            outside.append(atom)
    if outside:
        facts = tuple(("path", atom.shown) for atom in outside)
        return Ask("outside", "this leaves the workspace", tuple(outside), facts=facts)
    return Allow()


def _forbidden(place: Place, effects: Effect, policy: Policy) -> Deny | None:
    for path in _both(place):
        why = secret_reason(path, policy)
        if why is not None:
            return Deny("secret", f"this file is secret: {why}", facts=(("path", path),))
        why = protected_reason(path, policy) if effects & (Effect.WRITE | Effect.EXECUTE) else None
        if why is not None:
            return Deny("protected", f"this file must not be changed: {why}", facts=(("path", path),))
    return None


def _both(place: Place) -> tuple[str, str]:
    return place.text, place.real
