"""Describe where a conversation takes place: date, system, shell, and the git branch with what is under way.

Made once per conversation, so that the system prompt keeps its bytes. Git is not started: what a repository
configures would run, so its files are read. What has changed in the working tree is left to `git status`.
"""

from __future__ import annotations

import os
import platform
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from leeward.security.lazy import dataclass, regex

__all__ = ["Repository", "repository_of", "system_line"]

_LARGEST = 4096  # bytes of HEAD, or of a file that points to the repository
_HEAD = regex(r"ref: refs/heads/([^\x00-\x20\x7f~^:?*\[\\]{1,255})|([0-9a-f]{40}(?:[0-9a-f]{24})?)")
_UNDER_WAY = {
    "MERGE_HEAD": "a merge",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "BISECT_LOG": "a bisection",
}


@dataclass(frozen=True, slots=True)
class Repository:
    """A git repository: its branch, as its author called it, or the commit that is checked out.

    `under_way` is what was begun in it and not ended, such as "a merge", or "".
    """

    branch: str = ""
    commit: str = ""
    under_way: str = ""


def system_line(now: float) -> str:
    """Return the date (`now` is in seconds since the epoch), the system and the shell of commands."""
    try:
        name = platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        name = ""
    shown = "".join(c for c in name if c.isascii() and c.isprintable())[:60]
    date = time.strftime("%A, %Y-%m-%d", time.localtime(now))
    system = f"{platform.system()} on {platform.machine()}{f' ({shown})' if shown else ''}"
    return f"It is {date}. The system is {system}; commands run in bash."


def repository_of(workspace: Path) -> Repository | None:
    """Return the repository that a workspace (absolute, resolved) lies in, None where there is none."""
    for folder in (workspace, *workspace.parents):
        for git in _git_folders(folder):
            found = _HEAD.fullmatch(_contents(git / "HEAD"))
            if found is not None:
                under_way = (word for name, word in _UNDER_WAY.items() if os.path.lexists(git / name))
                return Repository(found[1] or "", (found[2] or "")[:12], next(under_way, ""))
    return None


def _git_folders(folder: Path) -> Iterator[Path]:
    """Yield where the repository of a working tree is: its folder .git, or where a file of that name says."""
    git = folder / ".git"
    if git.is_dir():
        yield git
        return
    link = _contents(git)
    if link.startswith("gitdir: "):
        yield folder / link.removeprefix("gitdir: ")


def _contents(path: Path) -> str:
    """Return the one line of a small regular file, "" where it is none."""
    try:
        with open(path, "rb", opener=_opened) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return ""
            return file.read(_LARGEST).decode("utf-8", "replace").strip()
    except (OSError, ValueError):
        return ""


def _opened(path: str, flags: int) -> int:
    # Not to wait for a pipe.
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
