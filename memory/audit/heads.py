"""What does a signed head say, and what does a verification find?

A head is the promise that the audit had so many records and that the last of them had this hash. It
stands in the audit as a record of kind `head`, and as one line of text in a second place: there it
shows that the end of the audit was cut off, which nothing inside the file can. How it is signed is told
in `signing.py`, what is done with one in `verify.py`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ..database import stored_json

__all__ = ["Fault", "Head", "Problem", "Verified"]

_LINE = re.compile(r"leeward-head 1 (\d{1,18}) ([0-9a-f]{64}) ([0-9a-f]{64}) ([0-9a-f]{128})")
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
        """Return every head in a text: a line that a full disk cut may stand around one."""
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
            said: dict[str, Any] = json.loads(body)
            line = f"leeward-head 1 {said['count']:d} {said['hash']} {said['key']} {said['signature']}"
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
    REORDERED = "reordered"
    INSERTED = "inserted"
    CUT = "cut"
    HEAD = "head"
    SIGNATURE = "signature"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class Problem:
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
    problem: Problem | None
    unsigned: int = 0
