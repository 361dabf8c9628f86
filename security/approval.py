"""Ask the person about a call, and record the answer, however the question ends.

One question is open at a time. A call that waits behind it is judged again when its turn comes: an "always"
given meanwhile may answer it, and a call that is denied by then is not asked about. After a yes the pipeline
judges the call once more.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import field, replace
from functools import partial

import trio

from .call import Action, ToolCall
from .judge import Judge, Judgement, RunConditions
from .kinds import Kind, Runs
from .lazy import dataclass
from .permissions import Always, Asks, granted_by, problem_with, proposed_grants, wider_grants
from .ports import Answer, DetailedAnswer, Ports, Question, Reply
from .record import asked_event, attempt_events, declined_event, tell
from .session import THE_PERSON, Granted, Scope, Session
from .text import redact_text
from .verdict import Decision

__all__ = ["Approvals", "Consulted"]

_MOST_AHEAD = 8  # calls behind one that asks that are read early, to show their questions with it
_LONGEST_REASON = 1000  # characters of a person's reason for a no that are recorded


@dataclass(frozen=True, slots=True)
class Consulted:
    """A question that was put, its answer, and the call as it reads after the answer.

    `reply` is None if nothing was left to ask. `asked` is the time at which the question began to wait. `how`
    and `reason` are as in `DetailedAnswer`.
    """

    question: Question
    reply: Answer | Always | None
    action: Action
    asked: float
    how: str = ""
    reason: str = ""

    @property
    def is_no(self) -> bool:
        """Whether something was asked and not answered with a yes. Any value but a known yes is a no."""
        is_yes = self.reply in (Answer.YES, Answer.ALWAYS) or isinstance(self.reply, Always)
        is_yes = is_yes or (self.reply is Answer.REAL and self.question.or_real)
        return bool(self.question.asks) and not is_yes

    def answered_by(self, approver: str, session: Session) -> tuple[str, float]:
        """Return who answered (the person, and the `approver` in advance), and how many seconds it took."""
        who = "; ".join(filter(None, (self.person, approver))) if self.question.asks else approver
        return who, session.now - self.asked

    @property
    def person(self) -> str:
        """The person as the approver, with how they answered."""
        return "; ".join(filter(None, (THE_PERSON, self.how)))

    def runs(self, wanted: Runs) -> Runs:
        """Return what command lines run in: what the question announced, else `wanted`."""
        if self.reply is Answer.REAL:
            return Runs.REAL
        lines = self.action.of_kind(Kind.COMMAND)
        asked = [ask.runs for _, ask in self.question.asks if lines and {*ask.about}.issuperset(lines)]
        return max(asked, key=lambda runs: runs.strictness, default=wanted)

    def conditions(self, judged: Judgement) -> RunConditions:
        """Return the conditions that the command lines run under, given the answer."""
        return {"runs": self.runs(judged.runs), "covers": self.covers(judged.covers)}

    def covers(self, approver: str) -> str:
        """Return whose answer covers the changes of the command lines; a second run keeps the first one's."""
        again = self.action.again
        if again is None or not again.disk or self.reply is Answer.REAL:
            return approver
        return again.covers

    @property
    def always(self) -> Always | None:
        """What the answer grants beyond this call, or None."""
        if self.reply is Answer.ALWAYS:
            return Always(self.question.always or ())
        return self.reply if isinstance(self.reply, Always) else None


@dataclass(slots=True)
class Approvals:
    """The questions of one pipeline: one at a time, or together with those that wait behind it."""

    judge: Judge
    ports: Ports
    _turn: trio.Lock = field(default_factory=trio.Lock)
    _waiting: list[Action] = field(default_factory=list)
    _expected: tuple[ToolCall, ...] = ()
    _ahead: tuple[Action, ...] = ()
    _given: dict[str, tuple[Question, Reply]] = field(default_factory=dict)
    """Answers that were given together with another question's, by the id of their call."""

    def expect(self, calls: Sequence[ToolCall]) -> None:
        """Name the calls that follow those that run now; questions about them may be shown early."""
        self._expected = tuple(calls)

    @asynccontextmanager
    async def put(self, action: Action, decision: Decision, open_asks: Asks) -> AsyncIterator[Consulted]:
        """Ask about a call; the next question is put when the caller leaves the block.

        A question that ends without a yes, by an answer, an error or a cancellation, is recorded as declined.

        Raises:
            RecordError: the question could not be recorded, so nobody was asked.
        """
        # The call counts as pending before the first await, so that calls judged meanwhile see it.
        session, journal, refuser = self.judge.session, self.judge.journal, "cancelled"
        event = asked_event(session, action, open_asks)
        journal.fold(event)
        try:
            await journal.write(event)
            self._waiting.append(action)
            async with self._turn:
                self._waiting.remove(action)
                await journal.catch_up()
                question = self._question(action)
                reply = await self._reply(question) if question.asks else None
                if isinstance(reply, DetailedAnswer):
                    consulted = Consulted(question, reply.answer, action, event.at, reply.how, reply.reason)
                else:
                    consulted = Consulted(question, reply, action, event.at)
                if consulted.is_no:
                    refuser = "nobody" if consulted.reply is Answer.NOBODY else self._refuser(consulted)
                    open_asks = question.asks
                else:
                    reread = action if action.of is not None else await self._read_again(action)
                    consulted = replace(consulted, action=reread)
                    await journal.catch_up()
                    refuser = ""
                yield consulted
        finally:
            self._waiting[:] = [one for one in self._waiting if one is not action]
            self._given.pop(action.call.id, None)
            if refuser:
                declined = declined_event(session, action, decision, open_asks, refuser, journal.now())
                await journal.note(declined, *attempt_events(declined, action, decision, session))

    async def _reply(self, question: Question) -> Reply:
        """Return the answer to a question.

        If it was answered together with an earlier one, that answer counts only if the question is still
        the one that was shown.
        """
        given = self._given.pop(question.action.call.id, None)
        if given is not None and given[0] == question:
            return given[1]
        self._ahead = await self._read_ahead(question.action)
        reply = await self.ports.approver.ask(replace(question, beside=self._beside))
        if not isinstance(reply, DetailedAnswer):
            return reply
        alike = replace(reply, also=())
        coming = {one.call.id for one in (*self._waiting, *self._ahead)}
        # An answer to a call that was expected and did not come is kept no longer than this.
        self._given = {call: given for call, given in self._given.items() if call in coming}
        for one in reply.also:
            if one.action.call.id in coming and reply.answer in (Answer.YES, Answer.NO):
                self._given[one.action.call.id] = (one, alike)
        return alike

    def _beside(self) -> tuple[Question, ...]:
        """Return the questions that wait or will come, each as it would be put now."""
        return tuple(one for one in map(self._question, (*self._waiting, *self._ahead)) if one.asks)

    async def _read_ahead(self, asked: Action) -> tuple[Action, ...]:
        """Read the calls that follow the one that asks, as they are now.

        Each is read and judged again at its turn. One that hooks would be asked about, or that touches a
        file of a call before it, would read otherwise by then.
        """
        found: list[Action] = []
        if asked.of is not None or asked.call.through:
            return ()
        touched = {place.real for place in asked.places}
        for call in self._expected[:_MOST_AHEAD]:
            action = await self.judge.read(call)
            is_heard = self.judge.hooks is not None and self.judge.session.policy.hooks_on(call.tool)
            places = {place.real for place in action.places}
            if not is_heard and touched.isdisjoint(places):
                found.append(action)
            touched |= places
        return tuple(found)

    def _refuser(self, consulted: Consulted) -> str:
        """Return who refused the call, how, and for what reason."""
        reason = redact_text(consulted.reason, self.judge.session.secrets)[:_LONGEST_REASON]
        return "; ".join(filter(None, (consulted.person, reason)))

    async def _read_again(self, action: Action) -> Action:
        """Read the call again: files and links may have changed while the question was open.

        If it reads differently now, `recheck` denies it, since the yes was about something else. The reason
        for a repeated run and the answers of hooks are carried over; they do not come from the call.
        """
        reread = await self.judge.read(action.call)
        return replace(reread, wished=action.wished, again=action.again, hooked=action.hooked)

    def granted(self, consulted: Consulted) -> tuple[Granted, ...]:
        """Return an event for each grant of an answer; if it cannot grant anything, notify the person."""
        always, question, session = consulted.always, consulted.question, self.judge.session
        if always is None:
            return ()
        problem: str | None = '"always" is not available for this call'
        if question.always is not None:
            problem = problem_with(always, question.asks, question.action, session)
        if problem is not None:
            tell(partial(self.ports.observer.alert, f"allowed once; no grant was made: {problem}"))
            return ()
        until = None if always.seconds is None else session.now + always.seconds
        workspace = session.policy.workspace if always.scope is Scope.WORKSPACE else None
        return tuple(
            Granted(
                session.now,
                replace(grant, id=f"g_{secrets.token_hex(4)}", until=until),
                workspace,
                question.action.call.id,
            )
            for grant in granted_by(always, question.asks, question.action, session.policy)
        )

    def _question(self, action: Action) -> Question:
        """Return what is to be asked about a call now: nothing, if it is answered or denied by now."""
        judged, session = self.judge.rule(action), self.judge.session
        asks = judged.open_asks if judged.decision.denial is None else ()
        narrow = proposed_grants(asks, action, session)
        wide = wider_grants(asks, action, session) if narrow is not None else None
        return Question(action, asks, narrow, wide, session)
