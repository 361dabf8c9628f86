"""Which warden starts the next program? The one there is, unless it is gone or kept to something else.

What a warden is confined to, it and all that descends from it are confined to for good. So where what is
granted has changed, there is another one; the one before goes once nothing runs below it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import trio

from leeward.security.sandbox import PathGrant

from ..process import Warden
from .landlock import confine_thread
from .supervisors import Spawner

__all__ = ["Wardens"]


@dataclass(slots=True)
class Wardens:
    """The wardens of a sandbox. `network` tells whether what they are confined to includes the network."""

    network: bool = False
    _current: Warden | None = None
    _granted: tuple[PathGrant, ...] | None = None
    _spent: list[Warden] = field(default_factory=list)
    _turn: trio.Lock = field(default_factory=trio.Lock)

    async def get(self, granted: tuple[PathGrant, ...] | None = None) -> Warden:
        """Return one that is kept to what is granted, None for one that is kept to nothing.

        Raises:
            PermanentFailure: it could not be started.
        """
        async with self._turn:
            if self._current is not None and self._current.is_alive and granted == self._granted:
                return self._current
            if self._current is not None:
                self._spent.append(self._current)
                self._current = None
            await self._drop(lambda warden: not warden.keepers)
            self._current, self._granted = await self._started(granted), granted
            return self._current

    async def aclose(self) -> None:
        """Let them all end; what still runs ends with whoever runs it."""
        if self._current is not None:
            self._spent.append(self._current)
            self._current = None
        await self._drop(lambda _: True)

    async def _drop(self, is_done: Callable[[Warden], bool]) -> None:
        for warden in tuple(self._spent):
            if is_done(warden):
                self._spent.remove(warden)
                await warden.aclose()

    async def _started(self, granted: tuple[PathGrant, ...] | None) -> Warden:
        if granted is None:
            return await Warden.started()
        thread = Spawner("landlock", partial(confine_thread, granted, network=self.network))
        try:
            return await Warden.started(thread.run)
        finally:
            thread.close()
