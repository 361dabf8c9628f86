"""Use the runtime from programs that do not run trio; `leeward.aio` and `leeward.sync` name it."""

from .aio import AsyncioApprover, AsyncioRuntime, AsyncioSession
from .pending import AnswerRefused, PendingQuestion, PendingQuestions
from .sync import (
    BlockingApprover,
    BlockingRuntime,
    BlockingRuntimeOptions,
    BlockingSession,
    BlockingSessionOptions,
    open_blocking,
)

__all__ = [
    "AnswerRefused",
    "AsyncioApprover",
    "AsyncioRuntime",
    "AsyncioSession",
    "BlockingApprover",
    "BlockingRuntime",
    "BlockingRuntimeOptions",
    "BlockingSession",
    "BlockingSessionOptions",
    "PendingQuestion",
    "PendingQuestions",
    "open_blocking",
]
