"""Use the runtime from programs that do not run trio; `leeward.aio` and `leeward.sync` name it."""

from .aio import AsyncioApprover, AsyncioRuntime, AsyncioSession
from .sync import BlockingApprover, BlockingRuntime, BlockingSession, open_blocking

__all__ = [
    "AsyncioApprover",
    "AsyncioRuntime",
    "AsyncioSession",
    "BlockingApprover",
    "BlockingRuntime",
    "BlockingSession",
    "open_blocking",
]
