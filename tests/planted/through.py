"""Wrong: the level of the innermost sub-agent holds, so one can be started that does more."""

from dataclasses import replace

from leeward.security.call import Action
from leeward.security.session import Session


def narrowed(session: Session, action: Action) -> Session:
    if not action.call.through:
        return session
    return replace(session, policy=replace(session.policy, autonomy=action.call.through[-1].autonomy))
