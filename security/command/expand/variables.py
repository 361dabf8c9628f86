"""Collect the values of the variables in a line, and substitute them into words.

A value that the line sets once, or passes to a shell as an argument, is only a guess: good enough to
deny by, never to allow by.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from ..programs import parse_options, tail
from ..syntax import Command, Compound, Node, Part, PartKind, PipeNode, Sequence, Word, literal, marked
from .wrappers import wrapper_of

__all__ = ["MOST_VARIANTS", "SAFE", "assigned", "choices", "guesses", "set_by_builtins"]

MOST_VARIANTS = 16
"""How many words one word may become."""

# A value may hold another one twice, and that one again.
_MOST_PIECES = 24
_LONGEST = 1024

SAFE = re.compile(r"[A-Za-z0-9_./+@%:=,-]*")
"""What the shell neither splits nor expands."""

_DECLARING = frozenset("export declare typeset local readonly".split())
_DECLARED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=")
_FORMATTED = 2
_FILLING = frozenset("read export declare typeset local printf unset mapfile readarray getopts let".split())


def guesses(commands: list[Command]) -> Mapping[str, tuple[Word, ...]]:
    """Return the variables the commands of a line set, with every word that they may be set to."""
    found: dict[str, dict[Word, None]] = {}
    for command in commands:
        for name, value in _set_by(command):
            found.setdefault(name, {})[value] = None
    few = {name: tuple(words) for name, words in found.items() if len(words) <= MOST_VARIANTS}
    return few | _arguments(commands)


def _set_by(command: Command) -> Iterator[tuple[str, Word]]:
    """Yield the variables a command sets to what can be told: itself, or by a builtin."""
    yield from ((one.name, one.value) for one in command.assignments)
    name, words = command.name, command.words[1:]
    if name in _DECLARING:
        for word in words:
            start = word.text if word.is_literal else word.parts[0].text
            if (found := _DECLARED.match(start)) is not None:
                yield found[1], tail(word, found.end())
    elif name == "read":
        here = [one.target for one in command.redirections if one.operator == "<<<"]
        yield from ((word.text, value) for value in here for word in words if word.is_literal)
    elif name == "printf" and len(words) > _FORMATTED and words[0].text == "-v":
        yield words[1].text, words[-1]


def _arguments(commands: list[Command]) -> dict[str, tuple[Word, ...]]:
    """Return what the code behind `-c`, or all behind `set --`, is given: its `$1` and so on, and `$@`."""
    found: dict[str, tuple[Word, ...]] = {}
    for command in commands:
        wrapper = wrapper_of(command.program, command.words) if command.words else None
        if command.name == "set" and literal("--") in command.words:
            given = command.words[command.words.index(literal("--")) :][:MOST_VARIANTS]
        elif wrapper is not None and wrapper.runs == "shell":
            parsed = parse_options(command.words[1:], wrapper.options, stops=True)
            given = parsed.operands[1:MOST_VARIANTS]
        else:
            continue
        found |= {str(at): (word,) for at, word in enumerate(given)}
        found |= dict.fromkeys("@*", given[1:]) if given[1:] else {}
    return found


def assigned(root: Node, commands: list[Command]) -> frozenset[str]:
    """Return the variables a line sets otherwise than by one loop."""
    assigned = (one.name for command in commands for one in command.assignments)
    return frozenset((*_twice_bound(root), *assigned, *set_by_builtins(commands)))


def set_by_builtins(commands: Iterable[Command]) -> Iterator[str]:
    """Yield the variables that builtins may set."""
    for command in commands:
        if command.name in _FILLING:
            yield from (word.text.partition("=")[0] for word in command.words[1:])


def _twice_bound(node: Node, *around: str) -> Iterator[str]:
    """Yield the variables of loops inside a loop with the same one: what the inner sets, the outer keeps."""
    match node:
        case Compound():
            if node.kind == "for" and node.name in around:
                yield node.name
            inside = (*around, node.name) if node.kind == "for" else around
            for piece in node.pieces:
                if not isinstance(piece, (str, Word)):
                    yield from _twice_bound(piece, *inside)
        case PipeNode(stages=nodes) | Sequence(items=nodes):
            for one in nodes:
                yield from _twice_bound(one, *around)
        case Command():
            for inner in node.inner:
                yield from _twice_bound(inner, *around)


def choices(word: Word, bindings: Mapping[str, tuple[Word, ...]]) -> tuple[Word, ...] | None:
    """Return a word for every value of its variables that is known; None for too many."""
    name = next(
        (part.text for part in word.parts if part.kind is PartKind.VARIABLE and part.text in bindings), None
    )
    if name is None:
        return (word,)
    if len(word.parts) > _MOST_PIECES or len(word.text) > _LONGEST:
        return None
    # A value may name further variables, but never itself.
    others = {other: values for other, values in bindings.items() if other != name}
    found: list[Word] = []
    for value in bindings[name]:
        more = choices(_filled(word, name, value), others)
        if more is None or len(found) + len(more) > MOST_VARIANTS:
            return None
        found.extend(more)
    return tuple(found)


def _filled(word: Word, name: str, value: Word) -> Word:
    inside = value.parts or (Part(PartKind.LITERAL, value.text),)
    whole = tuple(Part(part.kind, part.text, True, part.body) for part in inside)
    split = tuple(map(_split_as_home, inside)) if all(map(_stays_one_word, inside)) else None
    parts: list[Part] = []
    for part in word.parts:
        filled = whole if part.quoted else split
        if part.kind is not PartKind.VARIABLE or part.text != name or filled is None:
            parts.append(part)
        else:
            parts.extend(filled)
    if all(part.kind is PartKind.LITERAL for part in parts):
        return literal("".join(part.text for part in parts))
    return Word(marked(tuple(parts)), tuple(parts))


def _split_as_home(part: Part) -> Part:
    """Return the tilde of a value as a variable: the home in it is split like any value."""
    return Part(PartKind.VARIABLE, "HOME") if part.kind is PartKind.TILDE and part.text == "~" else part


def _stays_one_word(part: Part) -> bool:
    """Whether the shell, which splits a value and expands globs in it, leaves this piece of one as it is."""
    return part.kind in {PartKind.TILDE, PartKind.VARIABLE} or (
        part.kind is PartKind.LITERAL and SAFE.fullmatch(part.text) is not None
    )
