"""The outcome of a call: an Output or a ToolError, and the status it ended with.

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
    """A stretch of an output, and whose words it is."""

    text: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class Picture:
    """An image, as a model is given it: its media type and its bytes. No filter reads what is drawn in it."""

    media_type: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Output:
    """What an executor brings back, as it is; the pipeline screens it.

    `origin` is what the tool declares, or follows from its effects, where it is None. `parts` are for a text
    of several authors, in order, and take the place of `text`: the headers of a mail are the server's, its
    body is not. `exit_code` is a program's own; not
    0 is a result, not an error. `notices` are sentences of ours about the text, and `facts` are
    values beside it that somebody else chose (a final URL), each with a name of ours. `links` are
    the canonical URLs that an opened page refers to; only a trusted tool's become known by that.

    `emitted` tells that the text is what was handed to `Cleared.emit`, all of it; `text` is not looked
    at then. So however much it was, nobody needs to hold it. `goes_on` tells that the call is over and what
    it began is not; who began it tells of the end. `caches` is how many paths of caches a trial run left
    changed, which are never kept. `picture` is an image that was read; it goes to a model only with a message
    of the person's own that names it.
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
    """Why a call did not go well; part of the public contract."""

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
        """Whether the same call may succeed later (only tried again for idempotent tools)."""
        return self in {
            Category.RATE_LIMITED,
            Category.SERVER_ERROR,
            Category.NETWORK_ERROR,
            Category.TIMEOUT,
        }


class ToolError(Exception):
    """A failure an executor tells on purpose.

    The message is shown to the model inside a fence, on one line: it may quote the other side.
    `output` is what came before the failure, or along with it; it passes the filters like any.
    """

    category: ClassVar[Category] = Category.PERMANENT_FAILURE
    code: ClassVar[str] = ""
    """The stable code in JSON, of `A-Z`, `0-9` and `_`; the category in capitals where it is empty."""

    def __init__(self, message: str = "", output: Output | None = None) -> None:
        super().__init__(message)
        self.output = output


class ToolNotFound(ToolError):
    """Nobody has a tool of that name."""

    category = Category.TOOL_NOT_FOUND


class InvalidParameters(ToolError):
    """The arguments do not fit."""

    category = Category.INVALID_PARAMETERS


class TypeMismatch(InvalidParameters):
    """A value is of another type than declared."""

    category = Category.TYPE_MISMATCH


class PolicyBlocked(ToolError):
    """A condition of the leave to run could not be kept."""

    category = Category.POLICY_BLOCKED


class PermanentFailure(ToolError):
    """It failed, and trying again will not help."""


class ResourceNotFound(PermanentFailure):
    """Nothing has the identifier that was given."""

    code = "NOT_FOUND"


class RateLimited(ToolError):
    """The other side wants fewer requests."""

    category = Category.RATE_LIMITED


class ServerError(ToolError):
    """The other side failed."""

    category = Category.SERVER_ERROR


class NetworkError(ToolError):
    """The other side was not reached."""

    category = Category.NETWORK_ERROR


class ToolTimeout(ToolError):
    """It took longer than its deadline."""

    category = Category.TIMEOUT


class LimitExceeded(ToolError):
    """It took more of the machine than it may, and was killed."""

    category = Category.LIMIT_EXCEEDED
