"""Where does what a command says go? The answer to stdout, everything else to stderr; JSON when asked for.

Light on imports: usage errors are told by it, too. What text is safe to show is decided here for
errors and notes (every character that is not printable is spelled out); results and answers come
stripped already.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import TextIO

from .exits import CliError, Exit, envelope, error_object, to_json
from .options import Options

__all__ = ["Printer", "plain"]

SCHEMA = 1
_LONGEST_FACT = 500
_DETAILS = ("argument", "input_value", "rejected_pattern", "gate", "rule", "expected", "found", "suggestion")


def plain(text: str) -> str:
    """Return a text with all that is not printable spelled out; line ends and tabs stay."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


class Printer:
    """Says what a command has to say, in the form that was asked for, and how it ended.

    `closed` is set once nobody reads the output any more; what is said then goes nowhere. `on_close`
    is called at that moment. `so_far` returns the data of a command that is stopped half way.
    """

    def __init__(self, options: Options, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.options = options
        self.warnings: list[str] = []
        self.closed = False
        self.on_close: Callable[[], None] = lambda: None
        self.so_far: Callable[[], object] = lambda: None
        self._finished = False
        self._out = out or sys.stdout
        self._err = err or sys.stderr
        self._column = 0

    @property
    def is_text(self) -> bool:
        """Whether people read it."""
        return self.options.output == "text"

    def answer(self, text: str) -> None:
        """Print a piece of the answer (text only); the caller has stripped it."""
        if self.is_text and text:
            self._write(self._out, text)
            self._column = 0 if text.endswith("\n") else 1

    def end_answer(self) -> None:
        """Begin a new line if the answer did not end one."""
        if self._column:
            self.answer("\n")

    def note(self, text: str, *, urgent: bool = False) -> None:
        """Print a line of progress (text only); `urgent` ones also under --quiet."""
        if self.is_text and (urgent or not self.options.quiet):
            self.end_answer()
            self._write(self._err, f"{plain(text)}\n")

    def warn(self, text: str) -> None:
        """Tell something the person must see, and put it into the envelope's warnings."""
        self.warnings.append(text)
        self.note(f"! {text}", urgent=True)

    def event(self, value: Mapping[str, object]) -> None:
        """Print one event as a line (jsonl only)."""
        if self.options.output == "jsonl":
            self._write(self._out, f"{to_json(value)}\n")

    def line(self, value: Mapping[str, object]) -> None:
        """Print one JSON line whatever the form, for commands that answer in lines."""
        self._write(self._out, f"{to_json(value)}\n")

    def lines(self, text: str) -> None:
        """Print lines that are JSON already."""
        self._write(self._out, text)

    def finish(
        self, code: Exit, data: object = None, error: Mapping[str, object] | None = None, **meta: object
    ) -> Exit:
        """Tell how it ended, once; the envelope under json, a last event under jsonl, errors as text."""
        if self._finished:
            return code
        self._finished = True
        request = self.options.request
        if self.options.output == "json":
            told = envelope(code, data, error, self.warnings, request.meta(**meta))
            self._write(self._out, f"{told}\n")
        elif self.options.output == "jsonl":
            full = None if code is Exit.SUCCESS else {**error_object(code), **(error or {})}
            ended = {"schema": SCHEMA, "type": "exit", "code": int(code), "error": full}
            self.event({**ended, "warnings": self.warnings, "meta": request.meta(**meta)})
        elif code is not Exit.SUCCESS:
            self._tell({**error_object(code), **(error or {})})
        return code

    def fail(self, error: CliError) -> Exit:
        """Tell of an error that ended the command, and what there was by then."""
        return self.finish(error.exit, self.so_far(), error.error())

    def _tell(self, error: Mapping[str, object]) -> None:
        """Print an error for people: the message, then what belongs to it, one line each."""
        lines = [f"leeward: {error['message']}"]
        lines += [f"  {name}: {error[name]}" for name in _DETAILS if error.get(name) is not None]
        facts = error.get("facts")
        for fact in facts if isinstance(facts, list) else ():
            lines.append(f"  {fact['name']}: {str(fact['value'])[:_LONGEST_FACT]}")
        self.end_answer()
        self._write(self._err, f"{plain(chr(10).join(lines))}\n")

    def _write(self, stream: TextIO, text: str) -> None:
        if self.closed and stream is self._out:
            return
        try:
            stream.write(text)
            stream.flush()
        except BrokenPipeError:
            self._close(stream)

    def _close(self, stream: TextIO) -> None:
        """Nobody reads: let what is still in the buffer go nowhere, or the interpreter complains at exit."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        if stream is self._out:
            self.closed = True
            self.on_close()
