"""Read a window of lines from a file, block by block, without loading the whole file.

Lines end at a line feed. How the file stores them is left to `encoding.py`.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterator

import trio

from leeward.security.lazy import dataclass, regex
from leeward.security.outcome import Output
from leeward.security.text import redact_text

from .encoding import Encoding, as_utf8

__all__ = ["Window", "blocks", "in_window"]

_BLOCK = 1024 * 1024
_ENCODED_LINES = regex(r"^[A-Za-z0-9+/_-]{16,120}={0,2}\r?\n[A-Za-z0-9+/_=-]{2,}\r?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Window:
    """Which lines are wanted (`first` counts from 1), how many bytes at most, and whether with numbers."""

    first: int
    lines: int
    size: int
    numbered: bool = False


def blocks(descriptor: int) -> Iterator[bytes]:
    """Yield what a descriptor reads, a block at a time; in a thread of trio's it can be cancelled between."""
    while block := os.read(descriptor, _BLOCK):
        trio.from_thread.check_cancelled()
        yield block


def in_window(parts: Iterator[bytes], encoding: Encoding, window: Window) -> Output:
    """Return the wanted lines of a file that comes in blocks, and say what there is beside them."""
    rest = _behind(as_utf8(parts, encoding), window.first - 1)
    data, lines, more = (b"", 0, False) if rest is None else _taken(rest, window)
    if not data:
        is_past = rest is None or window.first > 1
        notice = f"line {window.first} is past the end of the file" if is_past else "the file is empty"
        return Output("", notices=(notice,))
    notices = [] if encoding.called == "UTF-8" else [f"the file is stored in {encoding.called}"]
    if more and not data.endswith(b"\n"):
        whole = data.rfind(b"\n") + 1
        if whole:
            data = data[:whole]
        else:
            notices.append(f"line {window.first} is longer than {window.size} bytes; its rest is left out")
            lines = 1
    if more:
        last = window.first + lines - 1
        notices.append(f"lines {window.first} to {last}; more follows, continue with offset={last + 1}")
    text, lost = _decoded(data, whole=not more)
    if lost:
        notices.append(f"not UTF-8: {lost} places are shown as U+FFFD")
    if window.numbered and _may_span_lines(text):
        notices.append("lines are not numbered, because a possible secret spans several of them")
    elif window.numbered:
        text = _numbered(text, window.first)
    return Output(text, notices=tuple(notices))


def _behind(parts: Iterator[bytes], lines: int) -> Iterator[bytes] | None:
    """Return what follows so many lines, or None where there are fewer."""
    while lines:
        block = next(parts, None)
        if block is None:
            return None
        found = block.count(b"\n")
        if found >= lines:
            rest = block[_end_of(block, lines) :]
            return _joined(rest, parts)
        lines -= found
    return parts


def _joined(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _end_of(block: bytes, lines: int) -> int:
    """Return where in a block its first so many lines end."""
    position = 0
    for _ in range(lines):
        position = block.index(b"\n", position) + 1
    return position


def _taken(parts: Iterator[bytes], window: Window) -> tuple[bytes, int, bool]:
    """Return the wanted lines as far as they fit, how many of them are whole, and whether more follows."""
    data, lines = bytearray(), 0
    for block in parts:
        found = block.count(b"\n")
        end = _end_of(block, window.lines - lines) if lines + found >= window.lines else len(block)
        room = window.size - len(data)
        kept = block[: min(end, room)]
        data += kept
        lines += kept.count(b"\n")
        if len(kept) < len(block):
            return bytes(data), lines, True
        if lines >= window.lines or len(data) >= window.size:
            return bytes(data), lines, any(parts)
    return bytes(data), lines, False


def _decoded(data: bytes, *, whole: bool) -> tuple[str, int]:
    """Return the text and at how many places it was no UTF-8; a last character may be cut unless `whole`."""
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(data, final=whole)
    return text, text.count("\N{REPLACEMENT CHARACTER}") - data.count("\N{REPLACEMENT CHARACTER}".encode())


def _may_span_lines(text: str) -> bool:
    """Whether a secret may go over several lines: with numbers between them it would not be known as one."""
    return bool(_ENCODED_LINES.search(text)) or redact_text(text).count("\n") != text.count("\n")


def _numbered(text: str, first: int) -> str:
    *lines, last = text.split("\n")
    shown = [f"{number:>6}\t{line}\n" for number, line in enumerate(lines, first)]
    if last:
        shown.append(f"{first + len(lines):>6}\t{last}")
    return "".join(shown)
