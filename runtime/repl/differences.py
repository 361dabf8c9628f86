"""Colour a unified diff: removed lines red, added lines green, and the words that differ underlined.

The text may come from anybody. Only the first characters of a line are interpreted, and the styles never
change the text.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence

from leeward.security.lazy import dataclass
from leeward.security.text import visible

from .screen import Line, within

__all__ = ["diff_lines", "folded", "is_diff", "sections_of"]

_WORD = re.compile(r"\w+|\s+|.", re.DOTALL)
_LONGEST_COMPARED = 400  # characters of a line beyond which its words are not compared
_HUNK = re.compile(r"@@ [^@]+ @@")
_INSIDE = ("+", "-", " ", "@", "\\")


def is_diff(text: str) -> bool:
    """Whether a text holds hunks of a diff."""
    return any(_HUNK.fullmatch(line) for line in text.split("\n"))


def sections_of(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each file of what a trial run changed: the line that names it, and the lines of its diff."""
    title, lines = "", list[str]()
    for line in text.split("\n"):
        if line.startswith(_INSIDE) and title:
            lines.append(line)
            continue
        if title:
            yield title, lines
        title, lines = line, []
    if title:
        yield title, lines


def diff_lines(lines: Sequence[str]) -> Iterator[Line]:
    """Yield lines of a diff with their styles."""
    removed: list[str] = []
    added: list[str] = []
    for line in lines:
        if line.startswith("-") and not added:
            removed.append(line)
        elif line.startswith("+") and removed:
            added.append(line)
        else:
            yield from _replaced(removed, added)
            removed, added = ([line], []) if line.startswith("-") else ([], [])
            if not removed:
                yield [(visible(line), _style(line))]
    yield from _replaced(removed, added)


def _style(line: str) -> str:
    return {"+": "green", "@": "cyan"}.get(line[:1], "")


def _replaced(removed: Sequence[str], added: Sequence[str]) -> Iterator[Line]:
    """Yield lines that replace others; where they are as many, words are compared line by line."""
    pairs = [*zip(removed, added, strict=True)] if len(removed) == len(added) else []
    compared = [_compared(old, new) for old, new in pairs]
    yield from (pair[0] for pair in compared) if compared else ([(visible(old), "red")] for old in removed)
    yield from (pair[1] for pair in compared) if compared else ([(visible(new), "green")] for new in added)


@dataclass(slots=True)
class _Pair:
    old: Line
    new: Line


def _compared(old: str, new: str) -> tuple[Line, Line]:
    if max(len(old), len(new)) > _LONGEST_COMPARED:
        return [(visible(old), "red")], [(visible(new), "green")]
    before, after = _WORD.findall(old[1:]), _WORD.findall(new[1:])
    pair = _Pair([("-", "red")], [("+", "green")])
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    is_alike = matcher.ratio() > 0.4
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        mark = "bold underline " if tag != "equal" and is_alike else ""
        pair.old.append((visible("".join(before[i1:i2])), f"{mark}red"))
        pair.new.append((visible("".join(after[j1:j2])), f"{mark}green"))
    return pair.old, pair.new


def folded(line: Line, width: int, head: str, below: str) -> Iterator[Line]:
    """Yield a styled line in pieces that fit, each behind `head` or `below`."""
    texts = [text for text, _ in line]
    pieces = [*within(width, head, "".join(texts), below)]
    styles = [style for text, style in line for _ in text]
    start = 0
    for number, piece in enumerate(pieces):
        lead = head if not number else below
        text = piece[len(lead) :]
        yield [(lead, ""), *_runs(text, styles[start : start + len(text)])]
        start += len(text)


def _runs(text: str, styles: Sequence[str]) -> Iterator[tuple[str, str]]:
    begin = 0
    for at in range(1, len(text) + 1):
        if at == len(text) or styles[at] != styles[begin]:
            yield text[begin:at], styles[begin]
            begin = at
