"""Print a model's answer block by block, and a line about what it thought before.

The text is stripped of escape sequences before anything else reads it. A block is printed once, when it is
finished; an unfinished one is shown by `activity`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from leeward.security.filters import Source, strip
from leeward.security.lazy import LazyModule
from leeward.security.trust import Origin

from .activity import Activity
from .results import Results
from .screen import Screen

if TYPE_CHECKING:
    from . import markdown
    from .markdown import Block, MarkdownStream
else:
    # Loads in a tenth of a second, which the first prompt does not wait for.
    markdown = LazyModule("leeward.runtime.repl.markdown")

__all__ = ["AnswerPrinter"]

_LONGEST_THOUGHT = 1_000_000  # characters of reasoning that are kept to be shown
_LAST_THOUGHT = 300  # characters of it that are shown while it goes on
_PER_TOKEN = 4  # characters
_MODEL = Source("model", Origin.MODEL)


class AnswerPrinter:
    """Prints answers as they arrive; `has_text` tells whether the current one has any text."""

    def __init__(self, screen: Screen, activity: Activity, results: Results, *, dark: bool) -> None:
        self._screen = screen
        self._activity = activity
        self._results = results
        self._dark = dark
        self._stripped = strip.start(_MODEL)
        self._markdown: MarkdownStream | None = None
        self._has_printed = False
        self._thinking = strip.start(_MODEL)
        self._thought: list[str] = []
        self._began = 0.0
        self.has_text: bool = False

    def say(self, text: str) -> None:
        """Take in a piece of the answer."""
        self._end_thought()
        self._feed(self._stripped.feed(text))
        self._activity.what = "answering"
        self._activity.tokens += len(text) / _PER_TOKEN

    def think(self, text: str) -> None:
        """Take in a piece of what the model thinks."""
        if not self._thought:
            self._began = time.monotonic()
        shown = self._thinking.feed(text)
        self._thought.append(shown)
        self._activity.what = "thinking"
        self._activity.tokens += len(text) / _PER_TOKEN
        self._activity.thought = (self._activity.thought + shown)[-_LAST_THOUGHT:]

    def end(self) -> None:
        """Print what was held back, and begin another answer."""
        self._end_thought()
        self._feed(self._stripped.flush())
        self._stripped = strip.start(_MODEL)
        if self._markdown is not None:
            self._put(self._markdown.flush())
        self._activity.answer, self._has_printed = "", False

    def _feed(self, text: str) -> None:
        if not text:
            return
        self.has_text = True
        if self._markdown is None:
            self._markdown = markdown.MarkdownStream()
        self._put(self._markdown.feed(text))
        self._activity.answer = self._markdown.pending

    def _put(self, blocks: list[Block]) -> None:
        for block in blocks:
            lines = markdown.lines_of(block, self._screen.width, dark=self._dark)
            self._screen.put([[], *lines] if self._has_printed else lines)
            self._has_printed = True

    def _end_thought(self) -> None:
        if not self._thought:
            return
        text = "".join((*self._thought, self._thinking.flush()))[:_LONGEST_THOUGHT]
        self._thinking, self._thought, self._activity.thought = strip.start(_MODEL), [], ""
        number = self._results.add("what the model thought", text)
        seconds = time.monotonic() - self._began
        self._screen.line(f"◦ thought for {seconds:.0f} s · /show {number}", "dim italic")
