"""Recognise commands that only read what may be read: where nothing runs on trial, they need no question.

A command only reads when its program is in the table (`programs/programs.toml`), was found outside of the
workspace, every word is literal, every option is known, and every path it reads passes. Everything else is an
`Objection`, which says why not.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from ...lazy import dataclass
from ...paths import is_inside, writable
from ..expand import Placed, added_by_wrapper, is_sink
from ..programs import Parsed, lines_of, parse_options
from ..syntax import (
    BUILTINS,
    Command,
    PartKind,
    Redirection,
    Word,
    is_harmless,
)
from .paths import Objection, Scene, content_problem, names_problem

__all__ = ["is_listed", "why_not_readonly"]

_SYSTEM_FOLDERS = frozenset({"/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/usr/local/sbin"})
_TEXTS = frozenset(PartKind) - {PartKind.GLOB, PartKind.GIVEN, PartKind.INPUT, PartKind.OUTPUT}


@dataclass(frozen=True, slots=True)
class ReadOnlyProgram:
    """A line of the table."""

    operands: str
    options: str = ""
    words: str = ""
    most: int | None = None
    inside: bool = False
    open: bool = False


@lru_cache(maxsize=1)
def _programs() -> dict[str, ReadOnlyProgram]:
    return {name: ReadOnlyProgram(**line) for name, line in lines_of("programs.toml").items()}


def is_listed(program: str) -> bool:
    """Whether a program is in the table."""
    return program in _programs()


def why_not_readonly(at: Placed, scene: Scene) -> Objection | None:
    """Say why a command may not run without a question, or None."""
    around = next(_around(at.command, scene), None)
    found = _command_problem(at, scene)
    # What is refused stays so, whatever is set or written besides.
    return found if around is None or (found is not None and found.rule == "secret") else around


def _command_problem(at: Placed, scene: Scene) -> Objection | None:
    command = at.command
    if command.notes:
        return Objection(command.notes[0].rule, command.notes[0].reason)
    return _words_problem(command, scene) if command.words else None


def _around(command: Command, scene: Scene) -> Iterator[Objection]:
    for assignment in command.assignments:
        if not is_harmless(assignment):
            yield Objection("assigns", "a variable is set that a program could obey", str(assignment))
    for redirection in command.redirections:
        problem = _redirection_problem(redirection, scene)
        if problem is not None:
            yield problem


def _redirection_problem(redirection: Redirection, scene: Scene) -> Objection | None:
    if is_sink(redirection) or redirection.operator == "<<<":
        return None
    if redirection.writes:
        return Objection("writes", "it writes a file", redirection.target.text)
    if redirection.reads:
        return content_problem(redirection.target, scene)
    return Objection("unknown", "the effect of a redirection is unknown")


def _words_problem(command: Command, scene: Scene) -> Objection | None:
    problem = _place_problem(command.name, scene)
    if problem is not None:
        return problem
    if command.inner:
        added = added_by_wrapper(command.program, command.words)
        if added is None:
            return None
        if added is not command.words[0]:
            return Objection("wrapper", "an option of a wrapper does more than run a program", added.text)
    found = _programs().get(command.program)
    if found is None:
        return Objection("unlisted", "a program is not known to only read", command.name)
    return _use_problem(command.words[1:], found, scene)


def _place_problem(name: str, scene: Scene) -> Objection | None:
    """A program must be the shell's own, or one of the system's."""
    if name in BUILTINS:
        return None
    folder, slash, program = name.rpartition("/")
    if slash:
        if folder not in _SYSTEM_FOLDERS or program in BUILTINS:
            return Objection("program", "a program is called by a path that is not the system's", name)
        return None
    path = scene.facts.programs.get(name)
    if path is None:
        return Objection("program", "a program was not found among those of the system", name)
    if is_inside(path, *writable(scene.policy)):
        return Objection("program", "a program lies in the workspace", path)
    return None


def _use_problem(words: tuple[Word, ...], found: ReadOnlyProgram, scene: Scene) -> Objection | None:
    """Check options and operands of a program of the table."""
    parsed, kind = _parsed(words, found), found.operands.split()[-1]
    operands = list(parsed.operands)
    if found.operands.startswith("pattern") and operands:
        del operands[0]
    # A path may be spelled from the home; any other word is literal.
    spelled = operands if kind in {"content", "names"} else ()
    for word in words:
        if not word.is_literal and word not in spelled and not (found.open and _is_printed(word)):
            return Objection("unknown", "a word is only known when it runs", word.text)
    if parsed.unknown is not None and not found.open:
        return Objection("option", "an option is not known to only read", parsed.unknown.text)
    if found.most is not None and len(operands) > found.most:
        return Objection("operand", "an operand would change something", operands[-1].text)
    # All are looked at: what is refused stays so, and a survey asks for all.
    problems = [_operand_problem(word, kind, found, scene) for word in operands]
    objections = [problem for problem in problems if problem is not None]
    return next(
        (problem for problem in objections if problem.rule == "secret"), objections[0] if objections else None
    )


def _operand_problem(word: Word, kind: str, found: ReadOnlyProgram, scene: Scene) -> Objection | None:
    match kind:
        case "content":
            return content_problem(word, scene)
        case "names":
            return names_problem(word, scene, inside=found.inside)
        case "none":
            return Objection("operand", "an operand would change something", word.text)
    return None


def _is_printed(word: Word) -> bool:
    """Whether an open word is evaluated as nothing but a text; what runs in it is judged by itself."""
    return all(part.kind in _TEXTS for part in word.parts)


def _parsed(words: tuple[Word, ...], found: ReadOnlyProgram) -> Parsed:
    if not found.words:
        return parse_options(words, found.options)
    known = found.words.split()
    unknown = (word for word in words if word.text.startswith("-") and word.text not in known)
    operands = tuple(word for word in words if not word.text.startswith("-"))
    return Parsed((), operands, next(unknown, None))
