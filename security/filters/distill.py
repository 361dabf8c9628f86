"""Shorten a long text: output filters first, then its head and its tail.

The pipeline stores the whole text and adds the notice that says where it is.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from .screened import Screened, Source

__all__ = ["Excerpt", "distill"]

# Of the threshold: the head says what a text is, the tail of a log says how it ended.
_HEAD_TENTHS, _TAIL_TENTHS = 3, 2


def distill(screened: Screened, source: Source) -> Screened:
    """Return what output filters leave, up to `source.threshold` characters; of more, head and tail."""
    whole = screened.sizes[0] or len(screened.text)
    if source.begin is not None:
        distillation = source.begin()
        distillation.feed(screened.text)
        screened = screened.distilled(distillation.finish(source.exit_code, source.threshold))
    excerpt = Excerpt(source.threshold)
    excerpt.feed(screened.text)
    text, notices = excerpt.text, (*screened.notices, *excerpt.notices)
    is_cut = screened.is_cut or excerpt.is_cut
    return replace(screened, text=text, notices=notices, is_cut=is_cut, sizes=(whole, len(text)))


class Excerpt:
    """What is shown of a text that comes in pieces; no more of it is held than that."""

    def __init__(self, threshold: int) -> None:
        self.total: int = 0
        self._threshold = threshold
        self._tail_length = threshold * _TAIL_TENTHS // 10
        self._head: list[str] = []
        self._tail: deque[str] = deque()
        self._in_tail = 0

    @property
    def is_cut(self) -> bool:
        """Whether not all of it is shown."""
        return self.total > self._threshold

    def feed(self, piece: str) -> None:
        """Take the next piece."""
        if not self.is_cut:
            self._head.append(piece[: self._threshold - self.total])
        self.total += len(piece)
        piece = piece[max(0, len(piece) - self._tail_length) :]
        self._tail.append(piece)
        self._in_tail += len(piece)
        while self._in_tail - len(self._tail[0]) > self._tail_length:
            self._in_tail -= len(self._tail.popleft())

    @property
    def text(self) -> str:
        """All of it, or its head and its tail at line ends."""
        if not self.is_cut:
            return "".join(self._head)
        head, tail = self._ends()
        return f"{head}\n[… {self.total - len(head) - len(tail)} characters left out …]\n{tail}"

    @property
    def notices(self) -> tuple[str, ...]:
        """Say how much is not shown, if that is so."""
        left_out = self.total - sum(map(len, self._ends())) if self.is_cut else 0
        return (f"{left_out} of {self.total} characters in the middle are not shown",) if left_out else ()

    def _ends(self) -> tuple[str, str]:
        """Return head and tail without half lines, unless that would drop half of either."""
        head = "".join(self._head)[: self._threshold * _HEAD_TENTHS // 10]
        tail = "".join(self._tail)[max(0, self._in_tail - self._tail_length) :]
        end, start = head.rfind("\n"), tail.find("\n")
        head = head[: end + 1] if end >= len(head) // 2 else head
        return head, tail[start + 1 :] if 0 <= start <= len(tail) // 2 else tail
