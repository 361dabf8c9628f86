"""Deny secret and protected files; ask about paths outside the workspace and files that run later.

Each path is judged by its normalised text and by its resolved target, since either may be the one that
leaves the workspace.
"""

from __future__ import annotations

from ..call import Action, Atom
from ..kinds import Effect, Kind
from ..paths import ResolvedPath, is_inside, protected_reason, runs_later_reason, secret_reason
from ..policy import Policy
from ..session import Session
from ..verdict import Allow, Ask, Deny, Verdict

__all__ = ["paths"]

_CHANGING = Effect.CREATE | Effect.WRITE


def paths(action: Action, session: Session) -> Verdict:
    """Deny secret and protected files and unreadable paths; ask about what runs later or lies outside."""
    policy = session.policy
    outside: list[Atom] = []
    later: dict[Atom, str] = {}
    for atom in action.of_kind(Kind.PATH):
        if not isinstance(atom.canonical, ResolvedPath):
            return Deny("unreadable", "a path could not be read", facts=(("path", atom.raw),))
        effects = Effect.READ if atom.only_read else action.effects
        denial = _forbidden(atom.canonical, effects, policy)
        if denial is not None:
            return denial
        if not all(
            is_inside(path, policy.workspace, *policy.allowed_paths) for path in _both(atom.canonical)
        ):
            outside.append(atom)
        why = _runs_later(atom.canonical) if effects & _CHANGING else None
        if why is not None:
            later[atom] = why
    return _asked(later, outside)


def _asked(later: dict[Atom, str], outside: list[Atom]) -> Verdict:
    about = tuple(dict.fromkeys((*later, *outside)))
    facts = tuple(("path", atom.shown) for atom in about)
    if later:
        left = " and leaves the workspace" if outside else ""
        reasons = "; ".join(dict.fromkeys(later.values()))
        question = f"this changes a file that is executed later{left}: {reasons}"
        return Ask("runs_later", question, about, by_name=True, facts=facts)
    return Ask("outside", "this leaves the workspace", about, facts=facts) if outside else Allow()


def _runs_later(place: ResolvedPath) -> str | None:
    return runs_later_reason(place.text) or runs_later_reason(place.real)


def _forbidden(place: ResolvedPath, effects: Effect, policy: Policy) -> Deny | None:
    for path in _both(place):
        why = secret_reason(path, policy)
        if why is not None:
            return Deny("secret", f"this file is secret: {why}", facts=(("path", path),))
        why = protected_reason(path, policy) if effects & (_CHANGING | Effect.EXECUTE) else None
        if why is not None:
            return Deny("protected", f"this file must not be changed: {why}", facts=(("path", path),))
    return None


def _both(place: ResolvedPath) -> tuple[str, str]:
    return place.text, place.real
