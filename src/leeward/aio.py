"""Use the runtime from asyncio: `async with leeward.aio.Runtime.open() as runtime: …`."""

from __future__ import annotations

from leeward.runtime.embedding import AnswerRefused, PendingQuestion, PendingQuestions
from leeward.runtime.embedding import AsyncioApprover as Approver
from leeward.runtime.embedding import AsyncioRuntime as Runtime
from leeward.runtime.embedding import AsyncioSession as Session

__all__ = ["AnswerRefused", "Approver", "PendingQuestion", "PendingQuestions", "Runtime", "Session"]
