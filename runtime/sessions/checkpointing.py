"""Which checkpoints does a session have, and who hears beforehand of what they do not cover?

What they are stands in `tools/checkpoints.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from leeward.memory.checkpoints import CheckpointStore
from leeward.memory.database import Database
from leeward.security.policy import Policy
from leeward.security.ports import Approver, Clock, Question, Reply
from leeward.tools.checkpoints import Checkpoints
from leeward.tools.checkpoints import Limits as SnapshotLimits
from leeward.tools.files import Guard

from ..config import Config
from .current import Current

__all__ = ["Foretelling", "checkpoints_of"]

# Of what is kept of all states together, of all sessions, as a multiple of what is of one.
_STATES = 8


def checkpoints_of(
    config: Config,
    policy: Policy,
    database: Database,
    clock: Clock,
    current: Current,
    alert: Callable[[str], None],
) -> Checkpoints | None:
    """Return what keeps the changes of whatever session is the current one, if that is wanted."""
    shell = config.tools.shell
    if not shell.checkpoints:
        return None
    store = CheckpointStore(database, clock, _STATES * shell.checkpoint_bytes)
    limits = SnapshotLimits(shell.checkpoint_bytes)
    return Checkpoints(store, Guard(policy), limits, lambda: current.session().id, alert)


@dataclass(frozen=True, slots=True)
class Foretelling:
    """Puts questions together with what of their call could not be undone."""

    approver: Approver
    checkpoints: Checkpoints | None

    async def ask(self, question: Question) -> Reply:
        """Return the answer."""
        if self.checkpoints is not None:
            question = replace(question, uncovered=await self.checkpoints.uncovered(question.action))
        return await self.approver.ask(question)
