"""Wrong: any tool that can be named is known, and a first problem is the only one told."""

from leeward.security.call import Action
from leeward.security.session import Session
from leeward.security.verdict import Allow, Deny, Verdict


def known(action: Action, _session: Session) -> Verdict:
    if action.spec is None and action.nearest is None:
        return Deny("unknown_tool", "there is no such tool")
    if action.problems:
        return Deny(
            "schema", action.problems[0].message, detail={"errors": [{"pointer": action.problems[0].pointer}]}
        )
    return Allow()
