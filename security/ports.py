"""What the pipeline needs from the layers above, as Protocols; `runtime/composition.py` hands them in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import Protocol, TypeAlias

from .call import Action, ToolExecutor
from .filters import Distillation
from .kinds import CommandFacts, CommandLine, HookAnswer, Json, Wanted
from .lazy import dataclass
from .outcome import LeewardError
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
    "DetailedAnswer",
    "Distiller",
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
]


class RecordError(LeewardError):
    """A record could not be written to the store, or read from it; the message says which and why."""

    code: str = "STORAGE_ERROR"


class Answer(Enum):
    """The answer to a question.

    `YES` allows this call once. `ALWAYS` allows it and grants the offered rules for the session. `REAL`
    allows it with its command lines run for real, where the question offers that beside a trial run. `NO`
    denies it, and so does `NOBODY`: there was nobody to ask.
    """

    YES = "yes"
    ALWAYS = "always"
    REAL = "real"
    NO = "no"
    NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class DetailedAnswer:
    """An answer with its details.

    An `answer` of type `Always` carries the rules, the scope and the expiry that the person chose. `how`
    says in words of the interface how the answer was given, and `reason` in the person's words why. `also`
    are further questions that were shown together with this one, and have the same answer.
    """

    answer: Answer | Always
    how: str = ""
    reason: str = ""
    also: tuple[Question, ...] = ()


Reply: TypeAlias = Answer | Always | DetailedAnswer
"""What an Approver returns: an answer, alone or with details."""


@dataclass(frozen=True, slots=True)
class Question:
    """Everything that a person is asked about one call, together.

    `asks` holds each gate that asks, with its question. `always` are the rules (tool and pattern) that
    "always" would grant, or None if it is not on offer; `wider` are rules one step wider, where these are
    safe. `session` is the session the call is judged in. `uncovered` names changes of this call that could
    not be undone. If `cut` is not empty, show both ends of each value it names, and all of it before you
    accept a yes; `always` is None then. `beside` returns the questions that wait behind this one, or
    will come in the same reply; they may be shown together with it.
    """

    action: Action
    asks: tuple[tuple[str, Ask], ...]
    always: Patterns | None
    wider: Patterns | None = None
    session: Session | None = field(default=None, repr=False, compare=False)
    uncovered: str = field(default="", compare=False)
    beside: Callable[[], Sequence[Question]] = field(default=tuple, repr=False, compare=False)

    @property
    def cut(self) -> tuple[str, ...]:
        """The names of values too long to review at a glance: "runs", "path", "opens", or an argument."""
        return too_long(self.action)

    @property
    def or_real(self) -> bool:
        """Whether `Answer.REAL` is a possible answer."""
        return any(ask.or_real for _, ask in self.asks)

    def problem(self, always: Always) -> str | None:
        """Return why an "always" with these rules cannot be granted, or None if it can."""
        if self.always is None or self.session is None:
            return '"always" is not available for this call'
        return problem_with(always, self.asks, self.action, self.session)

    def grants(self, always: Always) -> tuple[Grant, ...]:
        """Return the grants that an "always" would make; a rule about commands is bound to its folder."""
        if self.session is None:
            return tuple(Grant("", tool, match, always.scope) for tool, match in always.rules)
        return granted_by(always, self.asks, self.action, self.session.policy)


class Surveyor(Protocol):
    """Looks up the facts about this machine that the gates need, before they judge a call."""

    async def resolve(self, paths: Sequence[str]) -> Mapping[str, str]:
        """Return each absolute path with its symlinks resolved; parts that do not exist are kept.

        `~name` is returned unchanged if there is no such user. Paths that cannot be resolved are left out.
        """
        ...

    async def look_up(self, wanted: Wanted, policy: Policy) -> CommandFacts:
        """Return the facts that judging a command line wants; a fact that is left out is unknown."""
        ...

    async def states(self, paths: Sequence[str], policy: Policy) -> Mapping[str, FileState]:
        """Return the state of each path, absolute and without symlinks; unreadable ones are left out."""
        ...


class Approver(Protocol):
    """Asks the person."""

    async def ask(self, question: Question) -> Reply:
        """Return the person's answer, or `Answer.NOBODY` without waiting if nobody can be asked."""
        ...


class Audit(Protocol):
    """The append-only record."""

    async def append(self, session: str, *events: Event) -> None:
        """Return when the events are committed. Their order is that of the calls of this method.

        A caller who is cancelled while waiting cannot know whether the events were committed. It may append
        the same objects again: each is stored once.

        Raises:
            RecordError: the events could not be committed, not even some of them.
        """
        ...


class Files(Protocol):
    """Knows which files of a workspace hold text of others or confidential text (`tools/labels.py`)."""

    async def read_by(self, action: Action, session: Session) -> FileWords:
        """Return the labels of the files that a call may read.

        Raises:
            RecordError: the labels could not be read.
        """
        ...

    async def committed(self, action: Action, policy: Policy) -> tuple[str, ...]:
        """Endorse the files that a command typed by the person committed; return their relative paths.

        Raises:
            RecordError: the endorsement could not be recorded.
        """
        ...


class ReaderFailed(Exception):
    """The second model gave no answer; the message says why, and quotes nothing of the model."""


class Reader(Protocol):
    """The second model, which has no tools and no conversation."""

    async def read(self, rules: str, text: str) -> str:
        """Return the model's answer about a fenced text, under our rules.

        Raises:
            ReaderFailed: there is no answer.
        """
        ...


class Grants(Protocol):
    """The grants that outlive a session, made by any session of any process."""

    async def holding_in(self, workspace: str) -> Sequence[GrantEntry]:
        """Return the grants on disk that hold in a workspace now.

        Raises:
            RecordError: they could not be read.
        """
        ...


class Spool(Protocol):
    """A text that is stored while it arrives; it can be read once it is finished."""

    async def write(self, text: str) -> None:
        """Store the next piece. The piece stays part of the text if the caller is cancelled here.

        Raises:
            RecordError: it could not be stored, which makes the whole text unusable.
        """
        ...

    async def finish(self, origin: Origin) -> str:
        """Label the text with its origin, let the session read it, and return its id.

        Raises:
            RecordError: the text could not be stored, or only a part of it.
        """
        ...

    def abandon(self) -> None:
        """Give the text up, for the store to clean up; after `finish` this does nothing."""
        ...


class OverflowStore(Protocol):
    """Keeps texts that are too long to show a model."""

    def spool(self, session: str) -> Spool:
        """Begin a text for a session."""
        ...

    async def put(self, session: str, text: str, origin: Origin) -> str:
        """Store a text and its origin for a session, and return its id.

        Raises:
            RecordError: it could not be stored.
        """
        ...


class Distiller(Protocol):
    """Knows which lines matter in the output of known programs (`tools/distill/`)."""

    def begin(self, line: CommandLine | None) -> Distillation:
        """Begin with the output of a command line, or of one that could not be parsed (None)."""
        ...


class Hooks(Protocol):
    """The person's own commands before and after calls (`tools/hooks.py`). No method raises."""

    async def before(self, question: Mapping[str, Json]) -> tuple[HookAnswer, ...]:
        """Return the answer of each hook to a call; a hook that gives no answer counts as failed."""
        ...

    async def after(self, report: Mapping[str, Json]) -> None:
        """Show the hooks the outcome of a call, which they cannot change. Called for cancelled calls, too."""
        ...


class Clock(Protocol):
    """The time of day."""

    def now(self) -> float:
        """Return seconds since the epoch."""
        ...


class Observer(Protocol):
    """Shows a person what happens. An observer that raises does not stop a call."""

    def live(self, call: str, chunk: str) -> None:
        """Show a piece of a running call's output, stripped and redacted."""
        ...

    def alert(self, message: str) -> None:
        """Show a message that the person must see; it quotes nothing of a model or a page."""
        ...


@dataclass(frozen=True, slots=True)
class Ports:
    """All ports of one pipeline.

    The `executor` holds all tools (`tools/composite.py`).
    Without `grants` the grants of other sessions do not hold. Without a `distiller` no program's output is
    known. Without `hooks` a call is denied if the policy names hooks for it. Without `files` no file has a
    label.
    """

    executor: ToolExecutor
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
