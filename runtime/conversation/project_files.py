"""What does a project say about how to work in it? Its instruction files, for a workspace that is trusted.

Here they are found and read. How they are screened is the pipeline's business, what they may and may not
do is said in `prompt.py` and enforced by the gates.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["LARGEST", "NAMES", "ProjectFile", "read_project_files"]

NAMES = ("AGENTS.md", "CLAUDE.md", "LEEWARD.md")
"""The files that are looked for in the workspace itself, in this order: what comes later adds to it."""

LARGEST = 32 * 1024
"""Bytes that are read of each; they go along with every request."""


@dataclass(frozen=True, slots=True)
class ProjectFile:
    """One file's name and text; `is_cut` tells that it goes on beyond what is read."""

    name: str
    text: str
    is_cut: bool = False


def read_project_files(workspace: Path, is_secret: Callable[[str], bool]) -> tuple[ProjectFile, ...]:
    """Return the instruction files of a workspace (absolute, resolved); the same text counts once.

    One that a link puts elsewhere, or that `is_secret` (asked about its absolute path), is none of them;
    one that cannot be read says nothing.
    """
    found: list[ProjectFile] = []
    for name in NAMES:
        read = _read(workspace, name, is_secret)
        if read is not None and read.text.strip() and all(read.text != other.text for other in found):
            found.append(read)
    return tuple(found)


def _read(workspace: Path, name: str, is_secret: Callable[[str], bool]) -> ProjectFile | None:
    # Resolved first and then opened without following links: what is swapped in between is not opened.
    path = Path(os.path.realpath(workspace / name))
    if not path.is_relative_to(workspace) or is_secret(str(path)):
        return None
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return None
            with os.fdopen(handle, "rb", closefd=False) as file:
                data = file.read(LARGEST + 1)
        finally:
            os.close(handle)
    except OSError:
        return None
    text = data[:LARGEST].decode("utf-8", "replace" if len(data) <= LARGEST else "ignore")
    return ProjectFile(name, text, len(data) > LARGEST)
