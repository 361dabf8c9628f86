"""The vocabulary of the gates: what an argument is, what a tool does, and the JSON both come in.

A command line is here as the rest of the pipeline knows it: what runs, what was looked up of it, what to look
up. Its nodes, and whatever reads or judges it, lie in `command/` and are loaded with the first line there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, fields
from enum import Flag, StrEnum, auto
from operator import is_
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar, TypeVarTuple

from .lazy import dataclass

__all__ = [
    "EFFECT_KEY",
    "KIND_KEY",
    "LASTS_KEY",
    "UNKNOWN",
    "CommandFacts",
    "CommandLine",
    "Effect",
    "HookAnswer",
    "Json",
    "Kind",
    "Once",
    "Runs",
    "Unreadable",
    "Wanted",
    "with_leaves",
]

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"

KIND_KEY = "x-leeward-kind"
"""The JSON Schema keyword under which an argument's schema names its `Kind`."""

EFFECT_KEY = "x-leeward-effect"
"""The keyword by which an argument's schema says "read": so much is done with it, whatever the call does."""


LASTS_KEY = "x-leeward-lasts"
"""The keyword by which a switch says that the call outlives its result where it is on."""


class Effect(Flag):
    """What a tool does to the world. A tool that declares no effects has all of them.

    `READ` looks at files; `CREATE` adds something and changes nothing that exists; `WRITE` changes, replaces
    or deletes. `EXECUTE` runs a program. `SEND` sends data out; `BRING_IN` fetches data from outside.
    """

    READ = auto()
    CREATE = auto()
    WRITE = auto()
    EXECUTE = auto()
    SEND = auto()
    BRING_IN = auto()
    ALL = READ | CREATE | WRITE | EXECUTE | SEND | BRING_IN


class Kind(StrEnum):
    """What an argument *is*; every gate works on kinds, none on argument names."""

    PATH = "path"
    URL = "url"
    COMMAND = "command"
    RESOURCE_ID = "resource_id"
    DESTINATION = "destination"
    HOST = "host"
    SECRET = "secret"  # noqa: S105 - the name of a kind
    TEXT = "text"
    UNDECLARED = "undeclared"


class Runs(StrEnum):
    """In what a command line runs, the strictest first.

    A trial changes a copy of the workspace and reaches nothing else; what it changed is judged afterwards.
    A read-only run can change nothing. A real run has the rights that the configuration gives to commands.
    """

    TRIAL = "trial"
    READ_ONLY = "read_only"
    REAL = "real"

    @property
    def strictness(self) -> int:
        """How much a run is kept from, for comparison: more for the stricter."""
        return -list(Runs).index(self)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """What a parser returns instead of a guess.

    `pattern` is the stable name of REQ-F-045 where one fits (`userinfo`, `control_character`, …),
    `reason` says in our own words what was wrong; it never quotes the value.
    """

    reason: str
    pattern: str = "type_pattern_mismatch"


class Once:
    """Keeps the last that each function made, as long as it is given the very same things.

    They must be frozen, and the function a pure one: then nobody can tell that it was not called again.
    """

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[object, tuple[tuple[object, ...], Any]] = {}

    def of(self, work: Callable[[*_Ts], _T], *given: *_Ts) -> _T:
        """Return `work(*given)`."""
        kept = self._kept.get(work)
        if kept is None or not all(map(is_, kept[0], given)):
            kept = self._kept[work] = (given, work(*given))
        found: _T = kept[1]
        return found


UNKNOWN = "?"
"""In the place of a hash: the content of a file is unknown."""


@dataclass(frozen=True, slots=True)
class CommandFacts:
    """What was looked up on the machine before judging.

    `real` maps a path (absolute, not normalised) to where it leads with all links followed;
    `matches` an absolute glob to the paths it matches, None where there were too many; `programs`
    a name to its path in the fixed PATH, None where there is none; `exists` a path to whether anything has
    that name, None where nobody could tell; `history` a workspace to the name of a secret file in what its
    repositories hold, "" for none; `code` a file that a line may run by name to the SHA-256 (hex) of what it
    holds, `UNKNOWN` if that is not known; `changed` such a file, and the workspace for all in it, to the
    number of the last change that a call of a model made there (`OPEN` where one may yet come). Numbers grow,
    and are no part of what is compared.
    """

    real: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    matches: Mapping[str, tuple[str, ...] | None] = field(default_factory=lambda: MappingProxyType({}))
    programs: Mapping[str, str | None] = field(default_factory=lambda: MappingProxyType({}))
    exists: Mapping[str, bool | None] = field(default_factory=lambda: MappingProxyType({}))
    history: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    code: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    changed: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}), compare=False)


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A line that was read.

    `actions` are the argument vectors of everything that runs, wrappers and what they run alike,
    and each redirection to a file and each assignment that could matter as a vector of its own
    (`(">", "out.txt")`, `("PATH=.",)`): a permission rule must cover them all. `restated` are those of them
    that say another one once more in the form in which it would be forbidden (`git push` for
    `/usr/bin/git -C . push`); nothing has to cover them. `root` is a
    `Node` of `command/syntax`, which only `command/` looks into. `printed` is the line
    that runs when nobody was asked. `facts` is None until the machine was looked at; `quiet` are then the
    actions of commands that only read, anywhere in the line. `once` keeps what was worked out
    of all this.
    """

    actions: tuple[tuple[str, ...], ...]
    source: str
    root: Any = field(compare=False)
    printed: str
    constructs: frozenset[str] = frozenset()
    facts: CommandFacts | None = field(default=None, hash=False)
    quiet: frozenset[tuple[str, ...]] = frozenset()
    restated: frozenset[tuple[str, ...]] = frozenset()
    once: Once = field(default_factory=Once, compare=False, repr=False)

    @property
    def written(self) -> tuple[tuple[str, ...], ...]:
        """The actions of the line as written, each once."""
        return tuple(argv for argv in self.actions if argv not in self.restated)

    @property
    def open_actions(self) -> tuple[tuple[str, ...], ...]:
        """The actions an answer given in advance must cover: those that do more than read."""
        return tuple(argv for argv in self.written if argv not in self.quiet) or self.written

    def __str__(self) -> str:
        return " ; ".join(" ".join(map(_shown, argv)) for argv in self.written)


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """What a hook of the person answered about a call: `word` is "deny", "ask", or "" for no objection.

    `reason` and `notice` are the hook's words. One that `failed` gave no answer that counts; `reason` then
    says what went wrong.
    """

    hook: str
    word: str = ""
    reason: str = ""
    notice: str = ""
    failed: bool = False


class FenceMode(StrEnum):
    """How text of others is marked: around it, with a margin on each line besides, or as base64."""

    DELIMIT = "delimit"
    DATAMARK = "datamark"
    ENCODE = "encode"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to look up; the fields are the keys of `CommandFacts`.

    For every path a glob matches, and each of `exists` that there is, `real` must hold where it leads, too.
    `code` names files as `code_of` does; in the facts they have their paths.
    """

    real: tuple[str, ...] = ()
    matches: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    exists: tuple[str, ...] = ()
    history: tuple[str, ...] = ()
    code: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self != Wanted()

    @classmethod
    def together(cls, several: Iterable[Wanted]) -> Wanted:
        """Return what several lines ask for as one."""
        found: dict[str, dict[str, None]] = {one.name: {} for one in fields(cls)}
        for one in several:
            for name, keys in found.items():
                keys.update(dict.fromkeys(getattr(one, name)))
        return cls(**{name: tuple(keys) for name, keys in found.items()})


def with_leaves(value: Json, change: Callable[[Json], Json]) -> Json:
    """Return a value of JSON with each leaf changed, and so the names in objects."""
    if isinstance(value, Mapping):
        return {str(change(name)): with_leaves(child, change) for name, child in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [with_leaves(child, change) for child in value]
    return change(value)


def _shown(text: str) -> str:
    """Quote a word for the eye as a shell would need it."""
    plain = text and all(char.isalnum() or char in "_@%+=:,./-⟨⟩$…*?~<>&|" for char in text)
    return text if plain else "'" + text.replace("'", "'\"'\"'") + "'"
