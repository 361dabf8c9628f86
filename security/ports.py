"""What the pipeline needs from the layers above it, as Protocols; `runtime/app.py` hands them in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from .call import Action, Cleared, Output, ToolSpec
from .events import Event
from .label import Origin
from .verdict import Ask

__all__ = [
    "Answer",
    "Approver",
    "Audit",
    "Clock",
    "Executor",
    "Observer",
    "OverflowStore",
    "Ports",
    "Question",
    "RecordError",
    "Surveyor",
]


class RecordError(Exception):
    """Something could not be written to the store; the message says what and why."""


class Answer(Enum):
    """What came back for a question. `NOBODY`: there was no one to ask, which is not a yes."""

    YES = "yes"
    ALWAYS = "always"
    NO = "no"
    NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class Question:
    """One call put to the person, once, with everything that was asked about it.

    `always` is the rule (tool and match) that "always" would grant for the session, or None where
    that is not on offer.
    """

    action: Action
    asks: tuple[tuple[str, Ask], ...]
    always: tuple[tuple[str, str | None], ...] | None


class Executor(Protocol):
    """Everything that has tools, as one (`tools/composite.py`)."""

    def specs(self) -> Sequence[ToolSpec]:
        """Return all tools."""
        ...

    async def execute(self, cleared: Cleared) -> Output:
        """Run a cleared call; a failure is a `ToolError`."""
        ...


class Surveyor(Protocol):
    """Looks up before judging what judging needs to know of the machine."""

    async def resolve(self, paths: Sequence[str]) -> Mapping[str, str]:
        """Return for each absolute path the path with all links resolved (missing parts kept as they are).

        `~name` stands for itself where there is no user of that name. What cannot be followed is left out.
        """
        ...


class Approver(Protocol):
    """Puts questions to the person."""

    async def ask(self, question: Question) -> Answer:
        """Return the person's answer, or `Answer.NOBODY` at once where nobody can be asked."""
        ...


class Audit(Protocol):
    """The append-only record."""

    async def append(self, session: str, *events: Event) -> None:
        """Return once the events are committed; their order is that of the calls, set before any await.

        A caller who is cancelled while waiting cannot know whether they are. Appending the same objects
        again makes sure, and counts them once.

        Raises:
            RecordError: they could not be committed; none of them counts.
        """
        ...


class OverflowStore(Protocol):
    """Keeps what is too big to show."""

    async def put(self, session: str, text: str, origin: Origin) -> str:
        """Store a text that came from somewhere for a session, and return its id.

        Raises:
            RecordError: it could not be stored.
        """
        ...


class Clock(Protocol):
    """The time of day."""

    def now(self) -> float:
        """Return seconds since the epoch."""
        ...


class Observer(Protocol):
    """Hears what happens; it may fail without stopping a call."""

    def live(self, call: str, chunk: str) -> None:
        """A running call put out a piece of text (stripped and redacted)."""
        ...

    def alert(self, message: str) -> None:
        """Something the person must see happened; the message is in our words."""
        ...


@dataclass(frozen=True, slots=True)
class Ports:
    """Everything the pipeline was given."""

    executor: Executor
    surveyor: Surveyor
    approver: Approver
    audit: Audit
    store: OverflowStore
    clock: Clock
    observer: Observer
