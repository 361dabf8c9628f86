"""What does a command do for each value that a loop, or the line itself, gives its variables?

A value can be an option, or what is run; so each is put in place and the command is read again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..syntax import Command, Part, PartKind, Word, is_shells_own, literal
from .parse import again
from .paths import Ground, Placed, fillings, placed, variants
from .variables import MOST_VARIANTS
from .visit import visits

__all__ = ["Bound", "bound", "guessed"]

_MOST = 48
# Every so many characters take as much as another value does, and every command as so many characters.
_CHARACTERS = 128
_COMMAND = 64
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


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
        words = variants(at) if left > 0 else None
        left -= _weight(at.command, words or ())
        every.append(Bound(at, tuple(_with(at, one) for one in words) if words and left >= 0 else None))
    return tuple(every)


def guessed(every: tuple[Bound, ...], ground: Ground, taken: frozenset[str] | None) -> Iterator[Placed]:
    """Yield each command, and all that it runs then, for what its variables are thought to be.

    Those that are not `taken`, for nothing in the line sets them, are thought to be empty.
    """
    left = _MOST
    seen: set[tuple[object, ...]] = set()
    for one in every:
        likely: tuple[Placed, ...] | None = None
        unset = _unset(one.at.command, taken)
        if (unset or one.at.guesses or one.at.bindings) and left > 0:
            guess = replace(one.at, bindings={**unset, **one.at.guesses, **one.at.bindings})
            guess = _with(guess, tuple(_split(guess)))
            several = variants(guess) or ()
            made = {each.command.words: each for each in one.each or ()}
            is_same = several == (one.at.command.words,)
            left -= 0 if is_same else _weight(guess.command, several)
            # Where that is too much, the next ones are not tried either.
            fitting = several if left > -MOST_VARIANTS else ()
            likely = tuple(made.get(words) or _with(guess, words) for words in fitting) or None
        for at in _redirected(one.at):
            target = (at.folders, at.command.redirections)
            if target not in seen:
                seen.add(target)
                yield at
        written = one.each or (one.at,)
        # What nothing in the line sets may have come from outside.
        for at in (*likely, *(written if unset else ())) if likely else written:
            yield at
            for inner in at.command.inner if at.command is not one.at.command else ():
                yield from (replace(found, folders=at.folders) for found in placed(inner, ground))


def _weight(command: Command, several: tuple[tuple[Word, ...], ...]) -> int:
    """Return how much it takes to read and judge a command with other words: one for most."""
    inside = [visit.command for visit in visits(command)]
    run = _COMMAND * len(inside) + sum(len(word.text) for one in inside[1:] for word in one.words)
    return sum(1 + (run + sum(len(word.text) for word in words)) // _CHARACTERS for words in several)


def _unset(command: Command, taken: frozenset[str] | None) -> dict[str, tuple[Word, ...]]:
    """Return as empty what stands where nothing would be left but a root: `"$x"/*`, `$x rm`."""
    if taken is None:
        return {}
    bare = (word for word in command.words if not any(map(_is_named, word.parts)))
    names = {part.text for word in bare for part in word.parts if part.kind is PartKind.VARIABLE}
    return {
        name: (literal(""),) for name in names - taken if _NAME.fullmatch(name) and not is_shells_own(name)
    }


def _is_named(part: Part) -> bool:
    return part.kind is PartKind.LITERAL and part.text.strip("/.") != ""


def _split(at: Placed) -> Iterator[Word]:
    """Yield the words of a command as the shell splits the values in them."""
    for word in at.command.words:
        alone = word.parts[0] if len(word.parts) == 1 else None
        values = at.bindings.get(alone.text, ()) if alone is not None else ()
        if alone is not None and alone.text in {"@", "*"} and values:
            yield from values
        elif alone is not None and not alone.quoted and len(values) == 1 and values[0].is_literal:
            yield from map(literal, values[0].text.split())
        else:
            yield word if word.is_literal else _whole(word, at)


def _whole(word: Word, at: Placed) -> Word:
    """Return a word in which a variable that holds a pattern is quoted: names with blanks are rare."""
    patterns = {
        name for name, values in at.bindings.items() if any(map(_is_glob, values)) and name not in at.guesses
    }
    parts = tuple(replace(part, quoted=True) if part.text in patterns else part for part in word.parts)
    return word if parts == word.parts else Word(word.text, parts)


def _is_glob(word: Word) -> bool:
    return any(part.kind is PartKind.GLOB for part in word.parts)


def _redirected(at: Placed) -> Iterator[Placed]:
    """Yield the redirections of a command for what variables are thought to be."""
    for one in at.command.redirections:
        for target in fillings(one.target, at, at.guesses):
            if target is not one.target:
                yield replace(at, command=Command((), redirections=(replace(one, target=target),)))


def _with(at: Placed, words: tuple[Word, ...]) -> Placed:
    return at if words == at.command.words else replace(at, command=again(at.command, words))
