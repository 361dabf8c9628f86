"""Put the questions about one call to the person, and record the answer, however the question ends.

One question is open at a time. Every call that waits behind it is judged again before it is put: an "always"
answers it too, and nobody is asked about what is refused by then. What a yes is worth when it comes is
judged anew, by the pipeline.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import field, replace
from functools import partial

import trio

from .call import Action
from .judge import Judge, Judgement, Ways
from .kinds import Kind, Runs
from .lazy import dataclass
from .permissions import Always, Asks, granted_by, problem_with, proposed_grants, wider_grants
from .ports import Answer, Ports, Question, Reply, Told
from .record import asked_event, attempt_events, declined_event, tell
from .session import THE_PERSON, Granted, Scope, Session
from .text import redact_text
from .verdict import Decision

__all__ = ["Approvals", "Consulted"]

_LONGEST_WHY = 1000  # characters of why a person said no that are kept on record


@dataclass(frozen=True, slots=True)
class Consulted:
    """What was asked in the end, what came back, and the call as it reads by then.

    `reply` is None where there was nothing left to ask; `asked` is when it came to wait. `how` it was
    answered the interface says, and the person in `words` why.
    """

    question: Question
    reply: Answer | Always | None
    action: Action
    asked: float
    how: str = ""
    words: str = ""

    @property
    def is_no(self) -> bool:
        """Whether the call may not run for want of a yes; whatever is no answer is none."""
        is_yes = self.reply in (Answer.YES, Answer.ALWAYS) or isinstance(self.reply, Always)
        is_yes = is_yes or (self.reply is Answer.REAL and self.question.or_real)
        return bool(self.question.asks) and not is_yes

    def answered_by(self, approver: str, session: Session) -> tuple[str, float]:
        """Return who answered, `approver` being who did so beforehand, and how long that took in seconds."""
        who = "; ".join(filter(None, (self.person, approver))) if self.question.asks else approver
        return who, session.now - self.asked

    @property
    def person(self) -> str:
        """The person as who answered, and how."""
        return "; ".join(filter(None, (THE_PERSON, self.how)))

    def runs(self, wanted: Runs) -> Runs:
        """Return what command lines run in: as the question about them announced, where there was one."""
        if self.reply is Answer.REAL:
            return Runs.REAL
        lines = self.action.of_kind(Kind.COMMAND)
        asked = [ask.runs for _, ask in self.question.asks if lines and {*ask.about}.issuperset(lines)]
        return max(asked, key=lambda runs: runs.strictness, default=wanted)

    def ways(self, found: Judgement) -> Ways:
        """Return what command lines run in by the answer, and who covers what they change."""
        return {"runs": self.runs(found.runs), "covers": self.covers(found.covers)}

    def covers(self, found: str) -> str:
        """Return whose answer is one to what they change; of lines offered once more, who covered them."""
        again = self.action.again
        if again is None or not again.disk or self.reply is Answer.REAL:
            return found
        return again.covers

    @property
    def always(self) -> Always | None:
        """What was granted for longer than this call, None where nothing was."""
        if self.reply is Answer.ALWAYS:
            return Always(self.question.always or ())
        return self.reply if isinstance(self.reply, Always) else None


@dataclass(slots=True)
class Approvals:
    """The questions of one pipeline, put to the person one after another, or with those that wait."""

    judge: Judge
    ports: Ports
    _turn: trio.Lock = field(default_factory=trio.Lock)
    _waiting: list[Action] = field(default_factory=list)
    _given: dict[str, tuple[Question, Reply]] = field(default_factory=dict)
    """What was answered together with another question, by the id of the call."""

    @asynccontextmanager
    async def put(self, action: Action, decision: Decision, left: Asks) -> AsyncIterator[Consulted]:
        """Ask about a call whose questions are `left`; the next question waits until the block is left.

        That it waits counts at once, before anything is awaited. An end without a yes, be it an error or a
        cancellation, is on record by then.

        Raises:
            RecordError: it could not be recorded, so nobody was asked.
        """
        asking, journal, who = self.judge.session, self.judge.journal, "cancelled"
        event = asked_event(asking, action, left)
        journal.fold(event)
        try:
            await journal.write(event)
            self._waiting.append(action)
            async with self._turn:
                self._waiting.remove(action)
                await journal.catch_up()
                question = self._question(action)
                reply = await self._reply(question) if question.asks else None
                answered = reply if isinstance(reply, Told) else None
                answer = reply if not isinstance(reply, Told) else reply.answer
                consulted = Consulted(question, answer, action, event.at)
                if answered is not None:
                    consulted = replace(consulted, how=answered.how, words=answered.words)
                if consulted.is_no:
                    who = "nobody" if answer is Answer.NOBODY else self._refuser(consulted)
                    left = question.asks
                else:
                    again = action if action.of is not None else await self._read_again(action)
                    consulted = replace(consulted, action=again)
                    await journal.catch_up()
                    who = ""
                yield consulted
        finally:
            self._waiting[:] = [one for one in self._waiting if one is not action]
            self._given.pop(action.call.id, None)
            if who:
                declined = declined_event(asking, action, decision, left, who, journal.now())
                await journal.note(declined, *attempt_events(declined, action, decision, asking))

    async def _reply(self, question: Question) -> Reply:
        """Return the answer to a question: one given with another holds for the question as it was shown."""
        given = self._given.pop(question.action.call.id, None)
        if given is not None and given[0] == question:
            return given[1]
        reply = await self.ports.approver.ask(replace(question, beside=self._beside))
        if not isinstance(reply, Told):
            return reply
        alike = replace(reply, also=())
        waiting = {one.call.id for one in self._waiting}
        for one in reply.also:
            if one.action.call.id in waiting and not isinstance(reply.answer, Always):
                self._given[one.action.call.id] = (one, alike)
        return alike

    def _beside(self) -> tuple[Question, ...]:
        """Return the questions that wait, as they would be put now."""
        return tuple(one for one in map(self._question, self._waiting) if one.asks)

    def _refuser(self, consulted: Consulted) -> str:
        """Return who said no, how, and why."""
        words = redact_text(consulted.words, self.judge.session.secrets)[:_LONGEST_WHY]
        return "; ".join(filter(None, (consulted.person, words)))

    async def _read_again(self, action: Action) -> Action:
        """Return the call as it reads now; why it is to run once more, and what hooks answered, is as it was.

        If it reads otherwise, the yes was to something else, and so were their answers (`recheck`).
        """
        read = await self.judge.read(action.call)
        return replace(read, wished=action.wished, again=action.again, hooked=action.hooked)

    def granted(self, consulted: Consulted) -> tuple[Granted, ...]:
        """Return the events of what an answer grants; the person is notified where it can grant nothing."""
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
        """Return what is left to ask now that it is this call's turn; nothing, if it is refused by now."""
        found, session = self.judge.rule(action), self.judge.session
        asks = found.left if found.decision.denial is None else ()
        narrow = proposed_grants(asks, action, session)
        wide = wider_grants(asks, action, session) if narrow is not None else None
        return Question(action, asks, narrow, wide, session)
