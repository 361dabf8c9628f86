"""Turn a trial run's changes into a proposal: what the person is shown, and what keeping them does.

A folder that is wholly new, or that git ignores, is one path and one line. What in it is secret, protected
or runs later is named singly, as is every path outside of such a folder. How much is compared, named and
shown is bounded; a proposal that is cut tells that there is more.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing, suppress
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Self

import trio

from leeward.memory.labels import labelled_changes
from leeward.security.call import Again, Cleared
from leeward.security.lazy import dataclass
from leeward.security.outcome import Output, PermanentFailure, ToolError
from leeward.security.paths import protected_reason, runs_later_reason, secret_reason
from leeward.security.policy import GIT_SETTINGS, Autonomy, Policy
from leeward.security.sandbox import SandboxLevel
from leeward.security.trust import FileWords, Origin

from ..checkpoints import Conflict
from ..files import DirHandle, shown_name, unified
from ..git import GitChanges, Histories, git_changes_of
from ..labels import files_of
from ..process import Serve, size_text
from ..sandbox import (
    READ,
    Change,
    ChangeLimits,
    Changes,
    Entry,
    Keeping,
    NotKept,
    Program,
    Ran,
    Sandbox,
    TrialRan,
    TrialReach,
    TrialUnavailable,
    Upper,
    UpperTree,
    changes_of,
    disk_for,
    run_overlaid,
)
from ..search import IgnoredFolders

if TYPE_CHECKING:
    from leeward.memory.checkpoints import Revision
    from leeward.memory.database import Statement
    from leeward.security.session import Session

__all__ = ["TrialProposal", "Trials", "Tried"]

_MOST_OF_ONE = 256 * 1024
"""Bytes of a file whose lines are compared."""
_MOST_ON_DISK = 2_000_000
"""Entries that are looked at of a run whose upper is on a disk."""
_FEW = 5


@dataclass(frozen=True, slots=True)
class _Bounds:
    """How many paths are judged and recorded one by one, and how many characters of diffs are shown.

    Where there are more paths a person is asked by force; where `in_full`, also where diffs are longer.
    """

    paths: int
    shown: int
    in_full: bool


_TO_ASK = _Bounds(500, 400_000, in_full=True)
_ALLOWED = _Bounds(5_000, 40_000, in_full=False)
"""Of a command that was allowed the paths are judged, and hardly anybody is asked about any."""

_DISCARDED = "its changes were discarded"
_FOR_REAL = "a line that the person types or allows runs for real"
_GIT = "git"
_GIT_FOLDER = ".git"


@dataclass(frozen=True, slots=True)
class Tried:
    """A program that ran on trial, what it proposes to change (None: nothing), and what to tell of that.

    `caches` is how many paths of caches it changed. With `again` a person may have it run once more.
    """

    ran: Ran
    proposal: TrialProposal | None
    notices: tuple[str, ...] = ()
    caches: int = 0
    again: Again | None = None


@dataclass(frozen=True, slots=True)
class Trials:
    """Runs programs on trial for one session at a time, which `session` returns.

    What is added or changed in folders called as one of `caches` is never kept, and nobody is asked about it.
    """

    sandbox: Sandbox
    keeping: Keeping
    policy: Policy
    session: Callable[[], Session]
    histories: Histories
    caches: AbstractSet[str] = frozenset()

    async def run(
        self,
        program: Program,
        *,
        is_real: bool = False,
        disk: int = 0,
        serve: Serve | None = None,
        names_only: bool = False,
    ) -> Tried:
        """Run a program to its end; the caller closes what it proposes. It reaches what `serve` serves.

        One that `is_real` is allowed to run for real: the workspace alone is held apart from it. With `disk`
        it may write so many bytes, which are held on a disk. With `names_only` nothing of what it wrote is
        shown but the names.

        Raises:
            TrialUnavailable: it cannot be run on trial here.
            PermanentFailure: it could not be started, or what it changed could not be read.
            PolicyBlocked: what must not be reached cannot be kept from it.
        """
        # A line that is lent a secret was asked about, and yet writes nowhere but to the upper.
        is_answered = is_real or names_only
        closed = {} if is_answered or self.session().reads_history else await self._closed()
        shut = [] if is_answered else [f"{repository}/objects" for repository in closed]
        start = partial(run_overlaid, self.sandbox, program, serve=serve)
        if not is_real:
            start = partial(self.sandbox.trial, program.argv, cwd=program.cwd, env=program.env)
            start = partial(start, deadline=program.deadline, max_bytes=program.max_bytes)
            start = partial(start, on_chunk=program.on_chunk, reach=TrialReach(shut, serve))
        trial = start(disk=disk)
        try:
            async with trial as tried:
                if tried.upper is None:
                    return await self._discarded(tried)
                limits = ChangeLimits(_MOST_ON_DISK, disk) if disk else ChangeLimits()
                found = await self._found(tried, tried.upper, limits, is_real=is_real)
                if names_only and found.proposal is not None:
                    found = replace(found, proposal=found.proposal.in_names())
                return replace(found, notices=(*_unread(tried.ran, closed), *found.notices))
        except TrialUnavailable:
            self.sandbox.trials.forget()
            raise

    async def _discarded(self, tried: TrialRan) -> Tried:
        """Say why nothing is left of a run; of one that came to a bound, how it may run once more."""
        policy = self.policy
        if not tried.is_full or policy.headless or policy.autonomy is Autonomy.READONLY:
            return Tried(tried.ran, None, (f"{_DISCARDED}: {tried.discarded}; {_FOR_REAL}",))
        again = Again(tried.discarded, await disk_for(self.sandbox))
        return Tried(tried.ran, None, (f"{_DISCARDED}: {tried.discarded}",), again=again)

    async def tracked_secrets(self) -> tuple[str, ...]:
        """Return what to say of secret files that git tracks, of which it shows changes that are none."""
        is_masked = self.sandbox.level is not SandboxLevel.NONE
        found = await self.histories.tracked(await self.sandbox.repositories()) if is_masked else []
        if not found:
            return ()
        advice = "commit or stash them yourself, or take them out with git rm --cached"
        return (f"git tracks secret files, which commands cannot read: {_listed(found)}; {advice}",)

    async def secret_history(self) -> str:
        """Return the name of a secret file in what the repositories of the workspace hold, "" for none."""
        return next(iter((await self._closed()).values()), "")

    async def _closed(self) -> dict[str, str]:
        """Return the repositories that hold something secret, each with its name."""
        return await self.histories.closed(await self.sandbox.repositories())

    async def _found(self, tried: TrialRan, upper: Upper, limits: ChangeLimits, *, is_real: bool) -> Tried:
        try:
            looking = partial(changes_of, upper.handle, upper.lower, upper.began, limits)
            changes = await trio.to_thread.run_sync(looking)
            changes, cached, count = _without_caches(changes, frozenset() if is_real else self.caches)
            if why_not := _cannot_be_kept(changes):
                return Tried(tried.ran, None, (*cached, *_left_out(changes), why_not), count)
            git = await self._meant(changes, upper)
            changes = _without(changes, git.unchanged)
            notices = (
                *cached,
                *_left_out(changes),
                *(f"{shown_name(path)}: {why}" for path, why in git.denied[:_FEW]),
            )
            outright = [
                path for path, _ in git.denied if not protected_reason(self._whole(path), self.policy)
            ]
            if outright:
                # No gate knows what git takes for a repository by what lies in it.
                return Tried(
                    tried.ran, None, (*notices, f"{_DISCARDED}: {_listed(outright)} must not be kept"), count
                )
            if not changes.changes:
                return Tried(tried.ran, None, notices, count)
            bounds = _ALLOWED if is_real else _TO_ASK
            draft = await trio.to_thread.run_sync(_drafted, changes, git, upper, self.policy, bounds)
        except (OSError, ToolError) as error:
            raise PermanentFailure(
                f"what it changed could not be read, and was discarded: {error}"
            ) from error
        proposal = TrialProposal(
            paths=tuple(map(self._whole, draft.paths)),
            repositories=draft.repositories,
            digest=changes.digest,
            shown=draft.shown,
            is_cut=draft.is_cut,
            _changes=changes,
            _upper=upper,
            _keeping=self.keeping,
            _session=self.session().id,
            _discard=tried.hold(),
        )
        return Tried(tried.ran, proposal, notices, count)

    def _whole(self, path: str) -> str:
        """Return a path of the workspace as an absolute one."""
        return posixpath.normpath(posixpath.join(self.policy.workspace, path))

    async def _meant(self, changes: Changes, upper: Upper) -> GitChanges:
        """Return what the changes mean to git."""
        look, workspace = self.sandbox.look_through, self.policy.workspace
        return await git_changes_of(upper.handle, upper.lower, changes, workspace, look)


@dataclass(frozen=True, slots=True)
class TrialProposal:
    """What a trial run would change, until it is kept or discarded."""

    paths: tuple[str, ...]
    repositories: tuple[str, ...]
    digest: str
    shown: str
    is_cut: bool
    _changes: Changes
    _upper: Upper
    _keeping: Keeping
    _session: str
    _discard: Callable[[], None]

    def in_names(self) -> Self:
        """Return it as one of which nothing is shown but the names; git's own words hold more."""
        repositories = [f"git: {shown_name(name)} changed" for name in self.repositories]
        lines = [f"{shown_name(one.path)}: {_kind(one)}" for one in self._changes.changes[: _TO_ASK.paths]]
        is_cut = self.is_cut or len(self._changes.changes) > len(lines)
        text = "it was lent a secret, so what it wrote is not shown"
        return replace(self, shown="\n".join((text, *repositories, *lines)), is_cut=is_cut)

    async def keep(self, cleared: Cleared) -> Output:
        """Change the workspace so, all of it or nothing.

        Raises:
            PermanentFailure: it could not be done.
        """
        cleared.take()
        action = cleared.action
        call, tool = (action.call, action.call) if action.of is None else (action.of.call, action.of.call)
        try:
            await self._keeping.keep(
                self._upper.handle,
                self._upper.lower,
                self._changes,
                session=self._session,
                call=call.id,
                tool=tool.tool,
                add=partial(self._labels, cleared.words()),
            )
        except Conflict as conflict:
            raise PermanentFailure(f"nothing of it was kept: {_conflict(conflict.paths)}") from conflict
        except NotKept as error:
            became = "part of it may be kept" if error.is_unsettled else "nothing of it was kept"
            raise PermanentFailure(f"{became}: {error}") from error
        return Output("", Origin.TOOL, notices=(f"kept: {_counted(self._changes.changes)}",))

    def _labels(self, words: FileWords, revisions: Sequence[Revision]) -> list[Statement]:
        """Return what writes down whose words the changes may hold."""
        files = files_of(revisions, self._upper.lower) if words.labels else ()
        return labelled_changes(self._keeping.guard.policy.workspace, words, files)

    def close(self) -> None:
        """Discard what was not kept."""
        self._discard()


def _unread(ran: Ran, closed: Mapping[str, str]) -> tuple[str, ...]:
    """Return what to say of repositories that a command could not read, where it failed."""
    if ran.finished.exit_code == 0 or not closed:
        return ()
    held = next(iter(closed.values()))
    return (f"what git holds was closed to it, secret files among that ({held}); a line of git asks first",)


def _cannot_be_kept(changes: Changes) -> str:
    if changes.is_cut:
        return f"{_DISCARDED}: there are more than can be looked at"
    return f"{_DISCARDED}: {_conflict(changes.conflicts)}" if changes.conflicts else ""


def _without(changes: Changes, paths: frozenset[str]) -> Changes:
    """Return changes but for some paths."""
    return replace(changes, changes=tuple(one for one in changes.changes if one.path not in paths))


def _without_caches(changes: Changes, names: AbstractSet[str]) -> tuple[Changes, tuple[str, ...], int]:
    """Return changes but for those of caches, what to say of these, and how many they are.

    What a program removed from one, what is no plain file or folder in it, and what took the place of
    something else is a change like any other.
    """
    cached = _cached(changes.changes, names)
    if not cached:
        return changes, (), 0
    left_out = [change for change in changes.changes if change.path in cached]
    conflicts = tuple(path for path in changes.conflicts if path not in cached)
    folders = sorted({_cache_of(path, names) for path in cached})
    notice = f"left out, as caches are never kept: {_counted(left_out)} ({_listed(folders)})"
    return replace(_without(changes, cached), conflicts=conflicts), (notice,), len(left_out)


def _cached(changes: Sequence[Change], names: AbstractSet[str]) -> frozenset[str]:
    """Return which paths are of caches; in the sorted changes a folder comes before what lies in it."""
    found: set[str] = set()
    kept: set[str] = set()
    for change in changes:
        before, after = change.before, change.after
        is_plain = after is not None and after.kind in {"file", "folder"}
        is_like = before is None or (after is not None and before.kind == after.kind)
        above = set(_above(change.path))
        if is_plain and is_like and kept.isdisjoint(above) and _is_in_cache(change, names):
            found.add(change.path)
        elif after is not None:
            # What is kept needs the folders that it lies in.
            found -= above
            if not is_like:
                kept.add(change.path)
    return frozenset(found)


def _is_in_cache(change: Change, names: AbstractSet[str]) -> bool:
    parts = change.path.split("/")
    folders = parts if _is_folder(change.after) else parts[:-1]
    return not names.isdisjoint(folders) and _GIT_FOLDER not in parts


def _cache_of(path: str, names: AbstractSet[str]) -> str:
    """Return the outermost cache that a path is or lies in."""
    return next(folder for folder in (*_above(path), path) if folder.rpartition("/")[2] in names)


def _conflict(paths: Sequence[str]) -> str:
    return f"{_listed(paths)} changed in the workspace meanwhile; run it again"


def _left_out(changes: Changes) -> tuple[str, ...]:
    return tuple(
        f"not kept of what it did: {shown_name(path)}: {why}" for path, why in changes.refused[:_FEW]
    )


def _listed(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _FEW} more" if len(paths) > _FEW else ""
    return f"{', '.join(map(shown_name, paths[:_FEW]))}{more}"


def _counted(changes: Iterable[Change]) -> str:
    """Return how many paths are added, changed and removed, in words."""
    kinds = [_kind(change) for change in changes]
    counts = ((kinds.count(kind), kind) for kind in ("added", "changed", "removed"))
    return ", ".join(f"{count} {kind}" for count, kind in counts if count)


def _kind(change: Change) -> str:
    if change.before is None:
        return "added"
    return "changed" if change.after is not None else "removed"


# ------------------------------------------------------------------ what is shown


@dataclass(frozen=True, slots=True)
class _Draft:
    """What is judged, paths relative to the workspace and repositories, and the text for a person."""

    paths: tuple[str, ...]
    repositories: tuple[str, ...]
    shown: str
    is_cut: bool


@dataclass(slots=True)
class _Group:
    """A folder that represents all changes in it."""

    folder: str
    is_new: bool
    changes: list[Change] = field(default_factory=list)

    def describe(self) -> str:
        """Return its line."""
        files = [one.after for one in self.changes if one.after is not None and one.after.kind == "file"]
        size = size_text(sum(entry.size for entry in files))
        digest = Changes(tuple(self.changes), (), (), is_cut=False).digest[:16]
        name = shown_name(self.folder)
        if self.is_new:
            count = "1 file" if len(files) == 1 else f"{len(files)} files"
            return f"{name}/: new folder: {count}, {size}, digest {digest}"
        return f"{name}/ (ignored by git): {_counted(self.changes)}, {size}, digest {digest}"


def _drafted(changes: Changes, git: GitChanges, upper: Upper, policy: Policy, bounds: _Bounds) -> _Draft:
    """Say what changed; this waits for the disk."""
    plain = _without(changes, git.covered).changes
    groups, single = _grouped(plain, IgnoredFolders(upper.lower), policy)
    # Those come first that somebody has to look at, should there be more than are looked at.
    notable = {change.path for change in single if _why_notable(change.path, policy) is not None}
    ordered = sorted(single, key=lambda change: (change.path not in notable, change.path))
    taken = ordered[: max(0, bounds.paths - len(groups))]
    lines = [f"git: {line}" for line in (*git.asks, *git.lines)]
    lines += [group.describe() for group in groups[: bounds.paths]]
    lines += [f"not kept: {shown_name(path)}: {why}" for path, why in changes.refused[: bounds.paths]]
    with UpperTree.of(upper.handle) as tree:
        texts = _Texts(tree, upper.lower, bounds.shown, stops=not bounds.in_full)
        lines += [f"{shown_name(change.path)}: {texts.describe(change)}" for change in taken]
    missing = len(single) - len(taken) + max(0, len(groups) - bounds.paths)
    if missing:
        lines.append(f"and {missing} more paths, which are not named here")
    paths = (*(group.folder for group in groups[: bounds.paths]), *(change.path for change in taken))
    is_cut = missing > 0 or (bounds.in_full and texts.is_over) or git.is_cut
    return _Draft(paths, _repositories(git), "\n".join(lines), is_cut)


def _repositories(git: GitChanges) -> tuple[str, ...]:
    """Return the names by which rules speak of repositories; of settings each answer is one of its own."""
    names = [f"{_GIT}:{shown_name(top)}" if top else _GIT for top in git.tops]
    return (*names, *((GIT_SETTINGS,) if git.asks else ()))


def _grouped(
    changes: Iterable[Change], ignoring: IgnoredFolders, policy: Policy
) -> tuple[list[_Group], list[Change]]:
    """Return the folders that represent their entries, and the paths that are named singly."""
    groups: dict[str, _Group] = {}
    single: list[Change] = []
    for change in changes:
        group = next((groups[above] for above in _above(change.path) if above in groups), None)
        if group is None:
            group = _new_group(change, ignoring)
        if group is None or _why_notable(change.path, policy) is not None:
            single.append(change)
            continue
        group = groups.setdefault(group.folder, group)
        group.changes.append(change)
    return list(groups.values()), single


def _new_group(change: Change, ignoring: IgnoredFolders) -> _Group | None:
    if change.before is None and change.after is not None and change.after.kind == "folder":
        return _Group(change.path, is_new=True)
    folder = ignoring.folder_of(change.path, is_folder=_is_folder(change.before) or _is_folder(change.after))
    return None if folder is None else _Group(folder, is_new=False)


def _above(path: str) -> Iterator[str]:
    yield from (path[:at] for at, char in enumerate(path) if char == "/")


def _is_folder(entry: Entry | None) -> bool:
    return entry is not None and entry.kind == "folder"


def _why_notable(path: str, policy: Policy) -> str | None:
    """Return why a path is named by itself wherever it lies."""
    whole = posixpath.join(policy.workspace, path)
    return secret_reason(whole, policy) or protected_reason(whole, policy) or runs_later_reason(path)


@dataclass(slots=True)
class _Texts:
    """Describes the changes of single paths in words and lines, with so many characters of lines at most.

    Where it `stops` there, no lines of further paths are looked at.
    """

    tree: UpperTree
    lower: DirHandle
    left: int
    stops: bool = False
    is_over: bool = False

    def describe(self, change: Change) -> str:
        """Return what changed at a path."""
        before, after = change.before, change.after
        if after is None:
            assert before is not None
            size = f", {size_text(before.size)}" if before.kind == "file" else ""
            return f"removed ({before.kind}{size})"
        mode = (
            "" if before is None or before.mode == after.mode else f"mode {before.mode:o}, now {after.mode:o}"
        )
        if change.is_mode_only or after.kind == "folder":
            return mode or ("new folder" if before is None else f"a {before.kind} before, now a folder")
        if after.kind == "link":
            return f"link to {shown_name(os.fsdecode(after.target or b''))}"
        return "; ".join(filter(None, (mode, self._content(change.path, before, after))))

    def _content(self, path: str, before: Entry | None, after: Entry) -> str:
        is_file = before is not None and before.kind == "file"
        sizes = [entry.size for entry in (before, after) if entry is not None and entry.kind == "file"]
        what = f"new file, {size_text(after.size)}" if before is None else f"changed, {size_text(after.size)}"
        if before is not None and not is_file:
            what = f"a {before.kind} before, now a file of {size_text(after.size)}"
        text = f"{what}, SHA-256 {after.digest}"
        if not any(sizes):
            return "new empty file"
        if max(sizes) > _MOST_OF_ONE or (self.is_over and self.stops):
            return text
        with suppress(OSError, ToolError):
            new = self._read(path, is_new=True)
            old = self._read(path, is_new=False) if is_file else None
            if b"\0" in new:
                return text
            lines = unified(old, new)
            if len(lines) <= self.left:
                self.left -= len(lines)
                return lines
            self.is_over = True
        return text

    def _read(self, path: str, *, is_new: bool) -> bytes:
        folder, _, name = path.rpartition("/")
        if is_new:
            with (
                self.tree.folder(folder) as opened,
                os.fdopen(self.tree.open_file(opened, name), "rb") as file,
            ):
                return file.read(_MOST_OF_ONE + 1)
        with closing(self.lower.descend(folder)) as below:
            handle = os.open(name, READ, dir_fd=below.handle)
        with os.fdopen(handle, "rb") as file:
            return file.read(_MOST_OF_ONE + 1)
