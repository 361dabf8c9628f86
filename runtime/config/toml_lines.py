"""Find the line of each key in a TOML text.

`tomllib` reads values and discards where they were. This file cuts a text, which `tomllib` has accepted
before, into its statements and has `tomllib` read each alone, so that every key gets the line it was written
on. It judges nothing and reads no file.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import field
from typing import TypeAlias

from leeward.security.lazy import dataclass, regex

__all__ = ["KeyPath", "Placed", "key_lines", "placed_in"]

KeyPath: TypeAlias = tuple[str | int, ...]
"""The names from the root to a key; an entry of an array is named by its index, from 0."""

# A token is read in one pass however long it is: all alternatives of a group begin differently. Such a group
# is not possessive, since before Python 3.11.5 it would match too little.
_TOKEN = regex(
    r'''(?P<string> """(?:[^"\\]|\\.|"(?!""))*"{3,5} | \'\'\'(?:[^']|'(?!''))*'{3,5}
                  | "(?:[^"\\\n]|\\.)*" | '[^'\n]*+')
      | (?P<comment> \#[^\n]*+)
      | (?P<blank> [ \t]++)
      | (?P<newline> \n)
      | (?P<open> [\[{])
      | (?P<close> [\]}])
      | (?P<comma> ,)
      | (?P<other> [^\s"'\#\[\]{},]++ | .)''',
    re.VERBOSE | re.DOTALL,
)


@dataclass(slots=True)
class _Statement:
    """One header, or one `key = value`: its first line, and the lines on which entries of an array begin."""

    line: int
    text: str = ""
    entries: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Placed:
    """A header or a `key = value` of a text: its full path, and its first and last line (from 1)."""

    path: KeyPath
    is_header: bool
    first: int
    last: int


def placed_in(text: str) -> Iterator[Placed]:
    """Yield the headers and the keys of a valid TOML text, in order; what is inline is part of its key.

    Raises:
        tomllib.TOMLDecodeError: the text is not TOML.
    """
    counts: dict[KeyPath, int] = {}
    table: KeyPath = ()
    for statement in _statements(text):
        names, _ = _spine(tomllib.loads(statement.text))
        last = statement.line + statement.text.count("\n")
        if statement.text.startswith("["):
            table = _entered(names, counts, repeated=statement.text.startswith("[["))
            yield Placed(table, True, statement.line, last)
        else:
            key = names[: _dots_in(statement.text)]
            yield Placed((*table, *key), False, statement.line, last)


def _dots_in(text: str) -> int:
    """Return how many names the key of a statement has: `a.b = {c = 1}` has two."""
    count = 1
    for token in _TOKEN.finditer(text):
        if token.lastgroup == "other":
            before, sign, _ = token[0].partition("=")
            count += before.count(".")
            if sign:
                break
    return count


def key_lines(text: str) -> dict[KeyPath, int]:
    """Return the line (from 1) of every key and table of a valid TOML text, in linear time.

    Keys of inline tables and of entries of arrays are found under their full path too; where
    several statements speak of one table, the first counts.

    Raises:
        tomllib.TOMLDecodeError: the text is not TOML.
    """
    lines: dict[KeyPath, int] = {}
    counts: dict[KeyPath, int] = {}
    table: KeyPath = ()
    for statement in _statements(text.replace("\r\n", "\n")):
        names, value = _spine(tomllib.loads(statement.text))
        if statement.text.startswith("["):
            table = _entered(names, counts, repeated=statement.text.startswith("[["))
            _note(lines, table, len(table), statement.line)
            continue
        path = (*table, *names)
        _note(lines, path, len(names), statement.line)
        _note_value(lines, path, value, statement)
    return lines


def _statements(text: str) -> Iterator[_Statement]:
    """Cut a text at the newlines that are in no string and in no bracket."""
    line, start, depth = 1, 0, 0
    current, wants_entry = _Statement(1), False
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        if kind == "newline" and depth == 0:
            current.text = text[start : token.start()].strip()
            if current.text and not current.text.startswith("#"):
                yield current
            start, current = token.end(), _Statement(line + 1)
        if wants_entry and kind in {"string", "open", "other"}:
            current.entries.append(line)
            wants_entry = False
        depth += {"open": 1, "close": -1}.get(kind or "", 0)
        wants_entry = wants_entry or (depth == 1 and kind in {"open", "comma"})
        line += token[0].count("\n")
    current.text = text[start:].strip()
    if current.text and not current.text.startswith("#"):
        yield current


def _spine(tree: dict[str, object]) -> tuple[tuple[str, ...], object]:
    """Follow the only key of each table downwards: the dotted key of a statement, and its value.

    The end of `a.b = {c = 1}` looks like that of `a.b.c = 1`; both are on one line anyway.
    """
    names: list[str] = []
    value: object = tree
    while isinstance(value, dict) and len(value) == 1:
        name, value = next(iter(value.items()))
        names.append(name)
    return tuple(names), value


def _entered(names: tuple[str, ...], counts: dict[KeyPath, int], *, repeated: bool) -> KeyPath:
    """Return the full path of a header; a name of an array of tables means its newest entry."""
    path: KeyPath = ()
    for index, name in enumerate(names):
        path = (*path, name)
        if repeated and index == len(names) - 1:
            counts[path] = counts.get(path, 0) + 1
        if path in counts:
            path = (*path, counts[path] - 1)
    return path


def _note(lines: dict[KeyPath, int], path: KeyPath, depth: int, line: int) -> None:
    """Remember the line of a path and of the tables its last `depth` names opened."""
    for length in range(len(path) - depth + 1, len(path) + 1):
        lines.setdefault(path[:length], line)


def _note_value(lines: dict[KeyPath, int], path: KeyPath, value: object, statement: _Statement) -> None:
    """Remember the places of the keys of an inline table and the entries of an array."""
    pending: list[tuple[KeyPath, object, int]] = [(path, value, statement.line)]
    while pending:
        here, item, line = pending.pop()
        lines.setdefault(here, line)
        if isinstance(item, dict):
            pending.extend(((*here, name), inner, line) for name, inner in item.items())
        elif isinstance(item, list):
            own = statement.entries if here == path and len(statement.entries) == len(item) else []
            pending.extend(
                ((*here, index), inner, own[index] if own else line) for index, inner in enumerate(item)
            )
