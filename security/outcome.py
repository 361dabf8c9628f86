"""The outcome of a call: an Output or a ToolError, and the status it ended with.

A `ToolError` is raised by a tool and becomes the result of its call; what is raised to callers of Leeward is
a `LeewardError`.

    ToolError
    ├── ToolNotFound          nobody has a tool of that name
    ├── InvalidParameters     the arguments do not fit
    │   └── TypeMismatch      a value is of another type than declared
    ├── PolicyBlocked         a condition of the permission to run could not be kept
    ├── PermanentFailure      it failed, and trying again will not help
    │   └── ResourceNotFound  nothing has the identifier that was given
    ├── RateLimited           the other side wants fewer requests
    ├── ServerError           the other side failed
    ├── NetworkError          the other side was not reached
    ├── ToolTimeout           it took longer than its deadline
    └── LimitExceeded         it took more of the machine than it may, and was killed

That a call was cancelled, or that nobody was there to say yes, is for the pipeline to say: no
exception of a tool represents it.
"""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum
from typing import ClassVar

from .lazy import dataclass
from .trust import Origin

__all__ = [
    "Category",
    "InvalidParameters",
    "LeewardError",
    "LimitExceeded",
    "NetworkError",
    "Output",
    "Part",
    "PermanentFailure",
    "Picture",
    "PolicyBlocked",
    "RateLimited",
    "ResourceNotFound",
    "ServerError",
    "ToolError",
    "ToolNotFound",
    "ToolTimeout",
    "TypeMismatch",
]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an output, with its author."""

    text: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class Picture:
    """An image, as a model is given it: its media type and its bytes. No filter reads what is drawn in it."""

    media_type: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Output:
    """The raw result of a tool; the pipeline screens it before a model or a person sees it.

    `text` is written by `origin`; None means what the tool declares, or what follows from its effects. For a
    text of several authors, such as a mail, use `parts` instead of `text`, in order. `exit_code` is that of a
    program; a code other than 0 is a result, not an error. `notices` are sentences of the tool's own about
    the text. `facts` are named values that somebody else chose, such as a final URL. `links` are the URLs on
    an opened page, in canonical form; only those of a trusted tool become known to the session.

    Set `emitted` if the whole text was passed to `Cleared.emit`; `text` is ignored then, and long output
    never has to be held in memory. Set `goes_on` if the call started something that is still running, and
    whose end is reported separately. `caches` counts the paths of caches that a trial run changed; these are
    never kept. `picture` is an image that was read; it is sent only with a message of the person that names
    it.
    """

    text: str = ""
    origin: Origin | None = None
    exit_code: int | None = None
    notices: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    links: tuple[str, ...] = ()
    emitted: bool = False
    goes_on: bool = False
    caches: int = 0
    parts: tuple[Part, ...] = ()
    picture: Picture | None = None


class Category(StrEnum):
    """Why a call failed; the values are part of the public contract."""

    TOOL_NOT_FOUND = "tool_not_found"
    INVALID_PARAMETERS = "invalid_parameters"
    TYPE_MISMATCH = "type_mismatch"
    POLICY_BLOCKED = "policy_blocked"
    CONFIRMATION_REQUIRED = "confirmation_required"
    PERMANENT_FAILURE = "permanent_failure"
    CANCELLED = "cancelled"
    RATE_LIMITED = "rate_limited"
    SERVER_ERROR = "server_error"
    NETWORK_ERROR = "network_error"
    TIMEOUT = "timeout"
    LIMIT_EXCEEDED = "limit_exceeded"

    @property
    def retryable(self) -> bool:
        """Whether the same call may succeed later. Only calls of idempotent tools are repeated."""
        return self in {
            Category.RATE_LIMITED,
            Category.SERVER_ERROR,
            Category.NETWORK_ERROR,
            Category.TIMEOUT,
        }


class LeewardError(Exception):
    """The base of the errors that methods of Leeward raise; the message says what happened and what to do.

    `code` names the case for programs, such as "NOT_FOUND"; it is stable, and is the `code` that the command
    line gives the same error under `--output json`.
    """

    code: str = "GENERAL_ERROR"


class ToolError(Exception):
    """A failure that a tool reports.

    The model sees the message on one line, marked as data, since it may quote the other side. `output` is
    what the tool produced before it failed; it passes the filters like any output.
    """

    category: ClassVar[Category] = Category.PERMANENT_FAILURE
    code: ClassVar[str] = ""
    """The stable code in JSON, of `A-Z`, `0-9` and `_`; the category in capitals where it is empty."""

    def __init__(self, message: str = "", output: Output | None = None) -> None:
        super().__init__(message)
        self.output = output


class ToolNotFound(ToolError):
    """There is no tool of that name."""

    category = Category.TOOL_NOT_FOUND


class InvalidParameters(ToolError):
    """The arguments are invalid."""

    category = Category.INVALID_PARAMETERS


class TypeMismatch(InvalidParameters):
    """An argument has another type than declared."""

    category = Category.TYPE_MISMATCH


class PolicyBlocked(ToolError):
    """A condition under which the call was allowed cannot be met."""

    category = Category.POLICY_BLOCKED


class PermanentFailure(ToolError):
    """The call failed, and would fail again."""


class ResourceNotFound(PermanentFailure):
    """Nothing exists under the given identifier."""

    code = "NOT_FOUND"


class RateLimited(ToolError):
    """The service asks for fewer requests."""

    category = Category.RATE_LIMITED


class ServerError(ToolError):
    """The service reported an error of its own."""

    category = Category.SERVER_ERROR


class NetworkError(ToolError):
    """The service could not be reached."""

    category = Category.NETWORK_ERROR


class ToolTimeout(ToolError):
    """The call took longer than its deadline."""

    category = Category.TIMEOUT


class LimitExceeded(ToolError):
    """It took more of the machine than it may, and was killed."""

    category = Category.LIMIT_EXCEEDED
