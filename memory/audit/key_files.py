"""With which key are the hashes on record made, so that nobody can try out what they are hashes of?

Random bytes, one key for each data folder, in a file that only its owner may read and no tool may.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from leeward.security.ports import RecordError

from .new_file import write_new

__all__ = ["FILE", "hash_key"]

FILE = "hash.key"
_BYTES = 32


def hash_key(data: Path) -> bytes:
    """Return the key of a data folder, which is made when it is first asked for.

    Raises:
        RecordError: it can neither be read nor made.
    """
    path = data / FILE
    try:
        if not path.exists():
            write_new(path, secrets.token_bytes(_BYTES))
        return _read(path)
    except OSError as error:
        why = f"the key {path}, with which hashes on record are made, cannot be used: {error}"
        raise RecordError(why) from error


def _read(path: Path) -> bytes:
    # A pipe in its place would be waited for without end.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        key = file.read(_BYTES + 1) if stat.S_ISREG(mode) else b""
    if mode & 0o077:
        raise RecordError(f"the key {path} may be read by others; run: chmod 600 {path}")
    if len(key) != _BYTES:
        raise RecordError(f"the key {path} is damaged; move it away, and a new one is made")
    return key
