"""How a command ends: its exit code, its error, and its JSON.

Imports neither trio nor pydantic, since `--help` does without them. What the answer is, and when a run counts
as which exit, is decided by the commands.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field
from enum import Enum, IntEnum
from typing import TypeAlias

from leeward.security.lazy import dataclass
from leeward.security.outcome import LeewardError

__all__ = ["CliError", "CommandRun", "Exit", "Json", "envelope", "error_object", "to_json"]

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"


class Exit(IntEnum):
    """What the process returns; part of the public contract."""

    SUCCESS = 0
    GENERAL_ERROR = 1
    ARG_ERROR = 2
    PARTIAL_FAILURE = 3
    PRECONDITION = 4
    NOT_FOUND = 5
    UNKNOWN_OUTCOME = 6
    PERMISSION_DENIED = 7
    AUTH_REQUIRED = 8
    TIMEOUT = 10
    RATE_LIMITED = 11
    UNAVAILABLE = 12
    SIGINT = 130
    SIGTERM = 143

    @property
    def retryable(self) -> bool:
        """Whether the same command may succeed later without anything being changed."""
        return self in {Exit.TIMEOUT, Exit.RATE_LIMITED, Exit.UNAVAILABLE}


_MEANING = {
    Exit.GENERAL_ERROR: "something went wrong",
    Exit.ARG_ERROR: "the command, its arguments or the configuration cannot be used",
    Exit.PARTIAL_FAILURE: "the run finished, but calls were denied or a limit stopped it",
    Exit.PRECONDITION: "a prerequisite is missing, or a question needs an answer",
    Exit.NOT_FOUND: "there is nothing of that name",
    Exit.UNKNOWN_OUTCOME: "the run broke off, and nobody knows what came of a call",
    Exit.PERMISSION_DENIED: "the call is not permitted",
    Exit.AUTH_REQUIRED: "the provider refused the key",
    Exit.TIMEOUT: "the time ran out",
    Exit.RATE_LIMITED: "the provider wants fewer requests",
    Exit.UNAVAILABLE: "the provider was not reached",
    Exit.SIGINT: "interrupted",
    Exit.SIGTERM: "terminated",
}


class CliError(LeewardError):
    """A command cannot go on. `code` is stable, `message` is for people, `detail` joins the error object."""

    def __init__(self, exit_code: Exit, code: str, message: str, **detail: object) -> None:
        super().__init__(message)
        self.exit = exit_code
        self.code: str = code
        self.message = message
        self.detail: Mapping[str, object] = detail

    def error(self) -> dict[str, Json]:
        """Return the error object of the envelope."""
        return error_object(self.exit, self.code, self.message, **self.detail)


def error_object(exit_code: Exit, code: str = "", message: str = "", **detail: object) -> dict[str, Json]:
    """Return `{code, message, phase, retryable, …}`; what is not given follows from the exit code."""
    error: dict[str, object] = {
        "code": code or exit_code.name,
        "message": message or _MEANING.get(exit_code, ""),
        "phase": "usage" if exit_code is Exit.ARG_ERROR else "run",
        "retryable": exit_code.retryable,
    }
    return {name: _plain(value) for name, value in {**error, **detail}.items()}


@dataclass(frozen=True, slots=True)
class CommandRun:
    """One run of a command: its id, and when it began (seconds on the monotonic clock)."""

    id: str = field(default_factory=lambda: os.urandom(16).hex())
    started: float = field(default_factory=time.monotonic)

    def meta(self, **more: object) -> dict[str, Json]:
        """Return the envelope's `meta` as of now: `duration_ms`, `request_id` and whatever is added."""
        elapsed = round((time.monotonic() - self.started) * 1000)
        return {**{k: _plain(v) for k, v in more.items()}, "duration_ms": elapsed, "request_id": self.id}


def envelope(
    exit_code: Exit,
    data: object = None,
    error: Mapping[str, object] | CliError | None = None,
    warnings: Iterable[str] = (),
    meta: Mapping[str, object] | None = None,
) -> str:
    """Return the one JSON line that answers a command under `--output json`.

    `ok` follows from the exit code alone; a failure without an error object gets the one its exit
    code means. `meta` is usually `CommandRun.meta()`.

    Raises:
        ValueError: a success cannot carry an error.
    """
    ok = exit_code == Exit.SUCCESS
    if ok and error is not None:
        raise ValueError("an answer that carries an error needs the exit code of a failure")
    if isinstance(error, CliError):
        error = error.error()
    if not ok:
        error = {**error_object(Exit(exit_code)), **(error or {})}
    measured = {**CommandRun().meta(), **(meta or {})}
    answer = {"ok": ok, "data": data, "error": error, "warnings": list(warnings), "meta": measured}
    return to_json(answer)


def to_json(value: object) -> str:
    """Return a value as one line of ASCII JSON without any control character.

    Whatever the value holds, the line can be printed on a terminal: ESC and its like, DEL, invisible
    characters and lone surrogates are escaped. Numbers JSON does not know become null.
    """
    return json.dumps(_plain(value), ensure_ascii=True, allow_nan=False).replace("\x7f", "\\u007f")


def _plain(value: object) -> Json:
    """Turn a value into what JSON has: no enums, no views, no infinities, keys as text."""
    match value:
        case Enum():
            return _plain(value.value)
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {str(_plain(key)): _plain(item) for key, item in value.items()}
        case bytes() | bytearray():
            return bytes(value).decode("utf-8", "backslashreplace")
        case AbstractSet():
            return sorted((_plain(item) for item in value), key=repr)
        case Sequence():
            return [_plain(item) for item in value]
        case os.PathLike():
            return os.fspath(value) if isinstance(os.fspath(value), str) else str(value)
    return str(value)
