"""How does the person come to be asked about a call, and what is on record of it, however that ends?

What a yes is worth by then is judged anew, by the pipeline.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from . import egress, record
from .book import Book
from .call import Action, ToolCall
from .ports import Answer, Approver, Question
from .verdict import Decision

__all__ = ["YES", "consult"]

Read: TypeAlias = Callable[[ToolCall], Awaitable[Action]]

YES = frozenset({Answer.YES, Answer.ALWAYS})
"""The answers upon which a call may run; whatever else comes back is none."""


async def consult(
    book: Book, approver: Approver, read: Read, question: Question, decision: Decision
) -> tuple[Answer, Action]:
    """Put a question; return the answer and, after a yes, the call as it reads by then.

    That it waits counts at once, before anything is awaited. An end without a yes, be it an error or a
    cancellation, is on record when this returns.

    Raises:
        RecordError: it could not be recorded, so nobody was asked.
    """
    action, who = question.action, "cancelled"
    event = record.asked(book.session, action, question.asks)
    book.fold(event)
    try:
        await book.write(event)
        answer = await approver.ask(question)
        if answer in YES:
            action, who = await read(action.call), ""
        else:
            who = "nobody" if answer is Answer.NOBODY else "the person"
    finally:
        if who:
            session = book.session
            said = record.declined(session, action, decision, question.asks, who)
            await book.note(said, *egress.attempts(said, action, session))
    return answer, action
