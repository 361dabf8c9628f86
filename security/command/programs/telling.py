"""What can be told of a word that says what is run: is it code, a script, a stream, or known only later?"""

from __future__ import annotations

import re
from itertools import pairwise

from ..syntax import PartKind, Word, literal
from .options import tail

__all__ = ["comes_in", "is_code", "is_stream", "is_verb_open", "may_be_options"]

_STREAM = re.compile(r"-|/dev/stdin|/dev/fd/\d+|/proc/(?:self|\d+)/fd/\d+")


def is_code(text: str, options: tuple[str, ...]) -> bool:
    """Whether a word is one of the options of a program that take code or a program, in any spelling."""
    for option in options:
        if text == option.removeprefix("=") or text.startswith(f"{option}="):
            return True
        if option.startswith("--"):
            # A long option may be cut short as long as it is unique.
            if len(text) > 3 and option.startswith(text.partition("=")[0]):
                return True
        elif len(option) == 2 and option[0] == "-":
            if text.startswith("-") and not text.startswith("--") and option[1] in text:
                return True
        elif option in {"+", "/c", "/C", "/k"} and text.startswith(option):
            return True
    return False


def is_stream(word: Word) -> bool:
    """Whether a script is nothing that lies on a disk."""
    return _STREAM.fullmatch(word.text) is not None or any(part.body for part in word.parts)


def comes_in(words: tuple[Word, ...], options: tuple[str, ...]) -> bool:
    """Whether the file of code that one of these options names is nothing that lies on a disk."""
    for word, following in pairwise((*words, literal(""))):
        option = next((name for name in options if word.text.startswith(name)), None)
        if option is not None:
            rest = tail(word, len(option)) if word.text != option else following
            if is_stream(rest) or (rest.text.startswith("=") and is_stream(tail(rest, 1))):
                return True
    return False


def may_be_options(word: Word, behind: tuple[Word, ...]) -> bool:
    """Whether a script's name could become the option that runs code, and the code, too."""
    kinds = {PartKind.VARIABLE, PartKind.EXPANSION, PartKind.SUBSTITUTION}
    first = word.parts[0] if word.parts else None
    return first is not None and first.kind in kinds and (not first.quoted or bool(behind))


def is_verb_open(words: tuple[Word, ...]) -> bool:
    """Whether the first word that is no option, or an option before it, is only known when it runs."""
    for word in words[1:]:
        if not word.is_literal and all(part.kind is not PartKind.GLOB for part in word.parts):
            return True
        if not word.text.startswith("-"):
            return False
    return False
