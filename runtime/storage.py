"""Open the database of a process, and prune it at start.

All sessions of a process that use one file share one connection and its thread. Opening is
`memory/database/database.py`'s business, the contents are the stores'.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from leeward.memory.audit import AuditLogger
from leeward.memory.database import AsyncioThread, Database
from leeward.security.lazy import dataclass

from .sessions import SessionStore, expire

if TYPE_CHECKING:
    from leeward.memory.checkpoints import CheckpointStore
    from leeward.memory.grants import GrantStore
    from leeward.memory.overflow import OverflowStore
    from leeward.security.ports import Clock

    from .config import Config, Loaded, Locations

__all__ = ["audit_of", "open_storage", "tidy"]


@dataclass(slots=True)
class _Shared:
    """An open database, how it is closed, and for how many it is open."""

    stack: AsyncExitStack
    asyncio_thread: AsyncioThread
    database: Database
    users: int = 0


@dataclass(slots=True)
class _Open:
    """What is open in one run of trio; opened and closed by one at a time."""

    by_path: dict[Path, _Shared] = field(default_factory=dict)
    turn: trio.Lock = field(default_factory=trio.Lock)


_OPEN: trio.lowlevel.RunVar[_Open] = trio.lowlevel.RunVar("open databases")


def audit_of(database: Database, clock: Clock, loaded: Loaded, places: Locations) -> AuditLogger:
    """Return the audit in a database; its key lies in the data folder, wherever the database does."""
    heads = loaded.config.tools.audit.heads
    key = places.data / "audit.key"
    return AuditLogger(database, clock, key=key, heads=Path(heads) if heads else None)


@asynccontextmanager
async def open_storage(path: Path) -> AsyncGenerator[Database, None]:
    """Open a database, or share the one that is open; the last one to leave closes it.

    Raises:
        RecordError: it cannot be opened.
    """
    try:
        opened = _OPEN.get()
    except LookupError:
        opened = _Open()
        _OPEN.set(opened)
    async with opened.turn:
        shared = opened.by_path.get(path)
        if shared is None or not shared.asyncio_thread.alive:
            shared = opened.by_path[path] = await _opened(path)
        shared.users += 1
    try:
        yield shared.database
    finally:
        with trio.CancelScope(shield=True):
            await _left(opened, path, shared)


async def _left(opened: _Open, path: Path, shared: _Shared) -> None:
    async with opened.turn:
        shared.users -= 1
        if shared.users:
            return
        if opened.by_path.get(path) is shared:
            del opened.by_path[path]
        await shared.stack.aclose()


async def _opened(path: Path) -> _Shared:
    async with AsyncExitStack() as stack:
        asyncio_thread = await stack.enter_async_context(AsyncioThread.open("storage"))
        database = await stack.enter_async_context(Database.open(path, asyncio_thread))
        return _Shared(stack.pop_all(), asyncio_thread, database)


# Bytes of outputs nobody can read any more that a start deletes: more would make the person wait.
_DELETED_AT_START = 16 * 1024 * 1024
# Sessions: each start makes one, so a few at each are enough, and nobody waits for hundreds.
_EXPIRED_AT_START = 20


async def tidy(
    config: Config,
    kept: SessionStore,
    overflow: OverflowStore,
    grants: GrantStore,
    points: CheckpointStore,
) -> None:
    """Forget what has expired.

    Raises:
        RecordError: it could not be done.
    """
    await overflow.prune(config.tools.overflow.retention_days, _DELETED_AT_START)
    await grants.prune()
    await points.prune()
    await expire(kept, config.memory.retention_days, _EXPIRED_AT_START)
