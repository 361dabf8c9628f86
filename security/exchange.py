"""Who is told where a call goes on to, and what became of each attempt? Nouns of `call.py`, apart from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from .url import Url

__all__ = ["Exchange", "Follower"]


@dataclass(frozen=True, slots=True)
class Exchange:
    """What became of one attempt to open a URL: the part of its record that only the client knows.

    `address` is the one that was connected to, "" where none was; `sent` and `received` are bytes of
    the request and of the response as they were on the wire; `problem` says in our words why there is
    no `status`, or why the body was not read to its end.
    """

    url: Url
    method: str
    address: str = ""
    status: int | None = None
    sent: int = 0
    received: int = 0
    seconds: float = 0.0
    problem: str = ""


class Follower(Protocol):
    """What judges where a cleared call goes on to, and records where it went (`security/follow.py`)."""

    async def follow(self, reference: str, pointer: str | None = None) -> Url:
        """Return what a reference leads to from the URL at a pointer, once it is judged and on record."""
        ...

    def report(self, exchange: Exchange) -> None:
        """Take down what became of an attempt; it is on record before the call's result goes back."""
        ...
