"""Detect our own masks and fence marks in text that is about to be written to a file.

A mask replaces a secret, and a fence marks where a text came from; both belong in the model's context
only. Written to a file, the mask would overwrite the key, and a fence could be quoted to a later
reader. `fence` takes its nonces from here, so that a nonce is recognised even without its marks.
"""

from __future__ import annotations

import re
import secrets
from collections import Counter, OrderedDict
from functools import cache

from ..lazy import regex
from .secrets import mask_form, mask_names

__all__ = ["margin_of", "mark_in", "new_nonce", "with_margins", "without_margins", "without_nonces"]

_NONCE_BYTES = 16
_MOST_LIVE = 20_000
_LONGEST_RUN = 1024
_FENCE = regex(r"«(?:UNTRUSTED|END):[0-9a-f]{16,}")
_HEX = regex(r"[0-9a-f]{32,}")
_MARK_BEGUN = regex(r"(«/?(?:UNTRUSTED|END):)[0-9a-fA-F]{8,}")
_MASKED = "[nonce]"
_MARGIN_DIGITS = 4
_LONGEST_UNMARKED = 160
# Also as JSON may write it.
_MARGIN = regex(rf"(?:(?<![0-9A-Za-z])|(?<=\\[nrt]))([0-9a-f]{{{_MARGIN_DIGITS}}})(?:¦|\\u00[aA]6) ?")

_live: OrderedDict[str, None] = OrderedDict()
_margins: Counter[str] = Counter()


def new_nonce() -> str:
    """Return 128 random bits in hex, and remember them for as long as a conversation may hold them."""
    nonce = secrets.token_hex(_NONCE_BYTES)
    _live[nonce] = None
    _margins[nonce[:_MARGIN_DIGITS]] += 1
    if len(_live) > _MOST_LIVE:
        oldest, _ = _live.popitem(last=False)
        _margins[oldest[:_MARGIN_DIGITS]] -= 1
    return nonce


def margin_of(nonce: str) -> str:
    """Return what begins each line of a text whose marks have this nonce, where it is marked throughout."""
    return f"{nonce[:_MARGIN_DIGITS]}¦ "


def with_margins(text: str, nonce: str) -> str:
    """Put a margin before each line, and behind a blank of a long one: code and URLs stay as they are."""
    done, margin = [], margin_of(nonce)
    for line in text.split("\n"):
        start = 0
        while (
            len(line) - start > _LONGEST_UNMARKED and (cut := line.find(" ", start + _LONGEST_UNMARKED)) > 0
        ):
            done.append(f"{margin}{line[start : cut + 1]}")
            start = cut + 1
        done.append(f"{margin}{line[start:]}\n")
    return "".join(done).removesuffix("\n")


def without_margins(text: str) -> str:
    """Return a text, JSON or not, without the margins that a model copied along with words that had them."""
    if "¦" not in text and "00a6" not in text.lower():
        return text
    return _MARGIN.sub(lambda found: "" if _margins[found[1]] > 0 else found[0], text)


def without_nonces(text: str) -> str:
    """Return a text that is to be fenced, with nonces of ours and what looks like marks of ours masked."""
    if "«" in text:
        text = _MARK_BEGUN.sub(rf"\1{_MASKED}", text)
    return _HEX.sub(lambda run: _masked_run(run[0]), text)


def _masked_run(run: str) -> str:
    """Return a run of hex digits with each live nonce in it masked."""
    done: list[str] = []
    width, position, start = 2 * _NONCE_BYTES, 0, 0
    while start + width <= len(run):
        if run[start : start + width] in _live:
            done += (run[position:start], _MASKED)
            position = start = start + width
        else:
            start += 1
    return "".join((*done, run[position:])) if done else run


def mark_in(text: str) -> str | None:
    """Say which mark of ours a text carries and what that means, or None where it carries none."""
    mask = _mask().search(text)
    if mask is not None:
        return f"it holds {mask[0]}, which replaces a secret that was masked"
    if _FENCE.search(text):
        return "it holds a mark of the fence around text that was shown, which is no part of that text"
    runs = (run[0] for run in _HEX.finditer(text))
    if any(_is_live(run) for run in runs if len(run) <= _LONGEST_RUN):
        return "it holds the nonce of a fence around text that was shown, which is no part of that text"
    return None


@cache
def _mask() -> re.Pattern[str]:
    # Sessions of earlier releases hold masks without a hash.
    before = "|".join(map(re.escape, sorted(mask_names())))
    return re.compile(rf"{mask_form().pattern}|\[redacted:(?:{before})\]")


def _is_live(run: str) -> bool:
    """Whether one of our nonces occurs anywhere in a run of hex digits."""
    width = 2 * _NONCE_BYTES
    return any(run[start : start + width] in _live for start in range(len(run) - width + 1))
