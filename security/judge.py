"""Reads and judges the calls of one session: the one way from a `ToolCall` to what is decided about it.

What a call says is read by `action.py`, what has to be looked up for it by the surveyor. The gates are
handed in by the pipeline, their answers by permissions; who asks sees the session that the journal holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from .action import ActionBuilder
from .call import Action, Atom, SchemaProblem, ToolCall, ToolSpec
from .kinds import Kind, Runs
from .outcome import Category
from .paths import FileState, ResolvedPath
from .permissions import Asks, resolve_asks, who_lets_it_run
from .policy import Policy
from .ports import Surveyor
from .record import Journal
from .refusal import caught, class_name
from .session import Session
from .verdict import Decision

__all__ = ["Judge", "Judgement", "read_call"]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the gates say, and what the answers given beforehand make of it.

    `left` are the Asks that nobody answered, `approver` names who answered the others or allowed the command
    lines to run for real, and `runs` is what these run in.
    """

    decision: Decision
    left: Asks
    approver: str
    runs: Runs


@dataclass(frozen=True, slots=True)
class Judge:
    """Reads, judges and has the journal of one session; the pipeline, questions and redirects share it."""

    journal: Journal
    specs: Mapping[str, ToolSpec]
    surveyor: Surveyor
    decide: Callable[[Action, Session], Decision]

    @property
    def session(self) -> Session:
        """What the gates would see of the past at this moment."""
        return self.journal.session

    async def read(self, call: ToolCall) -> Action:
        """Turn a call into the Action that is judged; where that breaks, into one that `known` refuses."""
        policy, spec = self.session.policy, self.specs.get(call.tool)
        reading = read_call(call, self.specs, policy, self.surveyor)
        return await caught(reading, partial(_unread, call, spec, policy))

    def rule(self, action: Action, session: Session | None = None) -> Judgement:
        """Return what is decided about an Action, in the session as it is now or in another."""
        session = session or self.session
        decision = self.decide(action, session)
        left, approver = resolve_asks(decision.asks, action, session)
        lifted = "" if decision.runs is Runs.REAL else who_lets_it_run(action, session)
        who = "; ".join(dict.fromkeys(filter(None, (approver, lifted))))
        return Judgement(decision, left, who, Runs.REAL if lifted else decision.runs)


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
    places = [place.real for place in action.places]
    states = await surveyor.states(places, policy) if places else {}
    return replace(action, atoms=tuple(_with_state(atom, states) for atom in action.atoms))


def _with_state(atom: Atom, states: Mapping[str, FileState]) -> Atom:
    if atom.kind is not Kind.PATH or not isinstance(atom.canonical, ResolvedPath):
        return atom
    return replace(atom, canonical=replace(atom.canonical, state=states.get(atom.canonical.real)))


def _unread(call: ToolCall, spec: ToolSpec | None, policy: Policy, error: Exception) -> Action:
    """Return what is judged of a call when reading it broke: one that `known` refuses for that."""
    why = f"the call could not be read, which is a no ({class_name(error)})"
    problem = SchemaProblem("", why, Category.PERMANENT_FAILURE)
    return ActionBuilder(call, spec, None, {}, (problem,)).read(policy, {})
