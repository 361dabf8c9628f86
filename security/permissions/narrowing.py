"""Narrow what holds for a call: by the sub-agents it comes through, and by the skill in force.

Neither ever permits anything. A call through sub-agents is judged by the strictest autonomy on its way, and
is refused where one of them may not call its tool; so what a sub-agent may do, the one that started it may.
"""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase

from ..call import Action, Asker
from ..kinds import Kind
from ..policy import Autonomy, Rule, RuleAction
from ..session import Session
from ..verdict import Deny
from .matching import JUDGED, covers

__all__ = ["narrowed", "outside"]

MOST_NESTED = 3

_STRICTEST_FIRST = (Autonomy.READONLY, Autonomy.SUPERVISED, Autonomy.FULL)
# By these another skill is loaded, and what a result left out is read.
_ALWAYS = frozenset({"load_skill", "read_overflow"})


def narrowed(session: Session, action: Action) -> Session:
    """Return the session in which an Action is judged: its autonomy is the strictest on the way."""
    levels = [session.policy.autonomy, *(frame.autonomy for frame in action.call.through)]
    strictest = min(levels, key=_STRICTEST_FIRST.index)
    if strictest is session.policy.autonomy:
        return session
    return replace(session, policy=replace(session.policy, autonomy=strictest))


def outside(action: Action, session: Session) -> Deny | None:
    """Return the refusal of a call that a sub-agent may not make, or the skill in force does not use.

    What follows from a call, such as keeping what it changed, is no call of its own here.
    """
    if action.of is not None:
        return None
    through, tool = action.call.through, action.call.tool
    if len(through) > MOST_NESTED:
        return Deny("agent", f"sub-agents start others {MOST_NESTED} deep at most")
    if not all(any(fnmatchcase(tool, name) for name in frame.tools) for frame in through):
        return Deny("agent", "the sub-agent that asks for this may not call this tool")
    if _is_outside_skill(action, session):
        return Deny("skill", "the skill in force does not use this; /skill off ends it")
    return None


def _is_outside_skill(action: Action, session: Session) -> bool:
    """Whether a call is none that the skill names; what the person types is not a skill's matter."""
    uses, tool = session.skill_uses, action.call.tool
    if uses is None or action.call.asker is Asker.PERSON or tool in _ALWAYS:
        return False
    named = [match for name, match in uses if fnmatchcase(tool, name)]
    if None in named:
        return False
    rules = tuple(Rule(tool, RuleAction.ALLOW, match) for match in named)
    about = action.of_kind(Kind.COMMAND) if action.is_command else action.of_kind(*JUDGED)
    return not rules or not about or not all(covers(rules, tool, atom, session.policy) for atom in about)
