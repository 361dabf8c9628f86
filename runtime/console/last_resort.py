"""End the process where it does not end by itself, once its time is over.

A tool may catch its cancellation, hide from it, or never give the loop back; a reader of the answer may not
read. Then nothing in the loop can keep a promise about time, so another thread does. It ends the process as a
kill would: what is on record stays, and the next start settles the calls that were under way.
"""

from __future__ import annotations

import math
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from ..exits import CliError

__all__ = ["AFTER_A_SIGNAL", "GRACE", "LastResort"]

GRACE = 4.0
"""Seconds that everything has to be closed in, once the time is over."""

AFTER_A_SIGNAL = 10.0
"""The same after a signal; who sent it can send another."""

_BACKSTOP = 0.5
_LONGEST = 4096  # bytes that a pipe takes at once if it takes any


class LastResort:
    """Ends the process unless it has ended by then. `answer` returns what standard output still lacks."""

    def __init__(self, answer: Callable[[CliError], str]) -> None:
        self._answer = answer
        self._at = math.inf

    def after(self, seconds: float, error: CliError) -> None:
        """End the process with an error in so many seconds, unless that is to be sooner already."""
        at = time.monotonic() + seconds
        if at >= self._at:
            return
        self._at = at
        timer = threading.Timer(seconds, self._end, [error])
        timer.daemon = True
        timer.start()
        # What holds the interpreter itself, such as a regular expression, keeps that thread from running.
        # The system needs no thread of ours.
        signal.setitimer(signal.ITIMER_REAL, seconds + _BACKSTOP)

    def _end(self, error: CliError) -> None:
        _tell(sys.stdout, self._answer(error))
        _tell(sys.stderr, f"leeward: {error.message}; something did not stop, so the process was ended\n")
        os._exit(int(error.exit))


def _tell(stream: object, text: str) -> None:
    """Write to a stream if it takes something at once; nothing is waited for."""
    with suppress(OSError, ValueError, AttributeError):
        handle = stream.fileno()  # type: ignore[attr-defined]  # None where there is no stream
        if text and select.select([], [handle], [], 0)[1]:
            os.write(handle, text.encode("utf-8", "backslashreplace")[:_LONGEST])
