"""Expand loops: what a command does for each value of its variables, and names made of other names.

A value can be an option or a program, so each is put in place and the command is read again. Files a pattern
matches were looked up, so names made of theirs (`mv "$f" "${f%.txt}.md"`) are known; others stay unknown.
"""

from __future__ import annotations

import glob
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ...paths import is_inside
from ...policy import Policy
from ..syntax import Command, CommandFacts, Part, PartKind, Redirection, Word, is_shells_own, literal
from .parse import again
from .paths import Candidate, Ground, Placed, fillings, placed, variants, where
from .variables import MOST_VARIANTS
from .visit import visits

__all__ = ["Bound", "bound", "guessed", "leads_inside", "loop_of", "with_each_name"]


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


_MOST_NAMES = 64
_VARIABLE = r"\$\{(?P<name>[a-z][a-z0-9_]*|[A-Z])"
_CUT = re.compile(_VARIABLE + r"(?P<mark>%%?|##?)(?P<cut>[A-Za-z0-9_.-]+|\.\*|\*/|/\*)\}")
_PUT = re.compile(_VARIABLE + r"/(?P<all>/?)(?P<old>[A-Za-z0-9_.-]+)/(?P<new>[A-Za-z0-9_.-]*)\}")
_NAMED = frozenset({PartKind.LITERAL, PartKind.GLOB})


def loop_of(at: Placed) -> str | None:
    """Return the one variable of a loop that the words of a command are made with, or None."""
    words = (*at.command.words, *(one.target for one in at.command.redirections))
    names = {_name_in(part) for word in words for part in word.parts} - {""}
    return next(iter(names)) if len(names) == 1 and names <= set(at.bindings) else None


def with_each_name(at: Placed, name: str, facts: CommandFacts, ground: Ground) -> tuple[Placed, ...] | None:
    """Return the command as it is for each value of a loop's variable; None where that cannot be told."""
    found: list[Placed] = []
    for value in at.bindings[name]:
        texts = _names_of(value, at, facts, ground)
        if texts is None or len(found) + len(texts) > _MOST_NAMES:
            return None
        found += [_with_name(at, text) for text in texts]
    return tuple(found)


def leads_inside(word: Word, at: Placed, facts: CommandFacts, policy: Policy) -> bool:
    """Whether a name that was made lies in a folder whose entries were looked up, and leads nowhere else."""
    allowed = (policy.workspace, *policy.allowed_paths)
    for candidate in where(word, at.folders, policy) or (Candidate("/"),):
        folder, name = posixpath.split(candidate.path.rstrip("/"))
        real, entries = facts.real.get(folder), facts.matches.get(f"{glob.escape(folder)}/*")
        if real is None or entries is None or name.startswith("."):
            return False
        known = facts.real.get(candidate.path) if candidate.path in entries else f"{real}/{name}"
        if known is None or not is_inside(known, *allowed):
            return False
    return True


def _names_of(value: Word, at: Placed, facts: CommandFacts, ground: Ground) -> tuple[str, ...] | None:
    if value.is_literal:
        return (value.text,)
    candidates = where(value, at.folders, ground)
    if candidates is None or len(candidates) != 1 or {part.kind for part in value.parts} - _NAMED:
        return None
    matches = facts.matches.get(candidates[0].path)
    if matches is None:
        return None
    text = "".join(part.text for part in value.parts)
    if "//" in text:
        # What was looked up is spelled with one slash, and what is cut off a name counts them.
        return None
    end = "/" if text.endswith("/") else ""
    start = "" if text.startswith("/") else f"{next(iter(at.folders or ()), '').rstrip('/')}/"
    return tuple(path.removeprefix(start) + end for path in matches) or (text,)


def _with_name(at: Placed, text: str) -> Placed:
    words = tuple(_filled(word, text) for word in at.command.words)
    redirections = tuple(_with_target(one, text) for one in at.command.redirections)
    return replace(at, command=replace(at.command, words=words, redirections=redirections), bindings={})


def _with_target(one: Redirection, text: str) -> Redirection:
    return replace(one, target=_filled(one.target, text))


def _filled(word: Word, text: str) -> Word:
    """Return a word with a name in place of what is made of it, if nothing else is open in it."""
    pieces = [part.text if part.kind is PartKind.LITERAL else _made(part, text) for part in word.parts]
    return literal("".join(filter(None, pieces))) if pieces and None not in pieces else word


def _made(part: Part, text: str) -> str | None:
    """Return what the shell makes of a name, None where that is not known or it might be several words."""
    if not part.quoted and re.search(r"[\s*?\[\\]", text):
        return None
    if part.kind is PartKind.VARIABLE:
        return text
    if (found := _PUT.fullmatch(part.text)) is not None:
        return text.replace(found["old"], found["new"], -1 if found["all"] else 1)
    found = _CUT.fullmatch(part.text)
    return next(_cut(text, found["mark"], found["cut"]), text) if found is not None else None


def _cut(text: str, mark: str, cut: str) -> Iterator[str]:
    """Yield what is left of a name, nothing where nothing is cut off."""
    if "*" not in cut:
        yield text.removesuffix(cut) if mark[0] == "%" else text.removeprefix(cut)
    elif cut.strip("*") in text:
        at = text.index if mark in {"%%", "#"} else text.rindex
        where_cut = at(cut.strip("*"))
        if (mark[0] == "%") == cut.endswith("*"):
            yield text[:where_cut] if mark[0] == "%" else text[where_cut + 1 :]


def _name_in(part: Part) -> str:
    if part.kind is PartKind.VARIABLE:
        return part.text
    found = _CUT.fullmatch(part.text) or _PUT.fullmatch(part.text)
    return found["name"] if found is not None else "" if part.kind is PartKind.LITERAL else "?"
