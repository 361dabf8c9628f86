"""Cut a text at a line end below the hard bound; nothing beyond it is screened."""

from __future__ import annotations

from dataclasses import replace

from .screened import HARD_BOUND, Screened, Source

__all__ = ["cap"]


def cap(screened: Screened, source: Source) -> Screened:
    """Cut what is longer than `source.max_bytes` of UTF-8 at the last line that fits, and say so."""
    text, bound = screened.text, min(source.max_bytes, HARD_BOUND)
    if len(text) * 4 <= bound:
        return screened
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= bound:
        return screened
    kept = encoded[:bound]
    line_end = kept.rfind(b"\n") + 1
    # A last line that is longer than everything before it is cut through rather than lost.
    kept = kept[:line_end] if line_end * 2 >= bound else kept
    notice = f"cut to {len(kept)} of {len(encoded)} bytes; the rest was dropped and is not stored"
    notices, shown = (*screened.notices, notice), kept.decode("utf-8", "ignore")
    return replace(screened, text=shown, notices=notices, is_cut=True)
