"""How much of a text is looked at, at the very most: cut at a line's end below the hard bound."""

from __future__ import annotations

from dataclasses import replace

from .screened import Screened, Source

__all__ = ["cap"]


def cap(screened: Screened, source: Source) -> Screened:
    """Cut what is longer than `source.max_bytes` of UTF-8 at the last line that fits, and say so."""
    text = screened.text
    if len(text) * 4 <= source.max_bytes:
        return screened
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= source.max_bytes:
        return screened
    kept = encoded[: source.max_bytes]
    line_end = kept.rfind(b"\n")
    # A single line that is longer than everything allowed has no end to cut at.
    kept = kept[: line_end + 1] if line_end >= 0 else kept
    notice = f"cut to {len(kept)} of {len(encoded)} bytes; the rest was dropped and is not stored"
    return replace(screened, text=kept.decode("utf-8", "ignore"), notices=(*screened.notices, notice))
