"""Going through everything a line consists of: to add what commands run, and to list the commands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from .feeding import fed
from .nouns import Command, Compound, Node, Part, Piece, Pipeline, Redirection, Sequence, Word
from .unwrap import Nest, unwrapped

__all__ = ["Visit", "nodes", "visits", "with_inner"]


def with_inner(node: Node, nest: Nest) -> Node:
    """Return a tree in which every command knows what it runs in turn."""
    match node:
        case Command():
            return fed(unwrapped(_command(node, nest), nest), None, nest)
        case Pipeline(stages=nodes):
            stages = [with_inner(one, nest) for one in nodes]
            for at, (before, after) in enumerate(pairwise(stages), 1):
                if isinstance(before, Command) and isinstance(after, Command) and after.words:
                    stages[at] = fed(after, before, nest)
            return replace(node, stages=tuple(stages))
        case Sequence(items=nodes):
            return replace(node, items=tuple(with_inner(one, nest) for one in nodes))
        case Compound():
            pieces = tuple(_piece(piece, nest) for piece in node.pieces)
            return replace(node, pieces=pieces, redirections=_redirections(node.redirections, nest))


def _piece(piece: Piece, nest: Nest) -> Piece:
    match piece:
        case str():
            return piece
        case Word():
            return _word(piece, nest)
        case _:
            return with_inner(piece, nest)


def _command(command: Command, nest: Nest) -> Command:
    if not any(part.body for word in _words(command) for part in word.parts):
        return command
    return replace(
        command,
        words=tuple(_word(word, nest) for word in command.words),
        assignments=tuple(replace(one, value=_word(one.value, nest)) for one in command.assignments),
        redirections=_redirections(command.redirections, nest),
    )


def _words(command: Command) -> Iterator[Word]:
    yield from command.words
    yield from (one.value for one in command.assignments)
    yield from (one.target for one in command.redirections)


def _redirections(found: tuple[Redirection, ...], nest: Nest) -> tuple[Redirection, ...]:
    return tuple(replace(one, target=_word(one.target, nest)) for one in found)


def _word(word: Word, nest: Nest) -> Word:
    if not any(part.body for part in word.parts):
        return word
    return replace(word, parts=tuple(_part(part, nest) for part in word.parts))


def _part(part: Part, nest: Nest) -> Part:
    return replace(part, body=with_inner(part.body, nest)) if part.body is not None else part


@dataclass(frozen=True, slots=True)
class Visit:
    """A command with where it stands: `context` names everything around it, the outermost first.

    A loop, group or subshell that is redirected is a visit of its own, of a command without words.
    """

    command: Command
    context: tuple[str, ...] = ()


def visits(node: Node, context: tuple[str, ...] = ()) -> Iterator[Visit]:
    """Yield every command of a tree in the order of the text, and behind each what it runs in turn."""
    match node:
        case Command():
            yield Visit(node, context)
            for inner in node.inner:
                yield from visits(inner, (*context, f"run by {node.program}"))
            for word in _words(node):
                yield from _in_word(word, context)
        case Pipeline(stages=stages):
            for index, stage in enumerate(stages):
                yield from visits(stage, (*context, "pipeline" if index else "start of a pipeline"))
        case Sequence(items=items, separators=separators):
            for item, separator in zip(items, separators, strict=True):
                yield from visits(item, (*context, "background") if separator == "&" else context)
        case Compound():
            yield from _in_compound(node, context)


def _in_compound(node: Compound, context: tuple[str, ...]) -> Iterator[Visit]:
    inside = (*context, (node.name and f"{node.kind} {node.name}") or node.kind)
    if node.redirections:
        yield Visit(Command((), redirections=node.redirections), inside)
        for redirection in node.redirections:
            yield from _in_word(redirection.target, inside)
    for piece in node.pieces:
        if isinstance(piece, Word):
            yield from _in_word(piece, inside)
        elif not isinstance(piece, str):
            yield from visits(piece, inside)


def _in_word(word: Word, context: tuple[str, ...]) -> Iterator[Visit]:
    for part in word.parts:
        if part.body is not None:
            yield from visits(part.body, (*context, "substitution"))


def nodes(node: Node) -> Iterator[Node]:
    """Yield every node of a tree, what commands run and what stands in substitutions included."""
    yield node
    below: list[Node] = []
    words: list[Word] = []
    match node:
        case Command():
            below, words = list(node.inner), list(_words(node))
        case Pipeline(stages=several) | Sequence(items=several):
            below = list(several)
        case Compound():
            below = [piece for piece in node.pieces if not isinstance(piece, (str, Word))]
            words = [piece for piece in node.pieces if isinstance(piece, Word)]
            words += [one.target for one in node.redirections]
    for one in (*below, *(part.body for word in words for part in word.parts if part.body is not None)):
        yield from nodes(one)
