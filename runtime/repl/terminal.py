"""What the chat needs from a terminal, how a person leaves it, and silence until keys are read.

`live.py` is a terminal whose last lines are redrawn; `plain.py` is one that reads whole lines.
"""

from __future__ import annotations

import sys
import termios
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from typing import Protocol

from leeward.security.lazy import dataclass

from ..printer import discard
from .screen import Line, Sink

__all__ = ["Closed", "Gone", "Interrupt", "Section", "Terminal", "Typed", "View", "quiet"]

_LOCAL, _INPUT = 3, 0  # the index of the flags in what tcgetattr returns


class Interrupt(Exception):
    """Ctrl-C was pressed while something was asked. Not a KeyboardInterrupt, which would end the loop."""


class Closed(Exception):
    """The person leaves: Ctrl-D on an empty line, or Ctrl-C twice."""


class Gone(Closed):
    """The terminal is gone, and nobody sits at it any more."""


@dataclass(frozen=True, slots=True)
class Typed:
    """What the person entered.

    `is_pasted` tells that the sign it begins with (`/`, `!`, `#`) was not typed. `pasted` are the texts that
    were pasted into it as they are, `folded` those that only a placeholder shows.
    """

    text: str
    is_pasted: bool = False
    pasted: tuple[str, ...] = ()
    folded: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """A part of what a pager shows, which one can walk to by its title."""

    title: str
    lines: Sequence[Line]


class View(Protocol):
    """What a terminal shows beside what is typed; it is asked from the terminal's own thread."""

    def live(self, width: int, height: int) -> Sequence[Line]:
        """Return the lines above the prompt: what happens now."""
        ...

    def status(self, width: int) -> Line:
        """Return the line below the prompt: what holds now."""
        ...

    def prompt(self) -> str:
        """Return the words before the sign of the prompt."""
        ...


class Terminal(Sink, Protocol):
    """A person with a screen and keys."""

    @property
    def room(self) -> int:
        """How many lines of the screen nothing that lives takes, such as queued messages and the status."""
        ...

    def open(self) -> AbstractAsyncContextManager[None]:
        """Take keys for as long as the block lasts, and leave the terminal as it was."""
        ...

    async def message(self) -> Typed:
        """Return the next message; what was typed ahead comes first.

        Raises:
            Closed: the person leaves; Gone, where the terminal is what ended.
        """
        ...

    async def key(self, prompt: str, *, again: bool = False) -> str:
        """Return the key that answers a question, as a letter or a name such as "enter".

        What was typed before the prompt was drawn answers nothing, unless nothing was shown since the same
        question was put last (`again`).

        Raises:
            Interrupt: Ctrl-C was pressed.
            Closed: as for `message`.
        """
        ...

    async def answer(self, prompt: str, text: str = "") -> str:
        """Return a short line, which enters no history. `text` is there already, to be edited.

        Raises:
            Interrupt, Closed: as for `key`.
        """
        ...

    async def page(self, sections: Sequence[Section]) -> bool:
        """Show texts of any length until the person has seen enough; return whether they saw the end."""
        ...

    def refresh(self) -> None:
        """Draw again what `View` shows, soon."""
        ...

    def copy(self, text: str) -> bool:
        """Hand a text to the terminal's clipboard; return whether it takes one of that size."""
        ...

    def edit(self) -> bool:
        """Open the person's editor for what they type next, which is not sent; return whether it can."""
        ...

    def notify(self, how: str, text: str) -> None:
        """Ring a bell ("bell"), or have the terminal tell the person something ("osc9")."""
        ...


@contextmanager
def quiet() -> Iterator[None]:
    """Print no key that is typed while the block lasts; Ctrl-C is still a signal.

    Nothing is set where standard input is no terminal. Settings that a terminal
    which is gone does not take are dropped at the end.
    """
    try:
        handle = sys.stdin.fileno()
        before = termios.tcgetattr(handle)
        during = termios.tcgetattr(handle)
    except (OSError, ValueError, termios.error):
        yield
        return
    during[_LOCAL] &= ~(termios.ECHO | termios.ICANON)
    # Ctrl-S would stop the output and with it the session that writes it.
    during[_INPUT] &= ~(termios.IXON | termios.ICRNL)
    _set(handle, during)
    try:
        yield
    finally:
        _set(handle, before)
        _flush()


def _set(handle: int, attributes: list[int | list[bytes | int]]) -> None:
    with suppress(termios.error):  # the terminal is gone
        termios.tcsetattr(handle, termios.TCSADRAIN, attributes)


def _flush() -> None:
    try:
        sys.stdout.flush()
    except OSError:
        discard(sys.stdout)
