"""With which key are the hashes on record made, so that nobody can try out what they are hashes of?

Random bytes, one key for each data folder, in a file that only its owner may read and no tool may.
"""

from __future__ import annotations

import os
import secrets
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from leeward.security import RecordError

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
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            _make(path)
        return _read(path)
    except OSError as error:
        why = f"the key {path}, with which hashes on record are made, cannot be used: {error}"
        raise RecordError(why) from error


def _make(path: Path) -> None:
    """Make the file whole or not at all; where another process was faster, its key is the one."""
    handle, name = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(name, path)
    finally:
        Path(name).unlink(missing_ok=True)


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        key = file.read(_BYTES + 1)
    if mode & 0o077:
        raise RecordError(f"the key {path} may be read by others; run: chmod 600 {path}")
    if len(key) != _BYTES:
        raise RecordError(f"the key {path} is damaged; move it away, and a new one is made")
    return key
