"""Which sessions are there? Listed, found by what was said in them, forked, deleted.

What was said in one is read by `transcript.py`. A session that is being deleted is not listed any more
from the first moment on; its audit stays. Whoever deletes or forks sees that nobody else does the same
to it at that time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from leeward.security import Clock, RecordError

from .checkpoints import without_steps
from .database import Database
from .stored import storable
from .transcript import ENTRY_COLUMNS, SELECT_ENTRY, Entry, entry_of, words_of
from .writer import Row, Statement

__all__ = ["Catalog", "Conversation", "Found"]

_BATCH = 200  # entries that go in one transaction, so that no record of the audit waits for long
_MOST_WORDS = 32
_DAY = 86_400

_COLUMNS = " conversation.id, started, workspace, title, used, turns, forked_from, forked_turn"
_LISTED = "SELECT" + _COLUMNS + " FROM conversation WHERE turns > 0 AND deleted = 0"
_ALL = _LISTED + " ORDER BY used DESC LIMIT ?"
_OF_WORKSPACE = _LISTED + " AND workspace = ? ORDER BY used DESC LIMIT ?"
# Text is compared byte by byte, and nothing that starts with the prefix comes after the last character.
_NAMED = _LISTED + " AND id >= ?1 AND id < ?1 || char(0x10FFFF) ORDER BY id LIMIT 2"
_FOUND = (
    "SELECT" + _COLUMNS + "," + ENTRY_COLUMNS + " FROM entry_words"
    " JOIN entry ON entry.seq = entry_words.rowid JOIN conversation ON conversation.id = entry.session"
    " WHERE entry_words MATCH ? AND deleted = 0 ORDER BY rank, entry.seq DESC LIMIT ?"
)
_FORK = (
    "INSERT INTO conversation (id, started, workspace, title, used, turns, forked_from, forked_turn)"
    " SELECT ?1, ?2, workspace, title, ?2, ?4, id, ?4 FROM conversation WHERE id = ?3"
)
_COPY = (
    "INSERT INTO entry (session, place, turn, role, content, origin, at, model, input_tokens, output_tokens,"
    " cache_read_tokens, cost, estimated)"
    " SELECT ?1, place, turn, role, content, origin, at, model, input_tokens, output_tokens,"
    " cache_read_tokens, cost, estimated FROM entry WHERE session = ?2 AND turn <= ?3 ORDER BY place"
)
_TO_COPY = SELECT_ENTRY + " AND turn <= ? ORDER BY place"
_INDEX_COPY = (
    "INSERT INTO entry_words (rowid, words) SELECT seq, ? FROM entry WHERE session = ? AND place = ?"
)
_LINKS = (
    "INSERT OR IGNORE INTO overflow_link (session, ref, stored_at, origin, integrity)"
    " SELECT ?1, ref, stored_at, origin, integrity FROM overflow_link WHERE session = ?2"
)
_DELETE = "UPDATE conversation SET deleted = 1 WHERE id = ?"
_UNLINK = "DELETE FROM overflow_link WHERE session = ?"
_LEFT = SELECT_ENTRY + " ORDER BY place LIMIT ?"
_UNINDEX = (
    "INSERT INTO entry_words (entry_words, rowid, words) SELECT 'delete', seq, ? FROM entry WHERE seq = ?"
)
_REMOVE = "DELETE FROM entry WHERE seq = ?"
_GONE = "DELETE FROM conversation WHERE id = ?"
_EXPIRED = "SELECT id FROM conversation WHERE used < ? ORDER BY used LIMIT ?"
_HALF_GONE = "SELECT id FROM conversation WHERE deleted = 1 LIMIT ?"


@dataclass(frozen=True, slots=True)
class Conversation:
    """A session as it is listed; `title` is the person's first words, times are seconds since the epoch.

    `forked_from` is the session it was forked from, behind turn `forked_turn`; None if it was not.
    """

    id: str
    started: float
    workspace: str
    title: str
    used: float
    turns: int
    forked_from: str | None = None
    forked_turn: int | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """An entry in which all the words were found, and its session."""

    conversation: Conversation
    entry: Entry


class Catalog:
    """The sessions in which something was said."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def sessions(self, limit: int = 100, workspace: str | None = None) -> list[Conversation]:
        """Return the sessions that were used last, of one workspace or of all, newest first.

        Raises:
            RecordError: they could not be read.
        """
        if workspace is None:
            rows = await self._database.read(_ALL, (max(limit, 0),))
        else:
            rows = await self._database.read(_OF_WORKSPACE, (storable(workspace), max(limit, 0)))
        return [Conversation(*row) for row in rows]

    async def named(self, name: str) -> list[Conversation]:
        """Return the session of an id, or else two at most whose ids begin like this.

        Raises:
            RecordError: they could not be read.
        """
        found = [Conversation(*row) for row in await self._database.read(_NAMED, (storable(name),))]
        return [one for one in found if one.id == name] or found

    async def search(self, words: str, limit: int = 20) -> list[Found]:
        """Return entries that hold all the words, or words that begin so; the best first.

        "Several words" in quotes must follow each other.

        Raises:
            RecordError: they could not be read.
        """
        query = _query(words)
        rows = await self._database.read(_FOUND, (query, max(limit, 0))) if query else []
        found: list[Found] = []
        for row in rows:
            # What is damaged is not found, and keeps nobody from finding the rest.
            with suppress(RecordError):
                found.append(Found(Conversation(*row[:8]), entry_of(row[8:])))
        return found

    async def fork(self, source: str, turn: int, new: str) -> None:
        """Make a session that begins with what was said in another up to the end of a turn.

        Raises:
            RecordError: it could not be committed; there is no such fork then, not even a part of it.
        """
        name, other = storable(source), storable(new)
        rows = await self._database.read(_TO_COPY, (name, turn))
        entries = ((entry.place, words_of(entry.content)) for entry in map(entry_of, rows))
        statements: list[Statement] = [(_FORK, (other, self._clock.now(), name, turn))]
        statements += [(_COPY, (other, name, turn))]
        statements += [(_INDEX_COPY, (words, other, place)) for place, words in entries if words]
        statements += [(_LINKS, (other, name))]
        await self._database.write(statements)

    async def delete(self, session: str) -> None:
        """Delete what was said in a session, what it changed, and what of the big outputs only it could read.

        Raises:
            RecordError: it could not be committed. It is gone from the lists as soon as that was; the rest
                is done by `unfinished`.
        """
        name = storable(session)
        await self._database.write([(_DELETE, (name,)), (_UNLINK, (name,)), *without_steps(name)])
        while rows := await self._database.read(_LEFT, (name, _BATCH)):
            indexed = [(row[0], _indexed(row)) for row in rows]
            statements: list[Statement] = [(_UNINDEX, (words, seq)) for seq, words in indexed if words]
            await self._database.write([*statements, *((_REMOVE, (seq,)) for seq, _ in indexed)])
        await self._database.write([(_GONE, (name,))])

    async def expired(self, retention_days: float, limit: int = 100) -> list[str]:
        """Return the ids of sessions that nobody has used for so long, and of those that are half deleted.

        Raises:
            RecordError: they could not be read.
        """
        before = self._clock.now() - retention_days * _DAY
        rows = await self._database.read(_HALF_GONE, (limit,))
        rows += await self._database.read(_EXPIRED, (before, limit))
        return list(dict.fromkeys(session for (session,) in rows))


def _indexed(row: Row) -> str:
    """Return what the index was told of an entry; of one that is damaged, it keeps what it has."""
    try:
        return words_of(entry_of(row).content)
    except RecordError:
        return ""


def _query(words: str) -> str:
    """Return what FTS5 is asked: every word is a string to it, and never its own language."""
    terms: Sequence[tuple[str, str]] = re.findall(r'"([^"]*)"|([^\s"]+)', storable(words).replace("\0", " "))
    phrases = [f'"{phrase}"' for phrase, _ in terms if _has_words(phrase)]
    singles = [f'"{word}"*' for _, word in terms if _has_words(word)]
    return " AND ".join((phrases + singles)[:_MOST_WORDS])


def _has_words(text: str) -> bool:
    return any(char.isalnum() for char in text)
