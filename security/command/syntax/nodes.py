"""The nodes of a parsed command line: words, commands, and how they are combined.

    Word ─► Command ─► PipeNode | Sequence | Compound ─► CommandLine

Everything here is frozen data; the line as a whole is in `kinds.py`. `grammar.py` makes nodes out of
a parse, `expand/unwrap.py` adds what a command runs in turn, `expand/printing.py` writes them back as a line,
and `judge/verdict.py` judges them.
"""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum
from typing import TypeAlias

from ...kinds import CommandLine
from ...lazy import dataclass

__all__ = [
    "Assignment",
    "Command",
    "Compound",
    "Node",
    "Note",
    "Part",
    "PartKind",
    "PipeNode",
    "Redirection",
    "Sequence",
    "Unread",
    "Word",
    "literal",
    "marked",
    "success_is_of_all",
]


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
    substitution runs. `GIVEN` represents words that are unknown before: what `xargs` reads or
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
    different words in a comparison.
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
    """A simple command. `inner` is what it runs in turn, as far as that is known from its words.

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
    """Commands joined by `|` or `|&`; `operators` are those between the stages."""

    stages: tuple[Node, ...]
    operators: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sequence:
    """Commands one after the other; `separators[i]` follows `items[i]`: `;`, `&`, `&&` or `||`."""

    items: tuple[Node, ...]
    separators: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Compound:
    """A loop, condition, function, group or subshell: keywords as text, and the nodes between them."""

    kind: str
    pieces: tuple[Piece, ...]
    redirections: tuple[Redirection, ...] = ()
    name: str = ""


Node: TypeAlias = Command | PipeNode | Sequence | Compound
Piece: TypeAlias = str | Word | Node


def success_is_of_all(line: CommandLine) -> bool:
    """Whether the exit code 0 of a line tells that each of its commands ended well."""
    return _reports_failure(line.root)


def _reports_failure(node: Node) -> bool:
    """Whether a node ends with the code of whatever in it failed: a pipeline has that of its last stage."""
    match node:
        case Command():
            return all(map(_reports_failure, node.inner))
        case Sequence():
            return set(node.separators[:-1]) <= {"&&"} and all(map(_reports_failure, node.items))
        case _:
            return False
