"""Check each file a tool meets below a judged folder: secret, protected, or excluded by a rule.

The gates judge the path a call names. What a tool finds by itself is checked here, against the same parts of
the policy (`security/paths/secret_files.py`, `protected_files.py`). A hard link is another name of a file,
and there is no link to refuse to follow: it is recognised by the device and inode that it shares with a
secret file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from leeward.security.lazy import dataclass
from leeward.security.outcome import PolicyBlocked
from leeward.security.paths import OF_GIT, ResolvedPath, protected_reason, secret_places, secret_reason
from leeward.security.permissions import holding_back
from leeward.security.policy import Policy
from leeward.security.sandbox import is_stored

__all__ = ["Guard", "HardLinks", "file_identity"]

MOST_ENTRIES = 200_000
"""Names that are looked at to find secret files, in the workspace and in each place that holds them."""

_PASSED_OVER = frozenset({".git", "node_modules"})


def file_identity(found: os.stat_result) -> tuple[int, int, int, int]:
    """Return what tells a file and its content from others: device, inode, size, time of change."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


@dataclass(frozen=True, slots=True)
class Guard:
    """The policy, as tools ask for it.

    With `keeps_git` it is asked about changes that were judged as what they mean to git: what git stores in a
    repository may be written then, what it runs or is led by may not.
    """

    policy: Policy
    keeps_git: bool = False

    def secret(self, path: str) -> str | None:
        """Say why a file is read by no tool, or None."""
        return secret_reason(path, self.policy)

    def protected(self, path: str) -> str | None:
        """Say why a file is changed by no tool, or None."""
        why = protected_reason(path, self.policy)
        return None if why == OF_GIT and self.keeps_git and is_stored(path) else why

    def is_held_back(self, tool: str, place: ResolvedPath, below: ResolvedPath) -> bool:
        """Whether a rule of the person's holds for a file below the folder that a tool was called for."""
        return holding_back(tool, place, below, self.policy) is not None

    @property
    def has_rules(self) -> bool:
        """Whether there is any rule that could hold something back."""
        return bool(self.policy.rules)

    def must_be_no_link(self, found: os.stat_result) -> None:
        """Let an opened file pass that is not a secret one by another name; looked up if it has several.

        Raises:
            PolicyBlocked: it is one.
        """
        HardLinks(self).must_be_none(found)


class HardLinks:
    """Recognise files that are secret under another name. For one call: secret files are looked up once."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._secret: dict[tuple[int, int], str] | None = None

    def secret_name(self, found: os.stat_result) -> str | None:
        """Return the name by which a file with several is secret, or None where it is by none."""
        if found.st_nlink < 2 or not stat.S_ISREG(found.st_mode):
            return None
        if self._secret is None:
            self._secret = dict(_identities(self._guard))
        return self._secret.get((found.st_dev, found.st_ino))

    def is_secret(self, found: os.stat_result) -> bool:
        """Whether an opened file is secret under some other name."""
        return self.secret_name(found) is not None

    def must_be_none(self, found: os.stat_result) -> None:
        """Refuse a file that is secret under another name.

        Raises:
            PolicyBlocked: it is.
        """
        if self.is_secret(found):
            raise PolicyBlocked("this is a secret file by another name (a hard link)")


def _identities(guard: Guard) -> Iterator[tuple[tuple[int, int], str]]:
    """Yield device and inode of every secret file that there is, and its name."""
    policy = guard.policy
    for place in secret_places(policy):
        yield from _named(_files(place))
    for root in (policy.workspace, *policy.allowed_paths):
        yield from _named(path for path in _files(root) if guard.secret(path) is not None)


def _named(paths: Iterable[str]) -> Iterator[tuple[tuple[int, int], str]]:
    for path in paths:
        with suppress(OSError):
            found = Path(path).stat()
            yield (found.st_dev, found.st_ino), path


def _files(root: str) -> Iterator[str]:
    """Yield the file at a path or those below it, as far as there is room; no link is followed."""
    yield root
    waiting, room = [root], MOST_ENTRIES
    while waiting and room > 0:
        entries = _entries(waiting.pop(), room)
        # A folder without anything in it is looked at all the same.
        room -= 1 + len(entries)
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                yield entry.path
            elif entry.name not in _PASSED_OVER:
                waiting.append(entry.path)


def _entries(folder: str, most: int) -> list[os.DirEntry[str]]:
    """Return what is in a folder, at most so much; nothing where it is none or may not be listed."""
    try:
        with os.scandir(folder) as entries:
            return list(islice(entries, most))
    except OSError:
        return []
