"""Watch how much a program writes below a folder on disk, which no kernel limit bounds."""

from __future__ import annotations

import os
import stat
import time

__all__ = ["DiskUsage"]

_SOON, _SELDOM = 0.01, 2.0
_TIMES = 4
"""Looking is to take a quarter of the time at most."""


class DiskUsage:
    """What lies in the upper of an overlay on a disk, held against how much there may be.

    All of it is counted now and then, and soon where the disk lost more room than that. A folder that cannot
    be listed may hold as much as the disk lost. Looking waits for the disk.
    """

    def __init__(self, place: str, size: int, inodes: int) -> None:
        self._place, self._inodes = place, inodes
        self.size: int = size
        self._free = _room(place)
        self._looked, self._cost = time.monotonic(), 0.0

    def is_over(self) -> bool:
        """Whether there is more than there may be."""
        lost, began = self._free - _room(self._place), time.monotonic()
        pause = _SOON if lost > self.size else _SELDOM
        if began < self._looked + max(pause, _TIMES * self._cost):
            return False
        used, entries, is_whole = _below(f"{self._place}/upper", self._inodes)
        self._looked = time.monotonic()
        self._cost = self._looked - began
        return used > self.size or entries > self._inodes or (lost > self.size and not is_whole)


def _room(place: str) -> int:
    """Return how many bytes a file system has left."""
    stats = os.statvfs(place)
    return stats.f_bfree * stats.f_frsize


def _below(place: str, most: int) -> tuple[int, int, bool]:
    """Return how much lies below a folder in bytes, in how many entries, and whether all could be counted.

    What is removed meanwhile could not.
    """
    used, entries, is_whole, waiting = 0, 0, True, [place]
    while waiting and entries <= most:
        try:
            with os.scandir(waiting.pop()) as found:
                there = [(entry.stat(follow_symlinks=False), entry) for entry in found]
        except OSError:
            is_whole = False
            continue
        used += sum(status.st_blocks * 512 for status, _ in there)
        entries += len(there)
        waiting += (entry.path for status, entry in there if stat.S_ISDIR(status.st_mode))
    return used, entries, is_whole
