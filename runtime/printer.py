"""Write the answer of a command to stdout, everything else to stderr; JSON when asked for.

No command succeeds whose answer is lost: `Printer.end` turns it into a failure, and is the only place that
does. A reader that goes away (a closed pipe) gets no error. What stderr does not take costs nothing.

Light on imports: usage errors are printed by it, too. What text is safe to show is decided here for
errors and notes (every character that is not printable is spelled out); results and answers come
stripped already.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TextIO

from .exits import CliError, Exit, envelope, error_object, to_json
from .options import Options

__all__ = ["Printer", "discard", "plain", "reopen_closed"]

SCHEMA = 1
_LONGEST_FACT = 500
_DETAILS = ("argument", "input_value", "rejected_pattern", "gate", "rule", "expected", "found", "suggestion")


def plain(text: str) -> str:
    """Return a text with all that is not printable spelled out; line ends and tabs stay."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def reopen_closed() -> None:
    """Give this process the standard streams that it was started without; to be called before all else.

    The next file that is opened, such as the database, would get the number of a closed one, and with it
    whatever is printed. They are opened the wrong way round, so that using one fails as it does when closed.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_WRONLY if mode == "r" else os.O_RDONLY)
            stream = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115 - it is kept
            setattr(sys, name, stream)


def discard(stream: TextIO) -> None:
    """Let what a stream still holds go nowhere, and whatever is written to it from now on.

    The interpreter would try again at its end, and complain with an exit code of its own.
    """
    with suppress(io.UnsupportedOperation):
        number = stream.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)


class Printer:
    """Says what a command has to say, in the form that was asked for, and how it ended.

    Once something of the answer could not be written, `on_close` is called, and the rest goes nowhere.
    `so_far` returns the data of a command that is stopped half way; `finished`: how it ended is printed.
    """

    def __init__(self, options: Options, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.options = options
        self.warnings: list[str] = []
        self._lost: OSError | None = None
        self.on_close: Callable[[], None] = lambda: None
        self.so_far: Callable[[], object] = lambda: None
        self.finished: bool = False
        self._has_answered = False
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
            self.lines(text)
            self._column = 0 if text.endswith("\n") else 1

    def end_answer(self) -> None:
        """Begin a new line if the answer did not end one."""
        if self._column:
            self.answer("\n")

    def note(self, text: str, *, urgent: bool = False) -> None:
        """Print a line of progress (text only); `urgent` ones also under --quiet."""
        if self.is_text and (urgent or not self.options.quiet):
            self.end_answer()
            self.aside(f"{plain(text)}\n")

    def warn(self, text: str) -> None:
        """Tell something the person must see, and put it into the envelope's warnings."""
        self.warnings.append(text)
        self.note(f"! {text}", urgent=True)

    def event(self, value: Mapping[str, object]) -> None:
        """Print one event as a line (jsonl only)."""
        if self.options.output == "jsonl":
            self.line(value)

    def line(self, value: Mapping[str, object]) -> None:
        """Print one JSON line whatever the form, for commands that answer in lines."""
        self.lines(f"{to_json(value)}\n")

    def lines(self, text: str) -> None:
        """Print lines as they are, whatever the form."""
        if self._lost is None and text:
            self._has_answered = True
            try:
                _write(self._out, text)
            except OSError as error:
                self._lose(error)

    def aside(self, text: str) -> None:
        """Print text to stderr, whatever the form; what it does not take changes nothing."""
        with suppress(OSError):
            _write(self._err, text)

    def finish(
        self, code: Exit, data: object = None, error: Mapping[str, object] | None = None, **meta: object
    ) -> Exit:
        """Tell how it ended, once; the envelope under json, a last event under jsonl, errors as text."""
        if self.finished:
            return code
        self.finished = True
        request = self.options.request
        if self.options.output == "json":
            answer = envelope(code, data, error, self.warnings, request.meta(**meta))
            self.lines(f"{answer}\n")
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
        self.aside(f"{plain(chr(10).join(lines))}\n")

    def end(self, code: Exit) -> Exit:
        """Return how the process ends, after everything: a success only if all of the answer was taken.

        Where there was no answer nothing can be lost, whatever standard output is.
        """
        if self._lost is None and self._has_answered:
            try:
                _settle(self._out)
            except OSError as error:
                self._lose(error)
        if self._lost is not None:
            code = Exit.GENERAL_ERROR
            if not isinstance(self._lost, BrokenPipeError):
                why = self._lost.strerror or self._lost
                self.aside(f"leeward: the answer is lost: standard output cannot be written to: {why}\n")
        with suppress(OSError):
            _settle(self._err)
        return code

    def _lose(self, error: OSError) -> None:
        self._lost = error
        self.on_close()


def _write(stream: TextIO, text: str) -> None:
    """Write at once.

    Raises:
        OSError: it cannot be written; nothing of it stays in the stream.
    """
    try:
        stream.write(text)
        stream.flush()
    except OSError:
        discard(stream)
        raise


def _settle(stream: TextIO) -> None:
    """See that all that was written has been taken: some file systems say so only when a file is closed.

    Raises:
        OSError: it has not.
    """
    _write(stream, "")
    with suppress(io.UnsupportedOperation):
        os.close(os.dup(stream.fileno()))
