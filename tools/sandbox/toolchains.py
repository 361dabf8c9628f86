"""Find secrets in the toolchains that programs may read, so that these files can be hidden.

Toolchains are scanned once per session, since no program can change them; a known one (`known_toolchains.py`)
is not scanned at all. A file that was found and is gone by now is left out.

Packages bring thousands of keys and certificates, which are as public as the packages, so these are not
hidden. Files with the names of password files are. What cannot be scanned completely is hidden completely,
and the result says so.
"""

from __future__ import annotations

import os
import posixpath
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import field

from leeward.security.lazy import dataclass
from leeward.security.paths import NAMED_SECRET, is_inside
from leeward.security.sandbox import PACKAGE_FOLDERS, Spot

from .known_toolchains import KnownToolchains, Walk

__all__ = ["ToolchainSecrets"]

# Test keys and pages, by the thousand, that came with a package, an interpreter or a compiler.
_SHIPPED = frozenset({"node_modules", "site-packages", "dist-packages", "test", "tests", "testdata", "doc"})
# What keeps passwords beside programs, by names that are no secret's elsewhere.
_KEEPS_PASSWORDS = frozenset(
    {
        "npmrc", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pypirc", "pip.conf", "pip.ini", "uv.toml", "condarc",
        ".condarc", "netrc", ".netrc", "_netrc", ".git-credentials", "auth.json", "auth.toml", "credentials",
        "credentials.toml", "credentials.json", "nuget.config", ".gemrc", "bunfig.toml", ".bunfig.toml",
        "postactivate", "preactivate",
    }
)  # fmt: skip
_MOST_ENTRIES = 300_000
"""Entries of one toolchain that are looked at: about half a second."""
_MOST_OF_ONE, _MOST_OF_ALL = 200, 1_000
"""Secrets that are closed one by one, as each is mounted for every command."""


class _TooMuch(Exception):
    """There is more than can be looked at, or closed one by one."""


@dataclass(slots=True)
class ToolchainSecrets:
    """What is closed of toolchains.

    `reason` says why a path is secret, if it is; with `has_rules`, also by what the person says of any file.
    `linked` are the device and inode of secret files elsewhere that have several names: where there are any,
    nothing is taken as `known`, for a further name of a file changes no folder but that of the name.
    """

    reason: Callable[[str], str | None]
    known: KnownToolchains | None = None
    linked: AbstractSet[tuple[int, int]] = frozenset()
    has_rules: bool = False
    _found: dict[str, tuple[Spot, ...]] = field(default_factory=dict)
    _untold: list[str] = field(default_factory=list)

    def spots(self, folders: Iterable[str]) -> list[Spot]:
        """Return what is to be closed in some folders and is there now; this waits for the disk."""
        tops = tuple(folders)
        outer = [path for path in tops if not is_inside(path, *(one for one in tops if one != path))]
        for top in outer:
            if top not in self._found:
                self._found[top] = self._known(top)
        return [spot for top in outer for spot in self._found[top] if _is_there(spot)]

    def news(self) -> tuple[str, ...]:
        """Return what has been closed as a whole since this was asked last, in sentences."""
        untold, self._untold = self._untold, []
        return tuple(
            f"{path} is closed to commands: it holds too much to look for secrets in; name what they need"
            " of it in [tools.sandbox] extra_read"
            for path in untold
        )

    def _known(self, top: str) -> tuple[Spot, ...]:
        """Return what is to be closed in a folder, whether anything is remembered of it or not."""
        real = os.path.realpath(top)
        known = None if self.linked else self.known
        found = known.recall(top, real) if known is not None else None
        if found is None or len(found) > self._left:
            found = self._look(top, real, known)
        # Where nothing can be mounted, what the link to a folder leads to is opened for itself.
        behind = (Spot(f"{real}{spot.path[len(top) :]}", spot.is_folder) for spot in found)
        return (*found, *(behind if real != top else ()))

    @property
    def _left(self) -> int:
        """How many more secrets can be closed one by one."""
        return _MOST_OF_ALL - sum(map(len, self._found.values()))

    def _look(self, top: str, real: str, known: KnownToolchains | None) -> tuple[Spot, ...]:
        found: list[Spot] = []
        walk = Walk()
        try:
            for spot in self._secrets(top, real, walk):
                found.append(spot)
                if len(found) > min(_MOST_OF_ONE, self._left):
                    raise _TooMuch
        except _TooMuch:
            if any(
                is_inside(os.path.realpath(ours), real) for ours in (sys.prefix, sys.base_prefix, __file__)
            ):
                # What Leeward itself runs by stays open, or nothing could be started.
                return tuple(found[:_MOST_OF_ONE])
            self._untold.append(top)
            return (Spot(top, is_folder=True),)
        if known is not None:
            known.remember(top, real, walk, found)
        return tuple(found)

    def _secrets(self, top: str, real: str, walk: Walk) -> Iterator[Spot]:
        waiting = [(top, posixpath.basename(top) in PACKAGE_FOLDERS)]
        for folder, is_shipped in waiting:
            walk.enter(folder)
            try:
                with os.scandir(folder) as listed:
                    entries = list(listed)
            except PermissionError:
                # What may not be listed can still be opened by its name.
                yield Spot(folder, is_folder=True)
                continue
            except OSError:
                walk.fail()
                continue
            walk.entries += len(entries)
            if walk.entries > _MOST_ENTRIES:
                raise _TooMuch
            for entry in entries:
                is_folder = entry.is_dir(follow_symlinks=False)
                if entry.is_symlink():
                    continue
                if self._is_closed(entry, f"{real}{folder[len(top) :]}", is_folder, is_shipped):
                    yield Spot(entry.path, is_folder)
                elif is_folder:
                    waiting.append((entry.path, is_shipped or entry.name in _SHIPPED))

    def _is_closed(self, entry: os.DirEntry[str], real: str, is_folder: bool, is_shipped: bool) -> bool:
        if not is_folder and not entry.is_file(follow_symlinks=False):
            return True  # a FIFO or a socket leads out, also where nothing can be written
        if not is_folder and self.linked and self._is_linked(entry):
            return True
        name = entry.name.casefold()
        if not is_folder and (name in _KEEPS_PASSWORDS or (not is_shipped and _is_origin(entry))):
            return True
        is_public = is_shipped and (is_folder or not _could_hold_passwords(name, real))
        if is_public and not is_folder and not self.has_rules:
            return False
        reasons = {self.reason(path) for path in dict.fromkeys((entry.path, f"{real}/{entry.name}"))}
        return not reasons <= {None, NAMED_SECRET if is_public else None}

    def _is_linked(self, entry: os.DirEntry[str]) -> bool:
        if entry.inode() not in {inode for _, inode in self.linked}:
            return False
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            return True
        return (status.st_dev, status.st_ino) in self.linked


def _could_hold_passwords(name: str, folder: str) -> bool:
    """Whether a file among packages is looked at closer; a key is one of a test, or is called `id_`."""
    is_hidden = name.startswith((".", "_")) or posixpath.basename(folder).startswith(".")
    return is_hidden or name.startswith("id_") or name.endswith(".env")


def _is_origin(entry: os.DirEntry[str]) -> bool:
    """Whether it holds where a repository came from: an address may have a password in it."""
    return entry.name == "config" and posixpath.dirname(entry.path).endswith("/.git")


def _is_there(spot: Spot) -> bool:
    try:
        mode = os.lstat(spot.path).st_mode
    except OSError:
        return False
    return not stat.S_ISLNK(mode) and stat.S_ISDIR(mode) == spot.is_folder
