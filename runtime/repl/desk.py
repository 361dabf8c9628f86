"""The waiting between session and terminal: for a message, for an answer, and for the session to be ready.

Everything here runs in the terminal's thread. A message that is sent while something runs is queued. A
question replaces the message that is being edited.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol

from leeward.security.lazy import dataclass
from leeward.security.text import visible

from .terminal import Closed, Typed

__all__ = ["Asked", "Called", "Desk"]


class Called(Protocol):
    """Who does what a key is for."""

    def key_pressed(self, name: str) -> None:
        """Do it soon; this is called from the terminal's thread."""
        ...


@dataclass(slots=True)
class Asked:
    """Something that is asked: one key, or a line that begins as `text`; `again` is as for `Terminal.key`."""

    prompt: str
    future: Future[str]
    text: str | None = None
    again: bool = False
    ignores_until_pause: bool = False


class Desk:
    """Messages, questions and answers of one chat.

    `is_busy` tells that something runs, `hint` is shown until the next message is sent. `changed` is called
    when anything has to be drawn anew.
    """

    def __init__(self, write: Callable[[str], None], changed: Callable[[], None]) -> None:
        self._write = write
        self._changed = changed
        self._message: Future[Typed] | None = None
        self._failure: Exception | None = None
        self.question: Asked | None = None
        self.queued: deque[Typed] = deque()
        self.called: Called | None = None
        self.is_busy: bool = True
        self.hint: str = ""

    @property
    def lines(self) -> int:
        """How many lines the queued messages, the hint and the status take; any thread may ask."""
        return len(self.queued) + bool(self.hint) + 1

    def want(self, future: Future[Typed]) -> None:
        """The session waits for a message."""
        if self._failure is not None:
            future.set_exception(self._failure)
        elif self.queued:
            self._hand_over(self.queued.popleft(), future)
        else:
            self._message, self.is_busy = future, False
            self._changed()

    def _hand_over(self, typed: Typed, future: Future[Typed]) -> None:
        first, *more = typed.text.split("\n")
        lines = (f"› {first}", *(f"… {line}" for line in more))
        self._write("".join(("\n", *(f"{visible(line)}\n" for line in lines))))
        self.is_busy = True
        if not future.cancelled():
            future.set_result(typed)

    def send(self, typed: Typed) -> None:
        """Hand a message over, or queue it."""
        self.hint = ""
        future, self._message = self._message, None
        if future is None:
            self.queued.append(typed)
        else:
            self._hand_over(typed, future)

    def take_back(self) -> Typed | None:
        """Return the latest message that is queued, which is no longer."""
        return self.queued.pop() if self.queued else None

    def leave(self) -> None:
        """End the chat, where it waits for a message."""
        future, self._message = self._message, None
        if future is not None:
            future.set_exception(Closed())

    def call(self, name: str) -> None:
        """Have the session do what a key is for: "stop", "cycle" or "show"."""
        if self.called is not None:
            self.called.key_pressed(name)

    def ask(self, asked: Asked) -> bool:
        """Put a question; return whether anybody is there to answer it."""
        if self._failure is not None:
            asked.future.set_exception(self._failure)
            return False
        self.question = asked
        return True

    def settle(self, answer: str | Exception) -> bool:
        """Answer what is asked; return False where it has its answer already."""
        if self.question is None or self.question.future.done():
            return False
        if isinstance(answer, Exception):
            self.question.future.set_exception(answer)
        else:
            self.question.future.set_result(answer)
        return True

    def fail(self, error: Exception) -> None:
        """Tell all who wait that nothing comes any more."""
        self._failure = error
        for future in (self.question.future if self.question is not None else None, self._message):
            if future is not None and not future.done():
                future.set_exception(error)
