"""The one door: every call passes `GATES` before it runs, every text passes `FILTERS` before it is seen.

Read this file first. The order is the two tuples below; what a gate or filter asks stands in its
own file. `judge` and `screen` decide; `Pipeline` looks up, asks, records and runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import trio

from . import record
from .action import Draft
from .answers import answer_in_advance, proposed_grants
from .book import Book
from .call import Action, Cleared, Output, Status, ToolCall, ToolResult
from .errors import PermanentFailure, ToolError, ToolTimeout
from .filters import Filter, Screened, Source, Stepwise, cap, distill, fence, redact, strip
from .gates import anomaly, arguments, budget, grounding, hosts, known, paths, permissions, trust
from .output import Keep, Live, completed, keeper, source_of, unscreened
from .ports import Answer, Ports, Question, RecordError
from .refusal import cancelled, failed, refused, unanswered, unrecorded, withheld
from .session import Decided, Event, Granted, Read, Session
from .verdict import Ask, Decision, Deny, Verdict, Word

__all__ = ["FILTERS", "GATES", "Pipeline", "judge", "screen"]

Gate: TypeAlias = Callable[[Action, Session], Verdict]

GATES: tuple[Gate, ...] = (
    known,
    arguments,
    permissions,
    anomaly,
    trust,
    paths,
    grounding,
    hosts,
    budget,
)

FILTERS: tuple[Filter, ...] = (
    cap,
    strip,
    redact,
    distill,
    fence,
)

_PIECE = 64 * 1024


def judge(action: Action, session: Session, gates: tuple[Gate, ...] = GATES) -> Decision:
    """Let every gate speak; a call that `known` cannot place is not shown to the others."""
    words: list[Word] = []
    for gate in gates:
        try:
            verdict = gate(action, session)
        except Exception as error:  # noqa: BLE001 — one of the three: a gate that fails has said Deny
            verdict = Deny("broken_gate", f"this gate failed ({type(error).__name__}), which is a no")
        words.append(Word(gate.__name__, verdict))
        if gate is known and isinstance(verdict, Deny):
            break
    return Decision(tuple(words))


async def screen(
    screened: Screened, source: Source, keep: Keep, filters: tuple[Filter, ...] = FILTERS
) -> Screened:
    """Pass a text through the filters in pieces; what `distill` shortens is kept whole, redacted, first."""
    for step in filters:
        before = screened
        if isinstance(step, Stepwise):
            screened = await _in_pieces(step, before, source)
        else:
            screened = step(before, source)
            await trio.lowlevel.checkpoint()
        if step is distill and screened.text != before.text:
            screened = replace(screened, notices=(*screened.notices, await keep(before.text)))
    return screened


async def _in_pieces(step: Stepwise, screened: Screened, source: Source) -> Screened:
    feeder = step.start(source)
    done: list[str] = []
    for start in range(0, len(screened.text), _PIECE):
        done.append(feeder.feed(screened.text[start : start + _PIECE]))
        await trio.lowlevel.checkpoint()
    done.append(feeder.flush())
    return Screened("".join(done), screened.notices + feeder.notices)


class Pipeline:
    """The gates and filters at work for one session.

    Nothing else makes a `Cleared`, and nothing else turns a text into what a model sees. `secrets`
    are values masked wherever they turn up.
    """

    def __init__(self, session: Session, ports: Ports, secrets: frozenset[str] = frozenset()) -> None:
        self._ports = ports
        self._secrets = secrets
        self._book = Book(session, ports.audit, ports.clock, ports.observer)
        self._specs = {spec.name: spec for spec in ports.executor.specs()}

    @property
    def session(self) -> Session:
        """What the gates would see of the past at this moment."""
        return self._book.session

    async def run(self, call: ToolCall) -> ToolResult:
        """Judge a call and, if it may, run it; every end but cancellation is a result, none an exception."""
        try:
            await self._book.settle()
            ruling = await self._decide(await self.read(call))
        except RecordError as error:
            return unrecorded(call, str(error))
        if isinstance(ruling, ToolResult):
            await self._book.watch(call.tool)
            return ruling
        return await self._execute(*ruling)

    async def admit(self, text: str, source: Source) -> str:
        """Return a text that no tool brought (a file, a note, an error) as the model may see it."""
        policy = self.session.policy
        bounded = replace(
            source, secrets=self._secrets, max_bytes=policy.max_bytes, threshold=policy.threshold
        )
        keep = keeper(self._ports.store, self.session.id, [])
        screened = await screen(Screened(text), bounded, keep)
        await self._label(source)
        return screened.text

    async def note(self, *events: Event) -> None:
        """Take in what happened outside of calls; it counts at once and is recorded before the next call."""
        await self._book.note(*events)

    async def read(self, call: ToolCall) -> Action:
        """Turn a call into the Action that is judged: parse, check, look paths up."""
        draft = Draft.of(call, self._specs)
        wanted = draft.paths(self.session.policy)
        resolved = await self._ports.surveyor.resolve(wanted) if wanted else {}
        return draft.read(self.session.policy, resolved)

    def judged(self, action: Action) -> tuple[Decision, tuple[tuple[str, Ask], ...], str]:
        """Return what the gates say now, the Asks nobody answered beforehand, and who answered the rest."""
        session = self.session
        decision = judge(action, session)
        answers = [(gate, ask, answer_in_advance(gate, ask, action, session)) for gate, ask in decision.asks]
        left = tuple((gate, ask) for gate, ask, answer in answers if answer is None)
        return decision, left, "; ".join(dict.fromkeys(answer for *_, answer in answers if answer))

    async def _decide(self, action: Action) -> ToolResult | tuple[Action, Decided]:
        """Return a refusal, or the Action to run with a decision that counts and is yet to be recorded."""
        # No await up to the fold: judging and booking are one step, or parallel calls share one budget.
        decision, left, approver = self.judged(action)
        if left and decision.denial is None:
            await self._book.book(record.asked(self._book.now(), action, left))
            return await self._consult(action, decision, left)
        return await self._conclude(action, decision, approver)

    async def _conclude(
        self, action: Action, decision: Decision, approver: str
    ) -> ToolResult | tuple[Action, Decided]:
        event = record.decided(self._book.now(), action, decision, approver, self._secrets)
        self._book.fold(event)
        if decision.denial is None:
            return action, event
        await self._book.write(event)
        return refused(action.call, decision.denial[1], decision.denial[0])

    async def _consult(
        self, action: Action, decision: Decision, left: tuple[tuple[str, Ask], ...]
    ) -> ToolResult | tuple[Action, Decided]:
        """Put what is open to the person; then look and judge again, for time has passed."""
        grants, who = proposed_grants(left, action), "cancelled"
        try:
            answer = await self._ports.approver.ask(Question(action, left, grants))
            who = "nobody" if answer is Answer.NOBODY else "the person"
        finally:
            if who == "cancelled" or answer not in {Answer.YES, Answer.ALWAYS}:
                now = self._book.now()
                await self._book.note(record.declined(now, action, decision, who, self._secrets))
        if answer not in {Answer.YES, Answer.ALWAYS}:
            return unanswered(action.call, left, nobody=answer is Answer.NOBODY)
        again = await self.read(action.call)
        decision, still_open, approver = self.judged(again)
        if decision.denial is None and (again.digest != action.digest or not set(still_open) <= set(left)):
            changed = Deny("changed", "something changed while the question was open; ask again")
            decision = Decision((*decision.words, Word("approval", changed)))
        if answer is Answer.ALWAYS and grants and decision.denial is None:
            await self._book.note(*(Granted(self._book.now(), tool, match) for tool, match in grants))
        return await self._conclude(again, decision, "; ".join(filter(None, ("the person", approver))))

    async def _execute(self, action: Action, event: Decided) -> ToolResult:
        """Record the decision, run, screen, record the outcome; nothing runs before the record stands."""
        began, detail = trio.current_time(), "not started"
        result = cancelled(action.call)
        try:
            await self._book.write(event)
            detail = ""
            result = await self._attempt(action)
        except RecordError as error:
            result = unrecorded(action.call, str(error))
        finally:
            seconds = trio.current_time() - began
            await self._book.note(record.finished(self._book.now(), action, result, seconds, detail))
            await self._book.watch(action.call.tool)
        return result

    async def _attempt(self, action: Action) -> ToolResult:
        """Run a recorded call under its deadline; whatever the executor or a filter does is a result."""
        timeout = action.spec.timeout if action.spec is not None else 0
        output: Output | None = None
        try:
            with trio.fail_after(timeout) as scope:
                output = await self._run(action, scope.deadline)
            return await self._screened(action, output)
        except ToolError as error:
            status = Status.TIMEOUT if isinstance(error, ToolTimeout) else Status.ERROR
            return failed(action, error, status)
        except trio.TooSlowError:
            return failed(action, ToolTimeout(f"no answer within {timeout:g} seconds"), Status.TIMEOUT)
        except Exception as error:  # noqa: BLE001 — one of the three: whatever an executor raises is an outcome
            if output is not None:
                return withheld(action, type(error).__name__)
            broke = PermanentFailure(f"the tool broke: {type(error).__name__}: {error}")
            return failed(action, broke, Status.ERROR)

    async def _run(self, action: Action, deadline: float) -> Output:
        source = source_of(action, Output(""), self.session.policy, self._secrets)
        live = Live(action, source, self._ports.observer)
        output = await self._ports.executor.execute(Cleared(action, deadline, live.emit))
        live.close()
        return output

    async def _screened(self, action: Action, output: Output) -> ToolResult:
        kept: list[str] = []
        source = source_of(action, output, self.session.policy, self._secrets)
        keep = keeper(self._ports.store, self.session.id, kept)
        screened = await screen(unscreened(action, output), source, keep)
        await self._label(source)
        return completed(action, output, screened, kept)

    async def _label(self, source: Source) -> None:
        """Remember whose words the model has seen; labels only ever grow."""
        if source.origin not in self.session.labels:
            await self._book.note(Read(self._book.now(), (source.origin,)))
