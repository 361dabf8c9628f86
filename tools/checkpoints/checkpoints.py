"""Checkpoints: record what a call changed in the workspace, as steps that can be undone and redone.

Before a call that may change something, the paths it may touch are read and their contents stored. When it
has ended they are read again, and every path that differs is recorded as a step. A step is undone or redone
path by path, and only where nobody else changed the path since. `snapshot.py` says what a look at the
workspace covers, `restore.py` how paths are put back.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import field, replace
from functools import partial
from io import BytesIO
from typing import BinaryIO

import trio

from leeward.memory.changes import ANYTHING, LEFT_OUT
from leeward.memory.checkpoints import CheckpointStore, Packed, Revision, Step, Version, changed_files
from leeward.memory.labels import ChangedFile
from leeward.security.call import BUILT_IN, Action
from leeward.security.kinds import Effect, Kind
from leeward.security.lazy import dataclass
from leeward.security.outcome import Output, PermanentFailure, ToolError
from leeward.security.paths import ResolvedPath, is_inside
from leeward.security.ports import RecordError
from leeward.security.text import visible
from leeward.security.trust import FileWords

from ..files import Guard, shown_name
from .record import ChangeRecord, is_changing
from .restore import Content, RestoreTarget, restore
from .snapshot import Look, Node, Snapshot, SnapshotLimits, Stamp, changed_at, is_left_out, revisions

__all__ = ["BlockingStore", "Checkpoints", "Conflict", "NothingToUndo", "Turned"]

_AFTERWARDS = 10.0
_RECHECKED = 6 * 3600.0


class NothingToUndo(LookupError):
    """There is no step left in this direction."""


class Conflict(Exception):
    """Somebody else changed these paths since; nothing was touched."""

    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__(f"changed since by somebody else: {', '.join(map(shown_name, paths))}")
        self.paths: tuple[str, ...] = tuple(paths)


@dataclass(frozen=True, slots=True)
class Turned:
    """A step that was undone or done again: which paths were put back, and which stayed, with the reason."""

    step: Step
    paths: tuple[str, ...]
    left: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class _Taken:
    """What was found before a call. `paths` is None where that was the whole workspace."""

    action: Action
    snapshot: Snapshot
    paths: tuple[str, ...] | None
    claims: int


@dataclass(frozen=True, slots=True)
class BlockingStore:
    """The store, as a thread may ask it."""

    store: CheckpointStore

    def missing(self, digests: Iterable[str]) -> set[str]:
        """Return which of them are not kept."""
        return trio.from_thread.run(self.store.missing, digests)

    def put(self, contents: Sequence[Packed]) -> None:
        """Keep some."""
        trio.from_thread.run(self.store.put, contents)

    def content(self, digest: str) -> BinaryIO | None:
        """Open a content, or return None where it is kept no longer."""
        content = trio.from_thread.run(self.store.content, digest)
        return None if content is None else BytesIO(content)


@dataclass(slots=True)
class Checkpoints:
    """The steps of the session that `session` names; `alert` tells the person what they do not cover.

    `record` receives the changes of models' calls.
    """

    store: CheckpointStore
    guard: Guard
    limits: SnapshotLimits
    session: Callable[[], str]
    alert: Callable[[str], None]
    record: ChangeRecord | None = None
    turned: list[Turned] = field(default_factory=list)
    """What the person undid or redid since the model last heard of it."""
    _known: dict[str, Node] = field(default_factory=dict)
    _checked: float = float("-inf")
    _jobs: dict[str, _Taken] = field(default_factory=dict)
    _claims: list[frozenset[bytes]] = field(default_factory=list)
    _warned: set[str] = field(default_factory=set)
    _at_work: dict[str, _Taken] = field(default_factory=dict)
    """By call: what runs in the foreground, or has ended and is being written down."""

    @property
    def _root(self) -> str:
        return self.guard.policy.workspace

    async def uncovered(self, action: Action) -> str:
        """Say what of all that a call may change could not be undone, "" where that is nothing."""
        if not is_changing(action):
            return ""
        look = Look(self._root, self.guard, self.limits)
        try:
            snapshot = await self._looked(look, self._paths(action))
            snapshot.uncovered.outside += _outside(action, self._root)
        except (OSError, ToolError) as error:
            return f"nothing of it: {error}"
        text = snapshot.uncovered.describe()
        self._warned.add(text)
        return text

    @asynccontextmanager
    async def around(
        self, action: Action, words: Callable[[], FileWords] = FileWords
    ) -> AsyncGenerator[Callable[[Output], None], None]:
        """Keep what a call may change, and write down what it changed, once the call's outcome is known.

        `words` tells whose words it may write.

        Raises:
            PermanentFailure: it could not be kept, so the call must not begin.
        """
        taken = await self._before(action)
        if self.record is not None:
            await self.record.begin(action, words)
        goes_on = False
        if taken is not None:
            self._at_work[action.call.id] = taken

        def came(output: Output) -> None:
            nonlocal goes_on
            goes_on = output.goes_on

        try:
            yield came
        finally:
            if taken is not None and goes_on:
                self._jobs[action.call.id] = self._at_work.pop(action.call.id)
            elif taken is not None:
                with trio.move_on_after(_AFTERWARDS, shield=True):
                    await self._after(taken)
            elif not goes_on:
                self._recorded(action.call.id)

    async def job_ended(self, call: str) -> None:
        """Write down what a call changed that went on in the background."""
        taken = self._jobs.pop(call, None)
        if taken is not None:
            self._at_work[call] = taken
            await self._after(taken)
        else:
            self._recorded(call)

    async def steps(self) -> list[Step]:
        """Return the steps of the session, oldest first.

        Raises:
            RecordError: they could not be read.
        """
        return await self.store.steps(self.session(), self._root)

    async def turn(
        self, *, undo: bool, force: bool, record: Callable[[Step, int], Awaitable[None]]
    ) -> Turned:
        """Undo the last step that is not undone, or do the first one again that is.

        `record` puts on record what is about to be done, and how many paths that is about; without that
        nothing is touched. With `force`, what others changed since is no obstacle; it comes back with the
        next step in the other direction.

        Raises:
            NothingToUndo: there is none.
            Conflict: somebody else changed some of it since.
            RecordError: it could not be read or written.
            ToolError, OSError: the workspace could not be looked at.
        """
        steps = await self.steps()
        fitting = [step for step in steps if step.undone is not undo]
        if not fitting:
            raise NothingToUndo
        step = fitting[-1] if undo else fitting[0]
        changes = await self.store.revisions(step.id)
        # What lies in a repository is in a step only where it was judged as what it means to git.
        guard = replace(self.guard, keeps_git=True)
        look = Look(self._root, guard, self.limits, BlockingStore(self.store))
        paths = tuple(os.fsdecode(change.path) for change in changes)
        now = await trio.to_thread.run_sync(partial(look.at, paths, is_deep=False))
        both = zip(changes, paths, strict=True)
        pairs = [_Pair(change, now.nodes.get(path), path, undo, step.at) for change, path in both]
        conflicts = [pair.path for pair in pairs if pair.is_conflict]
        if conflicts and not force:
            raise Conflict(conflicts)
        wanted = [
            RestoreTarget(pair.path, pair.goal, pair.stamp, pair.is_kept) for pair in pairs if pair.is_open
        ]
        await record(step, len(wanted))
        put_back = partial(_restored, self._root, wanted, guard, BlockingStore(self.store).content)
        with trio.CancelScope(shield=True):
            left = await trio.to_thread.run_sync(put_back)
            found = [pair.as_found() for pair in pairs if pair.is_conflict]
            await self.store.turn(step.id, found, undone=undo)
        untold = {path for path, _ in left} | {pair.path for pair in pairs if pair.is_way}
        turned = Turned(step, tuple(one.path for one in wanted if one.path not in untold), left)
        self.turned.append(turned)
        return turned

    def take_turned(self) -> tuple[Turned, ...]:
        """Return what was turned since this was asked last."""
        taken = tuple(self.turned)
        self.turned.clear()
        return taken

    async def _before(self, action: Action) -> _Taken | None:
        if not is_changing(action):
            return None
        paths = self._paths(action)
        now = trio.current_time()
        if now - self._checked > _RECHECKED:
            # So that what is relied on is known to be kept still.
            self._known, self._checked = {}, now
        look = Look(self._root, self.guard, self.limits, BlockingStore(self.store))
        try:
            snapshot = await self._looked(look, paths)
            snapshot.uncovered.outside += _outside(action, self._root)
        except RecordError as error:
            raise PermanentFailure(f"what it may change could not be saved for /undo: {error}") from error
        except (OSError, ToolError) as error:
            self.alert(f"/undo will not know what {visible(action.call.tool)} changes: {error}")
            return None
        self._say(snapshot.uncovered.describe())
        return _Taken(action, snapshot, paths, len(self._claims))

    def _say(self, text: str) -> None:
        """Tell the person what is not covered, unless a question or this did already."""
        if text and text not in self._warned:
            self._warned.add(text)
            self.alert(f"/undo does not cover: {text}")

    async def _after(self, taken: _Taken) -> None:
        look, call = Look(self._root, self.guard, self.limits, BlockingStore(self.store)), taken.action.call
        changed: tuple[ChangedFile, ...] = (ChangedFile(ANYTHING),)
        try:
            after = await self._looked(look, taken.paths)
            changed = _changed_by(taken, after)
            others: frozenset[bytes] = frozenset().union(*self._claims[taken.claims :])
            # A call at work that names its paths has changed them, or reports their state when it ends.
            at_work = self._at_work.values() if taken.paths is None else ()
            named = [path for other in at_work for path in other.paths or ()]
            changes = [
                one
                for one in revisions(taken.snapshot, after)
                if one.path not in others and not is_inside(os.fsdecode(one.path), *named)
            ]
            if taken.snapshot.uncovered.is_cut or after.uncovered.is_cut:
                changes = [one for one in changes if self._is_certain(one)]
            if changes:
                changes = await self._certain(changes)
                await self.store.add(self.session(), self._root, call.id, call.tool, changes)
                self._claims.append(frozenset(one.path for one in changes))
                await self.store.missing(_digests(after))
                await self.store.fit()
        except (OSError, ToolError, RecordError) as error:
            self.alert(f"/undo does not know what {visible(call.tool)} changed: {error}")
        finally:
            self._recorded(call.id, changed)
            del self._at_work[call.id]
            if not self._at_work and not self._jobs:
                self._claims.clear()

    def _recorded(self, call: str, files: Sequence[ChangedFile] = (ChangedFile(ANYTHING),)) -> None:
        if self.record is not None:
            self.record.end(call, files)

    def _is_certain(self, one: Revision) -> bool:
        """Whether something was there before, and is really gone if it was not found again.

        Where not all is looked at, what is looked at may be something else each time.
        """
        path = f"{self._root}/{os.fsdecode(one.path)}"
        return one.before is not None and (one.after is not None or not os.path.lexists(path))

    async def _certain(self, changes: Sequence[Revision]) -> list[Revision]:
        """Return changes without what is kept no longer: another process may have needed the room."""
        both = (version for one in changes for version in (one.before, one.after) if version is not None)
        gone = await self.store.missing(one.digest for one in both if one.digest is not None)
        return [
            replace(one, before=_without(one.before, gone), after=_without(one.after, gone))
            for one in changes
        ]

    async def _looked(self, look: Look, paths: tuple[str, ...] | None) -> Snapshot:
        if paths is not None:
            return await trio.to_thread.run_sync(partial(look.at, paths, is_deep=True))
        snapshot = await trio.to_thread.run_sync(look.whole, self._known)
        if look.contents is not None:
            self._known = snapshot.nodes
        return snapshot

    def _paths(self, action: Action) -> tuple[str, ...] | None:
        """Return what a call may change, relative to the workspace; None is all of it."""
        places = _changed(action)
        if Effect.EXECUTE in action.effects or not all(isinstance(place, ResolvedPath) for place in places):
            return None
        if not places and (action.spec is None or action.spec.source != BUILT_IN):
            return None
        named = {
            path for place in places if isinstance(place, ResolvedPath) for path in (place.text, place.real)
        }
        inside = (path for path in named if is_inside(path, self._root) and path != self._root)
        return tuple(_first_missing(self._root, path) for path in inside)


def _changed_by(taken: _Taken, after: Snapshot) -> tuple[ChangedFile, ...]:
    """Return what a call may have changed, even if another call claims it too."""
    if taken.snapshot.uncovered.is_cut or after.uncovered.is_cut:
        return (ChangedFile(ANYTHING),)
    left_out: tuple[ChangedFile, ...] = (ChangedFile(LEFT_OUT),)
    if taken.paths is not None:
        # Nobody looks into such a folder, even where the call names what lies in it.
        hidden = (path for path in taken.paths if any(map(is_left_out, path.split("/"))))
        left_out = tuple(map(ChangedFile, hidden))
    return (*changed_files(revisions(taken.snapshot, after)), *left_out)


def _changed(action: Action) -> list[object]:
    """Return what the paths say that a call may change; what it only reads stays as it is."""
    atoms = (atom for atom in action.of_kind(Kind.PATH) if atom.declared and not atom.only_read)
    return [atom.canonical for atom in atoms]


def _outside(action: Action, root: str) -> list[str]:
    real = (place.real for place in _changed(action) if isinstance(place, ResolvedPath))
    return [path for path in real if not is_inside(path, root)]


def _first_missing(root: str, path: str) -> str:
    """Return the topmost of the folders a call would have to make for a path, else the path."""
    relative = posixpath.relpath(path, root)
    parts = relative.split("/")
    for end in range(1, len(parts)):
        above = "/".join(parts[:end])
        if not os.path.lexists(f"{root}/{above}"):
            return above
    return relative


@dataclass(frozen=True, slots=True)
class _Pair:
    """One path of a step: what the step made of it, until when (`at`), and its state now."""

    change: Revision
    node: Node | None
    path: str
    undo: bool
    at: float

    @property
    def goal(self) -> Version | None:
        return self.change.before if self.undo else self.change.after

    @property
    def stamp(self) -> Stamp | None:
        return None if self.node is None else self.node.stamp

    @property
    def is_kept(self) -> bool:
        """Whether the current content could be restored, or is what the step wrote, unchanged since."""
        if self.node is None or self.node.version.kind != "file" or self.node.version.digest is not None:
            return True
        made = self.change.after if self.undo else self.change.before
        is_same = made is not None and _is_as(self.node.version, made)
        is_known = made is not None and made.mtime is not None and made.mtime == self.node.stamp[2]
        return is_same and is_known and changed_at(self.node.stamp) <= self.at

    @property
    def is_way(self) -> bool:
        """Whether it is a folder that only has to be opened for what lies in it."""
        before, after = self.change.before, self.change.after
        return self.node is not None and before is not None and before == after and before.kind == "folder"

    @property
    def is_open(self) -> bool:
        """Whether something is to be done; of what was not kept nobody can tell."""
        now = None if self.node is None else self.node.version
        return now != self.goal or _is_unknown(now) or self.is_way

    @property
    def is_conflict(self) -> bool:
        expected = self.change.after if self.undo else self.change.before
        now = None if self.node is None else self.node.version
        # What it held is not known where it was not kept; that it was changed since then is.
        is_newer = self.node is not None and changed_at(self.node.stamp) > self.at
        # Nothing unknown is deleted in any case (`restore.py`), but another file could take its place.
        is_replaced = self.goal is not None and not _is_unknown(self.goal)
        is_lost = is_newer and is_replaced and _is_unknown(expected)
        return self.is_open and (is_lost or not _is_as(now, expected))

    def as_found(self) -> Revision:
        """Return the change with the previous state in place of what the step had made."""
        now = None if self.node is None else self.node.version
        return replace(self.change, after=now) if self.undo else replace(self.change, before=now)


def _is_as(now: Version | None, expected: Version | None) -> bool:
    if now is None or expected is None:
        return now is expected
    return now.size == expected.size if now.kind == "file" and _is_unknown(expected) else now == expected


def _is_unknown(version: Version | None) -> bool:
    return version is not None and version.kind == "file" and version.digest is None


def _restored(
    root: str, wanted: Sequence[RestoreTarget], guard: Guard, content: Content
) -> tuple[tuple[str, str], ...]:
    return tuple(restore(root, wanted, guard, content))


def _without(version: Version | None, gone: set[str]) -> Version | None:
    return replace(version, digest=None) if version is not None and version.digest in gone else version


def _digests(snapshot: Snapshot) -> Iterable[str]:
    return (node.version.digest for node in snapshot.nodes.values() if node.version.digest is not None)
