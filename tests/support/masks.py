"""Masks without their hashes, for tests that say of which kind they are."""

from __future__ import annotations

from collections.abc import Iterable

from leeward.security.text import mask_form, redact_text

__all__ = ["kinds", "masked"]


def kinds(text: str) -> str:
    """Return a text with `[kind]` in the place of every mask."""
    return mask_form().sub(lambda found: f"[{found[0].split(':')[1]}]", text)


def masked(text: str, known: Iterable[str] = ()) -> str:
    """Return a text as `redact_text` returns it, with `[kind]` in the place of every mask."""
    return kinds(redact_text(text, known))
