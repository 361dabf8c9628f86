"""What does a command do for each value that a loop, or the line itself, gives its variables?

A value can be an option, or what is run; so each is put in place and the command is read again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from .nouns import Command, Word
from .places import Ground, Placed, fillings, placed, variants
from .read import again

__all__ = ["Bound", "bound", "guessed"]

_MOST = 48


@dataclass(frozen=True, slots=True)
class Bound:
    """A command as it is written, and as it is for every value its loops give it; None for too many."""

    at: Placed
    each: tuple[Placed, ...] | None


def bound(found: tuple[Placed, ...]) -> tuple[Bound, ...]:
    """Return each command with what loops make of it, as long as they do not make too many of all."""
    left = _MOST
    every: list[Bound] = []
    for at in found:
        if not at.bindings:
            every.append(Bound(at, (at,)))
            continue
        words = variants(at)
        left -= len(words or ())
        every.append(Bound(at, tuple(_with(at, one) for one in words) if words and left >= 0 else None))
    return tuple(every)


def guessed(every: tuple[Bound, ...], ground: Ground) -> Iterator[Placed]:
    """Yield each command, and all that it runs then, for what its variables are thought to be."""
    left = _MOST
    seen: set[tuple[object, ...]] = set()
    for one in every:
        likely: tuple[Placed, ...] | None = None
        if one.at.guesses and left > 0:
            guess = replace(one.at, bindings={**one.at.guesses, **one.at.bindings})
            likely = tuple(_with(guess, words) for words in variants(guess) or ()) or None
            left -= sum(at.command is not one.at.command for at in likely or ())
        for at in _redirected(one.at):
            target = (at.folders, at.command.redirections)
            if target not in seen:
                seen.add(target)
                yield at
        for at in likely or one.each or (one.at,):
            yield at
            for inner in at.command.inner if at.command is not one.at.command else ():
                yield from (replace(found, folders=at.folders) for found in placed(inner, ground))


def _redirected(at: Placed) -> Iterator[Placed]:
    """Yield the redirections of a command for what variables are thought to be."""
    for one in at.command.redirections:
        for target in fillings(at, one.target):
            if target is not one.target:
                yield replace(at, command=Command((), redirections=(replace(one, target=target),)))


def _with(at: Placed, words: tuple[Word, ...]) -> Placed:
    return at if words == at.command.words else replace(at, command=again(at.command, words))
