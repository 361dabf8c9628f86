"""Marking text as data: nothing reaches the model but what this file wrote.

Each span has marks with a nonce of its own that whoever wrote the text could not know. The marks
help a model that is willing to heed them; no gate relies on them.
"""

from __future__ import annotations

import re

from ..text import new_nonce
from ..trust import Origin
from .redact import redact
from .screened import Screened, Source
from .strip import strip

__all__ = ["LABEL_LENGTH", "fence", "inline", "label"]

LABEL_LENGTH = 512
_READ_LENGTH = 64 * 1024
_NOT_KIND = re.compile(r"[^a-z0-9_-]+")


def fence(screened: Screened, source: Source) -> Screened:
    """Put the text between marks with a fresh 128-bit nonce; notices and facts follow, one line each."""
    nonce = new_nonce()
    kind = _NOT_KIND.sub("-", source.kind.lower())[:32] or "text"
    marked = f"«UNTRUSTED:{nonce}:{kind}»{screened.text}«END:{nonce}»"
    # A notice may name a value; it stays one line of its own, cleaned like any text.
    notices = [f"[{' '.join(_cleaned(notice, source).split())}]" for notice in screened.notices]
    facts = [(name, inline(value, source)) for name, value in screened.facts]
    told = [f"[{name}: {value.text}]" for name, value in facts]
    shown = [f"[{name}: {value.plain}]" for name, value in facts]
    below = "\n".join([*notices, *shown])
    gap = "\n" if below and screened.text and not screened.text.endswith("\n") else ""
    plain = f"{screened.text}{gap}{below}"
    return Screened("\n".join((marked, *notices, *told)), plain=plain, is_cut=screened.is_cut)


def label(text: str, source: Source | None = None) -> str:
    """Return a short value (a name, a URL, an error) fenced, on one line, 512 characters at most."""
    return inline(text, source).text


def inline(text: str, source: Source | None = None) -> Screened:
    """Return a short value as `label` does, and as `plain` what stands between the marks."""
    source = source or Source("label", Origin.MODEL)
    # Cleaned before it is cut: half a secret would no longer be known as one.
    clean = _cleaned(text[:_READ_LENGTH], source)
    line = clean.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")
    if len(line) > LABEL_LENGTH or len(text) > _READ_LENGTH:
        line = line[:LABEL_LENGTH] + "…"
    return fence(Screened(line), source)


def _cleaned(text: str, source: Source) -> str:
    return redact(strip(Screened(text), source), source).text
