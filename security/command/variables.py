"""Which values do the variables of a line have, and what does a word become with them?

A value that the line sets once, or gives to a shell as an argument, is only a guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from .nouns import Command, Compound, Node, Part, PartKind, Pipeline, Sequence, Word, literal, marked
from .options import parse_options
from .transform import visits
from .wrappers import wrapper_of

__all__ = ["MOST_VARIANTS", "SAFE", "assigned", "choices", "guesses", "set_by_builtins"]

MOST_VARIANTS = 16
"""How many words one word may become."""

# A value may hold another one twice, and that one again.
_MOST_PIECES = 24
_LONGEST = 1024

SAFE = re.compile(r"[A-Za-z0-9_./+@%:=,-]*")
"""What the shell neither splits nor expands."""

_FILLING = frozenset("read export declare typeset local printf unset mapfile readarray getopts let".split())


def guesses(root: Node) -> Mapping[str, tuple[Word, ...]]:
    """Return the variables a line assigns once, with the word it assigns."""
    found: dict[str, list[Word]] = {}
    for visit in visits(root):
        for one in visit.command.assignments:
            found.setdefault(one.name, []).append(one.value)
    return {name: tuple(words) for name, words in found.items() if len(words) == 1} | _arguments(root)


def _arguments(root: Node) -> dict[str, tuple[Word, ...]]:
    """Return what the code behind `-c` of a shell is given: its `$1` and so on, and `$@`."""
    found: dict[str, tuple[Word, ...]] = {}
    for visit in visits(root):
        wrapper = wrapper_of(visit.command.program, visit.command.words) if visit.command.words else None
        if wrapper is None or wrapper.runs != "shell":
            continue
        given = parse_options(visit.command.words[1:], wrapper.options, stops=True).operands[1:MOST_VARIANTS]
        found |= {str(at): (word,) for at, word in enumerate(given)}
        found |= dict.fromkeys("@*", given[1:]) if given[1:] else {}
    return found


def assigned(root: Node) -> frozenset[str]:
    """Return the variables a line sets otherwise than by one loop."""
    assigned = (one.name for visit in visits(root) for one in visit.command.assignments)
    return frozenset((*_twice_bound(root), *assigned, *set_by_builtins(root)))


def set_by_builtins(root: Node) -> Iterator[str]:
    """Yield the variables that builtins may set."""
    for visit in visits(root):
        if visit.command.name in _FILLING:
            yield from (word.text.partition("=")[0] for word in visit.command.words[1:])


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
        case Pipeline(stages=nodes) | Sequence(items=nodes):
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
    whole = tuple(replace(part, quoted=True) for part in inside)
    is_one_word = all(map(_stays_one_word, inside))
    parts: list[Part] = []
    for part in word.parts:
        if part.kind is not PartKind.VARIABLE or part.text != name:
            parts.append(part)
        elif part.quoted:
            parts.extend(whole)
        elif is_one_word:
            parts.extend(_split_as_home(piece) for piece in inside)
        else:
            parts.append(part)
    if all(part.kind is PartKind.LITERAL for part in parts):
        return literal("".join(part.text for part in parts))
    return Word(marked(tuple(parts)), tuple(parts))


def _split_as_home(part: Part) -> Part:
    """Return the tilde of a value as a variable: the home in it is split like any value."""
    return Part(PartKind.VARIABLE, "HOME") if (part.kind, part.text) == (PartKind.TILDE, "~") else part


def _stays_one_word(part: Part) -> bool:
    """Whether the shell, which splits a value and expands globs in it, leaves this piece of one as it is."""
    return part.kind in {PartKind.TILDE, PartKind.VARIABLE} or (
        part.kind is PartKind.LITERAL and SAFE.fullmatch(part.text) is not None
    )
