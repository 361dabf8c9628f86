"""Undo changes that a program made to files which git or Leeward would execute or obey.

`security/sandbox/tampering.py` decides which changes to undo. New files are moved aside, and what was there
before is restored. All files are reached through handles and no symlink is followed, since a program that is
still running could otherwise choose which file is moved.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path

from leeward.security.outcome import ToolError
from leeward.security.paths import is_inside
from leeward.security.sandbox import Mark, MarkChange, MarkKind
from leeward.security.text import visible

from ..files import DirHandle, opened_parent

__all__ = ["open_up", "remove_whole", "undo"]

_CONTROL_FOLDERS = frozenset({".git", ".leeward", "hooks"})
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_PATH_ALONE = getattr(os, "O_PATH", os.O_RDONLY)


def open_up(handle: int) -> bool:
    """Give its owner all rights on an opened folder again; whether that is possible."""
    try:
        # By way of /proc, for the handle may be one that is good for nothing but a path.
        os.chmod(f"/proc/self/fd/{handle}", stat.S_IMODE(os.fstat(handle).st_mode) | stat.S_IRWXU)  # noqa: PTH101 — a handle
    except OSError:
        return False
    return True


def undo(changes: Iterable[MarkChange], aside: str) -> list[str]:
    """Move aside what must not stay, put back what was there, and say so, a sentence for each."""
    notes: list[str] = []
    moved: list[str] = []
    for change in changes:
        shown, is_gone = visible(change.path), change.after is None or is_inside(change.path, *moved)
        if is_gone and change.before is None:
            continue
        kept: str | None = None
        try:
            if not is_gone:
                kept = _moved_aside(change.path, aside)
                moved.append(change.path)
            is_back = change.before is not None and _put_back(change.path, change.before)
        except (OSError, ToolError) as error:
            why = getattr(error, "strerror", None) or error
            notes.append(f"{shown} was changed, and that could not be undone: {why}{_where(kept)}")
            continue
        notes.append(_sentence(shown, change, kept, is_back=is_back))
    return notes


def _sentence(shown: str, change: MarkChange, kept: str | None, *, is_back: bool) -> str:
    if change.before is None:
        return f"{shown} appeared and was moved to {visible(kept or '')}"
    what = "was changed" if change.after is not None else "was removed"
    return f"{shown} {what} and {'was put back' if is_back else 'could not be put back'}{_where(kept)}"


def _where(kept: str | None) -> str:
    return f" (the changed one is {visible(kept)})" if kept is not None else ""


def _moved_aside(path: str, aside: str) -> str:
    """Rename something to where nothing obeys it: our own folder or, on another disk, a name beside it."""
    Path(aside).mkdir(parents=True, exist_ok=True, mode=0o700)
    flat = path.strip("/").replace("/", "%")[-120:]
    folder = tempfile.mkdtemp(prefix="blocked-", dir=aside)
    target = f"{folder}/{flat}"
    with opened_parent(path) as (parent, name):
        _make_movable(parent, name)
        try:
            os.rename(name, target, src_dir_fd=parent.handle)
        except OSError:
            Path(folder).rmdir()
            target = tempfile.mktemp(prefix="leeward-blocked-", dir=_harmless_folder(path))  # noqa: S306 — nobody waits for it
            with opened_parent(target) as (beside, new_name):
                os.rename(name, new_name, src_dir_fd=parent.handle, dst_dir_fd=beside.handle)
    return target


def _make_movable(parent: DirHandle, name: str) -> None:
    """Take away what keeps an ordinary user from moving something: a folder that may not be written to."""
    found = parent.stat(name)
    if not os.access(".", os.W_OK, dir_fd=parent.handle):
        open_up(parent.handle)
    if found is not None and stat.S_ISDIR(found.st_mode):
        with closing(parent.descend(name)) as inside:
            open_up(inside.handle)


def _harmless_folder(path: str) -> str:
    """Return the nearest folder around a path in which nothing is obeyed for its place."""
    folder = Path(path).parent
    while {part.casefold() for part in folder.parts} & _CONTROL_FOLDERS:
        folder = folder.parent
    return str(folder)


def _put_back(path: str, mark: Mark) -> bool:
    with opened_parent(path, create_below="/") as (folder, name):
        if mark.kind is MarkKind.LINK:
            os.symlink(mark.digest, name, dir_fd=folder.handle)
            return True
        if mark.kind is MarkKind.FOLDER:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=folder.handle)
            return True
        if mark.kind is not MarkKind.FILE or mark.content is None:
            return False
        _write(folder, name, mark.content, mark.mode)
    return True


def _write(folder: DirHandle, name: str, content: bytes, mode: int) -> None:
    with os.fdopen(os.open(name, _NEW, mode, dir_fd=folder.handle), "wb") as file:
        file.write(content)
        with suppress(OSError):
            os.fchmod(file.fileno(), mode)


def remove_whole(top: str) -> None:
    """Remove a folder with all in it, however deep a program made it; what cannot be removed stays.

    Folders in folders are moved up first: no path gets too long for the kernel, and no stack too high. All is
    done by handles and through no link, for something of the program may still be at work there.
    """
    with suppress(OSError):
        handle = _opened_folder(top)
        try:
            while folders := _emptied(handle, handle):
                for name in folders:
                    _remove_folder(name, handle)
        finally:
            os.close(handle)
        os.rmdir(top)  # noqa: PTH106 — a text


def _remove_folder(name: str, top: int) -> None:
    """Remove a folder at the top; the folders in it come to lie beside it."""
    folder = _opened_folder(name, top)
    try:
        _emptied(folder, top)
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=top)


def _opened_folder(name: str, within: int | None = None) -> int:
    path = os.open(name, _PATH_ALONE | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=within)
    try:
        open_up(path)
        return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=path)
    finally:
        os.close(path)


def _emptied(folder: int, top: int) -> list[str]:
    """Remove what is no folder, move folders to the top, and return the names of those that are there."""
    with os.scandir(folder) as found:
        entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
    for name, is_folder in entries:
        if not is_folder:
            os.unlink(name, dir_fd=folder)
        elif folder != top:
            os.rename(name, os.urandom(8).hex(), src_dir_fd=folder, dst_dir_fd=top)
    return [name for name, is_folder in entries if is_folder]
