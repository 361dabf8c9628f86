"""The nodes of a shell line once it is read: words, commands, and how they hang together.

    Word ─► Command ─► PipeNode | Sequence | Compound ─► CommandLine

Everything here is frozen data. `grammar.py` makes it out of a parse, `expand/unwrap.py` adds what a
command runs in turn, `expand/printing.py` writes it back as a line, and `judge/verdict.py` judges it. What is
worked out of a line is kept with it, for one line is asked about several times on its way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from operator import is_
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar, TypeVarTuple

__all__ = [
    "Assignment",
    "Command",
    "CommandFacts",
    "CommandLine",
    "Compound",
    "Node",
    "Note",
    "Once",
    "Part",
    "PartKind",
    "PipeNode",
    "Redirection",
    "Sequence",
    "Unread",
    "Word",
    "literal",
    "marked",
    "with_ending",
]


_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")


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


class Unread(Exception):
    """The line, or a part of it, could not be read; the message says why in our words."""


class PartKind(StrEnum):
    """What a piece of a word is to the shell."""

    LITERAL = "literal"
    GLOB = "glob"
    TILDE = "tilde"
    VARIABLE = "variable"
    EXPANSION = "expansion"
    ARITHMETIC = "arithmetic"
    SUBSTITUTION = "substitution"
    INPUT = "process read from"
    OUTPUT = "process written to"
    GIVEN = "given at run time"


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a word. `text` is a literal after quote removal, a glob or a `${…}` as written, or a name.

    `quoted` tells that the shell neither splits the value nor expands globs in it. `body` is what a
    substitution runs. `GIVEN` stands for words that nobody can tell before: what `xargs` reads or
    `find` finds.
    """

    kind: PartKind
    text: str
    quoted: bool = False
    body: Node | None = None


@dataclass(frozen=True, slots=True)
class Word:
    """A word after quote removal.

    Without parts it is literal and `text` is its value. With parts the shell does something to it,
    and `text` shows it with every open piece between `⟨` and `⟩`, so that `*.py` and `'*.py'` are two
    different words to whoever compares them.
    """

    text: str
    parts: tuple[Part, ...] = ()

    @property
    def is_literal(self) -> bool:
        """Whether the word is its text, whatever the shell does."""
        return not self.parts


def literal(text: str) -> Word:
    """Return a word that is exactly this text."""
    return Word(text)


def with_ending(word: Word, ending: str) -> Word:
    """Return a word with more literal text behind it."""
    if word.is_literal:
        return literal(word.text + ending)
    parts = (*word.parts, Part(PartKind.LITERAL, ending))
    return Word(marked(parts), parts)


def marked(parts: tuple[Part, ...]) -> str:
    """Return how an open word is shown."""
    return "".join(_marked(part) for part in parts)


def _marked(part: Part) -> str:
    match part.kind:
        case PartKind.LITERAL:
            return part.text.replace("⟨", "⟨⟨⟩")
        case PartKind.VARIABLE:
            return f"⟨${part.text}⟩"
        case PartKind.SUBSTITUTION:
            return "⟨$(…)⟩"
        case PartKind.INPUT:
            return "⟨<(…)⟩"
        case PartKind.OUTPUT:
            return "⟨>(…)⟩"
        case _:
            return f"⟨{part.text}⟩"


@dataclass(frozen=True, slots=True)
class Assignment:
    """`name=value`, or `name+=value` with `appends`."""

    name: str
    value: Word
    appends: bool = False

    def __str__(self) -> str:
        return f"{self.name}{'+=' if self.appends else '='}{self.value.text}"


@dataclass(frozen=True, slots=True)
class Redirection:
    """`fd` is "" where none is written. A here-document is a here-string that prints the same."""

    operator: str
    target: Word
    fd: str = ""

    @property
    def writes(self) -> bool:
        """Whether a file is opened for writing."""
        return self.operator in {">", ">>", ">|", "&>", "&>>"} or (
            self.operator == ">&" and not self.duplicates
        )

    @property
    def reads(self) -> bool:
        """Whether a file is opened for reading."""
        return self.operator == "<"

    @property
    def duplicates(self) -> bool:
        """Whether it only copies or closes a descriptor (`2>&1`, `<&-`)."""
        text = self.target.text
        return (
            self.operator in {">&", "<&"}
            and self.target.is_literal
            and text.rstrip("-").isdecimal() | (text == "-")
        )


@dataclass(frozen=True, slots=True)
class Note:
    """A reason why only a person present may allow a command: a stable rule name and a sentence of ours."""

    rule: str
    reason: str


@dataclass(frozen=True, slots=True)
class Command:
    """A simple command. `inner` is what it runs in turn, as far as that can be told from its words.

    `name` is the program as it was called, after quote removal, "" where there is none; `program` its last
    component.
    """

    words: tuple[Word, ...]
    assignments: tuple[Assignment, ...] = ()
    redirections: tuple[Redirection, ...] = ()
    inner: tuple[Node, ...] = ()
    notes: tuple[Note, ...] = ()
    name: str = field(init=False, compare=False, repr=False)
    program: str = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        name = self.words[0].text if self.words else ""
        # Every rule asks for these, so they are found once.
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "program", name.rpartition("/")[2])


@dataclass(frozen=True, slots=True)
class PipeNode:
    """Commands joined by `|` or `|&`; `operators` stand between the stages."""

    stages: tuple[Node, ...]
    operators: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sequence:
    """Commands one after the other; `separators[i]` stands behind `items[i]`: `;`, `&`, `&&` or `||`."""

    items: tuple[Node, ...]
    separators: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Compound:
    """A loop, condition, function, group or subshell: keywords as text, and what stands between them."""

    kind: str
    pieces: tuple[Piece, ...]
    redirections: tuple[Redirection, ...] = ()
    name: str = ""


Node: TypeAlias = Command | PipeNode | Sequence | Compound
Piece: TypeAlias = str | Word | Node


@dataclass(frozen=True, slots=True)
class CommandFacts:
    """What was looked up on the machine before judging.

    `real` maps a path (absolute, not normalised) to where it leads with all links followed;
    `matches` an absolute glob to the paths it matches, None where there were too many; `programs`
    a name to its path in the fixed PATH, None where there is none; `trees` a folder to the secret
    files below it, None where it is too big to tell; `repositories` a folder to what keeps
    its git repository from being a plain one, () for a plain one; `exists` a path to whether anything has
    that name, None where nobody could tell; `history` a workspace to the name of a secret file in what its
    repositories hold, "" for none.
    """

    real: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    matches: Mapping[str, tuple[str, ...] | None] = field(default_factory=lambda: MappingProxyType({}))
    programs: Mapping[str, str | None] = field(default_factory=lambda: MappingProxyType({}))
    trees: Mapping[str, tuple[str, ...] | None] = field(default_factory=lambda: MappingProxyType({}))
    repositories: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    exists: Mapping[str, bool | None] = field(default_factory=lambda: MappingProxyType({}))
    history: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A line that was read.

    `actions` are the argument vectors of everything that runs, wrappers and what they run alike,
    and each redirection to a file and each assignment that could matter as a vector of its own
    (`(">", "out.txt")`, `("PATH=.",)`): a permission rule must cover them all. `restated` are those of them
    that say another one once more in the form in which it would be forbidden (`git push` for
    `/usr/bin/git -C . push`); nothing has to cover them. `printed` is the line
    that runs when nobody was asked, None where it cannot be written back exactly; then
    `unprintable` says why. `facts` is None until the machine was looked at; `quiet` are then the
    actions of commands that only read wherever they stand in the line. `once` keeps what was worked out
    of all this.
    """

    actions: tuple[tuple[str, ...], ...]
    source: str
    root: Node = field(compare=False)
    printed: str | None
    unprintable: str = ""
    constructs: frozenset[str] = frozenset()
    facts: CommandFacts | None = field(default=None, hash=False)
    quiet: frozenset[tuple[str, ...]] = frozenset()
    restated: frozenset[tuple[str, ...]] = frozenset()
    once: Once = field(default_factory=Once, compare=False, repr=False)

    @property
    def said(self) -> tuple[tuple[str, ...], ...]:
        """The actions as they stand in the line, each once."""
        return tuple(argv for argv in self.actions if argv not in self.restated)

    @property
    def open_actions(self) -> tuple[tuple[str, ...], ...]:
        """The actions an answer given in advance must cover: those that do more than read."""
        return tuple(argv for argv in self.said if argv not in self.quiet) or self.said

    def __str__(self) -> str:
        return " ; ".join(" ".join(map(_shown, argv)) for argv in self.said)


def _shown(text: str) -> str:
    """Quote a word for the eye as a shell would need it."""
    plain = text and all(char.isalnum() or char in "_@%+=:,./-⟨⟩$…*?~<>&|" for char in text)
    return text if plain else "'" + text.replace("'", "'\"'\"'") + "'"
