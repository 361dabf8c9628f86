"""Wrong: the pattern is looked for in the raw text only, and wherever it stands."""

import re

from leeward.security.call import Action
from leeward.security.outcome import Category
from leeward.security.session import Session
from leeward.security.verdict import Allow, Deny, Verdict


def arguments(action: Action, session: Session) -> Verdict:
    for atom in action.atoms:
        if re.search(r"\.\./", atom.raw):
            return Deny(
                "path_traversal",
                "an argument contains a rejected pattern",
                code="INVALID_AGENT_INPUT",
                category=Category.INVALID_PARAMETERS,
            )
    return Allow()
