"""Find which files a command writes, copies to or moves.

A target that cannot be told could be any file, a protected one too. What a loop goes through, and what the
line sets once and nothing else can set, is known.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

from ..programs import Parsed, parse_options
from ..syntax import Command, Compound, Node, PartKind, Word, is_shells_own, literal
from .paths import Ground, Placed, fillings, where
from .variables import set_by_builtins
from .visit import is_sink

__all__ = ["COPIERS", "copied", "open_target", "outputs", "settled", "written"]


COPIERS = frozenset("cp mv install ln rsync scp".split())
"""Programs whose last operand, or what is named behind `-t`, is written."""

_OPTIONS = "-abcCdfDFHilLnNpPqrRsTuvxXzZ -t: -m: -o: -g: -S: --target-directory:"
_TARGETS = ("-t", "--target-directory")
# Here `-t` and `-o` mean something else, and the last operand is always what is written.
_REMOTE = {
    "rsync": "-0346aAbcCdDEFgHhiIJkKlLmnNoOpPqrRsStuUvVWxXyz -e: -f: -B: -T: -M: --rsh: --exclude: "
    "--include: --filter: --exclude-from: --include-from: --files-from: --rsync-path: --chmod: --port:",
    "scp": "-346ABCOpqRrTv -c: -D: -F: -i: -J: -l: -o: -P: -S: -X:",
}
_OUTPUTS = ("-o", "-O", "-out", "--out", "--output", "--output-file", "--output-document")


def copied(words: tuple[Word, ...], program: str) -> tuple[tuple[Word, ...], tuple[Word, ...]]:
    """Return what is copied and where to; the words are those behind the program's name."""
    found = parse_options(words, _REMOTE.get(program, _OPTIONS))
    operands = tuple(word for word in found.operands if not _is_process(word))
    named = () if program in _REMOTE else tuple(_named(words, found))
    if named:
        return operands, tuple(word for word in named if word.text)
    return (operands[:-1], operands[-1:]) if len(operands) > 1 else (operands, ())


def _named(words: tuple[Word, ...], found: Parsed) -> Iterator[Word]:
    """Yield what options name as the target; a long option may be cut short."""
    yield from (value for name, value, _ in found.options if name in _TARGETS and value is not None)
    for word, following in pairwise((*words, literal(""))):
        _, mark, value = word.text.partition("=")
        if word.text.startswith("--t"):
            yield literal(value) if mark else following


def outputs(words: tuple[Word, ...]) -> Iterator[Word]:
    """Yield what options call the output of a program, whichever it is."""
    for word, following in pairwise((*words, literal(""))):
        name, mark, value = word.text.partition("=")
        if word.is_literal and name in _OUTPUTS:
            yield literal(value) if mark else following
        elif word.is_literal and word.text.startswith(("-o", "-O")):
            yield literal(word.text[2:])


def _is_process(word: Word) -> bool:
    return any(part.kind is PartKind.OUTPUT for part in word.parts)


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
