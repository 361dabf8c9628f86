"""Apply the changes of a trial run to the workspace: all of them or none.

All contents, old and new, are first stored in the checkpoint store or in a journal folder beside it; a record
says that the step is being applied. Every path is compared once more with the state that was judged. Then the
workspace is changed through handles, by the code of `/undo`. A failure is undone at once. If the process is
killed, the next one that opens the workspace finishes the step or undoes it. What others changed meanwhile is
never overwritten.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import BinaryIO

import trio

from leeward.memory.checkpoints import CheckpointStore, Pending, Revision, Version, packed_content
from leeward.memory.database import Statement
from leeward.security.lazy import dataclass
from leeward.security.outcome import ToolError
from leeward.security.ports import RecordError

from ..checkpoints import PARTIAL, BlockingStore, Conflict, RestoreTarget, Stamp, restore, stamp_of
from ..files import DirHandle, Guard, HardLinks, open_folder, shown_name
from ..linux import exchange_names, rename_to_new
from .changes import READ, Change, Changes, Entry, UpperTree

__all__ = ["Keeping", "NotKept"]

_PIECE = 1024 * 1024
_BATCH = 200
_TRIED_AGAIN = 0.02  # seconds: a lock of the system cannot be waited for in a way that can be cancelled
_FEW = 5
_LOCK = "lock"
_THEIRS = "it was changed by something else meanwhile"
_KILLED = "changes that were being kept when Leeward was killed"
_OWNER_WRITES = stat.S_IWUSR | stat.S_IXUSR


class NotKept(Exception):
    """Nothing was changed; `reasons` says why, by path, and `is_unsettled` whether that is not certain."""

    def __init__(self, reasons: Mapping[str, str], *, is_unsettled: bool = False) -> None:
        listed = [f"{shown_name(path)}: {why}" if path else why for path, why in reasons.items()]
        more = f" and {len(listed) - _FEW} more" if len(listed) > _FEW else ""
        super().__init__(f"{'; '.join(listed[:_FEW])}{more}")
        self.reasons: dict[str, str] = dict(reasons)
        self.is_unsettled = is_unsettled


@dataclass(frozen=True, slots=True)
class Keeping:
    """Keeps changes of one workspace, whose policy `guard` knows.

    `journals` is a folder beside the store; contents of one step that are more than `budget` bytes go there
    until all is applied.
    """

    store: CheckpointStore
    guard: Guard
    budget: int
    journals: Path

    @property
    def _root(self) -> str:
        return self.guard.policy.workspace

    @property
    def _journal(self) -> Path:
        return self.journals / hashlib.sha256(os.fsencode(self._root)).hexdigest()[:32]

    async def keep(
        self,
        upper: int,
        lower: DirHandle,
        changes: Changes,
        *,
        session: str,
        call: str,
        tool: str,
        add: Callable[[Sequence[Revision]], Sequence[Statement]] = lambda _: (),
    ) -> None:
        """Apply changes that were found in an upper, as a step that can be undone and with what `add` tells.

        Raises:
            Conflict: somebody else changed some of the paths; nothing was changed.
            NotKept: it could not be done; nothing was changed.
            RecordError: it could not be written down; nothing was changed.
        """
        self._must_be_possible(changes)
        async with self._locked():
            await self._settle_pending()
            mark = secrets.token_hex(16)
            work = _Work(self._root, lower, self.guard, mark, self._journal / mark, BlockingStore(self.store))
            with trio.CancelScope() as scope:
                try:
                    collected = partial(_collected, work, upper, changes, self.budget)
                    revised = await trio.to_thread.run_sync(collected)
                    # From here on nobody leaves before it is applied, or as it was.
                    scope.shield = True
                    also = add(revised)
                    step = await self.store.begin(session, self._root, call, tool, mark, revised, also)
                except BaseException:
                    await self._forget_journal(mark)
                    raise
                stamps = {one.path: _stamp(one.before) for one in changes.changes}
                await self._apply(work, Pending(step, session, mark), revised, stamps)

    async def finish_pending(self) -> tuple[str, ...]:
        """Finish, or take back, what a process that was killed left half-done; return what to tell of it.

        Raises:
            RecordError: the store could not be read or written.
        """
        if not await self.store.pending(self._root) and not _journals_in(self._journal):
            return ()
        async with self._locked():
            return await self._settle_pending()

    async def _settle_pending(self) -> tuple[str, ...]:
        with trio.CancelScope(shield=True):
            pending_steps = await self.store.pending(self._root)
            lines = [f"{await self._settle(pending)} in {self._root}" for pending in pending_steps]
            marks = {pending.mark for pending in await self.store.pending(self._root)}
            await trio.to_thread.run_sync(_without_journals, self._journal, marks)
        return tuple(lines)

    async def _settle(self, pending: Pending) -> str:
        """Bring one step to an end, and return what to tell of it."""
        revisions = await self.store.revisions(pending.id)
        place = self._journal / pending.mark
        try:
            with open_folder(self._root) as top:
                work = _Work(self._root, top, self.guard, pending.mark, place, BlockingStore(self.store))
                await trio.to_thread.run_sync(work.clear_up, revisions)
                await self._apply(work, pending, revisions, None)
        except Conflict as conflict:
            return f"{_KILLED} were taken back ({conflict})"
        except NotKept as failure:
            became = "are still half-applied" if failure.is_unsettled else "were taken back"
            return f"{_KILLED} {became} ({failure})"
        except (OSError, ToolError) as error:
            return f"{_KILLED} are still half-applied ({error})"
        return f"{_KILLED} are complete, and /undo takes them back,"

    async def _apply(
        self,
        work: _Work,
        pending: Pending,
        revisions: Sequence[Revision],
        stamps: Mapping[str, Stamp | None] | None,
    ) -> None:
        """Apply a step that is written down, or take it back; `stamps` is what it must find, where known.

        Raises:
            Conflict, NotKept: it was not applied.
        """
        reasons = await _tried(partial(work.applied, revisions, stamps))
        left = await _tried(partial(work.taken_back, revisions)) if reasons else {}
        if left:
            raise NotKept({**reasons, **left}, is_unsettled=True)
        try:
            if reasons:
                await self.store.drop(pending.id)
            else:
                await self.store.finish(pending.id, pending.session, self._root)
        except RecordError as error:
            raise NotKept({"": f"what was done could not be recorded: {error}"}, is_unsettled=True) from error
        await self._forget_journal(pending.mark)
        if not reasons:
            with suppress(RecordError):
                await self.store.fit()
            return
        theirs = [path for path, why in reasons.items() if why == _THEIRS]
        if theirs:
            raise Conflict(theirs)
        raise NotKept(reasons)

    def _must_be_possible(self, changes: Changes) -> None:
        if changes.is_cut:
            raise NotKept({"": "there is more than can be looked at, so it cannot be kept as a whole"})
        if changes.conflicts:
            raise Conflict(changes.conflicts)
        paths = ((one.path, f"{self._root}/{one.path}") for one in changes.changes)
        held_back = ((path, self.guard.secret(whole) or self.guard.protected(whole)) for path, whole in paths)
        reasons = {path: why for path, why in held_back if why is not None}
        if reasons:
            raise NotKept(reasons)

    async def _forget_journal(self, mark: str) -> None:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(partial(shutil.rmtree, self._journal / mark, ignore_errors=True))

    @asynccontextmanager
    async def _locked(self) -> AsyncGenerator[None, None]:
        """Be the only process that changes this workspace in this way."""
        handle = await trio.to_thread.run_sync(_lock_file, self._journal)
        try:
            while not _is_taken(handle):  # noqa: ASYNC110 — another process holds it
                await trio.sleep(_TRIED_AGAIN)
            yield
        finally:
            os.close(handle)


async def _tried(work: Callable[[], dict[str, str]]) -> dict[str, str]:
    """Do something in a thread; what it cannot even begin with is a reason, too."""
    try:
        return await trio.to_thread.run_sync(work)
    except (OSError, ToolError, RecordError) as error:
        return {"": str(error)}


def _lock_file(folder: Path) -> int:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise RecordError(f"the journal {folder} cannot be written: {error.strerror}") from error


def _is_taken(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _stamp(entry: Entry | None) -> Stamp | None:
    return None if entry is None else entry.stamp


def _without_journals(folder: Path, wanted: set[str]) -> None:
    """Delete the journals of steps that never began, or ended."""
    for mark in _journals_in(folder) - wanted:
        shutil.rmtree(folder / mark, ignore_errors=True)


def _journals_in(folder: Path) -> set[str]:
    with suppress(OSError):
        return {entry.name for entry in folder.iterdir()} - {_LOCK}
    return set()


# ---------------------------------------------------------------- contents, before anything is changed


def _collected(work: _Work, upper: int, changes: Changes, budget: int) -> list[Revision]:
    """Put all contents where a later process finds them, and return what is to be changed."""
    collector = _Collector(work, budget, HardLinks(work.guard))
    contents = sorted(_contents(changes), key=lambda one: (one.size, one.path))
    with UpperTree.of(upper) as tree:
        for one in contents:
            collector.take(one, tree)
    collector.flush()
    revisions = [collector.revision(change) for change in changes.changes]
    revisions += _opened_parents(work.top, changes)
    return sorted(revisions, key=lambda one: one.path)


@dataclass(frozen=True, slots=True)
class _Content:
    """A file whose content is wanted, of the upper or of the workspace."""

    path: str
    entry: Entry
    is_new: bool

    @property
    def size(self) -> int:
        return self.entry.size


def _contents(changes: Changes) -> Iterator[_Content]:
    for change in changes.changes:
        if change.before is not None and change.before.kind == "file":
            yield _Content(change.path, change.before, is_new=False)
        if change.after is not None and change.after.kind == "file":
            yield _Content(change.path, change.after, is_new=True)


@dataclass(slots=True)
class _Collector:
    """Stores contents, the smallest first; what is over the budget then goes to the journal."""

    work: _Work
    room: int
    links: HardLinks
    digests: dict[tuple[str, bool], str] = field(default_factory=dict)
    waiting: dict[str, bytes] = field(default_factory=dict)
    size: int = 0

    def take(self, one: _Content, tree: UpperTree) -> None:
        """Take one content.

        Raises:
            NotKept, Conflict: it is not what was looked at.
        """
        try:
            with self._opened(one, tree) as file:
                self.room -= one.size
                digest = self._stored(file, one) if self.room >= 0 else self.work.journal_in(file)
        except (OSError, ToolError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise NotKept({one.path: f"its content cannot be read or stored: {why}"}) from error
        if one.is_new and digest != one.entry.digest:
            raise NotKept({one.path: "its content is not what was shown"})
        self.digests[one.path, one.is_new] = digest

    def _stored(self, file: BinaryIO, one: _Content) -> str:
        content = file.read(one.size + 1)
        digest = hashlib.sha256(content).hexdigest()
        self.waiting[digest] = content
        self.size += len(content)
        if self.size >= _PIECE or len(self.waiting) >= _BATCH:
            self.flush()
        return digest

    def flush(self) -> None:
        """Hand on what is waiting."""
        missing = self.work.store.missing(self.waiting) if self.waiting else set()
        if missing:
            self.work.store.put([packed_content(digest, self.waiting[digest]) for digest in missing])
        self.waiting, self.size = {}, 0

    @contextmanager
    def _opened(self, one: _Content, tree: UpperTree) -> Iterator[BinaryIO]:
        folder, _, name = one.path.rpartition("/")
        if one.is_new:
            with tree.folder(folder) as opened, os.fdopen(tree.open_file(opened, name), "rb") as file:
                yield file
            return
        try:
            with closing(self.work.top.descend(folder)) as below:
                handle = os.open(name, READ, dir_fd=below.handle)
        except (OSError, ToolError) as error:
            # A folder that may not be read is unchanged; anything else was done to it since.
            if isinstance(error, PermissionError):
                raise
            raise Conflict([one.path]) from None
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(handle)
            if stamp_of(found) != one.entry.stamp:
                raise Conflict([one.path])
            # A secret file is not copied to the store by another name either.
            self.links.must_be_none(found)
            yield file

    def revision(self, change: Change) -> Revision:
        """Return a change as it is written down."""
        both = [
            None if entry is None else self._version(change.path, entry, is_new=is_new)
            for entry, is_new in ((change.before, False), (change.after, True))
        ]
        return Revision(os.fsencode(change.path), both[0], both[1])

    def _version(self, path: str, entry: Entry, *, is_new: bool) -> Version:
        if entry.kind != "file":
            return Version(entry.kind, entry.mode, target=entry.target)
        return Version("file", entry.mode, entry.size, self.digests[path, is_new], mtime=entry.mtime_ns)


def _opened_parents(top: DirHandle, changes: Changes) -> list[Revision]:
    """Return the folders that have to be opened to change what lies in them; they get their modes back."""
    known, found = {change.path for change in changes.changes}, {}
    for folder in {change.path.rpartition("/")[0] for change in changes.changes} - known - {""}:
        with suppress(OSError, ToolError), closing(top.descend(folder)) as below:
            mode = stat.S_IMODE(os.fstat(below.handle).st_mode)
            if mode & _OWNER_WRITES != _OWNER_WRITES:
                found[folder] = Version("folder", mode)
    return [Revision(os.fsencode(path), version, version) for path, version in found.items()]


# ---------------------------------------------------------------- the change itself, in a thread


@dataclass(frozen=True, slots=True)
class _Standing:
    """The state of a path of a step: "before", "after", "both" where these are alike, or "theirs".

    "between" is nothing where a folder is to take the place of a file or link, or the other way round.
    """

    state: str
    stamp: Stamp | None


@dataclass(frozen=True, slots=True)
class _Work:
    """One step in one workspace, which `top` leads to; its contents are in the store or in the journal."""

    root: str
    top: DirHandle
    guard: Guard
    mark: str
    journal: Path
    store: BlockingStore

    def journal_in(self, file: BinaryIO) -> str:
        """Write a content to the journal, and return its digest."""
        self.journal.mkdir(mode=0o700, parents=True, exist_ok=True)
        whole, partial_name = hashlib.sha256(), self.journal / "content"
        with partial_name.open("wb") as copy:
            while piece := file.read(_PIECE):
                whole.update(piece)
                copy.write(piece)
            copy.flush()
            os.fsync(copy.fileno())
        partial_name.rename(self.journal / whole.hexdigest())
        _sync(self.journal)
        return whole.hexdigest()

    def content(self, digest: str) -> BinaryIO | None:
        """Open a content of the step."""
        with suppress(FileNotFoundError):
            return (self.journal / digest).open("rb")
        return self.store.content(digest)

    def applied(
        self, revisions: Sequence[Revision], stamps: Mapping[str, Stamp | None] | None
    ) -> dict[str, str]:
        """Apply a step; return why that was not possible, by path.

        With `stamps` every path must be what was looked at, to the instant; without, it must be in one of the
        two states that the step knows.
        """
        standing = self._standing(revisions) if stamps is None else self._as_looked_at(revisions, stamps)
        theirs = {path: _THEIRS for path, one in standing.items() if one.state == "theirs"}
        if theirs:
            return theirs
        wanted = list(self._targets(revisions, standing, "before"))
        left = dict(restore(self.root, wanted, self.guard, self.content, top=self.top, removals_last=True))
        if not left:
            self._sync_folders(wanted)
        return left

    def taken_back(self, revisions: Sequence[Revision]) -> dict[str, str]:
        """Take back what is applied of a step; return what stays, with the reason."""
        standing = self._standing(revisions)
        wanted = list(self._targets(revisions, standing, "after"))
        left = dict(restore(self.root, wanted, self.guard, self.content, top=self.top))
        # A folder in which somebody else put something stays for it.
        new = {one.path for one in wanted if one.version is None}
        left = {path: why for path, why in left.items() if path not in new or not self._is_filled(path)}
        if not left:
            self._sync_folders(wanted)
        return left

    def _targets(
        self, revisions: Sequence[Revision], standing: Mapping[str, _Standing], state: str
    ) -> Iterator[RestoreTarget]:
        """Yield what is to be done where that state is to be left."""
        for number, one in enumerate(revisions):
            path = os.fsdecode(one.path)
            found = standing[path]
            goal, other = (one.after, one.before) if state == "before" else (one.before, one.after)
            # A folder that exists already may not have its mode yet.
            is_folder = goal is not None and goal.kind == "folder" and found.state != "theirs"
            if found.state not in {state, "both", "between"} and not is_folder:
                continue
            yield RestoreTarget(
                path,
                goal,
                found.stamp,
                is_mode_only=_is_mode_only(goal, other),
                with_time=True,
                temporary=self._temporary(number),
            )

    def _temporary(self, number: int) -> str:
        return f".leeward-{self.mark}-{number:x}.tmp"

    def _as_looked_at(
        self, revisions: Sequence[Revision], stamps: Mapping[str, Stamp | None]
    ) -> dict[str, _Standing]:
        found = {}
        for one in revisions:
            path = os.fsdecode(one.path)
            stamp = self._stamp(path)
            is_same = stamps.get(path, stamp) == stamp
            found[path] = _Standing("before" if is_same else "theirs", stamp)
        return found

    def _standing(self, revisions: Sequence[Revision]) -> dict[str, _Standing]:
        """Return the state of the paths of a step, by their contents."""
        return {os.fsdecode(one.path): self._compared(one) for one in revisions}

    def _compared(self, one: Revision) -> _Standing:
        path = os.fsdecode(one.path)
        stamp = self._stamp(path)
        is_before, is_after = (self._is(path, stamp, version) for version in (one.before, one.after))
        if stamp is None and one.before is not None and one.after is not None:
            is_between = (one.before.kind == "folder") != (one.after.kind == "folder")
            return _Standing("between" if is_between else "theirs", None)
        state = {(True, True): "both", (True, False): "before", (False, True): "after"}
        return _Standing(state.get((is_before, is_after), "theirs"), stamp)

    def _stamp(self, path: str) -> Stamp | None:
        folder, _, name = path.rpartition("/")
        try:
            with closing(self.top.descend(folder)) as below:
                found = below.stat(name)
        except (OSError, ToolError):
            return None
        return None if found is None else stamp_of(found)

    def _is(self, path: str, stamp: Stamp | None, version: Version | None) -> bool:
        """Whether a path has a version; the mode of a folder, set at the end, does not count."""
        if stamp is None or version is None:
            return stamp is None and version is None
        folder, _, name = path.rpartition("/")
        kind, mode = stat.S_IFMT(stamp[0]), stat.S_IMODE(stamp[0])
        with suppress(OSError, ToolError), closing(self.top.descend(folder)) as below:
            if version.kind == "folder":
                return kind == stat.S_IFDIR
            if version.kind == "link":
                is_link = kind == stat.S_IFLNK
                return is_link and os.fsencode(os.readlink(name, dir_fd=below.handle)) == version.target
            if kind != stat.S_IFREG or (mode, stamp[1]) != (version.mode, version.size):
                return False
            try:
                handle = os.open(name, READ, dir_fd=below.handle)
            except PermissionError:
                return stamp[2] == version.mtime
            with os.fdopen(handle, "rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest() == version.digest
        return False

    def _is_filled(self, path: str) -> bool:
        with (
            suppress(OSError, ToolError),
            closing(self.top.descend(path)) as below,
            below.entries() as entries,
        ):
            return next(entries, None) is not None
        return False

    def clear_up(self, revisions: Sequence[Revision]) -> None:
        """Remove what a killed process left under temporary names, and put back what is not ours."""
        for number, one in enumerate(revisions):
            path = os.fsdecode(one.path)
            folder = path.rpartition("/")[0]
            with suppress(ToolError, FileNotFoundError), closing(self.top.descend(folder)) as below:
                self._clear_up_in(below, path, number, one)

    def _clear_up_in(self, below: DirHandle, path: str, number: int, one: Revision) -> None:
        temporary = self._temporary(number)
        with suppress(FileNotFoundError):
            os.unlink(temporary + PARTIAL, dir_fd=below.handle)
        found = below.stat(temporary)
        if found is None:
            return
        place = f"{path.rpartition('/')[0]}/{temporary}".lstrip("/")
        stamp = stamp_of(found)
        if not any(
            self._is(place, stamp, version) for version in (one.before, one.after) if version is not None
        ):
            # Somebody had changed it in the instant in which it was exchanged.
            name = path.rpartition("/")[2]
            if below.stat(name) is None:
                rename_to_new(below.handle, temporary, below.handle, name)
                return
            exchange_names(below.handle, temporary, name)
        os.unlink(temporary, dir_fd=below.handle)

    def _sync_folders(self, wanted: Iterable[RestoreTarget]) -> None:
        """Make names durable before they are reported as kept."""
        for folder in {one.path.rpartition("/")[0] for one in wanted}:
            with suppress(OSError, ToolError), closing(self.top.descend(folder)) as below:
                handle = below.listing()
                try:
                    os.fsync(handle)
                finally:
                    os.close(handle)


def _is_mode_only(goal: Version | None, other: Version | None) -> bool:
    if goal is None or other is None or goal.kind != "file" or other.kind != "file":
        return False
    return (goal.digest, goal.mtime) == (other.digest, other.mtime) and goal.mode != other.mode


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
