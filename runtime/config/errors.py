"""The problems of a configuration, each with its place; one exception carries all of them.

    CliError
    └── ConfigError    exit 2, code CONFIG_ERROR; `problems` holds every one that was found

Finding them is `layers.py`'s work.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from leeward.security.lazy import dataclass

from ..exits import CliError, Exit
from .keys import printable

__all__ = ["ConfigError", "ConfigProblem", "ValueSource"]


class ValueSource(NamedTuple):
    """Where a value was set: a file and its line (from 1), "environment NAME", "flag" or "default"."""

    file: str
    line: int | None = None

    def __str__(self) -> str:
        file = printable(self.file)
        return file if self.line is None else f"{file}:{self.line}"


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One thing that is wrong: what was found at a key, what is expected there, and what may have been meant.

    Without an expectation `found` is the whole statement ("unknown key"). Values that may be secret
    are never in it, and no control character is.
    """

    source: ValueSource
    key: str
    found: str
    expected: str = ""
    hint: str = ""

    def as_dict(self) -> dict[str, str | int | None]:
        """Return it for machines: `file`, `line`, `key`, `found`, `expected`, `hint`."""
        file, line = self.source
        fields = {"key": self.key, "found": self.found, "expected": self.expected, "hint": self.hint}
        return {"file": file, "line": line, **fields}

    def __str__(self) -> str:
        place = "command line" if self.source.file == "flag" else str(self.source)
        parts = [place, self.key, f"found {self.found}, expected {self.expected}"]
        if not self.expected:
            parts[-1] = self.found
        return ": ".join(filter(None, parts)) + (f"; {self.hint}" if self.hint else "")


class ConfigError(CliError):
    """The configuration cannot be used, and nothing was done; a line for each problem."""

    def __init__(self, problems: Iterable[ConfigProblem]) -> None:
        self.problems: tuple[ConfigProblem, ...] = tuple(dict.fromkeys(problems))
        message = "\n".join(map(str, self.problems))
        listed = [problem.as_dict() for problem in self.problems]
        super().__init__(Exit.ARG_ERROR, "CONFIG_ERROR", message, phase="configuration", errors=listed)
