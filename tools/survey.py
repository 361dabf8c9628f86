"""What must be known of the machine before a call is judged? Asked in a thread; judging needs no disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import trio

from leeward.security.command import CommandFacts, Wanted
from leeward.security.paths import FileState
from leeward.security.policy import Policy

from .files import states
from .lookup import looked_up, resolved
from .process import SEARCH_PATH

__all__ = ["Surveyor"]


class Surveyor:
    """Looks at the local disk; the `Surveyor` the pipeline is given.

    `search_path` is the PATH that commands have; `policy` tells which files are secret, whatever other
    names they have.
    """

    def __init__(self, search_path: str = SEARCH_PATH, policy: Policy | None = None) -> None:
        self._search_path = search_path
        self._policy = policy

    async def resolve(self, paths: Sequence[str]) -> Mapping[str, str]:
        """Return for each absolute path the path with all links followed, in one hop to a thread.

        Parts that do not exist, or have a name no disk can hold, are kept as they are. A path that
        cannot be followed for another reason (a loop, a link that may not be read, a folder that may not
        be entered) has no entry: nobody can tell where it leads. `~name` stands for itself if there is no
        user of that name, and else for that user's home. Only links are read, nothing is opened,
        so a FIFO or a device does not block; a dead network mount can be cancelled.
        """
        wanted = tuple(dict.fromkeys(paths))
        if not wanted:
            return {}
        return await trio.to_thread.run_sync(resolved, wanted, self._policy, abandon_on_cancel=True)

    async def look_up(self, wanted: Wanted, policy: Policy) -> CommandFacts:
        """Return what judging a command line asks for, in one hop to a thread."""
        return await trio.to_thread.run_sync(
            looked_up, wanted, policy, self._search_path, abandon_on_cancel=True
        )

    async def states(self, paths: Sequence[str], policy: Policy) -> Mapping[str, FileState]:
        """Return what stands at paths without links, as `states` does, in one hop to a thread."""
        return await trio.to_thread.run_sync(states, paths, policy, abandon_on_cancel=True)
