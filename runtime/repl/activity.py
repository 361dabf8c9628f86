"""The state of what is running, for the live lines: who is waited for, for how long, and the last output.

The session's thread writes this, the terminal's thread reads it. Each field is replaced in one step, so the
reader sees complete values, if slightly old ones. All texts are made visible before they are stored.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import field

from rich.cells import cell_len, set_cell_size

from leeward.security.kinds import Runs
from leeward.security.lazy import dataclass
from leeward.security.text import visible

from ..app import Runtime
from .screen import Line, within

__all__ = ["Activity", "Fact", "Running", "facts", "fitted"]

_MOST_LINES = 10
_TAIL_LINES = 4
_LONGEST_TAIL = 4000  # characters of a text that are looked at for its last lines
_FRAMES = "·✢✳✶✻✽"
_SEPARATOR = " · "


def fitted(text: str, width: int) -> str:
    """Return a text on one line that fits, with an ellipsis where something is left out."""
    return text if cell_len(text) <= width else f"{set_cell_size(text, max(width - 1, 1)).rstrip()}…"


@dataclass(slots=True)
class Running:
    """A call that runs: how it is named, and the last of what it printed."""

    title: str
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=_TAIL_LINES))
    partial: str = ""

    def feed(self, text: str) -> None:
        """Take in what it printed."""
        *lines, rest = (self.partial + text[-_LONGEST_TAIL:]).split("\n")
        self.tail.extend(lines[-_TAIL_LINES:])
        self.partial = rest[-_LONGEST_TAIL:]


@dataclass(frozen=True, slots=True)
class Fact:
    """A part of the status line; of parts that do not fit, the highest `rank` is left out first."""

    text: str
    rank: int


class Activity:
    """What happens in the session of a chat."""

    def __init__(self) -> None:
        self.what: str = ""
        self.began: float = 0.0
        self.tokens: float = 0.0
        self.answer: str = ""
        self.thought: str = ""
        self.calls: dict[str, Running] = {}
        self.facts: Sequence[Fact] = ()
        self.level = ""
        self.is_asking = False

    def begin(self, what: str) -> None:
        """Something begins that one waits for."""
        self.what, self.tokens, self.began = what, 0.0, time.monotonic()

    def end(self) -> None:
        """Nothing is waited for any more."""
        self.began, self.answer, self.thought = 0.0, "", ""
        self.calls = {}

    def live(self, width: int, height: int) -> Sequence[Line]:
        """Return what happens now, as `View.live`: the tail of what comes, and a line that tells of it."""
        if not self.began or self.is_asking:
            return ()
        room = max(min(_MOST_LINES, height // 3), 1)
        lines: list[Line] = [[(line, "dim italic")] for line in _last(self.thought, width, 2, "  ◦ ")]
        lines += [[(line, "")] for line in _last(self.answer, width, room, "")]
        for call in tuple(self.calls.values()):
            lines.append([("● ", "cyan"), (fitted(call.title, width - 3), "")])
            tail = [line for line in (*call.tail, call.partial) if line][-_TAIL_LINES:]
            lines += [[(fitted(f"  │ {visible(line.expandtabs())}", width - 1), "dim")] for line in tail]
        return [*lines[-room - 1 :], [(fitted(self._status(), width - 1), "cyan")]]

    def _status(self) -> str:
        seconds = time.monotonic() - self.began
        frame = _FRAMES[int(seconds * 5) % len(_FRAMES)]
        spent = f" · {_thousands(self.tokens)} tokens" if self.tokens >= 1 else ""
        return f"{frame} {self.what} · {int(seconds)} s{spent} · Ctrl-C stops"

    def status(self, width: int) -> Line:
        """Return what holds now, as `View.status`."""
        shown = [*self.facts]
        while len(shown) > 1 and cell_len(_SEPARATOR.join(fact.text for fact in shown)) > width:
            shown.remove(max(shown, key=lambda fact: fact.rank))
        return [(fitted(_SEPARATOR.join(fact.text for fact in shown), width), "dim")]

    def prompt(self) -> str:
        """Return the level of autonomy, where it is not the usual one."""
        return f"{self.level} " if self.level else ""


def _thousands(number: float) -> str:
    return f"{number / 1000:.1f}k" if number >= 1000 else f"{number:.0f}"


def _last(text: str, width: int, count: int, head: str) -> list[str]:
    """Return the last lines of a text, folded to a width."""
    if not text.strip():
        return []
    folded = [
        piece
        for line in text[-_LONGEST_TAIL:].rstrip("\n").split("\n")[-count:]
        for piece in within(width - 1, head, visible(line.expandtabs()), " " * len(head))
    ]
    return folded[-count:]


_RUNGS = {Runs.TRIAL: "trial runs", Runs.READ_ONLY: "read-only runs", Runs.REAL: "real runs"}


def facts(runtime: Runtime) -> Iterator[Fact]:
    """Yield model, autonomy, context left, cost, rung, jobs and labels; what tells nothing is left out."""
    session = runtime.pipeline.session
    yield Fact(visible(runtime.provider.name), 5)
    yield Fact(str(session.policy.autonomy), 0)
    left = runtime.talk.context_left
    if left is not None:
        yield Fact(f"context {left:.0%}", 4)
    spent = runtime.talk.meter.session
    if spent.cost:
        yield Fact(f"cost {spent.cost:.2f}", 6)
    yield Fact(_RUNGS[session.policy.sandbox.rung], 3)
    jobs = sum(not job.over.is_set() for job in runtime.jobs.all())
    if jobs:
        yield Fact(f"{jobs} job{'s' if jobs > 1 else ''}", 2)
    if session.labels:
        yield Fact(f"read {', '.join(sorted(session.labels))}", 1)
