"""What goes away at a start, because it is too old or too much?"""

from __future__ import annotations

from leeward.memory.grants import GrantStore
from leeward.memory.overflow import OverflowStore
from leeward.tools.checkpoints import Checkpoints

from .config import Config
from .sessions import Kept, expire

__all__ = ["tidy"]

# Bytes of outputs nobody can read any more that a start deletes: more would make the person wait.
_DELETED_AT_START = 16 * 1024 * 1024
# Sessions: each start makes one, so a few at each are enough, and nobody waits for hundreds.
_EXPIRED_AT_START = 20


async def tidy(
    config: Config, kept: Kept, overflow: OverflowStore, grants: GrantStore, points: Checkpoints | None
) -> None:
    """Forget what has expired.

    Raises:
        RecordError: it could not be done.
    """
    await overflow.prune(config.tools.overflow.retention_days, _DELETED_AT_START)
    await grants.prune()
    if points is not None:
        await points.store.prune()
    await expire(kept, config.memory.retention_days, _EXPIRED_AT_START)
