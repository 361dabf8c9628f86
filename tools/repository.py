"""Look whether the git repository at the root of the workspace is a plain one.

Plain is a real folder `.git` of plain files and folders, in which nothing says where else to look, with
settings that are all known. The look is bounded: what is too much to tell counts as not plain.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from leeward.security.command import UNREAD_PARTS, is_plain_head, leads_elsewhere, odd_settings

__all__ = ["doubts_of"]

_MOST_ENTRIES = 20_000
_MOST_DOUBTS = 4
_LONGEST = 256 * 1024


def doubts_of(folder: str, spend: Callable[[], None] = lambda: None) -> tuple[str, ...]:
    """Return what keeps the repository at a folder from being a plain one, the first few; () for one.

    `spend` is called for every entry that is looked at, and may raise to end the look.
    """
    return tuple(islice(_doubts(Path(folder), spend), _MOST_DOUBTS))


def _doubts(folder: Path, spend: Callable[[], None]) -> Iterator[str]:
    git = folder / ".git"
    try:
        if not stat.S_ISDIR(git.lstat().st_mode):
            yield ".git is no folder"
            return
        if os.path.lexists(folder / ".gitmodules"):
            yield "it has submodules"
        if all(os.path.lexists(folder / name) for name in ("HEAD", "objects", "refs")):
            yield "git may take the folder itself for a repository"
        if not all(map(_is_entered, (git, git / "objects", git / "refs"))) or not is_plain_head(
            _text(git / "HEAD")
        ):
            yield "git may not take .git for a repository"
        yield from odd_settings(_text(git / "config"))
        yield from _odd_parts(git, spend)
    except FileNotFoundError:
        yield "a part of .git is missing" if os.path.lexists(git) else "there is no .git here"
    except (OSError, ValueError):
        yield "a part of .git cannot be read"


def _is_entered(path: Path) -> bool:
    """Whether a path is a folder that may be entered; if one may not, git looks for another repository."""
    return stat.S_ISDIR(path.lstat().st_mode) and os.access(path, os.X_OK)


def _odd_parts(git: Path, spend: Callable[[], None]) -> Iterator[str]:
    """Yield what in there leads elsewhere, or may: links, devices, and files that have another name."""
    waiting, left = [""], _MOST_ENTRIES
    while waiting:
        inside = waiting.pop()
        with os.scandir(git / inside) as entries:
            for entry in entries:
                spend()
                part = f"{inside}/{entry.name}".lstrip("/")
                left -= 1
                if left < 0:
                    yield ".git is too big to tell"
                    return
                if part in UNREAD_PARTS:
                    continue
                if leads_elsewhere(part):
                    yield f".git/{part}"
                elif entry.is_dir(follow_symlinks=False):
                    waiting.append(part)
                elif not entry.is_file(follow_symlinks=False):
                    yield f".git/{part} is no plain file"
                elif not part.startswith("objects/") and entry.stat(follow_symlinks=False).st_nlink > 1:
                    # A clone shares objects with its origin; of anything else git may print a line.
                    yield f".git/{part} has another name"


def _text(file: Path) -> str:
    """Return the content of a plain file, whatever its bytes; a link, a FIFO or a device is not read.

    Raises:
        OSError: it is none, or too long.
    """
    handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _LONGEST:
            raise OSError("no plain file that is short enough")
        return os.read(handle, _LONGEST).decode("utf-8", "replace")
    finally:
        os.close(handle)
