"""Mark text as untrusted data; only text from this filter reaches the model.

Each span has marks with a nonce of its own that the author of the text could not know; nonces of other spans
in it are masked. By its origin a text has a margin on each line besides (`datamark`), or is encoded
(`FenceMode`). The marks help a model that is willing to heed them; no gate relies on them.
"""

from __future__ import annotations

import base64
from dataclasses import replace

from ..kinds import FenceMode
from ..lazy import regex
from ..text import look_alike_flags, new_nonce, with_margins, without_nonces
from ..trust import Origin
from .redact import redact
from .screened import Screened, Source
from .strip import strip

__all__ = ["LABEL_LENGTH", "fence", "inline", "label"]

LABEL_LENGTH = 512
_READ_LENGTH = 64 * 1024
_NOT_KIND = regex(r"[^a-z0-9_-]+")


def fence(screened: Screened, source: Source) -> Screened:
    """Put the text between marks with a fresh 128-bit nonce; notices and facts follow, one line each."""
    nonce = new_nonce()
    kind = _NOT_KIND.sub("-", source.kind.lower())[:32] or "text"
    body, kind = _marked_by(without_nonces(screened.text), kind, nonce, source.mode)
    marked = f"«UNTRUSTED:{nonce}:{kind}»{body}«END:{nonce}»"
    # A notice may name a value; it stays one line of its own, cleaned like any text.
    notices = [f"[{' '.join(_cleaned(notice, source).split())}]" for notice in screened.notices]
    facts = [(name, inline(value, source)) for name, value in screened.facts]
    labelled = [f"[{name}: {value.text}]" for name, value in facts]
    shown = [f"[{name}: {value.plain}]" for name, value in facts]
    below = "\n".join([*notices, *shown])
    gap = "\n" if below and screened.text and not screened.text.endswith("\n") else ""
    plain = f"{screened.text}{gap}{below}"
    text = "\n".join((marked, *notices, *labelled))
    return replace(screened, text=text, notices=(), facts=(), plain=plain)


def _marked_by(text: str, kind: str, nonce: str, mode: FenceMode) -> tuple[str, str]:
    """Return the text between the marks, and its kind."""
    if mode is FenceMode.ENCODE:
        return base64.b64encode(text.encode("utf-8", "replace")).decode("ascii"), f"{kind}-base64"
    return (with_margins(text, nonce) if mode is FenceMode.DATAMARK else text), kind


def label(text: str, source: Source | None = None) -> str:
    """Return a short value (a name, a URL, an error) fenced, on one line, 512 characters at most."""
    return inline(text, source).text


def inline(text: str, source: Source | None = None) -> Screened:
    """Return a short value as `label` does, and as `plain` the text between the marks."""
    source = source or Source("label", Origin.MODEL)
    # Cleaned before it is cut: half a secret would no longer be known as one.
    clean = _cleaned(text[:_READ_LENGTH], source)
    line = clean.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")
    if len(line) > LABEL_LENGTH or len(text) > _READ_LENGTH:
        line = line[:LABEL_LENGTH] + "…"
    marked = fence(Screened(line), replace(source, mode=FenceMode.DELIMIT))
    flags = "; ".join(look_alike_flags(line))
    shown_flags = f" [{flags}]" if flags else ""
    return replace(marked, text=marked.text + shown_flags, plain=marked.plain + shown_flags)


def _cleaned(text: str, source: Source) -> str:
    return redact(strip(Screened(text), source), source).text
