"""Keep small JSON objects, and texts, in files of the person's own: read by nobody else.

An object is never half written. A file that others could have written counts as empty, whatever it holds;
so does one that is missing, too long or broken. What is remembered in such files is trust, and no trust is
the safe reading.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["read_private", "write_new", "write_private"]


def read_private(path: Path, largest: int) -> dict[str, Any]:
    """Return the object in a file, of which at most `largest` bytes are read; empty where it cannot be used.

    It counts only if it belongs to this user, and neither its group nor others may write to it.
    """
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o022:
                return {}
            found = json.loads(file.read(largest))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def write_private(path: Path, value: Mapping[str, object]) -> None:
    """Write a file (mode 0600) and the folder it lies in (0700); readers see the old object or the new one.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # `mkstemp` makes the file readable to its owner only, and the replacement keeps that.
    handle, name = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(value, file, indent=1)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_new(path: Path, text: str) -> None:
    """Write a text to a new file that nobody else can read.

    Raises:
        FileExistsError: there is one, or a link of that name.
        OSError: it cannot be written.
    """
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
