"""The obvious wrong ways to chain records and to look at the chain."""

from __future__ import annotations

import hashlib


def record_hash(prev: bytes, at: float, *texts: str | bytes | None) -> bytes:
    """Wrong: columns run together, and one that is not there is like an empty one."""
    joined = "".join(
        "" if text is None else text if isinstance(text, str) else text.decode() for text in texts
    )
    return hashlib.sha256(prev + f"{at}{joined}".encode()).digest()


def is_chained(rows: list[tuple[bytes, bytes]]) -> bool:
    """Wrong: looks only whether (prev, hash) of the rows fit each other, not whether they fit the contents."""
    return all(prev == own for (_, own), (prev, _) in zip(rows, rows[1:], strict=False))
