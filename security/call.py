"""The nouns, in the order in which a call becomes them.

    ToolCall ─► Action ─► Cleared ─► Output ─► ToolResult

A `ToolCall` is what somebody asked for, as text. `action.py` reads it once into an `Action`; the gates judge
nothing else. `pipeline.py` alone turns an allowed Action into a `Cleared`, the only thing an executor
accepts. What the executor returns is an `Output`; what has passed the filters, and only that, is a
`ToolResult`. An `Exchange` reports one attempt of a running call to reach a URL.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Any, Protocol

from .command import CommandLine, Once
from .kinds import Effect, Json, Kind, Runs, Unreadable
from .outcome import Category, Output, PolicyBlocked
from .paths import Preview, ResolvedPath
from .trust import TrustLevel
from .url import Destination, Url

__all__ = [
    "BUILT_IN",
    "Action",
    "Asker",
    "Atom",
    "Checked",
    "Cleared",
    "Exchange",
    "Follower",
    "Outcome",
    "Proposal",
    "SchemaProblem",
    "Status",
    "ToolCall",
    "ToolExecutor",
    "ToolResult",
    "ToolSpec",
    "pointer_step",
]


@dataclass(frozen=True, slots=True)
class Exchange:
    """What became of one attempt to open a URL: the part of its record that only the client knows.

    `address` is the one that was connected to, "" where none was; `sent` and `received` are bytes of
    the request and of the response as they were on the wire; `problem` says in our words why there is
    no `status`, or why the body was not read to its end.
    """

    url: Url
    method: str
    address: str = ""
    status: int | None = None
    sent: int = 0
    received: int = 0
    seconds: float = 0.0
    problem: str = ""


class Follower(Protocol):
    """What judges where a cleared call goes on to, and records where it went (`redirects.py`)."""

    async def follow(self, reference: str, pointer: str | None = None) -> Url:
        """Return what a reference leads to from the URL at a pointer, once it is judged and on record."""
        ...

    def report(self, exchange: Exchange) -> None:
        """Take down what became of an attempt; it is on record before the call's result goes back."""
        ...


class Proposal(Protocol):
    """What a trial run would change of the workspace, held apart from it until it is kept or discarded."""

    @property
    def paths(self) -> Sequence[str]:
        """The paths that would be others, absolute and without links; a folder may stand for all in it."""
        ...

    @property
    def repositories(self) -> Sequence[str]:
        """The repositories of which git's own files would be others in ways that git can tell."""
        ...

    @property
    def digest(self) -> str:
        """The SHA-256 (hex) over all that would be others: paths, kinds, modes and contents."""
        ...

    @property
    def shown(self) -> str:
        """What would change, for a person's eyes: each path with how, and what becomes of its lines."""
        ...

    @property
    def is_cut(self) -> bool:
        """Whether there is more than `paths` and `shown` tell."""
        ...

    async def keep(self, cleared: Cleared) -> Output:
        """Change the workspace so, all of it or nothing; a failure is a `ToolError`."""
        ...

    def close(self) -> None:
        """Let go of it; what was not kept is discarded."""
        ...


BUILT_IN = "built in"
"""The source of the product's own tools; registration gives every other tool another one."""


class Asker(Enum):
    """Who asked: set by the interface, never read from a text."""

    PERSON = "person"
    MODEL = "model"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One request for a tool, from the reply of a model to the pipeline.

    `arguments` is the JSON text as it came, however broken. In a conversation `id` is the one the model
    knows it by; each run has one of its own, and `model_id` holds the other ("" where no model asked).
    `once` keeps what the text was parsed to, for a call is shown, judged and recorded on its way.
    """

    id: str
    tool: str
    arguments: str
    asker: Asker = Asker.MODEL
    model_id: str = ""
    once: Once = field(default_factory=Once, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class SchemaProblem:
    """One reason why a call does not fit its tool. `pointer` is a JSON pointer, "" for the whole."""

    pointer: str
    message: str
    category: Category = Category.INVALID_PARAMETERS


@dataclass(frozen=True, slots=True)
class Checked:
    """What a validator says: the arguments with their defaults, or every problem it found.

    `typed` is what the tool's own function takes them as: what `arguments` was made from, and nobody else's.
    """

    arguments: Mapping[str, Json]
    problems: tuple[SchemaProblem, ...] = ()
    typed: object = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What a model is told about a tool, and what the gates know of it.

    `schema` is the JSON Schema of the arguments object; a string in it names its `Kind` under
    `KIND_KEY`. `check` validates arguments against it and hides which library does. `source` says
    where the tool came in ("built in", "plug-in NAME", …), `timeout` is in seconds, `idempotent`
    tells that a failed call may be repeated. `preview` says what a call would change.
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    check: Callable[[Mapping[str, Any]], Checked]
    effects: Effect = Effect.ALL
    level: TrustLevel = TrustLevel.TRUSTED
    source: str = BUILT_IN
    timeout: float = 30.0
    idempotent: bool = False
    preview: Callable[[Action], Preview | None] | None = None


@dataclass(frozen=True, slots=True)
class Atom:
    """One string of a call and what it means to one reader.

    A leaf that nobody declared yields several atoms: itself, and one for everything it could be.
    `declared` is False on those, so that identifier patterns are not held against prose. What is
    `only_read` is not changed, whatever the call does to its other arguments.
    """

    kind: Kind
    pointer: str
    raw: str
    canonical: Url | ResolvedPath | CommandLine | Destination | str | Unreadable
    declared: bool = True
    only_read: bool = False

    @property
    def shown(self) -> str:
        """The canonical form as text: what a person is asked about and what a rule is matched with."""
        return self.raw if isinstance(self.canonical, Unreadable) else str(self.canonical)


@dataclass(frozen=True, slots=True)
class Action:
    """A call, read once and frozen; nothing else is judged, shown, hashed, recorded or run.

    `digest` is the SHA-256 (hex) of the tool's name and the canonical bytes of `arguments`. `typed` is what
    the tool's validator made of them, for the tool alone. `lasts` tells that what it starts goes on when its
    result is there. `of` is the Action whose trial run would change what this one is about; None for every
    call of its own. `is_cut` tells that it is about more than it says.
    """

    call: ToolCall
    spec: ToolSpec | None
    arguments: Mapping[str, Json]
    digest: str
    problems: tuple[SchemaProblem, ...]
    atoms: tuple[Atom, ...]
    effects: Effect
    nearest: str | None = None
    typed: object = field(default=None, compare=False, repr=False)
    lasts: bool = False
    of: Action | None = None
    is_cut: bool = False

    @property
    def is_command(self) -> bool:
        """Whether all that the call says are command lines: what it does is then what they do."""
        return bool(self.atoms) and all(atom.kind is Kind.COMMAND and atom.declared for atom in self.atoms)

    @property
    def places(self) -> tuple[ResolvedPath, ...]:
        """The judged paths, in the order of the arguments."""
        return tuple(atom.canonical for atom in self.atoms if isinstance(atom.canonical, ResolvedPath))

    @property
    def may_be_tried(self) -> bool:
        """Whether it is a command line that one of our own tools runs and waits for.

        Only these start their programs where it can be said what they run in.
        """
        is_ours = self.spec is not None and self.spec.source == BUILT_IN
        return is_ours and self.is_command and not self.lasts

    def of_kind(self, *kinds: Kind) -> tuple[Atom, ...]:
        """Return the atoms of these kinds, in the order of the arguments."""
        return tuple(atom for atom in self.atoms if atom.kind in kinds)

    def preview(self) -> Preview | None:
        """Return what the call would change, where its tool can tell."""
        if self.spec is None or self.spec.preview is None or self.problems:
            return None
        return self.spec.preview(self)


class Cleared:
    """Leave to run one action, once, under the conditions it was judged by.

    Made by `pipeline.py` only. `deadline` is a point on trio's clock, in seconds. `runs` is what command
    lines run in: whoever cannot run them so fails.
    """

    __slots__ = ("_emit", "_follower", "_propose", "_taken", "action", "deadline", "runs")

    def __init__(
        self,
        action: Action,
        deadline: float,
        emit: Callable[[str], Awaitable[None]],
        follower: Follower | None = None,
        runs: Runs = Runs.REAL,
        propose: Callable[[Proposal], None] | None = None,
    ) -> None:
        self.action = action
        self.deadline = deadline
        self.runs = runs
        self._emit = emit
        self._follower = follower
        self._propose = propose
        self._taken = False

    def take(self) -> Mapping[str, Json]:
        """Return the arguments and use the leave up; a command line stands there as `command` has it.

        Raises:
            PolicyBlocked: the leave was used before; a second run needs a second judgement.
        """
        if self._taken:
            raise PolicyBlocked("this call was cleared for one run and has run already")
        self._taken = True
        arguments: Mapping[str, Json] = _with_lines(self.action.arguments, self._lines())
        return arguments

    def command(self, pointer: str) -> str:
        """Return the command line at a JSON pointer as it is to be run: the print of what was judged.

        So a mistake of the parser changes what a program is told, and starts none that was not judged. A
        line that cannot be printed was shown as it stands, and what a person typed is what they meant.

        Raises:
            PolicyBlocked: no command line was judged there, so none may be run.
        """
        try:
            return self._lines()[pointer]
        except KeyError:
            raise PolicyBlocked("no command line was judged for this argument") from None

    def _lines(self) -> Mapping[str, str]:
        commands = (atom for atom in self.action.of_kind(Kind.COMMAND) if atom.declared)
        return {atom.pointer: _to_run(atom, self.action.call.asker) for atom in commands}

    def place(self, pointer: str) -> ResolvedPath:
        """Return the judged path at a JSON pointer.

        Raises:
            PolicyBlocked: no path was judged there, so none may be opened.
        """
        for atom in self.action.atoms:
            if (
                atom.kind is Kind.PATH
                and atom.pointer == pointer
                and isinstance(atom.canonical, ResolvedPath)
            ):
                return atom.canonical
        raise PolicyBlocked("no path was judged for this argument")

    def url(self, pointer: str) -> Url:
        """Return the judged URL at a JSON pointer.

        Raises:
            PolicyBlocked: no URL was judged there, so none may be opened.
        """
        for atom in self.action.atoms:
            if atom.kind is Kind.URL and atom.pointer == pointer and isinstance(atom.canonical, Url):
                return atom.canonical
        raise PolicyBlocked("no URL was judged for this argument")

    async def follow(self, reference: str | Url, pointer: str | None = None) -> Url:
        """Return what a reference, such as a redirect's, leads to once that is judged and on record.

        It is read against what was opened last in place of the URL at `pointer`, which may be left out
        where the call has one. To be asked for before each hop, and before a second try of the same URL.

        Raises:
            PolicyBlocked: it may not be opened, or there were too many hops; nothing may be sent.
        """
        if self._follower is None:
            raise PolicyBlocked("nobody is here to judge where this leads")
        return await self._follower.follow(str(reference), pointer)

    def report(self, exchange: Exchange) -> None:
        """Tell what became of an attempt to open a URL, however it ended."""
        if self._follower is not None:
            self._follower.report(exchange)

    def propose(self, proposal: Proposal) -> None:
        """Hand over what a trial run changed: once the call has ended it is judged, and kept or discarded.

        Raises:
            PolicyBlocked: nobody is here to judge it; it is discarded.
        """
        if self._propose is None:
            proposal.close()
            raise PolicyBlocked("nobody is here to judge what it changed")
        self._propose(proposal)

    async def emit(self, chunk: str) -> None:
        """Hand out a piece of output while the tool runs; it is stripped and redacted before it is shown."""
        await self._emit(chunk)


def _to_run(atom: Atom, asker: Asker) -> str:
    line = atom.canonical
    if asker is Asker.PERSON or not isinstance(line, CommandLine) or line.printed is None:
        return atom.raw
    return line.printed


def _with_lines(value: object, lines: Mapping[str, str], pointer: str = "") -> Any:
    """Return arguments in which the strings at some pointers are others; untouched where there are none."""
    if not any(line.startswith(pointer) for line in lines):
        return value
    if isinstance(value, str):
        return lines.get(pointer, value)
    if isinstance(value, Mapping):
        return MappingProxyType(
            {key: _with_lines(one, lines, pointer + pointer_step(key)) for key, one in value.items()}
        )
    if isinstance(value, tuple):
        return tuple(_with_lines(one, lines, f"{pointer}/{index}") for index, one in enumerate(value))
    return value


def pointer_step(key: object) -> str:
    """Return a key or an index as a step of a JSON pointer, its slash included (RFC 6901, 3)."""
    return "/" + str(key).replace("~", "~0").replace("/", "~1")


class Status(StrEnum):
    """How a call ended. `UNKNOWN`: the process did, in the middle of it; no result says so, only records.

    `STARTED` stands in records alone, too: what the call began goes on, and its end has a record of its own.
    """

    OK = "ok"
    ERROR = "error"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    DENIED = "denied"
    UNKNOWN = "unknown"
    STARTED = "started"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call ended, and for which stable reason (`category` is None when it went well)."""

    status: Status
    category: Category | None = None
    gate: str | None = None
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What goes back: `text` to the model (fenced), `shown` to the person (stripped and redacted).

    `error` is None or the JSON object of a refusal or failure: `code`, `message`, `phase`,
    `retryable` and what else the refusing gate could tell. `truncated`: not all is shown. `goes_on`:
    what the call began is not over.
    """

    call: ToolCall
    outcome: Outcome
    text: str
    shown: str
    error: Mapping[str, Json] | None = None
    overflow_id: str | None = None
    warnings: tuple[str, ...] = field(default=())
    truncated: bool = False
    goes_on: bool = False


class ToolExecutor(Protocol):
    """The extension surface: something that has tools and runs cleared calls of them."""

    def specs(self) -> Sequence[ToolSpec]:
        """Return the tools this executor has; asked once, at registration."""
        ...

    async def execute(self, cleared: Cleared) -> Output:
        """Run one cleared call. Failures are told by raising a `ToolError`."""
        ...
