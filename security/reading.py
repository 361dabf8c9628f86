"""How does a call become the Action that is judged, and what is judged of one that cannot be read?

What a call says is read by `action.py`; what has to be looked up for it, by the surveyor.
"""

from __future__ import annotations

from collections.abc import Mapping

from .action import Draft
from .call import Action, Problem, ToolCall, ToolSpec
from .errors import Category
from .policy import Policy
from .ports import Surveyor
from .refusal import class_name

__all__ = ["read_call", "unread"]


async def read_call(
    call: ToolCall, specs: Mapping[str, ToolSpec], policy: Policy, surveyor: Surveyor
) -> Action:
    """Return a call as it is judged: parsed, checked, its paths looked up."""
    draft = Draft.of(call, specs)
    wanted = draft.paths(policy)
    return draft.read(policy, await surveyor.resolve(wanted) if wanted else {})


def unread(call: ToolCall, spec: ToolSpec | None, policy: Policy, error: Exception) -> Action:
    """Return what is judged of a call when reading it broke: one that `known` refuses for that."""
    why = f"the call could not be read, which is a no ({class_name(error)})"
    problem = Problem("", why, Category.PERMANENT_FAILURE)
    return Draft(call, spec, None, {}, (problem,)).read(policy, {})
