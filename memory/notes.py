"""Store notes for later sessions, with the trust label of the text behind them.

A note keeps the label of the least trusted text its session had read, and is returned with it; the same
text saved again gets the lower of both labels. A note belongs to a workspace until the person widens it.
Number and size are bounded: when no more fit, the person deletes some, so that nobody can push a good
note out by writing many.
"""

from __future__ import annotations

import hashlib

from leeward.security.lazy import dataclass, regex
from leeward.security.ports import Clock
from leeward.security.trust import Origin, integrity

from .database import Database, Row, Statement, storable

__all__ = ["LONGEST_NOTE", "MOST_NOTES", "NoteNotFound", "NoteStore", "NotesFull", "StoredNote"]

LONGEST_NOTE = 2000
"""Characters of a note, at most."""

MOST_NOTES = 200
"""Notes of a workspace, at most, those that hold everywhere left out."""

_MOST_TERMS = 16
_LONGEST_TERM = 64
_WORD = regex(r"\w+")

_SAVE = (
    "INSERT INTO note (id, workspace, session, saved_at, origin, integrity) SELECT ?1, ?2, ?3, ?4, ?5, ?6"
    " WHERE (SELECT count(*) FROM note WHERE workspace = ?2) < ?7"
    " OR EXISTS (SELECT 1 FROM note WHERE id = ?1)"
    " ON CONFLICT (id) DO UPDATE SET saved_at = excluded.saved_at, session = excluded.session,"
    " origin = CASE WHEN excluded.integrity < integrity THEN excluded.origin ELSE origin END,"
    " integrity = min(integrity, excluded.integrity)"
)
_TEXT = (
    "INSERT INTO note_text (rowid, text) SELECT seq, ?2 FROM note"
    " WHERE id = ?1 AND seq NOT IN (SELECT rowid FROM note_text WHERE rowid = note.seq)"
)
_SELECT = (
    "SELECT note.id, note.workspace, note.session, note.saved_at, note.origin, note_text.text"
    " FROM note JOIN note_text ON note_text.rowid = note.seq"
    " WHERE (note.workspace IS NULL OR note.workspace = ?)"
)
_NEWEST = f"{_SELECT} ORDER BY note.saved_at DESC, note.seq DESC LIMIT ?"
_ONE = f"{_SELECT} AND note.id = ?"
_FOUND = f"{_SELECT} AND note_text MATCH ? ORDER BY note_text.rank, note.saved_at DESC LIMIT ?"
_FORGET_TEXT = "DELETE FROM note_text WHERE rowid = (SELECT seq FROM note WHERE id = ?)"
# The index keeps the words of a deleted text, marked as gone, until it is put together anew.
_FORGET_WORDS = "INSERT INTO note_text (note_text) VALUES ('optimize')"
_FORGET = "DELETE FROM note WHERE id = ?"
_WIDEN = "UPDATE note SET workspace = NULL WHERE id = ?"


class NoteNotFound(LookupError):
    """There is no note of that id here."""


class NotesFull(Exception):
    """The workspace has as many notes as fit; the message says what to do."""


@dataclass(frozen=True, slots=True)
class StoredNote:
    """A note; `workspace` is None where it holds everywhere, `saved_at` is in seconds since the epoch."""

    id: str
    workspace: str | None
    session: str
    saved_at: float
    origin: Origin
    text: str


class NoteStore:
    """The notes of all workspaces."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def save(self, workspace: str, session: str, text: str, origin: Origin) -> StoredNote:
        """Keep a note that a text of this origin led to, and return it.

        Raises:
            ValueError: it is empty or too long.
            NotesFull: the workspace has as many as fit.
            RecordError: it could not be committed.
        """
        text = storable(text).strip()
        if not 0 < len(text) <= LONGEST_NOTE:
            raise ValueError(f"a note has 1 to {LONGEST_NOTE} characters, and this one {len(text)}")
        digest = hashlib.sha256("\0".join((storable(workspace), text)).encode())
        name = f"n_{digest.hexdigest()[:10]}"
        weight = integrity(frozenset({origin}))
        now = self._clock.now()
        values = (name, storable(workspace), storable(session), now, origin.value, weight, MOST_NOTES)
        await self._database.write([(_SAVE, values), (_TEXT, (name, text))])
        try:
            return await self.get(workspace, name)
        except NoteNotFound:
            why = f"this workspace has {MOST_NOTES} notes, as many as fit; /memory delete makes room"
            raise NotesFull(why) from None

    async def get(self, workspace: str, id: str) -> StoredNote:  # noqa: A002 — it is called so everywhere
        """Return a note of a workspace, or one that holds everywhere.

        Raises:
            NoteNotFound: no note has that id.
            RecordError: it could not be read.
        """
        rows = await self._database.read(_ONE, (storable(workspace), storable(id)))
        if not rows:
            raise NoteNotFound("there is no note of that id here")
        return _note(rows[0])

    async def newest(self, workspace: str, limit: int) -> list[StoredNote]:
        """Return the newest notes that hold in a workspace, newest first.

        Raises:
            RecordError: they could not be read.
        """
        rows = await self._database.read(_NEWEST, (storable(workspace), max(limit, 0)))
        return list(map(_note, rows))

    async def search(self, workspace: str, words: str, limit: int) -> list[StoredNote]:
        """Return the notes with any of these words, or words that begin so, the best first.

        Only the words count: what else the index takes for an operator is left out of them.

        Raises:
            RecordError: they could not be read.
        """
        terms = list(dict.fromkeys(_WORD.findall(words)))[:_MOST_TERMS]
        if not terms:
            return []
        query = " OR ".join(f'"{term[:_LONGEST_TERM]}"*' for term in terms)
        rows = await self._database.read(_FOUND, (storable(workspace), query, max(limit, 0)))
        return list(map(_note, rows))

    async def delete(self, id: str) -> None:  # noqa: A002 — it is called so everywhere
        """Forget a note.

        Raises:
            RecordError: it could not be done.
        """
        forgetting: list[Statement] = [(_FORGET_TEXT, (storable(id),)), (_FORGET, (storable(id),))]
        await self._database.write([*forgetting, (_FORGET_WORDS, ())])

    async def widen(self, id: str) -> None:  # noqa: A002 — it is called so everywhere
        """Let a note hold in every workspace.

        Raises:
            RecordError: it could not be done.
        """
        await self._database.write([(_WIDEN, (storable(id),))])


def _note(row: Row) -> StoredNote:
    name, workspace, session, saved_at, origin, text = row
    return StoredNote(name, workspace, session, saved_at, Origin(origin), text)
