"""Use the runtime without a loop: `with leeward.sync.open() as runtime: …`."""

from __future__ import annotations

from leeward.runtime.embedding import BlockingApprover as Approver
from leeward.runtime.embedding import BlockingRuntime as Runtime
from leeward.runtime.embedding import BlockingSession as Session
from leeward.runtime.embedding import open_blocking as open  # noqa: A004 - `leeward.sync.open`

__all__ = ["Approver", "Runtime", "Session", "open"]
