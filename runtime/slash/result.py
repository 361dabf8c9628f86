"""What a slash command is and what it leads to, as values: its name, how it is typed, what it says.

A handler gets the session and the words behind the command, and returns a `SlashResult`; it prints nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from leeward.security.lazy import dataclass

if TYPE_CHECKING:
    from leeward.security.kinds import Json

    from ..app import RuntimeSession

__all__ = ["Handler", "Misused", "SlashCommandSpec", "SlashResult", "failed", "is_number"]


@dataclass(frozen=True, slots=True)
class SlashResult:
    """What a slash command led to.

    `turn` is a question of the person's, and fenced text that goes with it, to be run as a turn now.
    `failed` tells that the command could not be carried out; `text` then says why. `came_in` tells that
    `text` is what a call brought, which listeners have heard of, and not ours. `data` is for programs.
    `opens` names what is to be opened in a pager, "" the latest, where there is one; `copies` is for the
    clipboard, and `edits` has the next message written in an editor. Terminals do these; `text` is what else
    says that there is none.
    """

    text: str = ""
    turn: tuple[str, str] | None = None
    exit: bool = False
    failed: bool = False
    came_in: bool = False
    data: Mapping[str, Json] | None = None
    opens: str | None = None
    copies: str | None = None
    edits: bool = False


Handler: TypeAlias = "Callable[[RuntimeSession, str], Awaitable[SlashResult]]"


@dataclass(frozen=True, slots=True)
class SlashCommandSpec:
    """A word that may follow the slash: `usage` is how it is typed, `summary` what it does."""

    name: str
    usage: str
    summary: str
    handler: Handler
    aliases: tuple[str, ...] = ()


class Misused(Exception):
    """The words behind a command do not fit it; its usage is the answer."""


def failed(why: str) -> SlashResult:
    """Return that a command could not be carried out, and why."""
    return SlashResult(why, failed=True)


def is_number(text: str) -> bool:
    """Whether a text is a number in at most six digits: of a record, a turn, a call on the screen."""
    return text.isascii() and text.isdigit() and len(text) < 7
