"""Remember which workspaces the person trusts to bring configuration, in one file.

The file lies in the data folder, mode 0600. One that others may write to counts as empty.
"""

from __future__ import annotations

from pathlib import Path

from leeward.memory.private_file import read_private, write_private

__all__ = ["FILE", "is_trusted", "set_trusted"]

FILE = "workspaces.json"
_LARGEST = 1024 * 1024


def is_trusted(data: Path, workspace: Path) -> bool | None:
    """Return the person's answer for a workspace (absolute, resolved), None if they were never asked."""
    said = read_private(data / FILE, _LARGEST).get(str(workspace))
    return said if isinstance(said, bool) else None


def set_trusted(data: Path, workspace: Path, trusted: bool) -> None:
    """Remember the person's answer; readers see the old file or the new one, never half of one.

    Raises:
        OSError: it cannot be written.
    """
    known = {**read_private(data / FILE, _LARGEST), str(workspace): trusted}
    write_private(data / FILE, dict(sorted(known.items())))
