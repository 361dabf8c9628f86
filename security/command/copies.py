"""What does a program write that copies, moves, or is told the name of its output?"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from .nouns import PartKind, Word, literal
from .options import parse_options

__all__ = ["COPIERS", "copied", "outputs"]

COPIERS = frozenset("cp mv install ln rsync scp".split())
"""Programs whose last operand, or what is named behind `-t`, is written."""

_OPTIONS = "-abcCdfDFHilLnNpPqrRsTuvxXzZ -t: -m: -o: -g: -S: --target-directory:"
_TARGETS = ("-t", "--target-directory")
_OUTPUTS = ("-o", "-O", "-out", "--out", "--output", "--output-file", "--output-document")


def copied(words: tuple[Word, ...]) -> tuple[tuple[Word, ...], tuple[Word, ...]]:
    """Return what is copied and where to; the words are those behind the program's name."""
    found = parse_options(words, _OPTIONS)
    told = (value for name, value, _ in found.options if name in _TARGETS)
    named = tuple(value for value in told if value is not None)
    # A long option may be cut short.
    named += tuple(literal(word.text.partition("=")[2]) for word in words if word.text.startswith("--t"))
    operands = tuple(word for word in found.operands if not _is_process(word))
    if named:
        return operands, tuple(word for word in named if word.text)
    return (operands[:-1], operands[-1:]) if len(operands) > 1 else (operands, ())


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
