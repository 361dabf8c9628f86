"""Every call passes the gates before it runs; every text passes the filters before a model sees it.

Read this file first. `GATES` and `FILTERS` are the order; each gate and each filter has a file of its own.

1. `Judge.read` turns a call into an Action: frozen, with all that had to be looked up.
2. `judge` asks every gate about the Action. Gates are pure functions that answer Allow, Ask or Deny.
3. Where a gate asks and no rule or grant answers, the person is asked once, about everything at once.
4. The decision is recorded, and then the call runs. What cannot be recorded does not run.
5. `screen` passes the output through the filters. The result is made from that, and the outcome recorded.

What a run leads to, such as keeping the changes of a trial run, is an Action that begins again at step 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import trio

from .action import secrets_in
from .approval import Approvals
from .call import Action, Cleared, ToolCall, ToolExecutor, ToolResult
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
from .ports import Answer, Ports, RecordError
from .record import Journal, LabelledFiles, attempt_events, decided_event, finished_event
from .redirects import Redirects
from .refusal import cancelled, caught, failed, refused, result_of, unanswered, unrecorded, withheld
from .rerun import rerun_of, with_rerun
from .session import Decided, Event, Granted, Session
from .verdict import Allow, Ask, Decision, Deny, GateAnswer, Verdict

__all__ = ["FILTERS", "GATES", "Pipeline", "judge", "screen"]

Gate: TypeAlias = Callable[[Action, Session], Verdict]

RulingOrRefusal: TypeAlias = Ruling | ToolResult

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
    """Ask every gate about an Action.

    If `known` denies it, the others are not asked: its tool does not exist, or its arguments are invalid.
    """
    answers: list[GateAnswer] = []
    for gate in gates:
        try:
            verdict = gate(action, session)
        except Exception as error:  # noqa: BLE001 — a gate that fails denies
            verdict = Deny("broken_gate", f"this gate failed ({type(error).__name__}); the call is denied")
        if not isinstance(verdict, (Allow, Ask, Deny)):
            verdict = Deny("broken_gate", "this gate did not answer Allow, Ask or Deny; the call is denied")
        answers.append(GateAnswer(gate.__name__, verdict))
        if gate is known and isinstance(verdict, Deny):
            break
    return Decision(tuple(answers))


async def screen(
    screened: Screened, source: Source, keep: Keep, filters: tuple[Filter, ...] = FILTERS
) -> Screened:
    """Pass a text through the filters. Before `distill` shortens it, the whole redacted text is stored."""
    for step in filters:
        before, screened = screened, await applied(step, screened, source)
        if step is distill and screened.text != before.text:
            screened = replace(screened, notices=(*screened.notices, await keep(before.text)))
    return screened


class Pipeline:
    """The gates and filters of one session.

    Nothing else makes a `Cleared`, without which no executor runs anything, and nothing else produces the
    texts that a model sees. `secrets` are masked wherever they occur.
    """

    def __init__(self, session: Session, ports: Ports, secrets: frozenset[str] = frozenset()) -> None:
        self._ports, self._secrets = ports, secrets
        self._journal = Journal(replace(session, secrets=secrets), ports)
        specs = {spec.name: spec for spec in ports.executor.specs()}
        self.judge: Judge = Judge(self._journal, specs, ports.surveyor, judge, ports.hooks)
        self._questions, self._files = Approvals(self.judge, ports), LabelledFiles(self._journal, ports.files)

    @property
    def session(self) -> Session:
        """The session that a call judged now would be judged in."""
        return self.judge.session

    async def run(self, call: ToolCall) -> ToolResult:
        """Judge a call, and run it if it is allowed.

        A refusal, a failure and an error of ours are results as well. Only cancellation is raised.
        """
        steps = self._judge_and_run(call, self._ports.executor)
        return await result_of(steps, partial(failed, call, self._secrets), call)

    def expect(self, calls: Sequence[ToolCall]) -> None:
        """Name the calls that will be run next, in order, so that their questions may be shown together."""
        self._questions.expect(calls)

    async def _judge_and_run(
        self, call: ToolCall, executor: ToolExecutor, action: Action | None = None
    ) -> ToolResult:
        """Judge a call and run it, and do the same with what it leads to: a second run, or kept changes.

        The pipeline itself makes the `action` of what a call leads to. Without one, the call is read first.
        """
        try:
            action = action or await self._files.with_labels(await self.judge.read(call))
            ruling = await self._decide(action)
        except RecordError as error:
            return unrecorded(call, str(error))
        if isinstance(ruling, ToolResult):
            await self.judge.after_call(action, ruling)
            return ruling
        action = ruling.action
        with closing(Proposals(executor)) as proposals:
            result = await self._execute(ruling, proposals)
            await self._files.endorse_commit(action, result)
            result = await with_notices(result, action.hooked, self.admit, self._ports.observer)
            # The same command once more, for real or with more room, if its trial run was not enough.
            repeat = proposals.again(action, ruling.decided.runs, self.judge.covers(ruling))
            if repeat is not None:
                return with_again(result, await self._judge_and_run(repeat.call, executor, repeat))
            if result.error is None and (rerun := rerun_of(action, proposals)) is not None:
                second = await self._judge_and_run(rerun.action.call, rerun, rerun.action)
                result = with_rerun(result, second, rerun, proposals)
            if result.error is not None or (proposal := proposals.take()) is None:
                return result
            with closing(proposal):
                keep = keep_action(action, proposal, self.judge.covers(ruling))
                kept = await self._judge_and_run(keep.call, KeepExecutor(proposal), keep)
                # A program that was lent a secret may have put it into the names of files it wrote.
                return with_kept(result, without_names(kept) if ruling.decided.lends else kept)

    async def admit(self, text: str, source: Source) -> str:
        """Return a text as the model may see it: for texts that are not output, such as a file or a note."""
        source = bounded(source, self.session)
        overflow = OverflowWriter(self._ports.store, self.session.id, source.origin)
        screened = await self._screen_for_model(Screened(text), source, overflow)
        await self._journal.note()
        return screened.text

    async def catch_up(self) -> None:
        """Write the records that are still unwritten, and load grants that other sessions made or revoked.

        Raises:
            RecordError: the records could not be written, or the grants not be read.
        """
        await self._journal.catch_up()

    async def note(self, *events: Event) -> None:
        """Apply events from outside of calls: they count at once, and are recorded before the next call."""
        await self._journal.note(*events)

    async def _decide(self, action: Action) -> RulingOrRefusal:
        """Decide about a call, with the person where needed; a ruling's events are not yet recorded."""
        await self._journal.catch_up()
        action = await self.judge.with_hook_answers(action)
        # No await from here to the fold in `_conclude`. Judging a call and counting it are one step: with a
        # switch in between, two calls that run in parallel would both see the last of the budget unused.
        judged = self.judge.rule(action)
        if judged.open_asks and judged.decision.denial is None:
            return await self._consult(action, judged.decision, judged.open_asks)
        decided = decided_event(self.session, action, judged.decision, judged.approver, **judged.conditions)
        return await self._conclude(action, judged.decision, decided)

    async def _conclude(
        self, action: Action, decision: Decision, decided: Decided, *grants: Granted
    ) -> RulingOrRefusal:
        """Let a decision count. A refusal is recorded here, a ruling by `_execute` before its call runs."""
        events: tuple[Event, ...] = decided, *attempt_events(decided, action, decision, self.session), *grants
        self._journal.fold(*events)
        if decision.denial is None:
            return Ruling(action, decision, decided, events)
        await self._journal.write(*events)
        return refused(action.call, decision.denial[1], decision.denial[0])

    async def _consult(self, action: Action, decision: Decision, open_asks: Asks) -> RulingOrRefusal:
        """Put the open questions to the person, then read and judge the call again.

        Files may have changed while the question was open; `recheck` denies what the person did not see.
        """
        async with self._questions.put(action, decision, open_asks) as consulted:
            asked, reread = consulted.question.asks, consulted.action
            if consulted.is_no:
                return unanswered(action.call, asked, consulted.reply is Answer.NOBODY, consulted.reason)
            judged = self.judge.rule(reread)
            decision = recheck(action, asked, reread, judged.decision, judged.open_asks)
            grants = self._questions.granted(consulted) if decision.denial is None else ()
            approver, waited = consulted.answered_by(judged.approver, self.session)
            conditions = consulted.conditions(judged)
            decided = decided_event(self.session, reread, decision, approver, waited, **conditions)
            return await self._conclude(reread, decision, decided, *grants)

    async def _execute(self, ruling: Ruling, proposals: Proposals) -> ToolResult:
        """Record the decision, run the call, screen its output, and record the outcome.

        If the decision cannot be recorded, the call does not run.
        """
        action = ruling.action
        # What is recorded if the first write is cancelled: such a call was never started.
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
            await self.judge.after_call(action, result, seconds)
        return result

    async def _attempt(self, ruling: Ruling, proposals: Proposals) -> ToolResult:
        """Run a call whose decision is recorded; return its screened output.

        Output that came before a failure is part of the result.
        """
        action, session, failure = ruling.action, self.session, None
        redirects = Redirects(action, self.judge)
        source = source_of(action, Output(""), session, self._ports.distiller)
        with OutputStream(action, source, self._ports.observer, self._ports.store, session.id) as stream:
            # The deadline is still missing: it begins when the executor is called.
            clear = partial(
                Cleared,
                action,
                runs=ruling.decided.runs,
                overlay=ruling.decided.overlay,
                emit=stream.emit,
                follower=redirects,
                propose=proposals.put,
                wish=proposals.wish,
            )
            running = redirects.run(proposals.executor, clear, ruling.decided)
            # An exception is a value here: the stream is closed first, and its output shown with the failure.
            outcome = await caught(running, lambda error: error)
            await stream.close()
            if isinstance(outcome, Exception):
                failure = failed(action.call, source.secrets, outcome)
                source = source_of(action, Output(""), session, is_offline=redirects.is_offline)
                self._journal.defer(*failure_read(source, failure, session))
                if not isinstance(outcome, ToolError) or not isinstance(outcome.output, Output):
                    return failure
                outcome = outcome.output
            result = self._result(action, outcome, stream, redirects, failure)
            return await caught(result, partial(withheld, action.call))

    async def _result(
        self,
        action: Action,
        output: Output,
        stream: OutputStream,
        redirects: Redirects,
        failure: ToolResult | None,
    ) -> ToolResult:
        """Make the result of an output; the URLs that it shows become known."""
        raw, source, overflow = await collect_output(
            action, output, stream, self.session, is_offline=redirects.is_offline
        )
        screened = await self._screen_for_model(raw, source, overflow)
        self._journal.defer(*redirects.urls_shown_in(output, screened.plain))
        return make_result(action, output, screened, overflow.id, failure)

    async def _screen_for_model(self, raw: Screened, source: Source, overflow: OverflowWriter) -> Screened:
        """Screen a text, store what is cut from it, and count what the model reads as read."""
        screened = await screen(raw, source, overflow)
        self._journal.defer(*read_by_model(source, screened.plain, self.session, screened.suspicion))
        return screened
