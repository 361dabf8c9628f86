"""Tell options from operands: what each word of an argument vector means to its program.

A program's options are described by one string, as in the tables:

    -abc        short options without a value, which may be joined
    -n:         a short option with a value, attached or in the next word
    -n:line     the same; the value is shell code
    -w?         a short option whose value, if there is one, is attached
    --all --lines: --command:line --color?      the same for long ones, whose values follow `=`
    -#          a number as an option (`-20`)

Long options must be spelled in full: an abbreviation may mean another option to another version.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import TypeAlias

from ...lazy import dataclass, regex
from ..syntax import PartKind, Word, literal

__all__ = [
    "Parsed",
    "comes_in",
    "is_code",
    "is_stream",
    "is_verb_open",
    "may_be_options",
    "parse_options",
    "without_start",
]


_NUMBER = regex(r"-\d+")


@dataclass(frozen=True, slots=True)
class Parsed:
    """Options with their values and what a value is, and operands; `unknown` is the first word not known."""

    options: tuple[_Option, ...]
    operands: tuple[Word, ...]
    unknown: Word | None = None

    def has(self, *names: str) -> bool:
        """Whether one of these options is given."""
        return any(name in names for name, _, _ in self.options)


_Option: TypeAlias = tuple[str, Word | None, str]
"""The name of an option, its value, and what kind of value that is."""

_Kinds: TypeAlias = Mapping[str, str]
"""Option names with what their value is: "" none, "?" perhaps attached, else the kind of the value."""


@lru_cache(maxsize=512)
def _kinds_of(described: str) -> _Kinds:
    kinds: dict[str, str] = {}
    for token in described.split():
        name, mark, kind = token.partition(":")
        optional = name.endswith("?")
        name = name.rstrip("?")
        value = (kind or "text") if mark else "?" if optional else ""
        if not name.startswith("--") and len(name) != 2 and (mark or optional):
            raise ValueError(f"{token}: only one short option can have a value")
        if name.startswith("--") or len(name) <= 2:
            kinds[name] = value
        else:
            kinds.update({f"-{letter}": "" for letter in name[1:]})
    return kinds


def parse_options(words: tuple[Word, ...], described: str, *, stops: bool = False) -> Parsed:
    """Read the words behind a program's name; `stops` at the first operand, as wrappers do."""
    kinds = _kinds_of(described)
    options: list[_Option] = []
    operands: list[Word] = []
    unknown: Word | None = None
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word == literal("--"):
            return Parsed(tuple(options), (*operands, *words[at:]), unknown)
        if not _is_option(word):
            operands.append(word)
            if stops:
                return Parsed(tuple(options), (*operands, *words[at:]), unknown)
            continue
        following = words[at] if at < len(words) else None
        found = list(_read(word, following, kinds))
        if not found:
            unknown = unknown or word
            continue
        options += found
        # The value of the last one was the next word if it is not a part of this one.
        at += found[-1][1] is not None and found[-1][1] is following
    return Parsed(tuple(options), tuple(operands), unknown)


def _is_option(word: Word) -> bool:
    """Whether a word is read as an option; one that begins with something open is left to the caller."""
    if word.is_literal:
        return word.text.startswith("-") and word.text != "-"
    return word.parts[0].kind is PartKind.LITERAL and word.parts[0].text.startswith("-")


def _read(word: Word, following: Word | None, kinds: _Kinds) -> Iterator[_Option]:
    """Yield the options in one word, or nothing where one of them is not known."""
    text = word.text if word.is_literal else word.parts[0].text
    if text.startswith("--"):
        found = _long(word, text, following, kinds)
        return iter([found] if found is not None else [])
    if _NUMBER.fullmatch(text) and word.is_literal and kinds.get("-#") is not None:
        return iter([("-#", None, "")])
    return iter(_cluster(word, text, following, kinds))


def _long(word: Word, text: str, following: Word | None, kinds: _Kinds) -> _Option | None:
    name, mark, _ = text.partition("=")
    kind = kinds.get(name)
    if kind is None or (not word.is_literal and not mark):
        return None
    if mark:
        return (name, without_start(word, len(name) + 1), kind.replace("?", "text")) if kind else None
    if kind in {"", "?"}:
        return name, None, ""
    return (name, following, kind) if following is not None else None


def _cluster(word: Word, text: str, following: Word | None, kinds: _Kinds) -> list[_Option]:
    found: list[_Option] = []
    for index, letter in enumerate(text[1:], 1):
        kind = kinds.get(f"-{letter}")
        if kind is None:
            return []
        is_last = index == len(text) - 1 and word.is_literal
        if kind and not (is_last and kind == "?"):
            value = following if is_last else without_start(word, index + 1)
            return [*found, (f"-{letter}", value, kind.replace("?", "text"))] if value is not None else []
        found.append((f"-{letter}", None, ""))
    return found if word.is_literal else []


def without_start(word: Word, start: int) -> Word:
    """Return a word without its first characters, which are literal."""
    if word.is_literal:
        return literal(word.text[start:])
    first, rest = word.parts[0], word.parts[1:]
    left = first.text[start:]
    kept = (type(first)(first.kind, left), *rest) if left else rest
    return Word(word.text[start:], kept)


_STREAM = regex(r"-|/dev/stdin|/dev/fd/\d+|/proc/(?:self|\d+)/fd/\d+")


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
            rest = without_start(word, len(option)) if word.text != option else following
            if is_stream(rest) or (rest.text.startswith("=") and is_stream(without_start(rest, 1))):
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
