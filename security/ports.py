"""The Protocols that the pipeline needs from the layers above; `runtime/composition.py` provides them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import Protocol, TypeAlias

from .call import Action, Cleared, ToolSpec
from .filters import Distillation
from .kinds import CommandFacts, CommandLine, HookAnswer, Json, Wanted
from .lazy import dataclass
from .outcome import Output
from .paths import FileState
from .permissions import Always, Patterns, granted_by, problem_with
from .policy import Policy
from .question import too_long
from .session import Event, Grant, GrantEntry, Session
from .trust import FileWords, Origin
from .verdict import Ask

__all__ = [
    "Answer",
    "Approver",
    "Audit",
    "Clock",
    "Distiller",
    "Executor",
    "Files",
    "Grants",
    "Hooks",
    "Observer",
    "OverflowStore",
    "Ports",
    "Question",
    "Reader",
    "ReaderFailed",
    "RecordError",
    "Spool",
    "Surveyor",
    "Told",
]


class RecordError(Exception):
    """Something could not be written to the store; the message says what and why."""


class Answer(Enum):
    """What came back for a question. `ALWAYS` grants the rules that were offered, for the session.

    `REAL` is a yes to running command lines plainly for real, where that was offered beside another way.

    `NOBODY`: there was no one to ask, which is not a yes.
    """

    YES = "yes"
    ALWAYS = "always"
    REAL = "real"
    NO = "no"
    NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class Told:
    """An answer with how it was given, in words of the interface, and why, in the person's own.

    `Always` is a yes that lasts with the rules, the scope and the expiry that the person chose. `also` are
    questions beside the one that was put, which were shown with it and have the same answer.
    """

    answer: Answer | Always
    how: str = ""
    words: str = ""
    also: tuple[Question, ...] = ()


Reply: TypeAlias = Answer | Always | Told
"""An answer, alone or with what belongs to it."""


@dataclass(frozen=True, slots=True)
class Question:
    """One call put to the person, once, with everything that was asked about it.

    `always` are the rules (tool and pattern) that "always" would grant, or None where that is not on
    offer; `wider` are rules one step wider, where that is safe. `session` is what the question is put in.
    `uncovered` says what of all that the call may change could not be undone. Where `cut` names anything, a
    person has to be shown both ends of it at least, and all of it before a yes; `always` is None then.
    `beside` returns the questions that wait for this one by now; they may be put together with it.
    """

    action: Action
    asks: tuple[tuple[str, Ask], ...]
    always: Patterns | None
    wider: Patterns | None = None
    session: Session | None = field(default=None, repr=False, compare=False)
    uncovered: str = ""
    beside: Callable[[], Sequence[Question]] = field(default=tuple, repr=False, compare=False)

    @property
    def cut(self) -> tuple[str, ...]:
        """The names of what is too long to be taken in at once: "runs", "path", "opens", or an argument."""
        return too_long(self.action)

    @property
    def or_real(self) -> bool:
        """Whether `Answer.REAL` is on offer."""
        return any(ask.or_real for _, ask in self.asks)

    def problem(self, always: Always) -> str | None:
        """Say why an "always" would grant nothing, this call still being asked about included, or None."""
        if self.always is None or self.session is None:
            return '"always" is not available for this call'
        return problem_with(always, self.asks, self.action, self.session)

    def grants(self, always: Always) -> tuple[Grant, ...]:
        """Return what an "always" would grant: each rule with the folder that its commands must start in."""
        if self.session is None:
            return tuple(Grant("", tool, match, always.scope) for tool, match in always.rules)
        return granted_by(always, self.asks, self.action, self.session.policy)


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

        `~name` is returned unchanged if there is no such user. What cannot be followed is left out.
        """
        ...

    async def look_up(self, wanted: Wanted, policy: Policy) -> CommandFacts:
        """Return what was found of what judging a command line asks for; what is left out is unknown."""
        ...

    async def states(self, paths: Sequence[str], policy: Policy) -> Mapping[str, FileState]:
        """Return the state of each absolute path without links; what cannot be looked at is left out."""
        ...


class Approver(Protocol):
    """Puts questions to the person."""

    async def ask(self, question: Question) -> Reply:
        """Return the person's answer, or `Answer.NOBODY` at once where nobody can be asked."""
        ...


class Audit(Protocol):
    """The append-only record."""

    async def append(self, session: str, *events: Event) -> None:
        """Return once the events are committed; their order is that of the calls, set before any await.

        A caller who is cancelled while waiting cannot know whether they are. Appending the same objects
        again makes sure, and counts them once.

        Raises:
            RecordError: they could not be committed; not one of them counts.
        """
        ...


class Files(Protocol):
    """Knows which files of a workspace hold words of others, or what is confidential (`tools/labels.py`)."""

    async def read_by(self, action: Action, session: Session) -> FileWords:
        """Return what the files bring along that a call may read.

        Raises:
            RecordError: what is known of them could not be read.
        """
        ...

    async def committed(self, action: Action, policy: Policy) -> tuple[str, ...]:
        """Return the files that a line of the person's committed, by relative paths, and endorse them.

        Raises:
            RecordError: it could not be written down.
        """
        ...


class ReaderFailed(Exception):
    """The second model gave no answer; the message says why, in words of ours."""


class Reader(Protocol):
    """A model that has no tools and no conversation."""

    async def read(self, rules: str, text: str) -> str:
        """Return what the model answers about a fenced text, under rules of ours.

        Raises:
            ReaderFailed: there is no answer.
        """
        ...


class Grants(Protocol):
    """What was always-allowed beyond a session, by any session of any process."""

    async def holding_in(self, workspace: str) -> Sequence[GrantEntry]:
        """Return what holds in a workspace now, and is on the disk.

        Raises:
            RecordError: it could not be read.
        """
        ...


class Spool(Protocol):
    """A text that is stored while it comes; nobody can read it before it is finished."""

    async def write(self, text: str) -> None:
        """Store a further piece. It counts as soon as this is called: a caller who is cancelled leaves it in.

        Raises:
            RecordError: it could not be stored; what came before is of no use now.
        """
        ...

    async def finish(self, origin: Origin) -> str:
        """Let the session read what came from somewhere, and return its id.

        Raises:
            RecordError: it could not be stored, or not all of it.
        """
        ...

    def abandon(self) -> None:
        """Leave what was written to be cleaned up; after `finish` this does nothing."""
        ...


class OverflowStore(Protocol):
    """Keeps what is too big to show."""

    def spool(self, session: str) -> Spool:
        """Begin a text for a session."""
        ...

    async def put(self, session: str, text: str, origin: Origin) -> str:
        """Store a text that came from somewhere for a session, and return its id.

        Raises:
            RecordError: it could not be stored.
        """
        ...


class Distiller(Protocol):
    """Knows what matters in the output of programs (`tools/distill/`)."""

    def begin(self, line: CommandLine | None) -> Distillation:
        """Begin with the output of a command line; None is one that nobody could read."""
        ...


class Hooks(Protocol):
    """The person's own commands before and after calls (`tools/hooks.py`); neither raises anything."""

    async def before(self, told: Mapping[str, Json]) -> tuple[HookAnswer, ...]:
        """Return what each hook on a call answers; one that gives no answer has failed."""
        ...

    async def after(self, told: Mapping[str, Json]) -> None:
        """Show hooks an outcome, which they cannot change; also where the call is being cancelled."""
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
    """Everything the pipeline was given; without `grants`, no other session's grants hold.

    Without a `distiller`, nothing is known of what programs print; without `hooks`, calls are denied that the
    policy wants hooks to be asked about; without `files`, nothing is known of whose words files hold.
    """

    executor: Executor
    surveyor: Surveyor
    approver: Approver
    audit: Audit
    store: OverflowStore
    clock: Clock
    observer: Observer
    grants: Grants | None = None
    distiller: Distiller | None = None
    hooks: Hooks | None = None
    files: Files | None = None
