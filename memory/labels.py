"""Store which files of a workspace hold words of others, or what is confidential, until they are endorsed.

A file is labelled by its path, whatever it holds later, and by its content, wherever a copy lies. Labels only
add up, and go when the person endorses a path. Once a workspace has more than `MOST_LABELS` of a kind, all
of it is labelled: what was forgotten must make the answer stricter.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from pathlib import Path

from leeward.security.lazy import dataclass
from leeward.security.trust import FileWords, Origin

from .changes import ANYTHING
from .database import Database, Row, Statement, storable
from .grants import read_standing

__all__ = [
    "MOST_LABELS",
    "ChangedFile",
    "FileLabel",
    "LabelRows",
    "LabelStore",
    "closed_call",
    "labelled_changes",
    "opened_call",
    "standing_labels",
]

MOST_LABELS = 5_000
"""Paths, and contents, that are labelled one by one in a workspace, at most."""

_CALL = "//"
"""Begins the path of a row that is about all a running call may change; no relative path begins so."""
_BITS = {Origin.WEB: 1, Origin.MCP: 2, Origin.SECRET: 4}

_LABELLED = (
    "INSERT INTO file_label (workspace, path, labels, source, clean) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT DO UPDATE SET labels = labels | excluded.labels, source = excluded.source"
)
# What a path held before anything was read is no words of others, wherever a call puts it.
_HELD = (
    "INSERT INTO content_label (workspace, digest, labels, source) SELECT ?1, ?2, ?3, ?4"
    " WHERE NOT EXISTS (SELECT 1 FROM file_label WHERE workspace = ?1 AND clean = ?2)"
    " ON CONFLICT DO UPDATE SET labels = labels | excluded.labels, source = excluded.source"
)
_JOINED = "max(labels & 1) | max(labels & 2) | max(labels & 4)"
_ALREADY = "coalesce((SELECT labels FROM file_label WHERE workspace = ? AND path = ''), 0)"
_ONE_FOR_ALL = tuple(
    "INSERT OR REPLACE INTO file_label (workspace, path, labels, source, clean)"  # noqa: S608 — all ours
    f" SELECT ?, '', {_JOINED} | {_ALREADY}, 'more files than are listed', NULL"
    f" FROM {table} WHERE workspace = ? GROUP BY workspace HAVING count(*) > ?"
    for table in ("file_label", "content_label")
)
_FORGOTTEN = tuple(
    f"DELETE FROM {table} WHERE workspace = ?{but} AND (SELECT count(*) FROM {table} WHERE workspace = ?) > ?"  # noqa: S608 — all ours
    for table, but in (("file_label", " AND path <> ''"), ("content_label", ""))
)
_GONE = "DELETE FROM file_label WHERE workspace = ? AND path = ?"
_PATHS = "SELECT path, labels, source, clean FROM file_label WHERE workspace = ? ORDER BY path"
_CONTENTS = "SELECT digest, labels, source FROM content_label WHERE workspace = ?"
_ENDORSED = "DELETE FROM file_label WHERE workspace = ? AND path IN (SELECT value FROM json_each(?))"
_ENDORSED_CONTENTS = (
    "DELETE FROM content_label WHERE workspace = ? AND digest IN (SELECT value FROM json_each(?))"
)
_ALL_CONTENTS = "DELETE FROM content_label WHERE workspace = ?"


@dataclass(frozen=True, slots=True)
class FileLabel:
    """What a path holds beside the person's own: `labels`, and in our words the `source` of the last.

    `clean` is the SHA-256 (hex) of what it held before any of these was read, None where that is not known.
    """

    path: str
    labels: frozenset[Origin]
    source: str = ""
    clean: str | None = None

    @property
    def is_anything(self) -> bool:
        """Whether it is about all of a workspace: a call is at work, or more is labelled than is known."""
        return self.path == ANYTHING or self.path.startswith(_CALL)


@dataclass(frozen=True, slots=True)
class LabelRows:
    """All labels of a workspace: by path, and by the SHA-256 (hex) of a content."""

    paths: tuple[FileLabel, ...] = ()
    contents: dict[str, FileLabel] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.paths or self.contents)


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A path that a call changed, relative to the workspace, with the SHA-256 of what it held and holds.

    A digest is None where that is not known, or there is none; `is_gone` tells that nothing is there now.
    """

    path: str
    before: str | None = None
    after: str | None = None
    is_gone: bool = False


@dataclass(frozen=True, slots=True)
class LabelStore:
    """The labels of all workspaces."""

    database: Database

    async def standing(self, workspace: str) -> LabelRows:
        """Return all labels of a workspace.

        Raises:
            RecordError: they could not be read.
        """
        where = (storable(workspace),)
        paths = await self.database.read(_PATHS, where)
        return _read(paths, await self.database.read(_CONTENTS, where))

    async def write(self, statements: Sequence[Statement]) -> None:
        """Write down what the functions below return.

        Raises:
            RecordError: it could not be written.
        """
        if statements:
            await self.database.write(statements)

    async def endorse(self, workspace: str, paths: Iterable[str], digests: Iterable[str]) -> None:
        """Take the labels off paths and contents; off everything where `ANYTHING` is among the paths.

        Raises:
            RecordError: it could not be written.
        """
        where, named = storable(workspace), sorted({*map(storable, paths)})
        taken: list[Statement] = [(_ENDORSED, (where, json.dumps(named)))]
        taken.append((_ENDORSED_CONTENTS, (where, json.dumps(sorted({*digests})))))
        if ANYTHING in named:
            taken.append((_ALL_CONTENTS, (where,)))
        await self.database.write(taken)


def standing_labels(database: Path, workspace: str) -> LabelRows:
    """Return all labels of a workspace, for who only looks; none where there is no database. Blocks.

    Raises:
        RecordError: there is one, and it cannot be read.
    """
    where = (storable(workspace),)
    paths = read_standing(database, "file_label", lambda _: _PATHS, where)
    return _read(paths, read_standing(database, "content_label", lambda _: _CONTENTS, where))


def _read(paths: Iterable[Row], contents: Iterable[Row]) -> LabelRows:
    return LabelRows(
        tuple(FileLabel(path, _origins(bits), source, clean) for path, bits, source, clean in paths),
        {digest: FileLabel("", _origins(bits), source) for digest, bits, source in contents},
    )


def opened_call(workspace: str, call: str, words: FileWords) -> list[Statement]:
    """Return what writes down that a running call may write labelled words anywhere."""
    if not words.labels:
        return []
    row = (storable(workspace), storable(f"{_CALL}{call}"), _bits(words.labels), words.source, None)
    return [(_LABELLED, row)]


def closed_call(workspace: str, call: str) -> Statement:
    """Return what takes that back, once it is known what the call wrote."""
    return _GONE, (storable(workspace), storable(f"{_CALL}{call}"))


def labelled_changes(workspace: str, words: FileWords, files: Sequence[ChangedFile]) -> list[Statement]:
    """Return what writes down that a call changed files which may hold labelled words."""
    where, bits, source = storable(workspace), _bits(words.labels), words.source
    if not bits or not files:
        return []
    if len(files) > MOST_LABELS:
        files = [ChangedFile(ANYTHING)]
    moved = {one.before for one in files}
    found: list[Statement] = []
    for one in files:
        # What is gone keeps the label it had: somebody may bring it back.
        if one.is_gone:
            continue
        found.append((_LABELLED, (where, storable(one.path), bits, source, one.before)))
        # What was there before, and lies elsewhere now, is no new content.
        if one.after is not None and one.after not in moved:
            found.append((_HELD, (where, one.after, bits, source)))
    return [*found, *_fitted(where)]


def _fitted(where: str) -> Iterator[Statement]:
    for statement in _ONE_FOR_ALL:
        yield statement, (where, where, where, MOST_LABELS)
    for statement in _FORGOTTEN:
        yield statement, (where, where, MOST_LABELS)


def _bits(labels: frozenset[Origin]) -> int:
    return sum(bit for origin, bit in _BITS.items() if origin in labels)


def _origins(bits: int) -> frozenset[Origin]:
    return frozenset(origin for origin, bit in _BITS.items() if bits & bit)
