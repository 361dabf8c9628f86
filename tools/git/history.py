"""Find out whether a repository's history or index contains a file with a secret name.

What is masked in the workspace can be read from a commit of it. So what a repository holds is looked through
by its names: all that references, their logs and the index lead to, by git itself, confined, with settings of
ours. It is remembered for as long as these stay as they are, and of more commits only the new ones are looked
at. If that is unknown, a secret counts as found. What nothing leads to any more is not looked at.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path

import trio

from leeward.security.lazy import dataclass, regex
from leeward.security.outcome import ToolError
from leeward.security.sandbox import OddIndex, read_index
from leeward.security.text import visible

from .store import OURS, Look, environment_of

__all__ = ["Histories"]

_LONGEST = 10.0
"""Seconds that a history is looked through, at most."""
_MOST_FILES, _MOST_BYTES = 5_000, 64 << 20
_OID = regex(rb"(?<![0-9a-f])(?:[0-9a-f]{64}|[0-9a-f]{40})(?![0-9a-f])")
_SHA256 = regex(rb"(?i)objectformat\s*=\s*\"?sha256")
_UNKNOWN = "more than can be looked through"
_LOG = "git log --stdin --ignore-missing --format= --name-only -z --root -m <tips"

Stamps = tuple[tuple[str, int, int, int], ...]


class _TooMuch(Exception):
    """There is more than is looked at."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What was found of a repository, and on what that rests: its files, and the hashes in them."""

    stamps: Stamps
    tips: frozenset[bytes]
    secret: str


@dataclass(slots=True)
class Histories:
    """The repositories of one workspace. `is_secret` tells of a path; `look` runs what only reads."""

    workspace: str
    is_secret: Callable[[str], bool]
    look: Look
    _known: dict[str, _Known] = field(default_factory=dict)
    _indexes: dict[str, tuple[tuple[int, ...], tuple[str, ...]]] = field(default_factory=dict)
    _looking: trio.Lock = field(default_factory=trio.Lock)

    async def closed(self, repositories: Sequence[str]) -> dict[str, str]:
        """Return which repositories hold something secret, each with the name of one such file."""
        found = {}
        async with self._looking:
            for repository in repositories:
                if secret := await self._secret_in(repository):
                    found[repository] = secret
        return found

    async def tracked(self, repositories: Sequence[str]) -> list[str]:
        """Return the secret files in the workspace that are in an index; commands cannot read them.

        What cannot be read says nothing.
        """
        async with self._looking:
            return await trio.to_thread.run_sync(self._tracked, repositories)

    def _tracked(self, repositories: Sequence[str]) -> list[str]:
        found = []
        for repository in repositories:
            top = repository.removesuffix("/.git")
            with suppress(_TooMuch, OSError, OddIndex):
                paths = [f"{top}/{name}" for name in self._indexed(repository)]
                found += [
                    visible(os.path.relpath(path, self.workspace)) for path in paths if os.path.lexists(path)
                ]
        return found

    def _indexed(self, repository: str) -> tuple[str, ...]:
        """Return the secret names in an index, remembered for as long as it stays as it is."""
        status = os.stat(f"{repository}/index")  # noqa: PTH116 — a text
        stamp = status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
        known = self._indexes.get(repository)
        if known is None or known[0] != stamp:
            top = repository.removesuffix("/.git")
            names = tuple(name for name in _staged(repository) if self.is_secret(f"{top}/{name}"))
            known = self._indexes[repository] = stamp, names
        return known[1]

    async def _secret_in(self, repository: str) -> str:
        if not await trio.to_thread.run_sync(os.path.isdir, f"{repository}/objects"):
            return ""
        known = self._known.get(repository)
        try:
            stamps = await trio.to_thread.run_sync(_stamps, repository)
            if known is not None and known.stamps == stamps:
                return known.secret
            tips = await trio.to_thread.run_sync(_tips, stamps)
            staged = await trio.to_thread.run_sync(_staged, repository)
            old = known.tips if known is not None and not known.secret else frozenset()
            names = [*staged, *(await self._committed(repository, tips, old))]
        except (_TooMuch, OSError, OddIndex, ToolError):
            self._known.pop(repository, None)
            return _UNKNOWN
        top = repository.removesuffix("/.git")
        secret = next((name for name in names if self.is_secret(f"{top}/{name}")), "")
        self._known[repository] = _Known(stamps, tips, visible(secret))
        return visible(secret)

    async def _committed(self, repository: str, tips: frozenset[bytes], old: frozenset[bytes]) -> list[str]:
        """Return the names in all commits that lead to some hashes and not to the old ones."""
        if tips <= old:
            return []
        folder = await trio.to_thread.run_sync(_made, repository, tips, old)
        try:
            env = {**environment_of(str(folder), ()), "GIT_OBJECT_DIRECTORY": f"{repository}/objects"}
            with trio.move_on_after(_LONGEST):
                done = await self.look(str(folder), ["/bin/sh", "-c", _LOG], env, [self.workspace])
                if done.exit_code != 0 or done.dropped or done.timed_out or done.exceeded is not None:
                    raise _TooMuch
                return [name.lstrip("\n") for name in done.stdout.split("\0") if name.strip("\n")]
            raise _TooMuch
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(lambda: shutil.rmtree(folder, ignore_errors=True))


def _stamps(repository: str) -> Stamps:
    """Return what tells whether references, logs or index of a repository are others.

    Raises:
        _TooMuch: there are too many.
        OSError: they cannot be read.
    """
    found = []
    for path in _files(repository):
        status = os.stat(path, follow_symlinks=False)  # noqa: PTH116 — a text
        found.append((path, status.st_size, status.st_mtime_ns, status.st_ctime_ns))
        if len(found) > _MOST_FILES:
            raise _TooMuch
    return tuple(sorted(found))


def _files(repository: str) -> Iterator[str]:
    """Yield the files of a repository that lead to objects."""
    with os.scandir(repository) as entries:
        named = sorted(entry.name for entry in entries if entry.is_file(follow_symlinks=False))
    wanted = {"HEAD", "index", "packed-refs", "config"}
    yield from (f"{repository}/{name}" for name in named if name in wanted or name.endswith("_HEAD"))
    waiting = [f"{repository}/refs", f"{repository}/logs"]
    for folder in waiting:
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    yield entry.path


def _tips(stamps: Stamps) -> frozenset[bytes]:
    """Return every hash in the files, except for the index."""
    found: set[bytes] = set()
    left = _MOST_BYTES
    for path, size, _, _ in stamps:
        if path.endswith(("/index", "/config")):
            continue
        left -= size
        if left < 0:
            raise _TooMuch
        found |= {*_OID.findall(Path(path).read_bytes())}
    return frozenset(oid for oid in found if oid.strip(b"0"))


def _staged(repository: str) -> list[str]:
    path = Path(repository, "index")
    if not path.exists():
        return []
    if path.stat().st_size > _MOST_BYTES:
        raise _TooMuch
    width = 32 if _is_sha256(repository) else 20
    entries = read_index(path.read_bytes(), width).entries
    return [os.fsdecode(name) for name, _ in entries]


def _is_sha256(repository: str) -> bool:
    with suppress(OSError):
        return _SHA256.search(Path(repository, "config").read_bytes()) is not None
    return False


def _made(repository: str, tips: frozenset[bytes], old: frozenset[bytes]) -> Path:
    """Make a repository of ours that leads to nothing, with what git is asked about in it."""
    folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="leeward-git-")))
    for name in ("objects", "refs"):
        (folder / name).mkdir()
    (folder / "HEAD").write_text("ref: refs/heads/none\n", encoding="ascii")
    (folder / "config").write_text(OURS.format(0), encoding="ascii")
    if _is_sha256(repository):
        sha256 = "[extensions]\n\tobjectFormat = sha256\n"
        (folder / "config").write_text(OURS.format(1) + sha256, encoding="ascii")
    lines = [*sorted(tips), *(b"^" + oid for oid in sorted(old))]
    (folder / "tips").write_bytes(b"".join(line + b"\n" for line in lines))
    return folder
