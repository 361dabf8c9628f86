"""Hold a call against what the skill in force uses: it narrows what may be called, and permits nothing."""

from __future__ import annotations

from fnmatch import fnmatchcase

from ..call import Action, Asker
from ..kinds import Kind
from ..policy import Rule, RuleAction
from ..session import Session
from .matching import JUDGED, covers

__all__ = ["is_outside_skill"]

# By these another skill is loaded, and what a result left out is read.
_ALWAYS = frozenset({"load_skill", "read_overflow"})


def is_outside_skill(action: Action, session: Session) -> bool:
    """Whether a call is none that the skill in force names; what the person types is not a skill's matter."""
    uses, tool = session.skill_uses, action.call.tool
    if uses is None or action.call.asker is Asker.PERSON or action.of is not None or tool in _ALWAYS:
        return False
    named = [match for name, match in uses if fnmatchcase(tool, name)]
    if None in named:
        return False
    rules = tuple(Rule(tool, RuleAction.ALLOW, match) for match in named)
    about = action.of_kind(Kind.COMMAND) if action.is_command else action.of_kind(*JUDGED)
    return not rules or not about or not all(covers(rules, tool, atom, session.policy) for atom in about)
