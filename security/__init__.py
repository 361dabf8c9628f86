"""The trusted base: decides what may run and what may be read. Imports nothing else of Leeward.

Start with `pipeline.py` (the order), then `call.py` (the nouns) and `action.py` (reading a call).

What approvers imported from here is public as `leeward.NAME`, and is handed on with a warning.
"""

from __future__ import annotations

import importlib
import warnings
from typing import Any

_MOVED = {
    "Always": "permissions",
    "Answer": "ports",
    "Question": "ports",
    "Reply": "ports",
    "Scope": "session",
}
"""Names that were documented as names of this package, with the module that holds each."""


def __getattr__(name: str) -> Any:
    """Hand on a name of earlier releases (PEP 562)."""
    if name not in _MOVED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(f"import {name} from leeward, not from {__name__}", DeprecationWarning, stacklevel=2)
    return getattr(importlib.import_module(f".{_MOVED[name]}", __name__), name)
