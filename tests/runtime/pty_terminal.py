"""A real pty for tests: its screen, and keys to press.

Every wait is for something to be seen, and fails with the screen after `PATIENCE` seconds.
"""

from __future__ import annotations

import copy
import errno
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyte

PATIENCE = 30.0
_ALTERNATE = 1049  # the mode in which a terminal shows another screen, and comes back to the one before
ENTER, UP, TAB = "\r", "\x1b[A", "\t"
ALT_ENTER = "\x1b\r"
IDLE = re.compile(r"(?:\A|\n)(?:[a-z]+ )?›(?:\n *\(Ctrl-C again[^\n]*)?\n[^\n]+ · [^\n]+\Z|(?:\A|\n)›\Z")
"""The end of a screen at which a message can be typed: an empty prompt, and what holds below it."""
CTRL_C, CTRL_D, CTRL_R, CTRL_U = "\x03", "\x04", "\x12", "\x15"

_LAUNCH = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], "
    "sys.argv[1:])"
)


def launch(argv: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
    """Start a program with its input as its controlling terminal, as from a shell: keys become signals."""
    return subprocess.Popen([sys.executable, "-c", _LAUNCH, *argv], start_new_session=True, **options)


class _Screen(pyte.Screen):
    """A screen whose terminal answers when it is asked where the cursor is."""

    answer: Callable[[bytes], None]
    main: tuple[Any, int, int] | None = None

    def set_mode(self, *modes: int, **how: Any) -> None:
        super().set_mode(*modes, **how)
        if _ALTERNATE in modes and how.get("private"):
            self.main = (copy.deepcopy(self.buffer), self.cursor.x, self.cursor.y)
            self.erase_in_display(2)

    def reset_mode(self, *modes: int, **how: Any) -> None:
        super().reset_mode(*modes, **how)
        if _ALTERNATE in modes and how.get("private") and self.main is not None:
            self.buffer, self.cursor.x, self.cursor.y = self.main
            self.main = None
            self.dirty.update(range(self.lines))

    def write_process_input(self, data: str) -> None:
        self.answer(data.encode())


class Tty:
    """A program at a terminal of its own, which `start` gives it. `raw` is every byte it ever wrote."""

    def __init__(
        self,
        start: Callable[..., subprocess.Popen[Any]],
        cwd: Path,
        env: Mapping[str, str],
        rows: int,
        columns: int,
    ) -> None:
        self.master, slave = pty.openpty()
        self.raw = b""
        self.screen = _Screen(columns, rows)
        self.screen.answer = self._send
        self._stream = pyte.ByteStream(self.screen)
        self._size(rows, columns)
        self.before = termios.tcgetattr(slave)
        self._slave = slave
        self.process = start(
            cwd=cwd, env={"TERM": "xterm-256color", **env}, stdin=slave, stdout=slave, stderr=slave
        )

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for handle in (self.master, self._slave):
            if handle >= 0:
                os.close(handle)

    @property
    def lines(self) -> list[str]:
        """What stands on the screen, without what is blank at the right and at the end."""
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip().split("\n")

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def type(self, *keys: str) -> None:
        for key in keys:
            self._send(key.encode())

    def paste(self, text: str) -> None:
        """Paste as a terminal does it that was asked to bracket what is pasted."""
        self._send(b"\x1b[200~" + text.encode() + b"\x1b[201~")

    def see(self, wanted: str | Callable[[str], object], count: int = 1) -> str:
        """Wait until the screen shows a text (so many times) or fits, and return what it shows."""
        fits = wanted if callable(wanted) else lambda text: text.count(wanted) >= count
        self._until(lambda: fits(self.text), f"to see {wanted!r} {count} times")
        return self.text

    def prompt(self) -> str:
        """Wait until the next message can be typed."""
        return self.see(lambda text: IDLE.search(text) is not None)

    def say(self, text: str) -> str:
        """Type a message at the prompt, wait for the next prompt, and return what came between."""
        begins = f"› {text[: min(40, self.screen.columns - 2)].rstrip()}"
        before = self.prompt().count(begins)
        self.type(text)
        self.see(begins, before + 1)
        # What is sent is not at the prompt any more, and the next prompt only comes after its answer.
        self.type(ENTER)
        # A prompt that is drawn between the two is empty already, and not yet below what was sent.
        lines = self.see(lambda text: IDLE.search(text) and f"\n{begins}" in f"\n{text}").split("\n")
        sent = max(number for number, line in enumerate(lines) if line.startswith(begins))
        after = "\n".join(lines[sent + 1 + (len(text) + 1) // self.screen.columns :])
        return IDLE.sub("", f"\n{after}").strip("\n")

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def resize(self, rows: int, columns: int) -> None:
        self.screen.resize(rows, columns)
        self._size(rows, columns)

    def hang_up(self) -> None:
        """Take the terminal away."""
        os.close(self._slave)
        os.close(self.master)
        self._slave = self.master = -1

    def ended(self) -> int:
        """Wait for the end of the program, reading on, and return its exit code."""
        self._until(lambda: self.process.poll() is not None, "the program to end")
        return self.process.returncode

    @property
    def is_restored(self) -> bool:
        """Whether the terminal is set as it was before."""
        return termios.tcgetattr(self._slave) == self.before

    def _size(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _send(self, data: bytes) -> None:
        os.write(self.master, data)

    def _until(self, is_so: Callable[[], Any], what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not is_so():
            if time.monotonic() > deadline:
                raise AssertionError(f"waited {PATIENCE:g} s {what}; the screen shows:\n{self.text}")
            self._read()

    def _read(self) -> None:
        """Take in what the program has written, waiting a moment for something."""
        if self.master < 0 or not select.select([self.master], [], [], 0.02)[0]:
            return
        try:
            data = os.read(self.master, 65536)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return
        self.raw += data
        self._stream.feed(data)
