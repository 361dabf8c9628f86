"""What does the model see of a text that is too long to show: its head and its tail.

The pipeline stores the whole text beforehand and adds the notice that says where it is.
"""

from __future__ import annotations

from dataclasses import replace

from .screened import Screened, Source

__all__ = ["distill"]

# Of the threshold: the head says what a text is, the tail of a log says how it ended.
_HEAD_TENTHS = 3
_TAIL_TENTHS = 2


def distill(screened: Screened, source: Source) -> Screened:
    """Return texts up to `source.threshold` characters as they are, else head and tail at line ends."""
    text = screened.text
    if len(text) <= source.threshold:
        return screened
    head = _to_line_end(text[: source.threshold * _HEAD_TENTHS // 10])
    tail = _from_line_start(text[len(text) - source.threshold * _TAIL_TENTHS // 10 :])
    left_out = len(text) - len(head) - len(tail)
    notice = f"{left_out} of {len(text)} characters in the middle are not shown"
    shortened = f"{head}\n[… {left_out} characters left out …]\n{tail}"
    return replace(screened, text=shortened, notices=(*screened.notices, notice))


def _to_line_end(text: str) -> str:
    """Drop a cut last line, unless that would drop half of the text."""
    end = text.rfind("\n")
    return text[: end + 1] if end >= len(text) // 2 else text


def _from_line_start(text: str) -> str:
    start = text.find("\n")
    return text[start + 1 :] if 0 <= start <= len(text) // 2 else text
