"""Where else do signed heads go, so that a cut end of the audit shows? To a file of the person's choice.

One line for each, added and never changed. What cannot be written now is written with the next one, and
whoever ends a session is told of it.
"""

from __future__ import annotations

import os
from pathlib import Path

from leeward.security import RecordError

from .heads import Head

__all__ = ["SecondPlace"]


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
            handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
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
