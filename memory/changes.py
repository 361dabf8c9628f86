"""Store where model calls changed a workspace; grants that are bound to files are compared with it.

Each path has the number of its last change, and numbers only grow. A call is written down before it runs, as
one that may change anything, and in the place of that what it changed when it has ended; where that is not
known, or the process ended before, it stays "anything". So does all that is known of a workspace once it is
more than `MOST_PATHS`: what was forgotten must make the answer stricter.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from leeward.security.session import OPEN

from .database import Database, Row, Statement, storable
from .grants import read_standing

__all__ = [
    "ALL_BELOW",
    "ANYTHING",
    "LEFT_OUT",
    "MOST_PATHS",
    "CallChanges",
    "applied_changes",
    "last_numbers",
    "settled_changes",
    "standing_changes",
]

ANYTHING = ""
"""In the place of a path: whatever lies in the workspace."""
LEFT_OUT = "/"
"""In the place of a path: whatever checkpoints leave out."""
ALL_BELOW = "**"
"""What is named by this changes with every path of the workspace."""
MOST_PATHS = 5_000
"""Paths that are recorded one by one for a workspace, at most."""

_BEGUN = "INSERT INTO call_change (workspace, path, session, call) VALUES (?, '', ?, ?)"
_OVER = "DELETE FROM call_change WHERE session = ? AND call = ?"
_CHANGED = "INSERT OR REPLACE INTO call_change (workspace, path) VALUES (?, ?)"
_TOO_MANY = "(SELECT count(*) FROM call_change WHERE workspace = ? AND session IS NULL) > ?"
_ONE_FOR_ALL = f"INSERT OR REPLACE INTO call_change (workspace, path) SELECT ?, '' WHERE {_TOO_MANY}"
_FORGOTTEN = f"DELETE FROM call_change WHERE workspace = ? AND session IS NULL AND path <> '' AND {_TOO_MANY}"  # noqa: S608 — both are ours
_SETTLED = (
    "INSERT OR REPLACE INTO call_change (workspace, path)"
    " SELECT DISTINCT workspace, '' FROM call_change WHERE session = ?"
)
_SETTLED_OVER = "DELETE FROM call_change WHERE session = ?"
_LATEST = "SELECT coalesce(max(number), 0) FROM call_change"
_ROWS = "SELECT path, number, session IS NOT NULL FROM call_change WHERE workspace = ?"
_ROWS_OF = (
    f"{_ROWS} AND (session IS NOT NULL OR path IN ('', '/')"  # noqa: S608 — both are ours
    " OR path IN (SELECT value FROM json_each(?)))"
    " UNION ALL SELECT '**', coalesce(max(number), 0), 0 FROM call_change"
    " WHERE workspace = ? AND session IS NULL"
)


class CallChanges:
    """What calls of models changed, in all workspaces and by all processes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, session: str, workspace: str, call: str, *also: Statement) -> None:
        """Write down that a call may change anything from now on, and what belongs to that.

        Raises:
            RecordError: it could not be written, and the call must not run.
        """
        values = (storable(workspace), storable(session), storable(call))
        await self._database.write([(_BEGUN, values), *also])

    def end(self, session: str, workspace: str, call: str, paths: Iterable[str], *also: Statement) -> None:
        """Write what a call changed in the place of that it may; it is written with what comes next.

        Until then, and where it cannot be, the call counts as one that may change anything.

        Raises:
            RecordError: nothing can be written any more.
        """
        over = (_OVER, (storable(session), storable(call)))
        self._database.queue([*applied_changes(workspace, paths), over, *also])

    async def latest(self) -> int:
        """Return a number that every later change, in any workspace, is higher than.

        Raises:
            RecordError: it could not be read.
        """
        ((number,),) = await self._database.read(_LATEST)
        return int(number)

    async def numbers(self, workspace: str, names: Mapping[str, Sequence[str]]) -> Mapping[str, int]:
        """Return for each key the highest number of what it is named by, where that is not 0.

        Raises:
            RecordError: it could not be read.
        """
        wanted = sorted({storable(name) for several in names.values() for name in several})
        where = storable(workspace)
        return last_numbers(await self._database.read(_ROWS_OF, (where, json.dumps(wanted), where)), names)


def applied_changes(workspace: str, paths: Iterable[str]) -> list[Statement]:
    """Return what writes down that a call changed these paths, relative to the workspace."""
    where = storable(workspace)
    named = list(dict.fromkeys(map(storable, paths)))
    if len(named) > MOST_PATHS:
        named = [ANYTHING]
    changed: list[Statement] = [(_CHANGED, (where, path)) for path in named]
    if not changed:
        return []
    most = (where, MOST_PATHS)
    return [*changed, (_ONE_FOR_ALL, (where, *most)), (_FORGOTTEN, (where, *most))]


def settled_changes(session: str) -> list[Statement]:
    """Return what writes down that the calls of a session are over, and may have changed anything."""
    return [(_SETTLED, (storable(session),)), (_SETTLED_OVER, (storable(session),))]


def last_numbers(rows: Iterable[Row], names: Mapping[str, Sequence[str]]) -> Mapping[str, int]:
    """Return what `CallChanges.numbers` does, from rows that hold the paths in question."""
    known: dict[str, int] = {}
    floor = 0
    for path, number, is_open in rows:
        if is_open:
            floor = OPEN
        elif path == ANYTHING:
            floor = max(floor, number)
        else:
            known[path] = number
            known[ALL_BELOW] = max(number, known.get(ALL_BELOW, 0))
    found = {
        key: max((floor, *(known.get(storable(name), 0) for name in several)))
        for key, several in names.items()
    }
    return {key: number for key, number in found.items() if number}


def standing_changes(database: Path, workspace: str) -> list[Row]:
    """Return all rows of a workspace, for who only looks; none where there is no database. Blocks.

    Raises:
        RecordError: there is one, and it cannot be read.
    """
    return read_standing(database, "call_change", lambda _: _ROWS, (storable(workspace),))
