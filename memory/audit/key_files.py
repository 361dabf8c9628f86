"""The key of the audit's keyed hashes, and how a secret file is written whole or not at all.

The hash key is random bytes, one for each data folder, in a file only its owner may read and no tool may, so
that nobody can try out what a hash on record is the hash of.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from leeward.security.ports import RecordError

__all__ = ["FILE", "hash_key", "write_new"]


def write_new(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read; where another process is faster, its file is the one.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Whole before it has its name: nobody ever reads half a key.
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            path.hardlink_to(draft)
    finally:
        draft.unlink(missing_ok=True)


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
