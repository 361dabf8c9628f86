"""The types of a call, in the order in which they are made: ToolCall, Action, Cleared, Output, ToolResult.

    ToolCall ─► Action ─► Cleared ─► Output ─► ToolResult

A `ToolCall` is what somebody asked for, as text. `action.py` reads it once into an `Action`; the gates judge
nothing else. `pipeline.py` alone turns an allowed Action into a `Cleared`, the only thing an executor
accepts. What the executor returns is an `Output`; what has passed the filters, and only that, is a
`ToolResult`. An `Exchange` reports one attempt of a running call to reach a URL.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import field
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Any, Protocol

from .kinds import CommandFacts, CommandLine, Effect, HookAnswer, Json, Kind, Once, Runs, Unreadable
from .lazy import dataclass
from .outcome import Category, Output, Picture, PolicyBlocked
from .paths import Preview, ResolvedPath
from .policy import AgentFrame
from .trust import FileWords, Origin, TrustLevel
from .url import Destination, Url

__all__ = [
    "AGAIN",
    "BUILT_IN",
    "Action",
    "Again",
    "Asker",
    "Atom",
    "Checked",
    "Cleared",
    "Exchange",
    "Follower",
    "Gatekeeper",
    "Outcome",
    "Proposal",
    "Rerun",
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
    """The outcome of one attempt to open a URL, as its client reports it for the record.

    `address` is the address connected to, or "" for none. `sent` and `received` count the bytes of the
    request and the response on the wire. `problem` says in our words why there is no `status`, or why the
    body was not read to its end.
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
        """Take down the outcome of an attempt; it is on record before the call's result goes back."""
        ...


class Gatekeeper(Protocol):
    """What judges and records where a running command connects to (`connections.py`)."""

    @property
    def hosts(self) -> Sequence[str]:
        """The rules for what may be reached."""
        ...

    @property
    def wanted(self) -> Collection[str]:
        """The hosts, as rules, that were refused only because no rule speaks of them."""
        ...

    async def admit(self, target: str, *, is_tunnel: bool) -> tuple[Url, int]:
        """Return where a request leads and its number, once it may go there and that is on record."""
        ...

    async def refuse(self, target: str, rule: str, reason: str) -> None:
        """Put on record that something was refused."""
        ...

    def report(self, exchange: Exchange, number: int) -> None:
        """Take down the outcome of a connection; it is on record before the call's result goes back."""
        ...


@dataclass(frozen=True, slots=True)
class Rerun:
    """A command line that failed for want of hosts, to be run once more with them if they are allowed.

    `hosts` are the rules for what it needs besides what any command may reach; `run` runs it as the call did,
    on trial.
    """

    hosts: tuple[str, ...]
    run: Callable[[Cleared], Awaitable[Output]]


class Proposal(Protocol):
    """What a trial run would change of the workspace, held apart from it until it is kept or discarded."""

    @property
    def paths(self) -> Sequence[str]:
        """The paths that would be others, absolute and without links; a folder may represent all in it."""
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
        """What would change, for a person's eyes: each path, how it changes, and the lines of it."""
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


@dataclass(frozen=True, slots=True)
class Again:
    """Command lines that are offered once more, since what they wrote was more than could be held.

    `reason` says so in our words; `disk` is how many bytes they may write where that is held on a disk, 0
    where it cannot be. `covers` names whose answer is one to what they change, too, as in `Judgement`.
    """

    reason: str
    disk: int = 0
    covers: str = ""

    def close(self) -> None:
        """Hold nothing: what there was is discarded."""


AGAIN = ".again"
"""Follows the id of a call where its command line is to run again, so that it can write."""

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
    `through` are the sub-agents it comes through, the outermost first; the runtime sets them, never a text.
    `once` keeps what the text was parsed to, for a call is shown, judged and recorded on its way.
    """

    id: str
    tool: str
    arguments: str
    asker: Asker = Asker.MODEL
    model_id: str = ""
    through: tuple[AgentFrame, ...] = ()
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
    """A tool: its description for models, and what the gates know of it.

    `schema` is the JSON Schema of the arguments object; each string in it names its `Kind` under `KIND_KEY`.
    `check` validates arguments against it. `effects` is what a call can do, `level` how far the tool is
    trusted, `source` where it comes from ("built in", "plug-in NAME", …), `timeout` in seconds. A failed call
    is repeated only if `idempotent`; calls of an `ordered` tool never run beside others. `preview` returns
    what a call would change. `result` is the author of its results; None means what follows from the effects.
    If the tool is `confidential`, sending is asked about once a result was read.

    For a tool of another program `definition` is the hash of its declaration, `version` the version it
    reports, and `hosts` the rules for what that program may reach during a call.
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
    result: Origin | None = None
    confidential: bool = False
    definition: str = ""
    version: str = ""
    hosts: tuple[str, ...] = ()
    ordered: bool = False


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
    call of its own; `covered_by` names whose answer to that one answers for this one, too. `is_cut` tells
    that it is about more than it says. `wished` are the paths that its command line wanted to change when
    it ran read-only: it is to run again, so that it can. With `again` it runs again for want of room.
    `usual` names the arguments that are what the tool declares where nobody says them, `free` those it does
    not declare. `file_labels` are those of the files that it may read. `hooked` is what the person's hooks
    answered about it.
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
    covered_by: str = ""
    again: Again | None = None
    wished: tuple[str, ...] = ()
    usual: tuple[str, ...] = ()
    free: tuple[str, ...] = ()
    hooked: tuple[HookAnswer, ...] = ()
    file_labels: frozenset[Origin] = frozenset()

    @property
    def is_command(self) -> bool:
        """Whether all that the call says are command lines: what it does is then what they do."""
        return bool(self.atoms) and all(atom.kind is Kind.COMMAND and atom.declared for atom in self.atoms)

    @property
    def bound(self) -> CommandFacts:
        """What was looked up of the files that its command lines run by name; of a `keep`, those that ran."""
        lines = (self if self.of is None else self.of).of_kind(Kind.COMMAND)
        facts = (atom.canonical.facts for atom in lines if isinstance(atom.canonical, CommandLine))
        return next((one for one in facts if one is not None), CommandFacts())

    @property
    def places(self) -> tuple[ResolvedPath, ...]:
        """The judged paths, in the order of the arguments."""
        return tuple(atom.canonical for atom in self.atoms if isinstance(atom.canonical, ResolvedPath))

    @property
    def may_be_tried(self) -> bool:
        """Whether it is a command line that one of our own tools runs and waits for.

        Only these start their programs where it is known what they run in. What was tried already is not
        tried again.
        """
        is_ours = self.spec is not None and self.spec.source == BUILT_IN
        return is_ours and self.is_command and not self.lasts and not self.wished

    def of_kind(self, *kinds: Kind) -> tuple[Atom, ...]:
        """Return the atoms of these kinds, in the order of the arguments."""
        return tuple(atom for atom in self.atoms if atom.kind in kinds)

    def preview(self) -> Preview | None:
        """Return what the call would change, where its tool can tell."""
        if self.spec is None or self.spec.preview is None or self.problems:
            return None
        return self.spec.preview(self)


class Cleared:
    """The permission to run one action once, under the conditions it was judged by.

    Only `pipeline.py` makes one. An executor calls `take` for the arguments, and `place`, `url` or `command`
    for those that were judged. `deadline` is in seconds on trio's clock. An executor that cannot meet one of
    these conditions raises `PolicyBlocked`:

    - `runs`: in what confinement command lines run.
    - `overlay`: what they write to the workspace is held apart until it is judged.
    - `gatekeeper`: judges each of their connections; without it they have no network.
    - `lends`: the secrets they are lent, as `NAME to PROGRAM`. What such a program prints, and the names of
      files it writes, may contain the secret in any form.

    `words()` returns the labels that whatever the call writes must get, at that moment.
    """

    __slots__ = (
        "_emit",
        "_follower",
        "_propose",
        "_taken",
        "_wish",
        "action",
        "deadline",
        "gatekeeper",
        "lends",
        "overlay",
        "runs",
        "words",
    )

    def __init__(
        self,
        action: Action,
        deadline: float,
        emit: Callable[[str], Awaitable[None]],
        follower: Follower | None = None,
        runs: Runs = Runs.REAL,
        propose: Callable[[Proposal | Again | Rerun], None] | None = None,
        wish: Callable[[Sequence[str]], None] = lambda _: None,
        *,
        overlay: bool = False,
    ) -> None:
        self.action: Action = action
        self.deadline: float = deadline
        self.runs: Runs = runs
        self.overlay: bool = overlay
        self.lends: tuple[str, ...] = ()
        self.words: Callable[[], FileWords] = FileWords
        self._emit = emit
        self._follower = follower
        self._propose = propose
        self._wish = wish
        self.gatekeeper: Gatekeeper | None = None
        self._taken = False

    def take(self) -> Mapping[str, Json]:
        """Use up the permission and return the arguments, with command lines as `command` returns them.

        Raises:
            PolicyBlocked: it was used before; a second run needs a second judgement.
        """
        if self._taken:
            raise PolicyBlocked("this call was cleared for one run and has run already")
        self._taken = True
        arguments: Mapping[str, Json] = _with_lines(self.action.arguments, self._lines())
        return arguments

    def command(self, pointer: str) -> str:
        """Return the command line to run for the argument at a JSON pointer.

        This is printed from the parsed line that was judged, so that a mistake of the parser changes the
        command instead of running one that was never judged. A line typed by the person is returned as typed,
        and so is one that cannot be printed.

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
        """Return the judged path of the argument at a JSON pointer.

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
        """Return the judged URL of the argument at a JSON pointer.

        Raises:
            PolicyBlocked: no URL was judged there, so none may be opened.
        """
        for atom in self.action.atoms:
            if atom.kind is Kind.URL and atom.pointer == pointer and isinstance(atom.canonical, Url):
                return atom.canonical
        raise PolicyBlocked("no URL was judged for this argument")

    async def follow(self, reference: str | Url, pointer: str | None = None) -> Url:
        """Judge and record a redirect, and return the URL to open.

        `reference` is relative to the URL opened last for the argument at `pointer`, which may be left out if
        the call has only one URL. Call this before every hop, and before a second attempt at the same URL.

        Raises:
            PolicyBlocked: the URL may not be opened, or there were too many hops; send nothing.
        """
        if self._follower is None:
            raise PolicyBlocked("no judge is available for this redirect")
        return await self._follower.follow(str(reference), pointer)

    def report(self, exchange: Exchange) -> None:
        """Report the outcome of an attempt to open a URL: success, error or cancellation."""
        if self._follower is not None:
            self._follower.report(exchange)

    def propose(self, proposal: Proposal | Again) -> None:
        """Hand over the changes of a trial run. They are judged after the call, then kept or discarded.

        If they were more than could be held, the person is asked whether to run the call again.

        Raises:
            PolicyBlocked: no judge is available; the changes are discarded.
        """
        if self._propose is None:
            proposal.close()
            raise PolicyBlocked("no judge is available for its changes")
        self._propose(proposal)

    def wish(self, paths: Sequence[str]) -> None:
        """Report the paths that a read-only run tried to change; the call may be run again for them."""
        self._wish(paths)

    def offer(self, rerun: Rerun) -> None:
        """Propose a second run with more hosts; the person is asked about it after the call."""
        if self._propose is not None:
            self._propose(rerun)

    async def emit(self, chunk: str) -> None:
        """Pass on a piece of output while the tool runs; it is stripped and redacted before it is shown."""
        await self._emit(chunk)


def _to_run(atom: Atom, asker: Asker) -> str:
    line = atom.canonical
    if asker is Asker.PERSON or not isinstance(line, CommandLine):
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
    """How a call ended.

    Two values occur in records only: `UNKNOWN`, since the process died during the call, and `STARTED`, since
    what the call started is still running and its end has a record of its own.
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
    """How a call ended. `category` is the stable reason for a failure; it is None for a success."""

    status: Status
    category: Category | None = None
    gate: str | None = None
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a call: `text` goes to the model, fenced; `shown` to the person, stripped and redacted.

    `error` is None, or the JSON object of a refusal or failure: `code`, `message`, `phase`, `retryable`, and
    details of the refusing gate. `truncated` is set if not all of the output is shown, `goes_on` if the call
    started something that is still running. `caches` is as in `Output`. `sizes` are the numbers of characters
    that arrived, and that are shown. `picture` is an image that a call of the person read.
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
    caches: int = 0
    sizes: tuple[int, int] = field(default=(0, 0), compare=False)
    picture: Picture | None = field(default=None, repr=False)


class ToolExecutor(Protocol):
    """The interface for tools of your own: has tools, and runs cleared calls of them."""

    def specs(self) -> Sequence[ToolSpec]:
        """Return the tools of this executor. Called once, at registration."""
        ...

    async def execute(self, cleared: Cleared) -> Output:
        """Run one cleared call. Raise a `ToolError` for a failure."""
        ...
