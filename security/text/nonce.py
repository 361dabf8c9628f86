"""Detect our own masks and fence marks in text that is to be written to a file.

A mask replaces a secret, and a fence marks where a text came from; both belong in the model's context
only. Written to a file, the mask would overwrite the key, and a fence could be quoted to a later
reader. `fence` takes its nonces from here, so that a nonce is recognised even without its marks.
"""

from __future__ import annotations

import re
import secrets
from collections import OrderedDict

from .secrets import MASK_NAMES

__all__ = ["mark_in", "new_nonce"]

_NONCE_BYTES = 16
_MOST_LIVE = 20_000
_LONGEST_RUN = 1024
_MASK = re.compile(rf"\[redacted:(?:{'|'.join(map(re.escape, sorted(MASK_NAMES)))})\]")
_FENCE = re.compile(r"«(?:UNTRUSTED|END):[0-9a-f]{16,}")
_HEX = re.compile(r"[0-9a-f]{32,}")

_live: OrderedDict[str, None] = OrderedDict()


def new_nonce() -> str:
    """Return 128 random bits in hex, and remember them for as long as a conversation may hold them."""
    nonce = secrets.token_hex(_NONCE_BYTES)
    _live[nonce] = None
    if len(_live) > _MOST_LIVE:
        _live.popitem(last=False)
    return nonce


def mark_in(text: str) -> str | None:
    """Say which mark of ours a text carries and what that means, or None where it carries none."""
    mask = _MASK.search(text)
    if mask is not None:
        return f"it holds {mask[0]}, which stands in the place of a secret that was masked"
    if _FENCE.search(text):
        return "it holds a mark of the fence around text that was shown, which is no part of that text"
    runs = (run[0] for run in _HEX.finditer(text))
    if any(_is_live(run) for run in runs if len(run) <= _LONGEST_RUN):
        return "it holds the nonce of a fence around text that was shown, which is no part of that text"
    return None


def _is_live(run: str) -> bool:
    """Whether one of our nonces stands anywhere in a run of hex digits."""
    width = 2 * _NONCE_BYTES
    return any(run[start : start + width] in _live for start in range(len(run) - width + 1))
