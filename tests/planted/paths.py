"""Wrong: looks at the text alone, and takes whatever begins like the workspace for a part of it."""

from dataclasses import replace

from leeward.security.call import Action
from leeward.security.gates import paths as right
from leeward.security.kinds import Kind
from leeward.security.session import Session
from leeward.security.verdict import Allow, Ask, Deny, Verdict


def paths(action: Action, session: Session) -> Verdict:
    for atom in action.of_kind(Kind.PATH):
        if "/.ssh/" in atom.raw or atom.raw.startswith("/etc"):
            return Deny("secret", "this file is secret")
        if atom.raw.startswith("/") and not atom.raw.startswith(session.policy.workspace):
            return Ask("outside", "this leaves the workspace", (atom,))
    return Allow()


def by_the_call(action, session):
    """Wrong: what a call does to one of its paths is held against all of them."""
    return right(
        replace(action, atoms=tuple(replace(atom, only_read=False) for atom in action.atoms)), session
    )
