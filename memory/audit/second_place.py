"""Where else do signed heads go, so that a cut end of the audit shows? To a file of the person's choice.

One line for each, added and never changed. What cannot be written now is written with the next one, and
whoever ends a session is told of it. All lines are of use later: the last ones may have been written behind
an older copy of the database, and only those before them know what is missing.
"""

from __future__ import annotations

import os
from pathlib import Path

from leeward.security.ports import RecordError

from .heads import Head

__all__ = ["SecondPlace", "heads_in"]

# A pipe that nobody reads is told as an error; without the flag its opening would never end.
_ADDING = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC
_MOST = 16 * 1024 * 1024  # bytes: of a longer file the end is read


def heads_in(path: Path) -> list[Head]:
    """Return the heads that stand in a file, oldest first.

    Raises:
        OSError: it cannot be read.
    """
    # Nobody may ever write to a pipe that was put in its place.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if file.seekable():
            file.seek(max(0, file.seek(0, os.SEEK_END) - _MOST))
        return Head.all_in(file.read(_MOST).decode("ascii", "replace"))


class SecondPlace:
    """The file, if there is one. `add` may be called from any thread; everything else may block."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._waiting: list[Head] = []

    @property
    def is_behind(self) -> bool:
        """Whether heads wait to be written."""
        return bool(self._waiting)

    def add(self, head: Head) -> None:
        """Put a head that is on record in line."""
        if self.path is not None:
            self._waiting.append(head)

    def check(self) -> None:
        """See that the file can be written to; it is made if it is missing.

        Raises:
            RecordError: it cannot.
        """
        self._append(b"")

    def heads(self) -> list[Head]:
        """Return the heads that stand there, oldest first; none where there is no file.

        Raises:
            RecordError: they cannot be read.
        """
        try:
            return heads_in(self.path) if self.path is not None and self.path.exists() else []
        except OSError as error:
            raise RecordError(f"the heads in {self.path} cannot be read: {error.strerror}") from error

    def flush(self) -> None:
        """Write what waits.

        Raises:
            RecordError: it could not be written, and goes on waiting.
        """
        heads = tuple(self._waiting)
        self._append("".join(f"{head.line()}\n" for head in heads).encode())
        del self._waiting[: len(heads)]

    def _append(self, text: bytes) -> None:
        if self.path is None:
            return
        try:
            # Several processes may write here: one call of the system adds whole lines.
            handle = os.open(self.path, _ADDING, 0o600)
            try:
                if os.write(handle, text) != len(text):
                    raise OSError(0, "only a part of it could be written")
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            why = error.strerror or repr(error)
            raise RecordError(
                f"the heads of the audit could not be written to {self.path}: {why};"
                " name another file as tools.audit.heads"
            ) from error
