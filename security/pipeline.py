"""The one door: every call passes `GATES` before it runs, every text passes `FILTERS` before it is seen.

Read this file first. The order is the two tuples below; what a gate or filter asks stands in its
own file. `judge` and `screen` decide; `Pipeline` looks up, asks, records and runs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import TypeAlias, TypeVar

import trio

from .action import secrets_in
from .approval import Approvals
from .call import Action, Cleared, ToolCall, ToolResult
from .filters import Filter, Screened, Source, applied, cap, distill, fence, redact, strip
from .gates import anomaly, arguments, budget, commands, grounding, hosts, known, paths, permissions, trust
from .outcome import Output, ToolError, ToolTimeout
from .output import (
    Keep,
    OutputStream,
    OverflowWriter,
    bounded,
    collect_output,
    make_result,
    read_by_model,
    source_of,
)
from .permissions import Asks, recheck, resolve_asks
from .ports import Answer, Executor, Ports, RecordError
from .record import Journal, attempt_events, decided_event, finished_event
from .redirects import Redirects
from .refusal import Told, broken, cancelled, failed, refused, unanswered, unrecorded, withheld
from .session import Decided, Event, Granted, Session
from .survey import read_call, unread
from .verdict import Allow, Ask, Decision, Deny, GateWord, Verdict

__all__ = ["FILTERS", "GATES", "Pipeline", "judge", "screen"]

T = TypeVar("T")
U = TypeVar("U")
Gate: TypeAlias = Callable[[Action, Session], Verdict]
Ruling: TypeAlias = ToolResult | tuple[Action, tuple[Event, ...]]

GATES: tuple[Gate, ...] = (
    known,
    arguments,
    permissions,
    anomaly,
    trust,
    paths,
    grounding,
    hosts,
    commands,
    budget,
)

FILTERS: tuple[Filter, ...] = (cap, strip, redact, distill, fence)


def judge(action: Action, session: Session, gates: tuple[Gate, ...] = GATES) -> Decision:
    """Let every gate speak; a call that `known` cannot place is not shown to the others."""
    words: list[GateWord] = []
    for gate in gates:
        try:
            verdict = gate(action, session)
        except Exception as error:  # noqa: BLE001 — one of the three: a gate that fails has said Deny
            verdict = Deny("broken_gate", f"this gate failed ({type(error).__name__}), which is a no")
        if not isinstance(verdict, (Allow, Ask, Deny)):
            verdict = Deny("broken_gate", "this gate said none of the three words, which is a no")
        words.append(GateWord(gate.__name__, verdict))
        if gate is known and isinstance(verdict, Deny):
            break
    return Decision(tuple(words))


async def screen(
    screened: Screened, source: Source, keep: Keep, filters: tuple[Filter, ...] = FILTERS
) -> Screened:
    """Pass a text through the filters in pieces; what `distill` shortens is kept whole, redacted, first."""
    for step in filters:
        before, screened = screened, await applied(step, screened, source)
        if step is distill and screened.text != before.text:
            screened = replace(screened, notices=(*screened.notices, await keep(before.text)))
    return screened


class Pipeline:
    """The gates and filters at work for one session.

    Nothing else makes a `Cleared`, and nothing else turns a text into what a model sees. `secrets`
    are values masked wherever they turn up.
    """

    def __init__(self, session: Session, ports: Ports, secrets: frozenset[str] = frozenset()) -> None:
        self._ports, self._secrets = ports, secrets
        self._book = Journal(replace(session, secrets=secrets), ports)
        self.catch_up = self._book.catch_up
        self._questions = Approvals(self._book, ports, self.read, self.judged)
        self._specs = {spec.name: spec for spec in ports.executor.specs()}

    @property
    def session(self) -> Session:
        """What the gates would see of the past at this moment."""
        return self._book.session

    async def run(self, call: ToolCall) -> ToolResult:
        """Judge a call and, if it may, run it; every end but cancellation is a result, none an exception."""
        return await _told(self._pass(call), partial(failed, call, self._secrets), call)

    async def _pass(self, call: ToolCall) -> ToolResult:
        try:
            ruling = await self._decide(await self.read(call))
        except RecordError as error:
            return unrecorded(call, str(error))
        if isinstance(ruling, ToolResult):
            await self._book.watch(call.tool)
            return ruling
        return await self._execute(*ruling)

    async def admit(self, text: str, source: Source) -> str:
        """Return a text that no tool brought (a file, a note, an error) as the model may see it."""
        source = bounded(source, self.session)
        keep = OverflowWriter(self._ports.store, self.session.id, source.origin)
        screened = await self._show(Screened(text), source, keep)
        await self._book.note()
        return screened.text

    async def note(self, *events: Event) -> None:
        """Take in what happened outside of calls; it counts at once and is recorded before the next call."""
        await self._book.note(*events)

    async def read(self, call: ToolCall) -> Action:
        """Turn a call into the Action that is judged; where that breaks, into one that `known` refuses."""
        policy, spec = self.session.policy, self._specs.get(call.tool)
        reading = read_call(call, self._specs, policy, self._ports.surveyor)
        return await _caught(reading, partial(unread, call, spec, policy))

    def judged(self, action: Action, session: Session | None = None) -> tuple[Decision, Asks, str]:
        """Return what the gates say now, the Asks nobody answered beforehand, and who answered the rest."""
        session = session or self.session
        decision = judge(action, session)
        return decision, *resolve_asks(decision.asks, action, session)

    async def _decide(self, action: Action) -> Ruling:
        """Return a refusal, or the Action to run with decisions that count and are yet to be recorded."""
        await self._book.catch_up()
        # No await up to the fold: judging and booking are one step, or parallel calls share one budget.
        session = self.session
        decision, left, approver = self.judged(action, session)
        if left and decision.denial is None:
            return await self._consult(action, decision, left)
        return await self._end(action, decision, decided_event(session, action, decision, approver))

    async def _end(self, action: Action, decision: Decision, decided: Decided, *grants: Granted) -> Ruling:
        events: tuple[Event, ...] = (decided, *attempt_events(decided, action, self.session), *grants)
        self._book.fold(*events)
        if decision.denial is None:
            return action, events
        await self._book.write(*events)
        return refused(action.call, decision.denial[1], decision.denial[0])

    async def _consult(self, action: Action, decision: Decision, left: Asks) -> Ruling:
        """Put what is open to the person; then judge again, for time has passed."""
        async with self._questions.put(action, decision, left) as consulted:
            asked, again = consulted.question.asks, consulted.action
            if consulted.is_no:
                return unanswered(action.call, asked, nobody=consulted.reply is Answer.NOBODY)
            session = self.session
            decision, still_open, approver = self.judged(again, session)
            decision = recheck(action, asked, again, decision, still_open)
            grants = self._questions.granted(consulted) if decision.denial is None else ()
            decided = decided_event(session, again, decision, *consulted.told(approver, session))
            return await self._end(again, decision, decided, *grants)

    async def _execute(self, action: Action, events: tuple[Event, ...]) -> ToolResult:
        """Record the decision, run, screen, record the outcome; nothing runs before the record stands."""
        began, detail = trio.current_time(), "not started"
        result = cancelled(action.call)
        try:
            await self._book.write(*events)
            detail = ""
            told = partial(failed, action.call, self._secrets | secrets_in(action))
            result = await _told(self._attempt(action), told, action.call)
        except RecordError as error:
            result = unrecorded(action.call, str(error))
        finally:
            seconds = trio.current_time() - began
            await self._book.note(finished_event(self.session, action, result, seconds, detail))
            await self._book.watch(action.call.tool)
        return result

    async def _attempt(self, action: Action) -> ToolResult:
        """Run a recorded call and screen what it brings, or what it had brought when it failed."""
        session, failure = self.session, None
        source = source_of(action, Output(""), session)
        trail = Redirects(action, self._book, self.read, self.judged)
        with OutputStream(action, source, self._ports.observer, self._ports.store, session.id) as live:
            came = await _caught(_run(self._ports.executor, action, live, trail), lambda error: error)
            await live.close()
            if isinstance(came, Exception):
                failure = failed(action.call, source.secrets, came)
                self._book.owe(*read_by_model(source, failure.shown, session))
                if not isinstance(came, ToolError) or not isinstance(came.output, Output):
                    return failure
                came = came.output
            told = partial(withheld, action.call)
            return await _caught(self._screened(action, came, live, trail, failure), told)

    async def _screened(
        self, action: Action, output: Output, live: OutputStream, trail: Redirects, failure: ToolResult | None
    ) -> ToolResult:
        raw, source, keep = await collect_output(action, output, live, self.session)
        screened = await self._show(raw, source, keep)
        self._book.owe(*trail.found_in(output, screened.plain))
        return make_result(action, output, screened, keep.id, failure)

    async def _show(self, raw: Screened, source: Source, keep: OverflowWriter) -> Screened:
        """Screen a text, of which what is cut is kept, and count that the model has read it."""
        screened = await screen(raw, source, keep)
        self._book.owe(*read_by_model(source, screened.plain, self.session))
        return screened


async def _run(executor: Executor, action: Action, live: OutputStream, trail: Redirects) -> Output:
    """Let a call run within its deadline; time-outs of the tool's own are failures of its own."""
    timeout = action.spec.timeout if action.spec is not None else 0
    with trio.move_on_after(timeout) as scope, trail:
        return await executor.execute(Cleared(action, scope.deadline, live.emit, trail))
    raise ToolTimeout(f"no answer within {timeout:g} seconds")


async def _told(step: Awaitable[ToolResult], told: Told, call: ToolCall) -> ToolResult:
    """Whatever an executor, a filter or a port raises is a result, and `told` says which."""
    return await _caught(_caught(step, told), partial(broken, call))


async def _caught(step: Awaitable[T], told: Callable[[Exception], U]) -> T | U:
    """Return what comes of a step, or what is told of the exception it raised."""
    try:
        return await step
    except Exception as error:  # noqa: BLE001 — one of the three: what others raise is an outcome
        return told(error)
