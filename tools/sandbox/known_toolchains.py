"""Remember the secrets found in a toolchain, so that a large one is scanned once and not in each session.

A result is valid while every scanned folder is the same folder and unchanged. The kernel sets a folder's
ctime whenever a name in it is added, removed or given to another file, and no program can set that time. The
file with the results must be writable by nobody but the person; an entry that does not match is ignored.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from leeward.security.lazy import dataclass
from leeward.security.sandbox import Spot

__all__ = ["KnownToolchains", "Walk"]

_LARGE = 1_000
"""Entries from which reading what is remembered is faster than looking."""
_SETTLED_NS = 2_000_000_000
"""How long ago a folder must have changed: a later change within one tick of the clock would not show."""


class Walk:
    """The folders of one look at a toolchain, as they were just before each was listed.

    `is_settled` tells that any change since then will show.
    """

    def __init__(self) -> None:
        self.began_ns: int = time.time_ns()
        self.entries = 0
        self.folders: list[str] = []
        self._seals: list[bytes] = []
        self.is_settled: bool = True

    def enter(self, folder: str) -> None:
        """Note a folder that is about to be listed."""
        self._seals.append(self._sealed(folder))
        self.folders.append(folder)

    def fail(self) -> None:
        """Note that something could not be looked at, for a reason that may pass."""
        self.is_settled = False

    @property
    def seal(self) -> str:
        """SHA-256 (hex) over which folders these are and when each was changed last."""
        return hashlib.sha256(b"".join(self._seals)).hexdigest()

    def _sealed(self, folder: str) -> bytes:
        try:
            status = os.stat(folder)  # noqa: PTH116 — of thousands, and a path of each costs as much again
        except OSError:
            self.is_settled = False
            return b""
        if status.st_ctime_ns > self.began_ns - _SETTLED_NS:
            self.is_settled = False
        name = os.fsencode(folder)
        fields = (len(name), status.st_dev, status.st_ino, status.st_ctime_ns)
        return b"%d %d %d %d " % fields + name


@dataclass(frozen=True, slots=True)
class KnownToolchains:
    """What was found in toolchains, in a file for each below `folder`.

    `rules` names all that decides what is secret: under other rules nothing is known. A file that cannot be
    read or written knows nothing.
    """

    folder: Path
    rules: str

    def recall(self, top: str, real: str) -> tuple[Spot, ...] | None:
        """Return the secrets of a toolchain, where nothing has changed since they were found, else None."""
        try:
            stored = json.loads(self._file(top).read_text(encoding="utf-8", errors="surrogateescape"))
            basis, seal = stored["basis"], stored["seal"]
            if basis != self._basis(top, real):
                return None
            walk = Walk()
            for folder in stored["folders"]:
                walk.enter(f"{top}{folder}")
            spots = tuple(Spot(f"{top}{path}", bool(is_folder)) for path, is_folder in stored["spots"])
        except (OSError, ValueError, TypeError, KeyError):
            return None
        return spots if walk.is_settled and walk.seal == seal else None

    def remember(self, top: str, real: str, walk: Walk, spots: Iterable[Spot]) -> None:
        """Note what a look at a toolchain found, if it is a large one and at rest."""
        if walk.entries < _LARGE or not walk.is_settled:
            return
        stored = {
            "basis": self._basis(top, real),
            "seal": walk.seal,
            "folders": [folder[len(top) :] for folder in walk.folders],
            "spots": [(spot.path[len(top) :], spot.is_folder) for spot in spots],
        }
        file = self._file(top)
        partial = file.with_name(f"{file.name}.{os.getpid()}")
        with suppress(OSError, ValueError):
            self.folder.mkdir(mode=0o700, exist_ok=True)
            for left_over in self.folder.glob("*.json.*"):
                # Of a process that was killed; one that is being written is only not remembered.
                left_over.unlink()
            partial.write_text(json.dumps(stored), encoding="utf-8")
            partial.replace(file)

    def _file(self, top: str) -> Path:
        return self.folder / f"{hashlib.sha256(os.fsencode(top)).hexdigest()[:32]}.json"

    def _basis(self, top: str, real: str) -> list[str]:
        return [self.rules, top, real]
