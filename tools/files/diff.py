"""Unified diffs for a person to read.

What both versions begin and end with is set aside first. If more lines remain than can be compared in time,
all of the old and all of the new ones are printed, so that no file makes a diff slow.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from .encoding import encoding_of, is_binary

__all__ = ["unified"]

_CONTEXT = 3
_MOST_COMPARED = 1_000
_NO_END = "\\ no line end at the end of the file"


def unified(before: bytes | None, after: bytes) -> str:
    """Return the difference between two contents of a file, hunk by hunk; None is no file at all."""
    if before is not None and is_binary(before):
        return f"replaces a binary file of {len(before)} bytes by a text of {len(after)} bytes"
    old, new = (_lines(data) for data in (before or b"", after))
    if old == new:
        return "changes nothing but how the text is stored" if before != after else "changes nothing"
    first = "new file: " if before is None else f"changed file: {_counted(old)} before, now "
    return "\n".join((first + _counted(new), *_hunks(old, new)))


def _counted(lines: Sequence[str]) -> str:
    number = len(lines) - (lines[-1:] == [_NO_END])
    return "1 line" if number == 1 else f"{number} lines"


def _lines(data: bytes) -> list[str]:
    encoding = encoding_of(data)
    text = data[len(encoding.mark) :].decode(encoding.name, "replace")
    lines = text.split("\n")
    last = lines.pop()
    return [*lines, last, _NO_END] if last else lines


def _hunks(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    """Yield the lines of the diff; what both begin and end with is set aside before anything is compared."""
    start = _shared(old, new)
    end = _shared(old[start:][::-1], new[start:][::-1])
    first = max(0, start - _CONTEXT)
    tail = max(0, end - _CONTEXT)
    old_part, new_part = old[first : len(old) - tail], new[first : len(new) - tail]
    if max(len(old_part), len(new_part)) > _MOST_COMPARED:
        # Comparing takes time with the square of this; all of the old and all of the new says as much.
        yield f"@@ from line {first + 1} @@"
        yield from (f"-{line}" for line in old_part)
        yield from (f"+{line}" for line in new_part)
        return
    matcher = difflib.SequenceMatcher(None, old_part, new_part)
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        _, i1, _, j1, _ = group[0]
        _, _, i2, _, j2 = group[-1]
        yield f"@@ -{_range(first + i1, old_part[i1:i2])} +{_range(first + j1, new_part[j1:j2])} @@"
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from (f" {line}" for line in old_part[i1:i2])
                continue
            yield from (f"-{line}" for line in old_part[i1:i2])
            yield from (f"+{line}" for line in new_part[j1:j2])


def _range(start: int, lines: Sequence[str]) -> str:
    """Return where a hunk lies in one version: its first line and, unless that is 1, its number of lines.

    Where there are no lines, it is the line before them: `0,0` for a new file, as diff and git write it.
    """
    count = len(lines) - (lines[-1:] == [_NO_END])
    if count == 1:
        return str(start + 1)
    return f"{start + 1 if count else start},{count}"


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many elements two sequences begin with alike."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (left, right) in enumerate(pairs) if left != right), min(len(one), len(other)))
