"""Detect files that changed since they were read or judged."""

from __future__ import annotations

import hashlib
import os
import stat
from collections import OrderedDict
from collections.abc import Callable, Sequence

from leeward.security.outcome import ToolError
from leeward.security.paths import FileState, secret_reason
from leeward.security.policy import Policy

from .guard import file_identity
from .handles import file_kind, opened_parent

__all__ = ["FileVersions", "content_mark", "state_of", "states"]


_MOST_HASHED = 16 * 1024 * 1024
_MOST_TOGETHER = 4 * _MOST_HASHED
_MOST_KEPT = 1024 * 1024


def states(paths: Sequence[str], policy: Policy) -> dict[str, FileState]:
    """Return the state of each of some absolute paths without links, looked up in this thread.

    What is secret is not opened; what cannot be looked at has no entry. Files that are too much to read
    together are known by size and times, as one is that is too big.
    """
    found: dict[str, FileState] = {}
    room = _MOST_TOGETHER
    for path in dict.fromkeys(paths):
        state = state_of(path, min(room, _MOST_HASHED)) if secret_reason(path, policy) is None else None
        if state is not None:
            found[path] = state
            room -= min(state.identity[2], room) if state.identity else 0
    return found


def state_of(path: str, most: int = _MOST_HASHED) -> FileState | None:
    """Return the state of a path, or None if it is unknown; content up to `most` bytes is read."""
    try:
        with opened_parent(path) as (folder, name):
            found = folder.stat(name)
            if found is None:
                return FileState()
            if not stat.S_ISREG(found.st_mode):
                return FileState(file_kind(found))
            with os.fdopen(folder.open_file(name), "rb") as file:
                opened = os.fstat(file.fileno())
                content = file.read(most + 1)
    except ToolError:
        # What is missing above it is made when it is written.
        return FileState()
    except (OSError, ValueError):
        return None
    identity = file_identity(opened)
    if len(content) > most:
        return FileState(file_kind(opened), ":".join(map(str, identity)), identity)
    kept = content if len(content) <= _MOST_KEPT else None
    return FileState(file_kind(opened), content_mark(content), identity, kept)


def content_mark(content: bytes) -> str:
    """Return what a content is known by: its SHA-256 in hex."""
    return hashlib.sha256(content).hexdigest()


_MOST = 4_096


class FileVersions:
    """What was read or written of which file. `session` tells the id of the session that is going on."""

    def __init__(self, session: Callable[[], str] = str) -> None:
        self._session = session
        self._files: OrderedDict[tuple[str, str], tuple[tuple[int, ...], str]] = OrderedDict()

    def note(self, path: str, identity: tuple[int, ...], mark: str = "") -> None:
        """Remember a file as it is seen now; `mark` is that of its content, "" if it was not seen whole."""
        key = (self._session(), path)
        self._files[key] = (identity, mark)
        self._files.move_to_end(key)
        if len(self._files) > _MOST:
            self._files.popitem(last=False)

    def is_stale(self, path: str, identity: tuple[int, ...], mark: str) -> bool:
        """Whether a file was seen, and is neither that file untouched by now nor one with the same text."""
        seen = self._files.get((self._session(), path))
        return seen is not None and seen[0] != identity and (not mark or seen[1] != mark)
