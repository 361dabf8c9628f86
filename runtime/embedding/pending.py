"""Questions that are answered from elsewhere, over HTTP for one: each has a token for one answer.

    questions = PendingQuestions(seconds=300)
    async with AsyncioRuntime.open(approver=questions) as runtime:
        ...                                            # meanwhile, wherever the person is:
        for question in questions.open: show(question.text)
        await questions.answer(token, digest, "yes", by="ann")

An answer counts once, while its question is open, and only with the SHA-256 of the text that was shown for
that token. Every other is refused and on record: one that was given already (replayed), one whose question
has ended or expired (late), one to something else than was shown (altered), and what is no answer at all.

Whether the sender may answer is for the caller to know: a token says which question, not who somebody is.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from leeward.security.kinds import Json
from leeward.security.lazy import dataclass
from leeward.security.outcome import LeewardError
from leeward.security.ports import Answer, DetailedAnswer, Question, Reply
from leeward.security.question import ACTS, arguments_of, flags_of, is_act
from leeward.security.text import visible

from .portal import PortalClosed

__all__ = ["AnswerRefused", "PendingQuestion", "PendingQuestions", "hand_to", "take_back"]

_ANSWERS = {"yes": Answer.YES, "no": Answer.NO}
_LONGEST_NAME = 80
_REMEMBERED = 10_000  # tokens of questions that have ended; an older one is unknown
_RECORDED = 20  # refused answers on record for one token, whose holder could fill the disk
_RECORDED_UNKNOWN = 1000  # the same for tokens nobody was given, of one `PendingQuestions`


class AnswerRefused(LeewardError):
    """An answer did not count; `why` is "replayed", "late", "altered", "unknown" or "malformed"."""

    code: str = "ANSWER_REFUSED"

    def __init__(self, why: str) -> None:
        super().__init__(f"the answer was refused: {why}")
        self.why = why


class RefusalRecord(Protocol):
    """Where refused answers go on record: a runtime."""

    async def note_refused_answer(
        self, why: str, *, session: str = "", call: str | None = None, digest: str = "", how: str = ""
    ) -> None:
        """Put on record that an answer did not count."""
        ...


@dataclass(frozen=True, slots=True)
class PendingQuestion:
    """What a person is to be shown, and what the answer has to carry.

    `text` is the whole question as one line of JSON in ASCII, `digest` its SHA-256 in hex. `expires` is in
    seconds since the epoch. `session` and `call` say what it is about.
    """

    token: str
    text: str
    digest: str
    session: str
    call: str
    expires: float

    def as_json(self) -> dict[str, Json]:
        """Return it as a JSON object; the token is in it, so that only who may answer gets to see it."""
        shown: dict[str, Json] = {"token": self.token, "text": self.text, "digest": self.digest}
        return shown | {"expires": self.expires}


class _Held:
    """A question of a token, while it is open and afterwards."""

    def __init__(self, pending: PendingQuestion, answered: asyncio.Future[DetailedAnswer]) -> None:
        self.pending = pending
        self.answered = answered
        self.is_over = False
        self.refused = 0


class PendingQuestions:
    """An approver for `leeward.aio` whose questions wait for an answer from elsewhere.

    Its methods are called in the loop of the runtime it was handed to, which is one at a time.
    """

    def __init__(
        self, seconds: float = 300.0, tell: Callable[[PendingQuestion], object] | None = None
    ) -> None:
        """Take what holds for each question.

        Args:
            seconds: how long it waits; then nobody was there to answer, which is a no.
            tell: is called with each, to send it to the person. What it raises denies the call.
        """
        self._seconds = seconds
        self._tell = tell
        self._held: OrderedDict[bytes, _Held] = OrderedDict()
        self._unknown = 0
        self._refusals: RefusalRecord | None = None
        self._is_taken = False

    @property
    def open(self) -> tuple[PendingQuestion, ...]:
        """The questions that wait, the oldest first."""
        return tuple(held.pending for held in self._held.values() if not held.is_over)

    async def ask(self, question: Question) -> Reply:
        """Wait for the answer to a question."""
        token, text = secrets.token_urlsafe(32), _text_of(question)
        session = question.session.id if question.session is not None else ""
        digest, expires = hashlib.sha256(text.encode()).hexdigest(), time.time() + self._seconds
        pending = PendingQuestion(token, text, digest, session, question.action.call.id, expires)
        held = self._held[_key(token)] = _Held(pending, asyncio.get_running_loop().create_future())
        try:
            if self._tell is not None:
                self._tell(pending)
            # Not `timeout`: it would cancel the wait for an answer that has counted in the same moment.
            await asyncio.wait([held.answered], timeout=self._seconds)
            return held.answered.result() if held.answered.done() else Answer.NOBODY
        finally:
            held.is_over = True
            self._forget()

    async def answer(self, token: str, digest: str, answer: str, *, by: str = "", words: str = "") -> None:
        """Take the answer to a question.

        Args:
            token: that of the question.
            digest: the SHA-256 in hex of the text that the person was shown.
            answer: "yes" or "no".
            by: who answers, as the caller knows them; it goes on record.
            words: why not, for the model.

        Raises:
            AnswerRefused: it does not count; that is on record.
            RecordError: it does not count, and that could not be recorded.
        """
        held = self._held.get(_key(token)) if isinstance(token, str) else None
        # Who answered others beforehand follows behind a semicolon in records.
        name = visible(str(by)).replace(";", ",")[:_LONGEST_NAME] or "somebody"
        why = _problem(held, token, digest, answer, words)
        if why or held is None:
            await self._refuse(why, held, name)
            raise AnswerRefused(why)
        how = f"{name}, from elsewhere, shown {held.pending.digest}"
        held.answered.set_result(DetailedAnswer(_ANSWERS[answer], how, words))

    async def _refuse(self, why: str, held: _Held | None, name: str) -> None:
        if self._refusals is None:
            raise RuntimeError("hand these questions to leeward.aio.Runtime.open as its approver first")
        if held is None:
            self._unknown += 1
            noted = self._unknown, _RECORDED_UNKNOWN
        else:
            held.refused += 1
            noted = held.refused, _RECORDED
        if noted[0] > noted[1]:
            return
        how = name if noted[0] < noted[1] else f"{name}; further ones like it are not recorded"
        of = held.pending if held is not None else None
        with suppress(PortalClosed):
            await self._refusals.note_refused_answer(
                why,
                session=of.session if of is not None else "",
                call=of.call if of is not None else None,
                digest=of.digest if of is not None else "",
                how=how,
            )

    def _forget(self) -> None:
        over = [key for key, held in self._held.items() if held.is_over]
        for key in over[: max(0, len(over) - _REMEMBERED)]:
            del self._held[key]


def hand_to(runtime: RefusalRecord, questions: PendingQuestions) -> None:
    """Have refused answers put on record by the runtime that the questions are of.

    Raises:
        RuntimeError: another runtime has these questions, and is still open.
    """
    if questions._is_taken and questions._refusals is not runtime:
        raise RuntimeError("these questions are another runtime's; each runtime needs its own")
    questions._refusals, questions._is_taken = runtime, True


def take_back(questions: PendingQuestions) -> None:
    """Let another runtime have the questions: the one that had them is closed."""
    questions._is_taken = False


def _key(token: str) -> bytes:
    """Return what a token is found by: how long that takes says nothing about the tokens there are."""
    return hashlib.sha256(token.encode(errors="replace")).digest()


def _problem(held: _Held | None, token: object, digest: object, answer: object, words: object) -> str:
    """Return why an answer does not count, "" where it does."""
    if not all(isinstance(one, str) for one in (token, digest, answer, words)):
        return "malformed"
    if held is None:
        return "unknown"
    if held.answered.done():
        return "replayed"
    if held.is_over:
        return "late"
    if not hmac.compare_digest(str(digest).encode(errors="replace"), held.pending.digest.encode()):
        return "altered"
    return "" if answer in _ANSWERS else "malformed"


def _text_of(question: Question) -> str:
    """Return all that a person is shown of a question, one text for one question."""
    action, acts = question.action, dict[str, list[str]]()
    for atom in filter(is_act, action.atoms):
        acts.setdefault(ACTS[atom.kind], []).append(atom.shown)
    return json.dumps(
        {
            "session": question.session.id if question.session is not None else "",
            "call": action.call.id,
            "tool": (action if action.of is None else action.of).call.tool,
            "changes_of": action.of.call.id if action.of is not None else None,
            "through": [frame.name for frame in action.call.through],
            "asks": [
                {"gate": gate, "question": ask.question, "facts": dict(ask.facts)}
                for gate, ask in question.asks
            ],
            **acts,
            "arguments": [list(pair) for pair in arguments_of(action)],
            "flags": flags_of(action),
            "undo_would_not_cover": question.uncovered,
        },
        sort_keys=True,
    )
