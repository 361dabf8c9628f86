"""Visit everything a line consists of: to add what commands run, and to list commands or argument vectors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..syntax import Command, Compound, Node, Part, Piece, PipeNode, Redirection, Sequence, Word, is_harmless
from .unwrap import Nest, sent, unwrapped

__all__ = ["actions_of", "commands_of", "is_sink", "nodes", "vectors", "with_inner"]


def with_inner(node: Node, nest: Nest) -> Node:
    """Return a tree in which every command knows what it runs in turn."""
    match node:
        case Command():
            return unwrapped(_command(node, nest), sent(nest, node.redirections))
        case PipeNode(stages=nodes):
            behind = replace(nest, sent=True)
            stages = (with_inner(one, behind if at else nest) for at, one in enumerate(nodes))
            return replace(node, stages=tuple(stages))
        case Sequence(items=nodes):
            return replace(node, items=tuple(with_inner(one, nest) for one in nodes))
        case Compound():
            own = sent(nest, node.redirections)
            pieces = tuple(_piece(piece, own) for piece in node.pieces)
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


def _words(command: Command) -> list[Word]:
    words = list(command.words)
    if command.assignments:
        words += [one.value for one in command.assignments]
    if command.redirections:
        words += [one.target for one in command.redirections]
    return words


def _redirections(found: tuple[Redirection, ...], nest: Nest) -> tuple[Redirection, ...]:
    return tuple(replace(one, target=_word(one.target, nest)) for one in found)


def _word(word: Word, nest: Nest) -> Word:
    if not any(part.body for part in word.parts):
        return word
    return replace(word, parts=tuple(_part(part, nest) for part in word.parts))


def _part(part: Part, nest: Nest) -> Part:
    return replace(part, body=with_inner(part.body, nest)) if part.body is not None else part


def commands_of(node: Node) -> list[Command]:
    """Return every command of a tree in the order of the text, and behind each what it runs in turn.

    A loop, group or subshell that is redirected is a command of its own, without words.
    """
    found: list[Command] = []
    for one in nodes(node):
        if isinstance(one, Command):
            found.append(one)
        elif isinstance(one, Compound) and one.redirections:
            found.append(Command((), redirections=one.redirections))
    return found


def nodes(node: Node) -> list[Node]:
    """Return every node of a tree, including what commands run and the nodes in substitutions."""
    found: list[Node] = []
    waiting = [node]
    while waiting:
        one = waiting.pop()
        found.append(one)
        waiting += reversed(_below(one))
    return found


def _below(node: Node) -> list[Node]:
    """Return the nodes right below one: its parts, what it runs, and the nodes in its substitutions."""
    match node:
        case Command():
            return [*node.inner, *_bodies(_words(node))]
        case PipeNode(stages=several) | Sequence(items=several):
            return list(several)
        case Compound():
            found = _bodies([one.target for one in node.redirections])
            for piece in node.pieces:
                if isinstance(piece, Word):
                    found += _bodies([piece])
                elif not isinstance(piece, str):
                    found.append(piece)
            return found


def _bodies(words: list[Word]) -> list[Node]:
    return [part.body for word in words for part in word.parts if part.body is not None]


_SINKS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/fd/1", "/dev/fd/2"})


def actions_of(node: Node) -> tuple[tuple[str, ...], ...]:
    """Return every argument vector of a tree, and what is assigned and redirected as vectors of their own."""
    return tuple(dict.fromkeys(argv for command in commands_of(node) for argv in vectors(command)))


def vectors(command: Command) -> Iterator[tuple[str, ...]]:
    """Yield the argument vectors of one command, without what it runs in turn."""
    if command.words:
        yield tuple(word.text for word in command.words)
    for assignment in command.assignments:
        if not is_harmless(assignment):
            yield (str(assignment),)
    for redirection in command.redirections:
        if redirection.writes and not is_sink(redirection):
            yield (">", redirection.target.text)
        elif redirection.reads and not is_sink(redirection):
            yield ("<", redirection.target.text)


def is_sink(redirection: Redirection) -> bool:
    """Whether what is redirected goes nowhere, or only between a program's own outputs."""
    return redirection.duplicates or (redirection.target.is_literal and redirection.target.text in _SINKS)
