"""Read and judge the calls of one session: the only way from a ToolCall to a decision.

`action.py` reads what a call says, and the surveyor looks up what judging it needs to know of the machine.
The pipeline hands in the gates; `permissions/` applies the answers given in advance. Every call is judged in
the session that the journal holds at that moment.
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

__all__ = ["Judge", "Judgement", "Ruling", "RunConditions", "read_call"]


class RunConditions(TypedDict):
    """What a call's command lines run in, and whose answer also covers the changes they make."""

    runs: Runs
    covers: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """The gates' decision, and what the answers given in advance (rules, grants, autonomy) add to it.

    `open_asks` are the Asks that no such answer covers. `approver` names the rules or grants that answered
    the others, or that allow the command lines to run for real; `runs` is what these run in. `covers` names
    the rule or grant that also allows what they change; they then run through an overlay.
    """

    decision: Decision
    open_asks: Asks
    approver: str
    runs: Runs
    covers: str = ""

    @property
    def conditions(self) -> RunConditions:
        """The conditions the command lines run under, in the form in which they are recorded."""
        return {"runs": self.runs, "covers": self.covers}


@dataclass(frozen=True, slots=True)
class Ruling:
    """A call that may run, with the events of its decision: counted already, recorded before it runs."""

    action: Action
    decision: Decision
    decided: Decided
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Judge:
    """Reads and judges the calls of one session. The pipeline, its questions and its redirects share it."""

    journal: Journal
    specs: Mapping[str, ToolSpec]
    surveyor: Surveyor
    decide: Callable[[Action, Session], Decision]
    hooks: Hooks | None = None

    @property
    def session(self) -> Session:
        """The session that a call judged now would be judged in."""
        return self.journal.session

    async def read(self, call: ToolCall) -> Action:
        """Turn a call into the Action that is judged. If reading it fails, `known` refuses that Action."""
        policy, spec = self.session.policy, self.specs.get(call.tool)
        reading = read_call(call, self.specs, policy, self.surveyor)
        return await caught(reading, partial(_unread, call, spec, policy))

    async def with_hook_answers(self, action: Action, session: Session | None = None) -> Action:
        """Return an Action with the answers of the person's hooks.

        Hooks are asked last, about calls that no gate denies. They are not asked again about what follows
        from a call they have answered, such as its second run.

        Raises:
            RecordError: an outcome that had to be recorded meanwhile could not be.
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

    async def after_call(self, action: Action, result: ToolResult, seconds: float = 0.0) -> None:
        """Update the anomaly window of the tool whose call ended, and show the result to the hooks."""
        await self.journal.watch(action.call.tool)
        if self.hooks is not None:
            report = call_report(action, result, seconds, self.session)
            await caught(self.hooks.after(report), lambda _: None)

    def rule(self, action: Action, session: Session | None = None) -> Judgement:
        """Judge an Action in the session as it is now, or in the one given."""
        session = narrowed(session or self.session, action)
        return self.answered(action, self.decide(action, session), session)

    def covers(self, ruling: Ruling) -> str:
        """Return the rule or grant that allowed a call and also allows what it changed, or "".

        It is looked up again, since a grant may have been revoked while the call ran.
        """
        if not ruling.decided.overlay:
            return ""
        # With the labels from before the run: what the call itself printed was read after it was allowed.
        session = replace(self.session, labels=frozenset(ruling.decided.labels))
        again = ruling.action.again
        if again is None:
            return self.answered(ruling.action, ruling.decision, session).covers
        # The person allowed this run, which has more room, and nothing else: what covered the changes of
        # the first run must still do so.
        return again.covers if self.rule(replace(ruling.action, again=None), session).covers else ""

    def answered(self, action: Action, decision: Decision, session: Session | None = None) -> Judgement:
        """Apply the rules and grants of this moment to a decision of the gates."""
        session = narrowed(session or self.session, action)
        open_asks, approver = resolve_asks(decision.asks, action, session)
        lifted = "" if decision.runs is Runs.REAL else who_lets_it_run(action, session)
        who = "; ".join(dict.fromkeys(filter(None, (approver, lifted))))
        runs = Runs.REAL if lifted else decision.runs
        covers = answers_for_changes(action, session, open_asks, who) if runs is Runs.REAL else ""
        return Judgement(decision, open_asks, who, runs, covers)


def _no_answers(_: Exception) -> tuple[HookAnswer, ...]:
    return ()


async def read_call(
    call: ToolCall, specs: Mapping[str, ToolSpec], policy: Policy, surveyor: Surveyor
) -> Action:
    """Return the Action of a call: parsed, validated, its paths resolved, its command facts looked up.

    For a tool with a preview the files it would change are looked up as well, because a person's yes is
    about their present content.
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
    """Return an Action that `known` refuses, for a call that could not be read."""
    why = f"the call could not be read ({class_name(error)}); it is denied"
    problem = SchemaProblem("", why, Category.PERMANENT_FAILURE)
    return ActionBuilder(call, spec, None, {}, (problem,)).read(policy, {})
