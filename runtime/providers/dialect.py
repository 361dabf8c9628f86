"""The interface of a dialect: it writes requests and reads the replies, without I/O.

`remote.py` speaks any of them over the network.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from .interface import ModelEvent, ModelInfo, Request

__all__ = ["Dialect", "ReplyReader", "RequestWriter"]


class ReplyReader(Protocol):
    """Reads one reply, event by event of its stream."""

    done: bool
    """Whether the server marked the end of the reply."""

    def feed(self, data: str) -> str | Iterable[ModelEvent]:
        """Take the data of one event in and return what it tells; a piece of text alone as it is.

        Raises:
            ModelError: it is an error message, cannot be read, or exceeds every measure.
        """
        ...

    def finish(self) -> Iterable[ModelEvent]:
        """Return what was held back until the end of the reply: calls, usage, how it ended.

        Raises:
            ModelError: the reply broke off; its calls are dropped, for any may be half of one.
        """
        ...


class RequestWriter(Protocol):
    """Writes requests; what a conversation has in common with the one before need not be written again."""

    def write(self, request: Request) -> bytes:
        """Return the body of a request for a streamed reply."""
        ...


class Dialect(Protocol):
    """A way to talk to a model over HTTP."""

    @property
    def path(self) -> str:
        """Where below its base URL a service takes requests, such as "/chat/completions"."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """What every request says beside its key."""
        ...

    def base_path(self, path: str) -> str:
        """Return the path of a base URL as it is meant, however much of an address was written."""
        ...

    def writer(self, model: str, owner: str) -> RequestWriter:
        """Return a writer of requests to a model; `owner` says whose verbatim parts may go along."""
        ...

    def reader(self, owner: str) -> ReplyReader:
        """Return a reader for one reply, whose verbatim parts will be `owner`'s."""
        ...

    def without(self, refusal: str) -> Dialect | None:
        """Return a dialect that leaves out what the server's words say it does not know, or None."""
        ...

    def models(self, answer: Mapping[str, object]) -> tuple[list[ModelInfo], Mapping[str, str]]:
        """Return the models on one page of the service's list, and the query for the next page (none: {})."""
        ...
