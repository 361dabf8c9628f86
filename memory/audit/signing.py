"""The signing key of a data folder: sign heads and verify their signatures.

There is one Ed25519 key for each data folder, in a file that only its owner may read, created when it is
first needed. No tool may read that folder.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from leeward.security.lazy import LazyModule
from leeward.security.ports import RecordError

from .heads import Head

if TYPE_CHECKING:
    from . import ed25519
    from .ed25519 import Ed25519PrivateKey
else:
    # It loads cryptography, and most commands sign nothing.
    ed25519 = LazyModule("leeward.memory.audit.ed25519")

__all__ = ["Signer", "is_signed"]


class Signer:
    """Holds the key of a data folder; everything here may block for as long as a disk does."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def public(self) -> str | None:
        """Return the public half in hex; None where there is no key yet.

        Raises:
            RecordError: the key cannot be read.
        """
        return self._public if "_private" in vars(self) or self._path.exists() else None

    def sign(self, count: int, digest: str) -> Head:
        """Return the head of an audit that has so many records, the last of which has this hash.

        Raises:
            RecordError: there is no key, and none can be made.
        """
        head = Head(count, digest, self._public, "")
        return Head(count, digest, self._public, self._private.sign(head.signed()).hex())

    @cached_property
    def _private(self) -> Ed25519PrivateKey:
        try:
            if not self._path.exists():
                ed25519.make(self._path)
            return ed25519.load(self._path)
        except (OSError, ValueError) as error:
            raise RecordError(
                f"the key {self._path} cannot be used, so the audit cannot be signed: {error}."
                " Put the right one back; or move it away, and a new one is made, which vouches for nothing"
                " that was signed with the old one"
            ) from error

    @cached_property
    def _public(self) -> str:
        return self._private.public_key().public_bytes_raw().hex()


def is_signed(head: Head) -> bool:
    """Whether the key that a head names made its signature. Whose key that is, is another question."""
    return ed25519.is_signed(bytes.fromhex(head.key), bytes.fromhex(head.signature), head.signed())
