"""Remember which workspaces may bring their own configuration, as the person answered, in one file.

The file lies in the data folder, mode 0600. One that others may write to counts as empty.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
from pathlib import Path

__all__ = ["FILE", "is_trusted", "set_trusted"]

FILE = "workspaces.json"
_LARGEST = 1024 * 1024


def is_trusted(data: Path, workspace: Path) -> bool | None:
    """Return what the person said of a workspace (absolute, resolved), None if they were never asked."""
    said = _read(data / FILE).get(str(workspace))
    return said if isinstance(said, bool) else None


def set_trusted(data: Path, workspace: Path, trusted: bool) -> None:
    """Remember what the person said; readers see the old file or the new one, never half of one.

    Raises:
        OSError: it cannot be written.
    """
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    known = {**_read(data / FILE), str(workspace): trusted}
    # `mkstemp` makes the file readable to its owner only, and the replacement keeps that.
    handle, name = tempfile.mkstemp(prefix=f"{FILE}.", dir=data)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape") as file:
            json.dump(known, file, indent=1, sort_keys=True)
        Path(name).replace(data / FILE)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _read(path: Path) -> dict[str, object]:
    """Return what the file says; nothing where it is missing, broken or in others' hands."""
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o022:
                return {}
            found = json.loads(file.read(_LARGEST))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
