"""The input and output of a filter: the text, notices of ours, and where the text comes from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from typing import Protocol, TypeAlias

import trio

from ..kinds import FenceMode
from ..lazy import dataclass
from ..trust import Origin

__all__ = [
    "HARD_BOUND",
    "Distillation",
    "Distilled",
    "Feeder",
    "Filter",
    "Screened",
    "Source",
    "Stepwise",
    "applied",
]

HARD_BOUND = 64 * 1024 * 1024
"""Bytes above which no text is ever screened in memory."""

_PIECE = 64 * 1024


@dataclass(frozen=True, slots=True)
class Distilled:
    """What output filters leave of a text, and notices in our words; without a `text` all of it is shown."""

    text: str | None
    notices: tuple[str, ...] = ()


class Distillation(Protocol):
    """Output filters at work on one output; it is fed what is stripped and redacted."""

    def feed(self, piece: str) -> None:
        """Take the next piece."""
        ...

    def finish(self, exit_code: int | None, room: int) -> Distilled | None:
        """Return what to show of all there was in about `room` characters; None if that is all of it."""
        ...


@dataclass(frozen=True, slots=True)
class Source:
    """What a text is (`kind`, one word for the fence), who wrote it, and by which bounds it is screened.

    `name` is what it is called (a tool, a file): filters may go by it, and do not show it.

    `secrets` are values known to be secret; `max_bytes` is the cap on the whole text, `threshold`
    the number of characters above which only head and tail are shown. `is_private` tells that what
    it holds is nobody else's business. `begin` starts the output filters of the program that printed
    it, if there are any, and `exit_code` is how that ended. `shows` tells that its values become known by it,
    as brought by `call`; what is in `echoes` that call had brought along itself. `parts` are its stretches of
    several authors, `origin` is then that of the least trusted. What `is_confidential`
    marks the session, and must not leave unasked. `mode` is how `fence` marks it.
    """

    kind: str
    origin: Origin
    name: str = ""
    secrets: frozenset[str] = frozenset()
    max_bytes: int = HARD_BOUND
    threshold: int = 50_000
    is_private: bool = True
    begin: Callable[[], Distillation] | None = None
    exit_code: int | None = None
    shows: bool = False
    call: str = ""
    echoes: str = ""
    parts: tuple[tuple[str, Origin], ...] = ()
    is_confidential: bool = False
    mode: FenceMode = FenceMode.DELIMIT


@dataclass(frozen=True, slots=True)
class Screened:
    """The text so far, and notices: sentences of ours that `fence` writes outside its marks.

    `facts` are values that somebody else chose, each with a name of ours; `fence` gives each marks of
    its own. `plain` is what `fence` was given, notices included: for the person's eyes, never for the
    model. `is_cut` tells that the text is not all there was. `sizes` are the characters before `distill`, and
    those shown, once they are known. `suspicion` names what `suspect` pointed out.
    """

    text: str
    notices: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    plain: str = ""
    is_cut: bool = False
    sizes: tuple[int, int] = field(default=(0, 0), compare=False)
    suspicion: tuple[str, ...] = ()

    def distilled(self, found: Distilled | None) -> Screened:
        """Return it with what output filters leave of it."""
        if found is None:
            return self
        text = self.text if found.text is None else found.text
        is_cut, notices = self.is_cut or found.text is not None, (*self.notices, *found.notices)
        return replace(self, text=text, notices=notices, is_cut=is_cut)


class Feeder(Protocol):
    """An incremental filter at work; `flush` ends it."""

    def feed(self, piece: str) -> str:
        """Take the next piece and return what is certain by now."""
        ...

    def flush(self) -> str:
        """Return what was held back."""
        ...

    @property
    def notices(self) -> tuple[str, ...]:
        """What there is to say about the text, in our words."""
        ...


Filter: TypeAlias = Callable[[Screened, Source], Screened]


@dataclass(frozen=True, slots=True)
class Stepwise:
    """A filter with one, incremental implementation; called on a whole text it feeds and flushes."""

    start: Callable[[Source], Feeder]

    def __call__(self, screened: Screened, source: Source) -> Screened:
        """Feed the whole text, and flush."""
        feeder = self.start(source)
        text = feeder.feed(screened.text) + feeder.flush()
        return replace(screened, text=text, notices=screened.notices + feeder.notices)

    async def in_pieces(self, screened: Screened, source: Source) -> Screened:
        """Do the same with a checkpoint after every 64 KiB, so that a long text stops nobody else."""
        feeder = self.start(source)
        done: list[str] = []
        for start in range(0, len(screened.text), _PIECE):
            done.append(feeder.feed(screened.text[start : start + _PIECE]))
            await trio.lowlevel.checkpoint()
        done.append(feeder.flush())
        return replace(screened, text="".join(done), notices=screened.notices + feeder.notices)


async def applied(step: Filter, screened: Screened, source: Source) -> Screened:
    """Pass a text through one filter, in pieces where it can take them, and with a checkpoint in any case."""
    if isinstance(step, Stepwise):
        return await step.in_pieces(screened, source)
    screened = step(screened, source)
    await trio.lowlevel.checkpoint()
    return screened
