"""Read standard input for a run: as data beside the person's words, or as the words themselves.

Only `-p -` makes standard input the person's words; everything else piped in is fenced data that grounds no
URL and asks for nothing. Reading never outlives the run: it happens in a thread that is abandoned on cancel.
"""

from __future__ import annotations

import os
import select
import stat
import sys
from typing import TYPE_CHECKING

import trio

from leeward.security.filters import HARD_BOUND

from ..exits import CliError, Exit

if TYPE_CHECKING:
    from ..printer import Printer

__all__ = ["bytes_of", "is_piped", "read_data", "read_words"]

_PIECE = 64 * 1024
_LONGEST_WORDS = 1024 * 1024
_FIRST_BYTE_SECONDS = 3.0


def is_piped() -> bool:
    """Return whether standard input is a pipe, a socket or a file, and not a terminal or a device."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


async def read_data(printer: Printer) -> str:
    """Return what was piped in as text, "" where nothing is; a pipe that stays silent is left alone.

    Raises:
        CliError: it is longer than a result may be.
    """
    if not is_piped():
        return ""
    raw = await _read(HARD_BOUND, _FIRST_BYTE_SECONDS)
    if raw is None:
        printer.note("standard input is open but sends nothing; continuing without it")
        return ""
    return raw.decode("utf-8", "replace")


async def read_words() -> str:
    """Return standard input to its end, as the words of the person.

    Raises:
        CliError: it is closed, longer than 1 MiB, or not UTF-8 text.
    """
    try:
        return (await _read(_LONGEST_WORDS, None) or b"").decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _unusable(f"standard input is not UTF-8 text: byte {error.start} does not fit") from error


async def _read(most: int, first_byte: float | None) -> bytes | None:
    """Return at most `most` bytes; None where not one came within `first_byte` seconds."""
    try:
        raw = await trio.to_thread.run_sync(_read_all, most, first_byte, abandon_on_cancel=True)
    except (AttributeError, OSError, ValueError) as error:
        raise _unusable(f"standard input cannot be read: {error}") from error
    if raw is not None and len(raw) > most:
        raise _unusable(f"more than {most} bytes came in on standard input")
    return raw


def _read_all(most: int, first_byte: float | None) -> bytes | None:
    handle = sys.stdin.fileno()
    # A pipe may have been inherited by accident, with nobody who will ever write to it or close it.
    if first_byte is not None and not select.select([handle], [], [], first_byte)[0]:
        return None
    return bytes_of(handle, most + 1)


def bytes_of(handle: int, most: int) -> bytes:
    """Return what comes from a descriptor up to its end, at most so many bytes.

    Not through the stream: a thread that waits there when the interpreter ends has it end with an abort.

    Raises:
        OSError: it cannot be read.
    """
    pieces: list[bytes] = []
    size = 0
    while size < most and (piece := os.read(handle, min(_PIECE, most - size))):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


def _unusable(message: str) -> CliError:
    return CliError(Exit.ARG_ERROR, "ARG_ERROR", message)
