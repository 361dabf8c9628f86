"""A real terminal that a test types into and reads: tmux, on a socket of its own."""

from __future__ import annotations

import itertools
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

__all__ = ["Tmux"]

_PATIENCE = 60.0
_SOCKETS = itertools.count()


class Tmux:
    """A program in a terminal of tmux's."""

    def __init__(
        self, folder: Path, command: list[str], environment: dict[str, str], size: tuple[int, int] = (80, 24)
    ) -> None:
        """Start it in the folder `environment` names as WORK, with these columns and lines."""
        # A socket of its own: a server that is still ending takes nobody.
        self._tmux = ["tmux", "-S", str(folder / f"tmux-{next(_SOCKETS)}"), "-f", "/dev/null"]
        around = [f"{name}={value}" for name, value in environment.items()]
        columns, lines = map(str, size)
        place = ("-x", columns, "-y", lines, "-c", environment["WORK"])
        self("new-session", "-d", *place, "env", "-i", *around, *command)

    def __call__(self, *words: str) -> str:
        done = subprocess.run([*self._tmux, *words], capture_output=True, text=True, check=True, timeout=60)
        return done.stdout

    def press(self, *keys: str) -> None:
        self("send-keys", *keys)

    def say(self, text: str) -> None:
        self("send-keys", "-l", text)
        self.see(f" {text}")
        self.press("Enter")

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self("capture-pane", "-p").split("\n")).rstrip("\n")

    def see(self, wanted: str | Callable[[str], object]) -> str:
        deadline = time.monotonic() + _PATIENCE
        fits = wanted if callable(wanted) else lambda text: wanted in text
        while not fits(text := self.text):
            assert time.monotonic() < deadline, f"waited for {wanted!r}; the screen shows:\n{text}"
            time.sleep(0.05)
        return text

    def idle(self) -> str:
        return self.see(lambda text: re.search(r"^(?:[a-z]+ )?›\n[^\n]+ · [^\n]+\Z", text, re.MULTILINE))

    def clear(self) -> None:
        self.idle()
        self.press("C-l")
        self.see(lambda text: len(text.split("\n")) == 2)
