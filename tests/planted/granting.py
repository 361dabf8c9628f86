"""Wrong: a pattern is any text, "always" takes what was typed for what was asked, and commands get room."""

from leeward.security.call import Action
from leeward.security.permissions import Always
from leeward.security.permissions.matching import exact_patterns
from leeward.security.session import Session


def problem_with(always: Always, asks, action: Action, session: Session) -> str | None:
    return None if all(match is None or match.strip() for _, match in always.rules) else "empty"


def proposed_grants(asks, action: Action, session: Session):
    patterns = [pattern for _, ask in asks for atom in ask.about for pattern in exact_patterns(atom)]
    return tuple((action.call.tool, f"{pattern.split()[0]} *") for pattern in patterns) or (
        (action.call.tool, None),
    )
