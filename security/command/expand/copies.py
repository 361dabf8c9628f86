"""What does a program write that copies, moves, or is told the name of its output?"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from ..programs import Parsed, parse_options
from ..syntax import PartKind, Word, literal

__all__ = ["COPIERS", "copied", "outputs"]

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
