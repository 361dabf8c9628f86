"""Signed heads, the anchor file they are copied to, and what a verification finds.

A head states how many records the audit has and the hash of the last one. It is kept as a record of kind
`head` and as one line of the anchor file, a file of the person's choice elsewhere: a cut end of the audit
shows only there. Lines are added and never changed; one that cannot be written now is written with the next,
and the person learns of it when the session ends. Signing is in `signing.py`, verification in `verify.py`.
"""

from __future__ import annotations

import json
import os
import re
from enum import StrEnum
from pathlib import Path

from leeward.security.lazy import dataclass, regex
from leeward.security.ports import RecordError

from ..database import stored_json

__all__ = ["AnchorFile", "ChainFault", "Fault", "Head", "Verified", "heads_in"]


_LINE = regex(r"leeward-head 1 (\d{1,18}) ([0-9a-f]{64}) ([0-9a-f]{64}) ([0-9a-f]{128})")
_DOMAIN = b"leeward audit head 1\0"


@dataclass(frozen=True, slots=True)
class Head:
    """The audit as it was after `count` records, the last of which has `hash`; all but `count` in hex.

    `key` is the public half of the Ed25519 key that made `signature`.
    """

    count: int
    hash: str
    key: str
    signature: str

    def line(self) -> str:
        """Return the head as one line of text, without its end."""
        return f"leeward-head 1 {self.count} {self.hash} {self.key} {self.signature}"

    @classmethod
    def parse(cls, line: str) -> Head:
        """Read a head back from its line.

        Raises:
            ValueError: the line holds no head.
        """
        found = _LINE.fullmatch(line.strip())
        if found is None:
            raise ValueError("this is no head of an audit: one begins with 'leeward-head 1'")
        return cls._of_match(found)

    @classmethod
    def all_in(cls, text: str) -> list[Head]:
        """Return every head in a text; parts of a line that a full disk cut short may surround one."""
        return [cls._of_match(found) for found in _LINE.finditer(text)]

    @classmethod
    def _of_match(cls, found: re.Match[str]) -> Head:
        count, digest, key, signature = found.groups()
        return cls(int(count), digest, key, signature)

    def body(self) -> str:
        """Return the head as the body of its record."""
        return stored_json(
            {"count": self.count, "hash": self.hash, "key": self.key, "signature": self.signature}
        )

    @classmethod
    def of_body(cls, body: str) -> Head:
        """Read a head back from the body of its record.

        Raises:
            ValueError: there is none in it.
        """
        try:
            head: dict[str, object] = json.loads(body)
            line = f"leeward-head 1 {head['count']:d} {head['hash']} {head['key']} {head['signature']}"
        except (TypeError, KeyError, ValueError, RecursionError) as error:
            raise ValueError("the record holds no head") from error
        return cls.parse(line)

    def signed(self) -> bytes:
        """Return the bytes that are signed."""
        return _DOMAIN + f"{self.count} {self.hash}".encode()


class Fault(StrEnum):
    """What is wrong with a record, or with all from it on."""

    CHANGED = "changed"
    MISSING = "missing"
    OUT_OF_PLACE = "out_of_place"
    CUT = "cut"
    HEAD = "head"
    SIGNATURE = "signature"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class ChainFault:
    """The first thing that is wrong: at which record (0: around them, in the file), what, and in words."""

    seq: int
    kind: Fault
    message: str


@dataclass(frozen=True, slots=True)
class Verified:
    """How many records and heads were looked at, the newest head among them, and what was found wrong.

    The last `unsigned` of the records are chained, but signed by nobody yet.
    """

    records: int
    heads: int
    head: Head | None
    problem: ChainFault | None
    unsigned: int = 0


# A pipe without a reader is reported as an error; without the flag its opening would never end.
_ADDING = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC
_MOST = 16 * 1024 * 1024  # bytes: of a longer file the end is read


def heads_in(path: Path) -> list[Head]:
    """Return the heads in a file, oldest first.

    Raises:
        OSError: it cannot be read.
    """
    # Nobody may ever write to a pipe that was put in its place.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if file.seekable():
            file.seek(max(0, file.seek(0, os.SEEK_END) - _MOST))
        return Head.all_in(file.read(_MOST).decode("ascii", "replace"))


class AnchorFile:
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
        """Return the heads in the file, oldest first; an empty list if there is no file.

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
