"""Read what a command is given in a file: all of it, or the lines of a batch as they come, within bounds."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import trio

from leeward.security.filters import HARD_BOUND

from ..exits import CliError, Exit, Json, error_object, to_json
from ..printer import Printer, plain
from ..script import bytes_of

__all__ = ["LONGEST_LINE", "BadLine", "answer_lines", "contents_of"]

LONGEST_LINE = 16 * 1024 * 1024
"""Bytes of one line that are read."""

_PIECE = 256 * 1024


class BadLine(ValueError):
    """A line cannot be answered; `is_object` tells whether it was a JSON object at all."""

    def __init__(self, message: str, *, is_object: bool = True) -> None:
        super().__init__(message)
        self.is_object = is_object


async def answer_lines(
    name: str, printer: Printer, answer: Callable[[bytes], Awaitable[Mapping[str, Json]]]
) -> Exit:
    """Answer every line of a file with one; the exit code is 2 if one of them was not an object.

    `answer` raises a `BadLine` for a line that it cannot answer; the error is the answer then.

    Raises:
        CliError: the file cannot be opened.
    """
    code, number = Exit.SUCCESS, 0
    with _opened(name) as handle:
        async for lines in _lines_in(handle):
            answers: list[str] = []
            for raw in lines:
                number += 1
                try:
                    answered = await answer(raw)
                except BadLine as error:
                    code = code if error.is_object else Exit.ARG_ERROR
                    answered = _refused(error, number)
                answers.append(to_json(answered))
            printer.lines("".join(f"{one}\n" for one in answers))
    return code


def _refused(error: BadLine, line: int) -> Mapping[str, Json]:
    """Return what answers a line, by its number, that could not be answered."""
    return {"error": error_object(Exit.ARG_ERROR, "ARG_ERROR", str(error), phase="validation", line=line)}


@contextmanager
def _opened(name: str) -> Iterator[int]:
    """Open a file as a descriptor; standard input is open already, and stays so.

    Raises:
        CliError: it cannot be opened.
    """
    if name == "-":
        yield sys.stdin.fileno()
        return
    try:
        handle = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise CliError(Exit.ARG_ERROR, "ARG_ERROR", f"{name}: cannot be read: {error.strerror}") from error
    try:
        yield handle
    finally:
        os.close(handle)


async def _lines_in(handle: int) -> AsyncIterator[list[bytes]]:
    """Yield the lines that have come in; one that is too long is yielded once, cut, and its rest skipped."""
    rest, skipping = b"", False
    while piece := await trio.to_thread.run_sync(_read, handle, abandon_on_cancel=True):
        *lines, rest = (rest + piece).split(b"\n")
        if skipping and lines:
            del lines[0]
            skipping = False
        if skipping:
            rest = b""
        elif len(rest) > LONGEST_LINE:
            lines.append(rest)
            rest, skipping = b"", True
        yield lines
    if rest:
        yield [rest]


def _read(handle: int) -> bytes:
    try:
        return os.read(handle, _PIECE)
    except OSError as error:
        raise CliError(Exit.ARG_ERROR, "ARG_ERROR", f"the lines cannot be read: {error.strerror}") from error


async def contents_of(name: str) -> str:
    """Return what a file holds, up to what is ever screened.

    Raises:
        CliError: it cannot be read.
    """
    try:
        raw = await trio.to_thread.run_sync(_contents, name, abandon_on_cancel=True)
    except OSError as error:
        why = f"{plain(name)} cannot be read: {error.strerror}"
        code = Exit.NOT_FOUND if isinstance(error, FileNotFoundError) else Exit.GENERAL_ERROR
        raise CliError(code, "NOT_FOUND" if code is Exit.NOT_FOUND else "READ_ERROR", why) from error
    return raw.decode("utf-8", "replace")


def _contents(name: str) -> bytes:
    if name == "-":
        return bytes_of(sys.stdin.fileno(), HARD_BOUND)
    with Path(name).open("rb") as file:
        return file.read(HARD_BOUND)
