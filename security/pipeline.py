"""The one door: every call passes `GATES` before it runs, every text `FILTERS` before the model sees it.

Read this file first. The order is the two tuples below; each gate and filter has a file of
its own. `judge` and `screen` decide; `Pipeline` looks up, asks, records and runs.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import trio

from .action import secrets_in
from .approval import Approvals
from .call import Action, Cleared, ToolCall, ToolResult
from .filters import Filter, Screened, Source, applied, cap, distill, fence, redact, strip, suspect
from .gates import (
    anomaly,
    arguments,
    budget,
    commands,
    flow,
    grounding,
    hooks,
    hosts,
    known,
    leaks,
    paths,
    permissions,
    trust,
)
from .hooks import with_notices
from .judge import Judge, Ruling
from .keep import KeepExecutor, Proposals, keep_action, with_again, with_kept, without_names
from .outcome import Output, ToolError
from .output import (
    Keep,
    OutputStream,
    OverflowWriter,
    bounded,
    collect_output,
    failure_read,
    make_result,
    read_by_model,
    source_of,
)
from .permissions import Asks, recheck
from .ports import Answer, Executor, Ports, RecordError
from .record import Journal, LabelledFiles, attempt_events, decided_event, finished_event
from .redirects import Redirects
from .refusal import cancelled, caught, failed, refused, result_of, unanswered, unrecorded, withheld
from .rerun import rerun_of, with_rerun
from .session import Decided, Event, Granted, Session
from .verdict import Allow, Ask, Decision, Deny, GateWord, Verdict

__all__ = ["FILTERS", "GATES", "Pipeline", "judge", "screen"]

Gate: TypeAlias = Callable[[Action, Session], Verdict]

Ruled: TypeAlias = ToolResult | Ruling

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
    leaks,
    flow,
    budget,
    hooks,
)

FILTERS: tuple[Filter, ...] = (cap, strip, redact, distill, suspect, fence)


def judge(action: Action, session: Session, gates: tuple[Gate, ...] = GATES) -> Decision:
    """Let every gate speak; a call that `known` cannot place is not shown to the others."""
    words: list[GateWord] = []
    for gate in gates:
        try:
            verdict = gate(action, session)
        except Exception as error:  # noqa: BLE001 — one of the three: a gate that fails denies
            verdict = Deny("broken_gate", f"this gate failed ({type(error).__name__}); the call is denied")
        if not isinstance(verdict, (Allow, Ask, Deny)):
            verdict = Deny("broken_gate", "this gate did not answer Allow, Ask or Deny; the call is denied")
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
        self._journal = Journal(replace(session, secrets=secrets), ports)
        specs = {spec.name: spec for spec in ports.executor.specs()}
        self.judge = Judge(self._journal, specs, ports.surveyor, judge, ports.hooks)
        self._questions, self._files = Approvals(self.judge, ports), LabelledFiles(self._journal, ports.files)

    @property
    def session(self) -> Session:
        """What the gates would see of the past at this moment."""
        return self.judge.session

    async def run(self, call: ToolCall) -> ToolResult:
        """Judge a call and, if it may, run it; every end but cancellation is a result, none an exception."""
        passing = self._pass(call, self._ports.executor)
        return await result_of(passing, partial(failed, call, self._secrets), call)

    async def _pass(self, call: ToolCall, executor: Executor, action: Action | None = None) -> ToolResult:
        """Judge a call and run it; what follows from it (keep, a second run) is an Action of its own."""
        try:
            action = action or await self._files.read_by(await self.judge.read(call))
            ruling = await self._decide(action)
        except RecordError as error:
            return unrecorded(call, str(error))
        if isinstance(ruling, ToolResult):
            await self.judge.over(action, ruling)
            return ruling
        with closing(Proposals(executor)) as proposals:
            ran = await self._files.endorsed(ruling.action, await self._execute(ruling, proposals))
            result = await with_notices(ran, ruling.action.hooked, self.admit, self._ports.observer)
            again = proposals.again(ruling.action, ruling.decided.runs, self.judge.covers(ruling))
            if again is not None:
                return with_again(result, await self._pass(again.call, executor, again))
            if result.error is None and (rerun := rerun_of(ruling.action, proposals)) is not None:
                passed = await self._pass(rerun.action.call, rerun, rerun.action)
                result = with_rerun(result, passed, rerun, proposals)
            if result.error is not None or (proposal := proposals.take()) is None:
                return result
            with closing(proposal):
                keep = keep_action(ruling.action, proposal, self.judge.covers(ruling))
                kept = await self._pass(keep.call, KeepExecutor(proposal), keep)
                return with_kept(result, without_names(kept) if ruling.decided.lends else kept)

    async def admit(self, text: str, source: Source) -> str:
        """Return a text that no tool brought (a file, a note, an error) as the model may see it."""
        source = bounded(source, self.session)
        keep = OverflowWriter(self._ports.store, self.session.id, source.origin)
        screened = await self._show(Screened(text), source, keep)
        await self._journal.note()
        return screened.text

    async def catch_up(self) -> None:
        """Write the records that are owed, and take in grants that other sessions made or revoked.

        Raises:
            RecordError: one of the two could not be done.
        """
        await self._journal.catch_up()

    async def note(self, *events: Event) -> None:
        """Take in what happened outside of calls; it counts at once and is recorded before the next call."""
        await self._journal.note(*events)

    async def _decide(self, action: Action) -> Ruled:
        """Return a refusal, or a ruling whose events count already and are recorded before the call runs."""
        await self._journal.catch_up()
        action = await self.judge.heard(action)
        # No await up to the fold: judging and booking are one step, or parallel calls share one budget.
        found = self.judge.rule(action)
        if found.left and found.decision.denial is None:
            return await self._consult(action, found.decision, found.left)
        decided = decided_event(self.session, action, found.decision, found.approver, **found.ways)
        return await self._end(action, found.decision, decided)

    async def _end(self, action: Action, decision: Decision, decided: Decided, *grants: Granted) -> Ruled:
        events: tuple[Event, ...] = decided, *attempt_events(decided, action, decision, self.session), *grants
        self._journal.fold(*events)
        if decision.denial is None:
            return Ruling(action, decision, decided, events)
        await self._journal.write(*events)
        return refused(action.call, decision.denial[1], decision.denial[0])

    async def _consult(self, action: Action, decision: Decision, left: Asks) -> Ruled:
        """Put the open questions to the person, then judge again: files may have changed meanwhile."""
        async with self._questions.put(action, decision, left) as consulted:
            asked, again = consulted.question.asks, consulted.action
            if consulted.is_no:
                return unanswered(action.call, asked, consulted.reply is Answer.NOBODY, consulted.words)
            found = self.judge.rule(again)
            decision = recheck(action, asked, again, found.decision, found.left)
            grants = self._questions.granted(consulted) if decision.denial is None else ()
            answer, ways = consulted.answered_by(found.approver, self.session), consulted.ways(found)
            decided = decided_event(self.session, again, decision, *answer, **ways)
            return await self._end(again, decision, decided, *grants)

    async def _execute(self, ruling: Ruling, proposals: Proposals) -> ToolResult:
        """Record the decision, run, screen, record the outcome; without the first record nothing runs."""
        action = ruling.action
        began, detail, result = trio.current_time(), "not started", cancelled(action.call)
        try:
            await self._journal.write(*ruling.events)
            detail = ""
            failing = partial(failed, action.call, self._secrets | secrets_in(action))
            result = await result_of(self._attempt(ruling, proposals), failing, action.call)
        except RecordError as error:
            result = unrecorded(action.call, str(error))
        finally:
            seconds = trio.current_time() - began
            await self._journal.note(finished_event(self.session, action, result, seconds, detail))
            await self.judge.over(action, result, seconds)
        return result

    async def _attempt(self, ruling: Ruling, proposals: Proposals) -> ToolResult:
        """Run a recorded call and screen its output, or the part of it that came before a failure."""
        action, session, failure = ruling.action, self.session, None
        trail = Redirects(action, self.judge)
        source = source_of(action, Output(""), session, self._ports.distiller)
        with OutputStream(action, source, self._ports.observer, self._ports.store, session.id) as live:
            how = partial(Cleared, action, runs=ruling.decided.runs, overlay=ruling.decided.overlay)
            clear = partial(how, emit=live.emit, follower=trail, propose=proposals.put, wish=proposals.wish)
            came = await caught(trail.run(proposals.executor, clear, ruling.decided), lambda error: error)
            await live.close()
            if isinstance(came, Exception):
                failure = failed(action.call, source.secrets, came)
                source = source_of(action, Output(""), session, is_offline=trail.is_offline)
                self._journal.owe(*failure_read(source, failure, session))
                if not isinstance(came, ToolError) or not isinstance(came.output, Output):
                    return failure
                came = came.output
            screened = self._screened(action, came, live, trail, failure)
            return await caught(screened, partial(withheld, action.call))

    async def _screened(
        self, action: Action, output: Output, live: OutputStream, trail: Redirects, failure: ToolResult | None
    ) -> ToolResult:
        raw, source, keep = await collect_output(
            action, output, live, self.session, is_offline=trail.is_offline
        )
        screened = await self._show(raw, source, keep)
        self._journal.owe(*trail.found_in(output, screened.plain))
        return make_result(action, output, screened, keep.id, failure)

    async def _show(self, raw: Screened, source: Source, keep: OverflowWriter) -> Screened:
        """Screen a text, store what is cut from it, and record that the model has read it."""
        screened = await screen(raw, source, keep)
        self._journal.owe(*read_by_model(source, screened.plain, self.session, screened.suspicion))
        return screened
