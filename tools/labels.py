"""Tell which files of a workspace bring words of others along, or what is confidential, when they are read.

What calls wrote after such a text was read is labelled in the store (`memory/labels.py`). Here a call is held
against that before it is judged:

1. A tool reads what it names, and what lies below. A file that was copied elsewhere is known by its content.
2. What runs may read anything of the workspace, so it reads every labelled file that git does not ignore.
   What git ignores, and folders of tools, hold outputs and dependencies in great number, which nearly every
   line uses: these are read by a line that names them, `.git` by one of git.
3. A file holds nothing of others while it is what it was before they were read, or once it is gone.
   A file that the person commits by a line they typed is theirs from then on.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path

import trio

from leeward.memory.changes import ANYTHING, LEFT_OUT
from leeward.memory.checkpoints import Revision, changed_files
from leeward.memory.labels import ChangedFile, FileLabel, LabelRows, LabelStore
from leeward.security.call import Action
from leeward.security.kinds import CommandLine, Effect, Kind
from leeward.security.lazy import dataclass
from leeward.security.outcome import ToolError
from leeward.security.paths import is_inside
from leeward.security.policy import Policy
from leeward.security.sandbox import OddIndex, read_index
from leeward.security.session import Session
from leeward.security.trust import FileWords, Origin

from .checkpoints import is_left_out
from .files import DirHandle, open_folder
from .search import IgnoredFolders

__all__ = ["FileLabels", "files_of", "words_read_by"]

_GIT = ".git"
_LARGEST = 16 << 20
"""Bytes of a file whose content is compared; a larger one keeps the label of its path."""
_MOST_BELOW = 2_000


@dataclass(frozen=True, slots=True)
class FileLabels:
    """The labels of files, for the calls of all sessions."""

    store: LabelStore

    async def read_by(self, action: Action, session: Session) -> FileWords:
        """Return what the files bring along that a call may read.

        Raises:
            RecordError: what is known of them could not be read.
        """
        if not _Reading.of(action, session):
            return FileWords()
        rows = await self.store.standing(session.policy.workspace)
        if not rows:
            return FileWords()
        return await trio.to_thread.run_sync(words_read_by, action, session, rows, abandon_on_cancel=True)

    async def committed(self, action: Action, policy: Policy) -> tuple[str, ...]:
        """Return the files that a line of the person's committed, by relative paths, and endorse them.

        Raises:
            RecordError: it could not be written down.
        """
        if not any("commit" in argv for argv in _argv_of(action) if argv[0] == "git"):
            return ()
        rows = await self.store.standing(policy.workspace)
        found = await trio.to_thread.run_sync(_committed, policy.workspace, rows.paths)
        if found:
            await self.store.endorse(policy.workspace, found, found.values())
        return tuple(found)

    async def endorse(self, policy: Policy, paths: Sequence[str]) -> tuple[str, ...]:
        """Take the labels off paths, relative to the workspace, and all below; return which had any.

        `ANYTHING` among them is about everything.

        Raises:
            RecordError: it could not be written down.
        """
        rows = await self.store.standing(policy.workspace)
        named = [
            row.path for row in rows.paths if ANYTHING in paths or is_inside(f"/{row.path}", *_rooted(paths))
        ]
        if ANYTHING in paths:
            named.append(ANYTHING)
        files = [f"{policy.workspace}/{path}" for path in (*paths, *named)]
        digests = await trio.to_thread.run_sync(lambda: {*map(_digest, files)})
        found = {digest for digest in digests if digest in rows.contents}
        if named or found:
            await self.store.endorse(policy.workspace, named, found)
        return tuple(dict.fromkeys(named or (paths if found else ())))


def words_read_by(action: Action, session: Session, rows: LabelRows) -> FileWords:
    """Return what the labelled files among those bring along that a call may read; it waits for the disk."""
    reading = _Reading.of(action, session)
    labels = {label for row in (*rows.paths, *rows.contents.values()) for label in row.labels}
    # What runs brings no label that the session has not got; of a file it counts whose words it is.
    if not labels or not reading or (not reading.paths and labels <= session.labels):
        return FileWords()
    return reading.found_in(rows)


def _rooted(paths: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"/{path}" for path in paths)


def files_of(revisions: Sequence[Revision], lower: DirHandle) -> list[ChangedFile]:
    """Return the files that a run changed; a folder that git ignores, or of a tool, is one of them."""
    ignored, found = IgnoredFolders(lower), dict[str, ChangedFile]()
    for one in changed_files(revisions):
        folder = _tools_folder(one.path) or ignored.folder_of(one.path, is_folder=False)
        found.setdefault(folder or one.path, ChangedFile(folder) if folder else one)
    return list(found.values())


def _tools_folder(path: str) -> str:
    """Return the outermost folder of tools that a path lies in, "" where it lies in none."""
    parts = path.split("/")
    return next(("/".join(parts[: at + 1]) for at, part in enumerate(parts[:-1]) if is_left_out(part)), "")


@dataclass(slots=True)
class _Reading:
    """What a call may read: absolute `paths` and what lies below, and where it `runs`, what a line names.

    `words` are the parts of all names in its lines. A line that cannot be read names everything.
    """

    workspace: str
    paths: tuple[str, ...] = ()
    runs: bool = False
    words: frozenset[str] | None = frozenset()
    _ignored: IgnoredFolders | None = field(default=None)

    @classmethod
    def of(cls, action: Action, session: Session) -> _Reading:
        paths = dict.fromkeys(path for place in action.places for path in (place.text, place.real))
        runs = Effect.EXECUTE in action.effects or bool(action.of_kind(Kind.COMMAND))
        return cls(session.policy.workspace, tuple(paths), runs, _words_of(action))

    def __bool__(self) -> bool:
        return bool(self.paths or self.runs)

    def found_in(self, rows: LabelRows) -> FileWords:
        """Return what the labelled files among them bring along; this waits for the disk."""
        labels: set[Origin] = set()
        source = ""
        try:
            with open_folder(self.workspace) as top:
                changed = any(row.path.rpartition("/")[2] == ".gitignore" for row in rows.paths)
                # A text that has a say in what git ignores could have anything ignored.
                self._ignored = None if changed else IgnoredFolders(top)
                for row in self._labelled(rows):
                    if not row.labels <= labels:
                        labels |= row.labels
                        source = row.path if row.path and not row.is_anything else row.source
        except (OSError, ToolError):
            return FileWords(frozenset({label for row in rows.paths for label in row.labels}))
        return FileWords(frozenset(labels), source)

    def _labelled(self, rows: LabelRows) -> Iterator[FileLabel]:
        yield from (row for row in rows.paths if self._reads(row) and self._holds(row, rows))
        for path in self.paths if rows.contents else ():
            digest = _digest(path)
            if digest in rows.contents:
                held = rows.contents[digest]
                yield FileLabel(posixpath.relpath(path, self.workspace), held.labels, held.source)

    def _reads(self, row: FileLabel) -> bool:
        if row.is_anything:
            return self.runs or any(is_inside(path, self.workspace) for path in self.paths)
        if row.path == LEFT_OUT:
            named = (part for path in self.paths for part in path[len(self.workspace) :].split("/"))
            return any(map(is_left_out, named)) or (self.runs and self._names(None))
        whole = f"{self.workspace}/{row.path}"
        if any(is_inside(whole, path) or is_inside(path, whole) for path in self.paths):
            return True
        return self.runs and (not self._is_output(row.path) or self._names(row.path))

    def _is_output(self, path: str) -> bool:
        """Whether a path is, or lies in, what git ignores or a folder of tools."""
        if any(map(is_left_out, path.split("/"))):
            return True
        return self._ignored is not None and self._ignored.covers(path)

    def _names(self, path: str | None) -> bool:
        """Whether a line names a path by one of its parts; None is any folder of tools."""
        if self.words is None:
            return True
        if path is None:
            return any(map(is_left_out, self.words))
        return not self.words.isdisjoint(path.split("/"))

    def _holds(self, row: FileLabel, rows: LabelRows) -> bool:
        """Whether there is still something of others at a path."""
        if row.is_anything or row.path == LEFT_OUT:
            return True
        whole = f"{self.workspace}/{row.path}"
        if not os.path.lexists(whole):
            return False
        return row.clean is None or row.clean in rows.contents or _digest(whole) != row.clean


def _argv_of(action: Action) -> Iterator[tuple[str, ...]]:
    for atom in action.of_kind(Kind.COMMAND):
        if isinstance(atom.canonical, CommandLine):
            yield from (argv for argv in atom.canonical.actions if argv)


def _words_of(action: Action) -> frozenset[str] | None:
    """Return the parts of all names in the command lines of a call, None where one cannot be read.

    What a pattern matches counts; the program of a line does not, except that git reads `.git`.
    """
    lines = action.of_kind(Kind.COMMAND)
    if not all(isinstance(atom.canonical, CommandLine) for atom in lines):
        return None
    named = [word for argv in _argv_of(action) for word in argv[1:]]
    facts = [atom.canonical.facts for atom in lines if isinstance(atom.canonical, CommandLine)]
    named += [
        path for one in facts if one is not None for several in one.matches.values() for path in several or ()
    ]
    parts = {part for word in named for piece in word.split("=") for part in piece.split("/")}
    if any(posixpath.basename(argv[0]) == "git" for argv in _argv_of(action)):
        parts.add(_GIT)
    return frozenset(parts)


def _digest(path: str) -> str | None:
    """Return the SHA-256 (hex) of a file that is not empty, None where it is none, or too large."""
    with suppress(OSError, ValueError), open(_opened(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if 0 < size <= _LARGEST:
            return hashlib.file_digest(file, "sha256").hexdigest()
    return None


def _opened(path: str) -> int:
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise ValueError("not a file")
    return handle


def _committed(workspace: str, rows: Sequence[FileLabel]) -> dict[str, str]:
    """Return the labelled paths that are as the index has them, which a commit made, and their SHA-256."""
    try:
        with open(_opened(f"{workspace}/{_GIT}/index"), "rb") as file:
            index = read_index(file.read())
    except (OSError, ValueError, OddIndex):
        return {}
    staged = {os.fsdecode(path): entry.oid for (path, stage), entry in index.entries.items() if stage == 0}
    found = {}
    for row in rows:
        files = list(_below(workspace, row.path)) if row.path not in {ANYTHING, LEFT_OUT} else []
        if files and all(_blob(f"{workspace}/{path}") == staged.get(path, "") for path in files):
            found[row.path] = _digest(f"{workspace}/{row.path}") or ""
    return found


def _below(workspace: str, path: str) -> Iterator[str]:
    """Yield a file, or the files in a folder; of one with very many none, for not all could be compared."""
    whole = f"{workspace}/{path}"
    if not Path(whole).is_dir() or Path(whole).is_symlink():
        if os.path.lexists(whole):
            yield path
        return
    files = [
        os.path.relpath(f"{folder}/{name}", workspace)
        for folder, _, names in os.walk(whole)
        for name in names
    ]
    yield from files if len(files) <= _MOST_BELOW else ()


def _blob(path: str) -> str:
    """Return the name that git gives a content, "-" where that is not known."""
    try:
        with open(_opened(path), "rb") as file:
            content = file.read(_LARGEST + 1)
    except (OSError, ValueError):
        return "-"
    header = f"blob {len(content)}\0".encode()
    return (
        hashlib.sha1(header + content, usedforsecurity=False).hexdigest() if len(content) <= _LARGEST else "-"
    )
