"""Print what several runs say beside each other so that it reads as if they had run one after the other.

The first one that is not over is printed as it comes; what the others say waits until it is their turn.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TextIO, cast

from leeward.security.lazy import dataclass

from ..events import SCHEMA
from ..exits import Exit
from ..printer import Printer

if TYPE_CHECKING:
    from ..exits import Json

__all__ = ["FilePrinter", "FileResult", "Lanes"]


class Lanes:
    """Where runs print, each with a number from 0; `out` and `err` take the text."""

    def __init__(self, count: int, out: Callable[[str], None], err: Callable[[str], None]) -> None:
        self._waiting: list[list[tuple[Callable[[str], None], str]]] = [[] for _ in range(count)]
        self._is_over = [False] * count
        self._first = 0
        self._out = out
        self._err = err

    def streams(self, number: int) -> tuple[TextIO, TextIO]:
        """Return what a run prints to."""
        out, err = _Lane(self, number, self._out), _Lane(self, number, self._err)
        return cast("TextIO", out), cast("TextIO", err)

    def put(self, number: int, sink: Callable[[str], None], text: str) -> None:
        """Print a text of a run, or keep it until its turn comes."""
        if number == self._first:
            sink(text)
        else:
            self._waiting[number].append((sink, text))

    def over(self, number: int) -> None:
        """Note that a run is over; those behind it get their turn."""
        self._is_over[number] = True
        while self._first < len(self._is_over) and self._is_over[self._first]:
            self._first += 1
            self._print(self._first)

    def flush(self) -> None:
        """Print all that is left, in order."""
        for number in range(self._first, len(self._waiting)):
            self._print(number)

    def _print(self, number: int) -> None:
        if number < len(self._waiting):
            for sink, text in self._waiting[number]:
                sink(text)
            self._waiting[number].clear()


class _Lane(io.TextIOBase):
    """A stream of one run."""

    def __init__(self, lanes: Lanes, number: int, sink: Callable[[str], None]) -> None:
        self._lanes = lanes
        self._number = number
        self._sink = sink

    def write(self, text: str) -> int:
        self._lanes.put(self._number, self._sink, text)
        return len(text)


@dataclass(frozen=True, slots=True)
class FileResult:
    """How the run of a file ended."""

    code: Exit
    data: object
    error: Mapping[str, object] | None
    warnings: tuple[str, ...]


class FilePrinter(Printer):
    """The printer of one of several files: its events bear the name, and its end is kept in `result`."""

    def __init__(self, main: Printer, name: str, streams: tuple[TextIO, TextIO]) -> None:
        super().__init__(main.options, *streams)
        self.result: FileResult | None = None
        self._main = main
        self._name = name

    def event(self, value: Mapping[str, object]) -> None:
        """Print one event as a line, as it happens (jsonl only)."""
        self._main.event({**value, "file": self._name})

    def finish(
        self, code: Exit, data: object = None, error: Mapping[str, object] | None = None, **meta: object
    ) -> Exit:
        """Keep how it ended; people read an error at once."""
        if self.result is None:
            self.result = FileResult(code, data, error, tuple(self.warnings))
            ended = {"schema": SCHEMA, "type": "script", "code": int(code), "error": error}
            self.event({**ended, "warnings": self.warnings})
            if self.is_text:
                super().finish(code, data, error, **meta)
        return code

    def as_json(self) -> dict[str, Json]:
        """Return how it ended as an object; `code` is null where it did not come to its end."""
        result = self.result or FileResult(Exit.SUCCESS, self.so_far(), None, tuple(self.warnings))
        code = int(result.code) if self.result is not None else None
        told: dict[str, object] = {"file": self._name, "ok": code == 0, "code": code, "data": result.data}
        told |= {"error": result.error, "warnings": list(result.warnings)}
        return told  # type: ignore[return-value]  # what a command answers with is JSON
