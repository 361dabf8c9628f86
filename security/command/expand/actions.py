"""A line as argument vectors: what a permission rule is held against."""

from __future__ import annotations

from collections.abc import Iterator

from ..syntax import Command, Node, Redirection, is_harmless
from .visit import visits

__all__ = ["actions_of", "is_sink", "vectors"]

_SINKS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/fd/1", "/dev/fd/2"})


def actions_of(node: Node) -> tuple[tuple[str, ...], ...]:
    """Return every argument vector of a tree, and what is assigned and redirected as vectors of their own."""
    return tuple(dict.fromkeys(argv for visit in visits(node) for argv in vectors(visit.command)))


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
