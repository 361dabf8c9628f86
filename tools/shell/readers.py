"""Run a command line read-only, and report what it tried to change.

What lies in folders called as caches counts for nothing, as on trial. What git holds is closed where a secret
file is in it, until a line of git was answered with a yes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import TYPE_CHECKING

from leeward.security.lazy import dataclass

from ..files import shown_name
from ..sandbox import Program, Ran, ReadOnlyRan, Sandbox, TrialUnavailable, run_read_only

if TYPE_CHECKING:
    from leeward.security.policy import Policy
    from leeward.security.session import Session

    from ..git import Histories

__all__ = ["Readers", "Tried"]

_FEW = 5
_UNSURE = "run read-only: anything it tried to write is missing"
_NOTHING_WRITTEN = "nothing was written"


@dataclass(frozen=True, slots=True)
class Tried:
    """A program that ran read-only, and the paths that it wanted to change, as they are shown."""

    ran: Ran
    wished: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Readers:
    """Runs programs read-only for one session at a time, which `session` returns.

    `caches` are names of folders in which nothing that is written counts.
    """

    sandbox: Sandbox
    policy: Policy
    session: Callable[[], Session]
    histories: Histories
    caches: AbstractSet[str] = frozenset()

    async def run(self, program: Program) -> Tried:
        """Run a program to its end.

        Raises:
            TrialUnavailable: it cannot be run read-only here.
            PermanentFailure: it could not be started.
            PolicyBlocked: what must not be reached cannot be kept from it.
        """
        closed = {} if self.session().reads_history else await self._closed()
        try:
            found = await run_read_only(
                self.sandbox, program, [f"{repository}/objects" for repository in closed]
            )
        except TrialUnavailable:
            self.sandbox.reading.forget()
            raise
        wished = tuple(self._shown(path) for path in found.wishes if not self._is_cache(path))
        notices = (*_unread(found.ran, closed), *_notices(found, wished))
        return Tried(replace(found.ran, notices=(*found.ran.notices, *notices)), wished)

    async def _closed(self) -> dict[str, str]:
        """Return the repositories that hold something secret, each with its name."""
        return await self.histories.closed(await self.sandbox.repositories())

    def _shown(self, path: str) -> str:
        return shown_name(os.path.relpath(path, self.policy.workspace))

    def _is_cache(self, path: str) -> bool:
        parts = os.path.relpath(path, self.policy.workspace).split("/")
        return not self.caches.isdisjoint(parts) and ".git" not in parts


def _notices(found: ReadOnlyRan, wished: Sequence[str]) -> tuple[str, ...]:
    """Return what to say of what was not written."""
    if not wished:
        return (_UNSURE,) if found.is_unsure or found.is_cut else ()
    more = f" and {len(wished) - _FEW} more" if len(wished) > _FEW else ""
    return (f"run read-only: it wanted to change {', '.join(wished[:_FEW])}{more}; {_NOTHING_WRITTEN}",)


def _unread(ran: Ran, closed: dict[str, str]) -> tuple[str, ...]:
    """Return what to say of repositories that a command could not read, where it failed."""
    if ran.finished.exit_code == 0 or not closed:
        return ()
    held = next(iter(closed.values()))
    return (f"what git holds was closed to it, secret files among that ({held}); a line of git asks first",)
