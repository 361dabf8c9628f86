"""Masks: what a text holds in the place of a secret, `[REDACTED:<kind>:<4 hex digits>]`.

1. The digits are a keyed hash of what was masked: masks of one kind are equal where the values are, and
   nobody without the key can try out which value one replaces.
2. The key is that of the installation, once its data folder is open (`use_mask_key`); before that, and in a
   process without one, it is drawn at random.
3. A mask is a mark for readers. Anybody can write one, so nothing is decided by finding one, but that a text
   with a mask in it is not written to a file: it would overwrite the secret.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable

__all__ = ["MaskHash", "mask_of", "mask_pattern", "use_mask_key"]

_PERSON = b"leeward mask"
_key = secrets.token_bytes(32)


def use_mask_key(key: bytes) -> None:
    """Have every mask of this process from now on made with the key of an installation, of up to 64 bytes."""
    global _key  # noqa: PLW0603 — one process writes masks of one key, in every session
    _key = key


class MaskHash:
    """The hash of a value that arrives in pieces."""

    def __init__(self, value: str = "") -> None:
        self._hash = hashlib.blake2b(key=_key, person=_PERSON, digest_size=2)
        self.update(value)

    def update(self, piece: str) -> None:
        """Take the next piece of the value."""
        self._hash.update(piece.encode("utf-8", "surrogatepass"))

    def mask(self, kind: str) -> str:
        """Return the mask for the value that was taken."""
        return f"[REDACTED:{kind}:{self._hash.hexdigest()}]"


def mask_pattern(kinds: Iterable[str]) -> re.Pattern[str]:
    """Return what masks of some kinds look like."""
    names = "|".join(map(re.escape, sorted(kinds)))
    return re.compile(rf"\[REDACTED:(?:{names}):[0-9a-f]{{4}}\]")


def mask_of(kind: str, value: str) -> str:
    """Return the mask for a whole value."""
    return MaskHash(value).mask(kind)
