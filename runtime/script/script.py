"""Parse a whole script, and report every mistake in it, before anything runs.

# a comment
read notes.md                  one turn, in the person's words
/status                        a slash command
!expect text "notes"           an expectation of the step before (see `expect.py`)
!set NAME VALUE                ${NAME} is this value in the lines below
!include FILE                  the lines of another script, a path beside this one
!approve TOOL [PATTERN]        a yes in advance to such calls below, as /permissions allow
three double quotes            begin a turn of several lines, and end it; nothing in it is
                               a command, a comment or an expectation
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import NoReturn

from leeward.security.lazy import dataclass

from .. import slash as slash_commands
from ..exits import CliError, Exit
from .expect import Expectation, read_expectation
from .stdin import bytes_of

__all__ = ["Script", "ScriptStep", "load_script", "read_script"]

_QUOTES = '"""'
_LARGEST = 1024 * 1024
_MOST_FILES = 100
_DEEPEST = 8
_MOST_PROBLEMS = 100
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]{0,63})\}")


@dataclass(slots=True)
class ScriptStep:
    """One turn or slash command: its line and file, its text, what is expected of it."""

    line: int
    text: str
    slash: slash_commands.SlashLine | None = None
    expected: list[Expectation] = field(default_factory=list)
    file: str = ""

    @property
    def command(self) -> str:
        """The name of its slash command, however that was typed; "" where it has none."""
        spec = self.slash.command if self.slash is not None else None
        return spec.name if spec is not None else ""


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
    return read_script(_text_of(name), name)


def _text_of(name: str) -> str:
    try:
        if name == "-":
            raw = bytes_of(sys.stdin.fileno(), _LARGEST + 1)
        else:
            with Path(name).open("rb") as file:
                raw = file.read(_LARGEST + 1)
    except OSError as error:
        raise _unusable(f"{name}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise _unusable(f"{name}: cannot be read: {error}") from error
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise _unusable(f"{name}:{line}: this is not UTF-8 text") from error
    if len(raw) > _LARGEST:
        raise _unusable(f"{name}: larger than 1 MiB")
    return text


def _unusable(message: str, **detail: object) -> CliError:
    return CliError(Exit.ARG_ERROR, "ARG_ERROR", message, phase="script", **detail)


def read_script(text: str, name: str = "-") -> Script:
    """Read a script.

    Raises:
        CliError: something is wrong; the message has a line for each mistake, with its place.
    """
    reading = _Reading()
    with suppress(_Enough):
        reading.read(text, name)
    if reading.problems:
        lines = [f"{file}:{line}: {problem}" for file, line, problem in reading.problems]
        listed = [{"file": file, "line": line, "message": text} for file, line, text in reading.problems]
        raise _unusable("\n".join(lines), errors=listed)
    return Script(name, tuple(reading.steps))


class _Enough(Exception):
    """Nothing more is read; the reason is among the problems."""


class _Reading:
    """The steps so far, and the mistakes; `_open` are the files being read, the innermost last.

    `_room` is what all lines may still have together, in characters after their values were filled in. All
    methods raise `_Enough` where there is no more.
    """

    def __init__(self) -> None:
        self._room = _LARGEST
        self.steps: list[ScriptStep] = []
        self.problems: list[tuple[str, int, str]] = []
        self._open: list[str] = []
        self._files = 0
        self._values: dict[str, str] = {}
        self._directives = {
            "expect": self._expect,
            "set": self._set,
            "include": self._include,
            "approve": self._approve,
        }

    def read(self, text: str, name: str) -> None:
        """Take all lines of a file, and of those it includes."""
        self._open.append(name)
        self._files += 1
        for number, line in _entries(text, self):
            self._take(number, line)
        self._open.pop()

    def block(self, number: int, text: str) -> None:
        """Take a turn of several lines."""
        if text.strip():
            self._add(number, self._filled(number, text.strip("\n")))
        else:
            self.problem(number, "there is nothing between the quotes")

    def problem(self, number: int, what: str) -> None:
        """Note a mistake in a line of the innermost file."""
        self.problems.append((self._open[-1], number, what))
        if len(self.problems) == _MOST_PROBLEMS:
            self._end(number, "there may be more mistakes below; these are listed first")

    def _end(self, number: int, why: str) -> NoReturn:
        self.problems.append((self._open[-1], number, why))
        raise _Enough

    def _take(self, number: int, line: str) -> None:
        """Take one line that is no comment and not inside of quotes."""
        if not line.startswith("!"):
            text = self._filled(number, line)
            self._add(number, text, slash_commands.parse(text))
            return
        word, _, rest = line[1:].partition(" ")
        directive = self._directives.get(word)
        if directive is None:
            known = ", ".join(f"!{name}" for name in self._directives)
            self.problem(number, f"there is no !{word}; there are {known}")
            return
        directive(number, self._filled(number, rest.strip()))

    def _add(self, number: int, text: str, slash: slash_commands.SlashLine | None = None) -> None:
        if slash is not None and slash.problem is not None:
            self.problem(number, slash.problem)
        self.steps.append(ScriptStep(number, text, slash, file=self._open[-1]))

    def _filled(self, number: int, text: str) -> str:
        """Put values in the places of names that were set; others stay as they are."""
        # Added up before it is made: a value may double in each line.
        grown = (len(self._values[found[1]]) - len(found[0]) for found in self._named(text))
        self._room -= len(text) + sum(grown)
        if self._room < 0:
            why = "the script is larger than 1 MiB with its values filled in and what it includes"
            self._end(number, f"{why}; make it several scripts")
        return _VARIABLE.sub(lambda found: self._values.get(found[1], found[0]), text)

    def _named(self, text: str) -> Iterator[re.Match[str]]:
        return (found for found in _VARIABLE.finditer(text) if found[1] in self._values)

    def _expect(self, number: int, rest: str) -> None:
        try:
            expectation = read_expectation(rest, number)
        except ValueError as error:
            self.problem(number, str(error))
            return
        if not self.steps:
            self.problem(number, "!expect is about the step before, and there is none")
            return
        self.steps[-1].expected.append(replace(expectation, file=self._open[-1]))

    def _set(self, number: int, rest: str) -> None:
        name, _, value = rest.partition(" ")
        if _NAME.fullmatch(name) is None or not value.strip():
            self.problem(number, "!set wants a name of letters, digits and _, and a value")
            return
        self._values[name] = value.strip()

    def _approve(self, number: int, rest: str) -> None:
        if not rest:
            self.problem(number, "!approve wants a tool, and a pattern of its calls")
            return
        text = f"/permissions allow {rest}"
        self._add(number, text, slash_commands.parse(text))

    def _include(self, number: int, rest: str) -> None:
        inside = self._open[-1]
        beside = Path() if inside == "-" else Path(inside).parent
        # That of a user who is not there stays as it is, and is not found.
        name = str(beside / os.path.expanduser(rest))  # noqa: PTH111 — Path raises for such a user
        if not rest or rest == "-":
            self.problem(number, "!include wants the path of a script")
        elif any(_is_same(name, outer) for outer in self._open):
            self.problem(number, f"{name} includes itself")
        elif len(self._open) >= _DEEPEST or self._files >= _MOST_FILES:
            most = f"{_DEEPEST} deep and {_MOST_FILES} files"
            self.problem(number, f"{name} is not read: includes may be {most} at most")
        else:
            try:
                text = _text_of(name)
            except CliError as error:
                self.problem(number, error.message)
                return
            self.read(text, name)


def _is_same(name: str, other: str) -> bool:
    try:
        return other != "-" and Path(name).samefile(other)
    except (OSError, ValueError):
        return False


def _entries(text: str, reading: _Reading) -> Iterator[tuple[int, str]]:
    """Yield lines that are not empty; text in triple quotes is given to `reading` whole."""
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
        reading.problem(begun, "the triple quotes are not closed")
