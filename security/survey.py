"""How does a call become the Action that is judged, and what is judged of one that cannot be read?

What a call says is read by `action.py`; what has to be looked up for it, by the surveyor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from .action import ActionBuilder
from .call import Action, Atom, SchemaProblem, ToolCall, ToolSpec
from .kinds import Kind
from .outcome import Category
from .paths import FileState, ResolvedPath
from .policy import Policy
from .ports import Surveyor
from .refusal import class_name

__all__ = ["read_call", "unread"]


async def read_call(
    call: ToolCall, specs: Mapping[str, ToolSpec], policy: Policy, surveyor: Surveyor
) -> Action:
    """Return a call as it is judged: parsed, checked, its paths and what its commands need looked up.

    Of a tool that shows what it would change, the files are looked at, too: a yes is to what they hold.
    """
    draft = ActionBuilder.of(call, specs)
    paths, wanted = draft.paths(policy), draft.wanted(policy)
    resolved = await surveyor.resolve(paths) if paths else {}
    action = draft.read(policy, resolved, await surveyor.look_up(wanted, policy) if wanted else None)
    if draft.spec is None or draft.spec.preview is None:
        return action
    places = [atom.canonical.real for atom in action.atoms if isinstance(atom.canonical, ResolvedPath)]
    states = await surveyor.states(places, policy) if places else {}
    return replace(action, atoms=tuple(_with_state(atom, states) for atom in action.atoms))


def _with_state(atom: Atom, states: Mapping[str, FileState]) -> Atom:
    if atom.kind is not Kind.PATH or not isinstance(atom.canonical, ResolvedPath):
        return atom
    return replace(atom, canonical=replace(atom.canonical, state=states.get(atom.canonical.real)))


def unread(call: ToolCall, spec: ToolSpec | None, policy: Policy, error: Exception) -> Action:
    """Return what is judged of a call when reading it broke: one that `known` refuses for that."""
    why = f"the call could not be read, which is a no ({class_name(error)})"
    problem = SchemaProblem("", why, Category.PERMANENT_FAILURE)
    return ActionBuilder(call, spec, None, {}, (problem,)).read(policy, {})
