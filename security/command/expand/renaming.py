"""What does a command in a loop do with each of the files the loop goes through?

A name can be made of another one: `mv "$f" "${f%.txt}.md"`. The files that a pattern matches were looked
up, so each name that is made of theirs is known before it is written; what else there is stays unknown.
"""

from __future__ import annotations

import glob
import posixpath
import re
from collections.abc import Iterator
from dataclasses import replace

from ...paths import is_inside
from ...policy import Policy
from ..syntax import CommandFacts, Part, PartKind, Redirection, Word, literal
from .paths import Candidate, Ground, Placed, where

__all__ = ["leads_inside", "loop_of", "with_each_name"]

_MOST = 64
_NAME = r"\$\{(?P<name>[a-z][a-z0-9_]*|[A-Z])"
_CUT = re.compile(_NAME + r"(?P<mark>%%?|##?)(?P<cut>[A-Za-z0-9_.-]+|\.\*|\*/|/\*)\}")
_PUT = re.compile(_NAME + r"/(?P<all>/?)(?P<old>[A-Za-z0-9_.-]+)/(?P<new>[A-Za-z0-9_.-]*)\}")
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
        if texts is None or len(found) + len(texts) > _MOST:
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
    redirections = tuple(_redirected(one, text) for one in at.command.redirections)
    return replace(at, command=replace(at.command, words=words, redirections=redirections), bindings={})


def _redirected(one: Redirection, text: str) -> Redirection:
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
