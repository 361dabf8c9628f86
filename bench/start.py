"""Measure the chat: how soon a message can be typed, a key is seen, a program stops; what rendering costs.

    python bench/start.py [--smoke]

Each start is a process at a terminal of its own with an empty home, beside one of the same interpreter that
does nothing; they take turns, so that both see the same machine. Keys are pressed while the server in
`model_server.py` streams as fast as it is read. Rendering is the CPU time of everything between a piece of
an answer and the text that is written, per 1,000 tokens of four characters, of this project's README.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from leeward.runtime.events import EndReason, Text, TurnEnded
from leeward.runtime.repl.render import Renderer
from leeward.runtime.repl.screen import Screen

__all__ = ["main"]

_ROOT = Path(__file__).resolve().parents[1]
_PROMPT = "›".encode()
_PATIENCE = 60.0
_KEYS = "QWZXVJ"
_LAUNCH = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], "
    "sys.argv[1:])"
)


class Terminal:
    """A process at a terminal; `seen` is all it wrote."""

    def __init__(self, argv: list[str], environment: Mapping[str, str], folder: Path) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.seen = b""
        self.process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCH, *argv],
            stdin=slave, stdout=slave, stderr=slave, cwd=folder, env=environment, start_new_session=True,
        )  # fmt: skip
        os.close(slave)

    def until(self, wanted: bytes, start: int = 0) -> float:
        """Return when something was seen behind a place, by `time.perf_counter`."""
        deadline = time.perf_counter() + _PATIENCE
        while wanted not in self.seen[start:]:
            if time.perf_counter() > deadline:
                raise SystemExit(f"waited {_PATIENCE:g} s for {wanted!r}")
            if select.select([self.master], [], [], 0.01)[0]:
                self.seen += os.read(self.master, 65536)
        return time.perf_counter()

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self.master, text.encode())

    def close(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()
        os.close(self.master)


@contextmanager
def _home(config: str = "") -> Iterator[tuple[Path, dict[str, str]]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "work").mkdir()
        (folder / ".config/leeward").mkdir(parents=True)
        (folder / ".config/leeward/config.toml").write_text(config, encoding="utf-8")
        around = {"HOME": name, "PATH": os.environ["PATH"], "TERM": "xterm-256color", "LANG": "C.UTF-8"}
        yield folder / "work", around


def _start(runs: int) -> tuple[float, float]:
    """Return how long a start takes until its prompt, and the same interpreter doing nothing, in seconds."""
    starts, nothing = [], []
    leeward = str(Path(sys.executable).with_name("leeward"))
    interpreter = os.path.realpath(sys.executable)
    with _home() as (folder, around):
        for _ in range(runs + 1):
            began = time.perf_counter()
            subprocess.run([interpreter, "-c", "pass"], env=around, check=True)
            nothing.append(time.perf_counter() - began)
            began = time.perf_counter()
            at = Terminal([leeward], around, folder)
            starts.append(at.until(_PROMPT) - began - nothing[-1])  # the launcher is an interpreter, too
            at.close()
    # The first start makes the database.
    return median(starts[1:]), median(nothing[1:])


def _echo(keys: int, tokens: int) -> list[float]:
    """Return how long each key took to the screen while an answer streamed, in seconds."""
    server = subprocess.Popen(
        [sys.executable, str(_ROOT / "bench/model_server.py")], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    url = server.stdout.readline().strip()
    config = f'[llm]\nmodel = "b:stream-{tokens}"\n[[llm.providers]]\nname = "b"\nbase_url = "{url}"\n'
    waits: list[float] = []
    try:
        with _home(config) as (folder, around):
            at = Terminal([str(Path(sys.executable).with_name("leeward"))], around, folder)
            at.until(_PROMPT)
            at.type("go\r")
            at.until(b"answering")
            for number in range(keys):
                key, start = _KEYS[number % len(_KEYS)], len(at.seen)
                pressed = time.perf_counter()
                at.type(key)
                waits.append(at.until(key.encode(), start) - pressed)
            at.close()
    finally:
        server.kill()
        server.wait()
    return waits


def _stop(runs: int) -> list[float]:
    """Return how long Ctrl-C takes from a program that ignores it to the next prompt, in seconds."""
    waits: list[float] = []
    line = """!sh -c 'trap "" INT TERM HUP; echo be""gun; sleep 600'"""
    with _home() as (folder, around):
        at = Terminal([str(Path(sys.executable).with_name("leeward"))], around, folder)
        at.until(_PROMPT)
        for _ in range(runs):
            start = len(at.seen)
            at.type(f"{line}\r")
            at.until(b"begun", start)
            start, pressed = len(at.seen), time.perf_counter()
            at.type("\x03")
            at.until("■ stopped".encode(), start)
            waits.append(at.until(_PROMPT, start) - pressed)
        at.close()
    return waits


class _Paper:
    size = (80, 24)
    obeys = True

    def write(self, text: str) -> None:
        """Drop it."""


def _rendering(tokens: int) -> float:
    """Return the CPU time of rendering 1,000 tokens, in seconds."""
    text = (_ROOT / "README.md").read_text(encoding="utf-8")
    text = (text * (4 * tokens // len(text) + 1))[: 4 * tokens]
    renderer = Renderer(Screen(_Paper()))
    renderer(Text("# What is loaded once\n\n```python\npass\n```\n\n"))
    began = time.process_time()
    for start in range(0, len(text), 4):
        renderer(Text(text[start : start + 4]))
    renderer(TurnEnded(EndReason.DONE, text))
    return (time.process_time() - began) / tokens * 1000


def main() -> None:
    """Print the figures."""
    is_smoke = "--smoke" in sys.argv
    start, nothing = _start(1 if is_smoke else 9)
    print(
        f"prompt ready   {start * 1000:6.0f} ms, {start / nothing:.1f} times an interpreter that does nothing"
    )
    waits = sorted(_echo(6 if is_smoke else 60, 20_000 if is_smoke else 60_000))
    print(
        f"key echo       {median(waits) * 1000:6.1f} ms; slowest of {len(waits)}: {waits[-1] * 1000:.1f} ms"
    )
    stops = sorted(_stop(2 if is_smoke else 15))
    print(
        f"stop to prompt {median(stops) * 1000:6.1f} ms; slowest of {len(stops)}: {stops[-1] * 1000:.1f} ms"
    )
    print(f"rendering      {_rendering(2_000 if is_smoke else 20_000) * 1000:6.1f} ms CPU per 1,000 tokens")


if __name__ == "__main__":
    main()
