"""Can it be told which file a command writes? One that nobody can tell could be any, a protected one too.

What a loop goes through, and what the line sets once and nothing else can set, is known.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from ..syntax import Command, Compound, Node, PartKind, Word, is_shells_own, literal
from .actions import is_sink
from .copies import COPIERS, copied
from .paths import Ground, Placed, fillings, where
from .variables import set_by_builtins

__all__ = ["open_target", "settled", "written"]

_ALL_ARE_WRITTEN = frozenset({"tee", "sponge"})
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Where only the beginning of a name is open, such an end tells that nothing runs or obeys the file.
_HARMLESS_END = re.compile(r"\.(?:bak|orig|old|new|tmp|out|log|csv|tsv|gz|zip)")


def settled(guesses: Mapping[str, tuple[Word, ...]], parts: list[Node]) -> Mapping[str, tuple[Word, ...]]:
    """Return those of a line's guesses that nothing else among its nodes may set."""
    loops = (node.name for node in parts if isinstance(node, Compound) and node.kind != "function")
    commands = (node for node in parts if isinstance(node, Command))
    unsettled = {*loops, *set_by_builtins(commands)} if guesses else set()
    sure = {name: words for name, words in guesses.items() if len(words) == 1}
    return {name: words for name, words in sure.items() if _is_settled(name, unsettled)}


def open_target(at: Placed, ground: Ground, settled: Mapping[str, tuple[Word, ...]]) -> str | None:
    """Return a word that says where a command writes and could mean any file, or None."""
    words = (target for written in written(at) for target in fillings(written, at, settled))
    return next((word.text for word in words if _is_open(word, at, ground)), None)


def _is_settled(name: str, unsettled: set[str]) -> bool:
    return name not in unsettled and _NAME.fullmatch(name) is not None and not is_shells_own(name)


def written(at: Placed) -> Iterator[Word]:
    """Yield the words that say where a command writes."""
    for redirection in at.command.redirections:
        is_process = any(part.kind is PartKind.OUTPUT for part in redirection.target.parts)
        if redirection.writes and not is_sink(redirection) and not is_process:
            yield redirection.target
    program, words = at.command.program, at.command.words[1:]
    if program in _ALL_ARE_WRITTEN:
        yield from _operands(words)
    elif program in COPIERS:
        yield from copied(words, program)[1]
    elif program == "dd":
        yield from (_behind(word, "of=") for word in words if word.text.startswith("of="))


def _operands(words: Iterable[Word]) -> Iterator[Word]:
    outputs = {PartKind.OUTPUT}
    for word in words:
        if not word.text.startswith("-") and not outputs & {part.kind for part in word.parts}:
            yield word


def _behind(word: Word, start: str) -> Word:
    if word.is_literal:
        return literal(word.text[len(start) :])
    first, *rest = word.parts
    left = first.text[len(start) :]
    parts = (replace(first, text=left), *rest) if left else tuple(rest)
    return Word(word.text[len(start) :], parts)


def _is_open(word: Word, at: Placed, ground: Ground) -> bool:
    end = word.parts[-1] if word.parts else None
    name = end.text.rpartition("/")[2] if end is not None and end.kind is PartKind.LITERAL else ""
    if end is not None and _HARMLESS_END.fullmatch(posixpath.splitext(name)[1] or name):
        return False
    found = where(word, at.folders, ground)
    return found is None or any(one.is_glob or one.below for one in found)
