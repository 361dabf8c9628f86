"""The tool `fetch`: what does a URL answer?

The judged URL is sent as it was judged; which address that means is `dial.py`'s business. Redirects are
told and not followed. What comes back is bounded in bytes and in time, whatever the other side does.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpcore
import trio

from leeward.security.call import Cleared, Effect, Output, ToolExecutor
from leeward.security.errors import (
    NetworkError,
    PermanentFailure,
    RateLimited,
    ServerError,
    ToolTimeout,
)
from leeward.security.label import Origin
from leeward.security.url import Url as JudgedUrl

from .body import Body, BodyError, Decoder, Received
from .declare import tool
from .dial import GuardedBackend, reason_of
from .kinds import Url

__all__ = ["DEFAULT_BODY_BYTES", "Fetcher", "tls_context"]

DEFAULT_BODY_BYTES = 102_400
"""Default of `[tools.fetch] max_body_bytes`; 0 means the same."""

_TIMEOUT = 20.0
_CONNECTIONS = 10
_KEEP_ALIVE = 30.0
_QUOTED = 2_000
