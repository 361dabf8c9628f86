"""Store what calls changed in a workspace, and the previous contents, so that changes can be undone.

Each content is stored once, under its SHA-256 and in compressed chunks, and is written before the call
that may change it runs. The list of changed paths is written when the call has run. `tools/` reads the
workspace and restores files; retention is decided here.
"""

from __future__ import annotations

import json
import os
import secrets
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field

from leeward.security.lazy import dataclass
from leeward.security.ports import Clock

from .changes import applied_changes
from .database import Database, Row, Statement, Value, packed, storable
from .labels import ChangedFile

__all__ = [
    "JOURNALS",
    "CheckpointStore",
    "Packed",
    "Pending",
    "Revision",
    "Step",
    "Version",
    "changed_files",
    "changed_paths",
    "packed_content",
    "without_steps",
]

JOURNALS = "-journals"
"""What the folder of contents that are too much for the store is called, behind the database's name."""

_CHUNK = 131_072
_DAYS = 30
_MOST_STEPS = 200
# A content no step speaks of may be one that a session at work has just kept for the next call.
_SPARED = 86_400.0
_IN_USE = 60.0
# As much as one transaction takes: a record that comes meanwhile waits for it (bytes).
_TRANSACTION = 200 * 1024
_ROWS = 500
_OVERHEAD = 200

_KNOWN = "SELECT hash FROM content WHERE complete AND hash IN (SELECT value FROM json_each(?))"
_USED = "UPDATE content SET used_at = ? WHERE hash IN (SELECT value FROM json_each(?))"
_BEGIN = "INSERT OR IGNORE INTO content (hash, size, used_at) VALUES (?, ?, ?)"
_CHUNK_IN = "INSERT OR IGNORE INTO content_chunk (hash, number, packed, body) VALUES (?, ?, ?, ?)"
_COMPLETE = "UPDATE content SET complete = 1, stored = ?, used_at = ? WHERE hash = ?"
_BODY = (
    "SELECT packed, body FROM content_chunk JOIN content USING (hash)"
    " WHERE hash = ? AND complete ORDER BY number"
)
_IS_COMPLETE = "SELECT 1 FROM content WHERE hash = ? AND complete"

_STEP = (
    "INSERT INTO checkpoint (session, workspace, call, tool, at, undone, mark) VALUES (?, ?, ?, ?, ?, 2, ?)"
)
# 3 is a step that is being applied: the next process that opens its workspace finishes it or takes it back.
_BEING_APPLIED = "UPDATE checkpoint SET undone = 3 WHERE id = ?"
_PENDING = "SELECT id, session, mark FROM checkpoint WHERE workspace = ? AND undone = 3 ORDER BY id"
_APPLIED = "UPDATE checkpoint SET at = ? WHERE id = ?"
# Contents that were kept beside the store until all was applied are not kept any longer.
_NOT_KEPT = tuple(
    f"UPDATE checkpoint_change SET {column} = NULL WHERE checkpoint = ? AND {column} IS NOT NULL"  # noqa: S608 — both are ours
    f" AND NOT EXISTS (SELECT 1 FROM content WHERE hash = {column} AND complete)"
    for column in ("was_hash", "became_hash")
)
_ADDED = "SELECT id FROM checkpoint WHERE mark = ?"
_COLUMNS = (
    "path, was, was_mode, was_size, was_hash, was_target, was_mtime,"
    " became, became_mode, became_size, became_hash, became_target, became_mtime"
)
_CHANGE = (
    f"INSERT OR REPLACE INTO checkpoint_change (checkpoint, {_COLUMNS})"  # noqa: S608 — both are ours
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_CHANGES = f"SELECT {_COLUMNS} FROM checkpoint_change WHERE checkpoint = ? ORDER BY path"  # noqa: S608 — both are ours
_STEPS = (
    "SELECT id, call, tool, at, undone FROM checkpoint"
    " WHERE session = ? AND workspace = ? AND undone < 2 ORDER BY id"
)
_UNDONE = "UPDATE checkpoint SET undone = ? WHERE id = ?"
_DELETE_CHANGES = "DELETE FROM checkpoint_change WHERE checkpoint = ?"
_DELETE_STEP = "DELETE FROM checkpoint WHERE id = ?"
_CHANGES_OF_SESSION = (
    "DELETE FROM checkpoint_change WHERE checkpoint IN"
    " (SELECT id FROM checkpoint WHERE session = ? AND undone < 3)"
)
_STEPS_OF_SESSION = "DELETE FROM checkpoint WHERE session = ? AND undone < 3"
_NO_LONGER = "SELECT id FROM checkpoint WHERE session = ? AND workspace = ? AND undone = 1"
_OLD = "SELECT id FROM checkpoint WHERE at < ? AND undone < 3 ORDER BY at"
_TOO_MANY = "SELECT id FROM checkpoint WHERE session = ? AND undone < 3 ORDER BY id DESC LIMIT -1 OFFSET ?"
_OLDEST = "SELECT id FROM checkpoint WHERE undone < 3 ORDER BY at LIMIT 10"
_TOTAL = "SELECT total(stored) FROM content"
# A content that a kill left incomplete cannot be restored, even if a step refers to it.
_UNUSED = (
    "SELECT hash FROM content WHERE used_at < ? AND (NOT complete"
    " OR NOT EXISTS (SELECT 1 FROM checkpoint_change WHERE was_hash = hash)"
    " AND NOT EXISTS (SELECT 1 FROM checkpoint_change WHERE became_hash = hash)) LIMIT 200"
)
_SPENT = "UPDATE content SET complete = 0 WHERE hash = ?"
_CHUNKS_OF = "SELECT number FROM content_chunk WHERE hash = ? ORDER BY number LIMIT 2"
_DELETE_CHUNK = "DELETE FROM content_chunk WHERE hash = ? AND number = ?"
_DELETE_CONTENT = "DELETE FROM content WHERE hash = ?"


@dataclass(frozen=True, slots=True)
class Version:
    """The state of a path: "file", "folder" or "link", its permissions, and its content.

    `digest` is the SHA-256 (hex) of a file's content, None where that was not kept. `size` is in bytes.
    `mtime` (ns) is known of files that a trial run wrote or replaced, and makes no other version.
    """

    kind: str
    mode: int
    size: int = 0
    digest: str | None = None
    target: bytes | None = None
    mtime: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Revision:
    """One path, relative to the workspace, before and after a call; None is nothing at all."""

    path: bytes
    before: Version | None
    after: Version | None


def changed_paths(revisions: Iterable[Revision]) -> Iterator[str]:
    """Yield the paths at which files or links are others; of a folder, what lies in it tells."""
    for one in revisions:
        kinds = {version.kind for version in (one.before, one.after) if version is not None}
        if kinds != {"folder"}:
            yield os.fsdecode(one.path)


def changed_files(revisions: Iterable[Revision]) -> Iterator[ChangedFile]:
    """Yield the same paths, each with what it held and holds."""
    for one in revisions:
        before, after = one.before, one.after
        if {version.kind for version in (before, after) if version is not None} == {"folder"}:
            continue
        held = None if before is None else before.digest
        holds = after.digest if after is not None and after.size else None
        yield ChangedFile(os.fsdecode(one.path), held, holds, is_gone=after is None)


@dataclass(frozen=True, slots=True)
class Step:
    """What one call changed. `at` is seconds since the epoch."""

    id: int
    call: str
    tool: str
    at: float
    undone: bool


@dataclass(frozen=True, slots=True)
class Pending:
    """A step that is being applied, by its id; its session, and the mark it was begun with."""

    id: int
    session: str
    mark: str


@dataclass(frozen=True, slots=True)
class Packed:
    """A content as it goes into the file: (1 where compressed, bytes) for each chunk."""

    digest: str
    size: int
    chunks: tuple[tuple[int, bytes], ...]


def packed_content(digest: str, content: bytes) -> Packed:
    """Return a content as it goes into the file; this takes time."""
    parts = (content[start : start + _CHUNK] for start in range(0, len(content), _CHUNK))
    return Packed(digest, len(content), tuple(map(packed, parts)))


class CheckpointStore:
    """What calls changed, and the contents; `max_total` is how many stored bytes these may take."""

    def __init__(self, database: Database, clock: Clock, max_total: int) -> None:
        self.max_total = max_total
        self._database = database
        self._clock = clock

    async def missing(self, digests: Iterable[str]) -> set[str]:
        """Return which contents are not kept; those that are stay for a day at least.

        Raises:
            RecordError: it could not be read.
        """
        wanted = set(digests)
        rows = await self._database.read(_KNOWN, (json.dumps(sorted(wanted)),))
        known = {digest for (digest,) in rows}
        if known:
            await self._database.write([(_USED, (self._clock.now(), json.dumps(sorted(known))))])
        return wanted - known

    async def put(self, contents: Sequence[Packed]) -> None:
        """Keep contents, in transactions that nobody waits for long.

        Raises:
            RecordError: they could not be written.
        """
        await self._database.see_room()
        writes = [self._database.queue(statements) for statements in _batches(contents, self._clock.now())]
        for write in writes:
            await self._database.written(write)

    async def content(self, digest: str) -> bytes | None:
        """Return a content, or None where it is kept no longer.

        Raises:
            RecordError: it could not be read.
        """
        if not await self._database.read(_IS_COMPLETE, (digest,)):
            return None
        return unpacked_content(await self._database.read(_BODY, (digest,)))

    async def add(
        self, session: str, workspace: str, call: str, tool: str, revisions: Sequence[Revision]
    ) -> None:
        """Write down what a call changed; what was undone before cannot be done again from here on.

        Raises:
            RecordError: it could not be written.
        """
        step = await _added(
            self._database,
            session,
            workspace,
            (call, tool, secrets.token_hex(16)),
            self._clock.now(),
            revisions,
        )
        await self._stands(step, session, workspace)

    async def begin(
        self,
        session: str,
        workspace: str,
        call: str,
        tool: str,
        mark: str,
        revisions: Sequence[Revision],
        also: Sequence[Statement] = (),
    ) -> int:
        """Write down what is about to be changed for a call, before any of it is, and return the step.

        With it goes what `also` says. It is no step to be undone before `finish`; `pending` passes it to
        `mark`. What it names counts as changed by a call from here on.

        Raises:
            RecordError: it could not be written, and nothing may be changed.
        """
        step = await _added(
            self._database, session, workspace, (call, tool, mark), self._clock.now(), revisions
        )
        changed = applied_changes(workspace, changed_paths(revisions))
        await self._database.write([*changed, *also, (_BEING_APPLIED, (step,))])
        return step

    async def pending(self, workspace: str) -> list[Pending]:
        """Return the steps that are being applied in a workspace, oldest first.

        Raises:
            RecordError: it could not be read.
        """
        rows = await self._database.read(_PENDING, (storable(workspace),))
        return [Pending(*row) for row in rows]

    async def finish(self, step: int, session: str, workspace: str) -> None:
        """Write down that all of a step is applied; of contents that are not in the store none is promised.

        Raises:
            RecordError: it could not be written.
        """
        unkept: list[Statement] = [(statement, (step,)) for statement in _NOT_KEPT]
        await self._stands(step, session, workspace, [*unkept, (_APPLIED, (self._clock.now(), step))])

    async def drop(self, step: int) -> None:
        """Forget a step of which nothing was changed, or nothing is any more.

        Raises:
            RecordError: it could not be written.
        """
        await self._database.write(_deletion(step))

    async def steps(self, session: str, workspace: str) -> list[Step]:
        """Return what calls of a session changed in a workspace, oldest first.

        Raises:
            RecordError: it could not be read.
        """
        rows = await self._database.read(_STEPS, (storable(session), storable(workspace)))
        return [Step(id_, call, tool, at, bool(undone)) for id_, call, tool, at, undone in rows]

    async def revisions(self, step: int) -> list[Revision]:
        """Return what one step changed, by path.

        Raises:
            RecordError: it could not be read.
        """
        return [_revision(row) for row in await self._database.read(_CHANGES, (step,))]

    async def turn(self, step: int, revisions: Sequence[Revision], *, undone: bool) -> None:
        """Write down that a step was undone or done again, and what it was found to be by then.

        Raises:
            RecordError: it could not be written.
        """
        await _changes(self._database, step, revisions)
        await self._database.write([(_UNDONE, (int(undone), step))])

    async def prune(self) -> None:
        """Forget what is too old, and then the oldest until the contents fit into their budget.

        Raises:
            RecordError: it could not be done.
        """
        now = self._clock.now()
        await _forget(self._database, await self._database.read(_OLD, (now - _DAYS * 86_400,)))
        await _sweep(self._database, now - _SPARED)
        await self.fit()

    async def fit(self) -> None:
        """Forget the oldest steps until the contents fit into their budget; what is in use just now stays.

        Raises:
            RecordError: it could not be done.
        """
        while await _total(self._database) > self.max_total:
            oldest = await self._database.read(_OLDEST)
            await _forget(self._database, oldest)
            await _sweep(self._database, self._clock.now() - _IN_USE)
            if not oldest:
                return

    async def _stands(self, step: int, session: str, workspace: str, first: Sequence[Statement] = ()) -> None:
        """Make a step one that can be undone, in place of those that were undone before; all at once."""
        where = (storable(session), storable(workspace))
        undone = await self._database.read(_NO_LONGER, where)
        too_many = await self._database.read(_TOO_MANY, (where[0], _MOST_STEPS))
        deleted = (one for (old,) in (*undone, *too_many) if old != step for one in _deletion(old))
        await self._database.write([*first, (_UNDONE, (0, step)), *deleted])


@dataclass(slots=True)
class _Batch:
    """Rows to be inserted together; rows of one kind are adjacent, which is much faster."""

    begun: list[tuple[Value, ...]] = field(default_factory=list)
    chunks: list[tuple[Value, ...]] = field(default_factory=list)
    complete: list[tuple[Value, ...]] = field(default_factory=list)
    size: int = 0

    def statements(self) -> list[Statement]:
        begun = [(_BEGIN, values) for values in self.begun]
        chunks = [(_CHUNK_IN, values) for values in self.chunks]
        return [*begun, *chunks, *((_COMPLETE, values) for values in self.complete)]


def unpacked_content(rows: Sequence[Row]) -> bytes:
    """Return the content that chunks hold."""
    return b"".join(zlib.decompress(body) if is_packed else body for is_packed, body in rows)


def without_steps(session: str) -> list[Statement]:
    """Return what forgets the steps of a session; what only they spoke of goes with the next clean-up."""
    return [(_CHANGES_OF_SESSION, (session,)), (_STEPS_OF_SESSION, (session,))]


def _deletion(step: int) -> list[Statement]:
    return [(_DELETE_CHANGES, (step,)), (_DELETE_STEP, (step,))]


def _row(one: Revision) -> tuple[Value, ...]:
    return (one.path, *_columns(one.before), *_columns(one.after))


def _columns(version: Version | None) -> tuple[Value, ...]:
    if version is None:
        return (None,) * 6
    return version.kind, version.mode, version.size, version.digest, version.target, version.mtime


def _revision(row: Row) -> Revision:
    return Revision(row[0], _version(row[1:7]), _version(row[7:13]))


def _version(columns: Row) -> Version | None:
    return None if columns[0] is None else Version(*columns)


async def _added(
    database: Database,
    session: str,
    workspace: str,
    of: tuple[str, str, str],
    at: float,
    revisions: Sequence[Revision],
) -> int:
    """Write a step down that nobody finds yet, and return it; `of` is call, tool and mark."""
    call, tool, mark = of
    values = (
        storable(session),
        storable(workspace),
        storable(call),
        storable(tool),
        at,
        mark,
    )
    await database.write([(_STEP, values)])
    ((step,),) = await database.read(_ADDED, (mark,))
    await _changes(database, step, revisions)
    return int(step)


async def _changes(database: Database, step: int, revisions: Sequence[Revision]) -> None:
    for start in range(0, len(revisions), _ROWS):
        rows = revisions[start : start + _ROWS]
        await database.write([(_CHANGE, (step, *_row(one))) for one in rows])


async def _total(database: Database) -> float:
    ((total,),) = await database.read(_TOTAL)
    return float(total)


async def _forget(database: Database, steps: Sequence[Row]) -> None:
    for (step,) in steps:
        await database.write(_deletion(step))


async def _sweep(database: Database, before: float) -> None:
    """Delete the contents that nothing speaks of and that were not used since, a few chunks at a time."""
    while rows := await database.read(_UNUSED, (before,)):
        for (digest,) in rows:
            await database.write([(_SPENT, (digest,))])
            while numbers := await database.read(_CHUNKS_OF, (digest,)):
                await database.write([(_DELETE_CHUNK, (digest, number)) for (number,) in numbers])
            await database.write([(_DELETE_CONTENT, (digest,))])


def _batches(contents: Sequence[Packed], now: float) -> Iterator[list[Statement]]:
    """Yield the statements of each transaction; a content is complete with the last of its chunks."""
    batch = _Batch()
    for one in contents:
        batch.begun.append((one.digest, one.size, now))
        for number, (is_packed, body) in enumerate(one.chunks):
            if batch.size + len(body) > _TRANSACTION:
                yield batch.statements()
                batch = _Batch()
            batch.chunks.append((one.digest, number, is_packed, body))
            batch.size += len(body) + _OVERHEAD
        stored = sum(len(body) for _, body in one.chunks)
        batch.complete.append((stored, now, one.digest))
    yield batch.statements()
