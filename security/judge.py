"""Read and judge the calls of one session: the only way from a ToolCall to a decision.

What a call says is read by `action.py`, what has to be looked up for it by the surveyor. The gates are
handed in by the pipeline, their answers by permissions; who asks sees the session that the journal holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TypedDict

from .action import ActionBuilder
from .call import Action, Atom, SchemaProblem, ToolCall, ToolResult, ToolSpec
from .hooks import call_report, has_unheard, hook_question
from .kinds import HookAnswer, Kind, Runs
from .lazy import dataclass
from .outcome import Category
from .paths import FileState, ResolvedPath
from .permissions import Asks, answers_for_changes, narrowed, resolve_asks, who_lets_it_run
from .policy import Policy
from .ports import Hooks, Surveyor
from .record import Journal
from .refusal import caught, class_name
from .session import Decided, Event, Session
from .verdict import Decision

__all__ = ["Judge", "Judgement", "Ruling", "Ways", "read_call"]


class Ways(TypedDict):
    """What command lines run in, and whose answer is one to what they change."""

    runs: Runs
    covers: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the gates say, and what the answers given beforehand make of it.

    `left` are the Asks that nobody answered, `approver` names who answered the others or allowed the command
    lines to run for real, and `runs` is what these run in. `covers` names whose answer is one to what they
    change, too: they run through an overlay then.
    """

    decision: Decision
    left: Asks
    approver: str
    runs: Runs
    covers: str = ""

    @property
    def ways(self) -> Ways:
        """What command lines run in, as it goes on record."""
        return {"runs": self.runs, "covers": self.covers}


@dataclass(frozen=True, slots=True)
class Ruling:
    """A call that may run, and the events that say so, `decided` among them, which are yet to be recorded."""

    action: Action
    decision: Decision
    decided: Decided
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Judge:
    """Reads, judges and has the journal of one session; the pipeline, questions and redirects share it."""

    journal: Journal
    specs: Mapping[str, ToolSpec]
    surveyor: Surveyor
    decide: Callable[[Action, Session], Decision]
    hooks: Hooks | None = None

    @property
    def session(self) -> Session:
        """What the gates would see of the past at this moment."""
        return self.journal.session

    async def read(self, call: ToolCall) -> Action:
        """Turn a call into the Action that is judged; where that breaks, into one that `known` refuses."""
        policy, spec = self.session.policy, self.specs.get(call.tool)
        reading = read_call(call, self.specs, policy, self.surveyor)
        return await caught(reading, partial(_unread, call, spec, policy))

    async def heard(self, action: Action, session: Session | None = None) -> Action:
        """Return an Action with what the person's hooks answer, where nothing else speaks against it.

        What follows from a call that they answered, such as its second run, is not asked about again.

        Raises:
            RecordError: what was owed meanwhile could not be recorded.
        """
        session = narrowed(session or self.session, action)
        if self.hooks is None or action.hooked or not session.policy.hooks_on(action.call.tool):
            return action
        decision = self.decide(action, session)
        if not has_unheard(decision):
            return action
        answers = self.hooks.before(hook_question(action, decision, session))
        action = replace(action, hooked=await caught(answers, _no_answers))
        await self.journal.catch_up()
        return action

    async def over(self, action: Action, result: ToolResult, seconds: float = 0.0) -> None:
        """Look at a tool whose call has ended, and show hooks how; nothing of that depends on them."""
        await self.journal.watch(action.call.tool)
        if self.hooks is not None:
            report = call_report(action, result, seconds, self.session)
            await caught(self.hooks.after(report), lambda _: None)

    def rule(self, action: Action, session: Session | None = None) -> Judgement:
        """Return what is decided about an Action, in the session as it is now or in another."""
        session = narrowed(session or self.session, action)
        return self.answered(action, self.decide(action, session), session)

    def covers(self, ruling: Ruling) -> str:
        """Return whose answer to a call is one to what it changed; one that was taken back is none.

        What the call itself printed was read after it was allowed, and had no say in that.
        """
        if not ruling.decided.overlay:
            return ""
        session = replace(self.session, labels=frozenset(ruling.decided.labels))
        again = ruling.action.again
        if again is None:
            return self.answered(ruling.action, ruling.decision, session).covers
        # About room the person was asked; who answered for the lines before has to do so still.
        return again.covers if self.rule(replace(ruling.action, again=None), session).covers else ""

    def answered(self, action: Action, decision: Decision, session: Session | None = None) -> Judgement:
        """Return what the answers given in advance make of a decision, as they are now."""
        session = narrowed(session or self.session, action)
        left, approver = resolve_asks(decision.asks, action, session)
        lifted = "" if decision.runs is Runs.REAL else who_lets_it_run(action, session)
        who = "; ".join(dict.fromkeys(filter(None, (approver, lifted))))
        runs = Runs.REAL if lifted else decision.runs
        covers = answers_for_changes(action, session, left, who) if runs is Runs.REAL else ""
        return Judgement(decision, left, who, runs, covers)


def _no_answers(_: Exception) -> tuple[HookAnswer, ...]:
    return ()


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
    why = f"the call could not be read ({class_name(error)}); it is denied"
    problem = SchemaProblem("", why, Category.PERMANENT_FAILURE)
    return ActionBuilder(call, spec, None, {}, (problem,)).read(policy, {})
