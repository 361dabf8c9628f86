"""Read a script whole, and report every mistake in it, before anything runs.

# a comment
read notes.md                  one turn, in the person's words
/status                        a slash command
!expect text "notes"           an expectation of the step before (see `expect.py`)
three double quotes            begin a turn of several lines, and end it; nothing in it is
                               a command, a comment or an expectation
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ..exits import CliError, Exit
from ..slash import SlashCommand, parse
from .expect import Expectation, read_expectation

__all__ = ["Script", "ScriptStep", "load_script", "read_script"]

_QUOTES = '"""'
_LARGEST = 1024 * 1024


@dataclass(slots=True)
class ScriptStep:
    """One turn or slash command: where it stands, what it says, what is expected of it."""

    line: int
    text: str
    slash: SlashCommand | None = None
    expected: list[Expectation] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Script:
    """The steps, and the name errors speak of ("-" is standard input)."""

    name: str
    steps: tuple[ScriptStep, ...]


def load_script(name: str) -> Script:
    """Read a script from a file, or from standard input where the name is "-".

    Raises:
        CliError: it cannot be read, or something in it is not as described above.
    """
    try:
        if name == "-":
            raw = sys.stdin.buffer.read(_LARGEST + 1)
        else:
            with Path(name).open("rb") as file:
                raw = file.read(_LARGEST + 1)
        text = raw.decode("utf-8-sig")
    except OSError as error:
        raise _unusable(f"{name}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise _unusable(f"{name}:{line}: this is not UTF-8 text") from error
    if len(raw) > _LARGEST:
        raise _unusable(f"{name}: larger than 1 MiB")
    return read_script(text, name)


def _unusable(message: str, **detail: object) -> CliError:
    return CliError(Exit.ARG_ERROR, "ARG_ERROR", message, phase="script", **detail)


def read_script(text: str, name: str = "-") -> Script:
    """Read a script.

    Raises:
        CliError: something is wrong; the message has a line for each mistake, with its place.
    """
    reading = _Reading()
    for number, line in _entries(text, reading):
        reading.take(number, line)
    if reading.problems:
        told = [f"{name}:{line}: {problem}" for line, problem in reading.problems]
        listed = [{"file": name, "line": line, "message": problem} for line, problem in reading.problems]
        raise _unusable("\n".join(told), errors=listed)
    return Script(name, tuple(reading.steps))


class _Reading:
    """The steps so far, and the mistakes."""

    def __init__(self) -> None:
        self.steps: list[ScriptStep] = []
        self.problems: list[tuple[int, str]] = []

    def take(self, number: int, line: str) -> None:
        """Take one line that is no comment and not inside of quotes."""
        if line.startswith("!"):
            self._directive(number, line)
            return
        slash = parse(line)
        if slash is not None and slash.problem is not None:
            self.problems.append((number, slash.problem))
        self.steps.append(ScriptStep(number, line, slash))

    def _directive(self, number: int, line: str) -> None:
        word, _, rest = line[1:].partition(" ")
        if word != "expect":
            self.problems.append((number, f"there is no !{word}; only !expect stands for itself here"))
            return
        try:
            expectation = read_expectation(rest, number)
        except ValueError as error:
            self.problems.append((number, str(error)))
            return
        if not self.steps:
            self.problems.append((number, "!expect speaks of the step before, and there is none"))
            return
        self.steps[-1].expected.append(expectation)

    def block(self, number: int, text: str) -> None:
        """Take a turn of several lines."""
        if text.strip():
            self.steps.append(ScriptStep(number, text.strip("\n")))
        else:
            self.problems.append((number, "there is nothing between the quotes"))


def _entries(text: str, reading: _Reading) -> Iterator[tuple[int, str]]:
    """Yield lines that say something; what stands in triple quotes goes to the reading as a whole."""
    begun, inside = 0, list[str]()
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        part = line.rstrip()
        if not begun and stripped.startswith(_QUOTES):
            begun, inside, part = number, [], stripped.removeprefix(_QUOTES)
        elif not begun:
            if stripped and not stripped.startswith("#"):
                yield number, stripped
            continue
        if part.endswith(_QUOTES):
            reading.block(begun, "\n".join((*inside, part.removesuffix(_QUOTES))))
            begun = 0
        else:
            inside.append(part)
    if begun:
        reading.problems.append((begun, "the triple quotes are not closed"))
