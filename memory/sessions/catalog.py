"""List, search, fork and delete sessions.

`transcript.py` reads the entries of one session. A session that is being deleted leaves the list at
once; its audit stays. The caller makes sure that nobody else deletes or forks the same session at the
same time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from operator import itemgetter
from unicodedata import combining, normalize

from leeward.security.lazy import dataclass, regex
from leeward.security.ports import Clock, RecordError

from ..checkpoints import without_steps
from ..database import Database, Row, Statement, storable
from .keyed import forgotten_steps
from .transcript import ENTRY_COLUMNS, SELECT_ENTRY, TranscriptEntry, entry_of, words_of

__all__ = ["Catalog", "Conversation", "SearchHit"]

_BATCH = 200  # entries that go in one transaction, so that no record of the audit waits for long
_MOST_WORDS = 32
# Hits that are looked at to find a word with signs in it, which the index does not know.
_LOOKED_AT, _AT_ONCE = 1000, 250
_TERM = regex(r'"([^"]*)"|([^\s"]+)')
_DAY = 86_400

_COLUMNS = " conversation.id, started, workspace, title, used, turns, forked_from, forked_turn"
_THERE = "SELECT" + _COLUMNS + " FROM conversation WHERE deleted = 0"
_LISTED = _THERE + " AND turns > 0"
_ALL = _LISTED + " ORDER BY used DESC LIMIT ?"
_OF_WORKSPACE = _LISTED + " AND workspace = ? ORDER BY used DESC LIMIT ?"
# Text is compared byte by byte, and nothing that starts with the prefix comes after the last character.
# By its whole id a session without a message is found, too: slash commands may have been all of it.
_NAMED = _THERE + " AND (turns > 0 OR id = ?1) AND id >= ?1 AND id < ?1 || char(0x10FFFF) ORDER BY id LIMIT 2"
_FOUND = (
    "SELECT" + _COLUMNS + "," + ENTRY_COLUMNS + " FROM entry_words"
    " JOIN entry ON entry.seq = entry_words.rowid JOIN conversation ON conversation.id = entry.session"
    " WHERE entry_words MATCH ? AND deleted = 0 ORDER BY rank, entry.seq DESC LIMIT ? OFFSET ?"
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
# A few pages of the index at a time. Below nought, it goes on until what was deleted is nowhere left in it.
_MERGE = "INSERT INTO entry_words (entry_words, rank) VALUES ('merge', -64)"
_CHANGES = "SELECT total_changes()"
_NOTHING_DONE = 2  # fewer changes than these were none to the index
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
class SearchHit:
    """An entry in which all the words were found, and its session."""

    conversation: Conversation
    entry: TranscriptEntry


class Catalog:
    """The sessions that have a message."""

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

    async def search(self, words: str, limit: int = 20) -> list[SearchHit]:
        """Return entries that hold all the words, or words that begin so; the best first.

        "Several words" in quotes must follow each other. Signs in a word (`c++`) are part of it: it is looked
        for in the best thousand of the entries that hold its letters.

        Raises:
            RecordError: they could not be read.
        """
        terms, found = _terms(words), list[SearchHit]()
        signs = [_pattern(term) for term, _ in terms if not _is_plain(term)]
        most, step = (_LOOKED_AT, max(limit, _AT_ONCE)) if signs else (limit, limit)
        for begin in range(0, most if terms else 0, max(step, 1)):
            rows = await self._database.read(_FOUND, (_query(terms), step, begin))
            found += filter(partial(_has_all, signs), _hits(rows))
            if len(found) >= limit or len(rows) < step:
                break
        return found[: max(limit, 0)]

    async def fork(self, source: str, turn: int, new: str) -> None:
        """Make a session that begins with the messages of another up to the end of a turn.

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
        """Delete a session's messages, its changes, and those big outputs that only it could read.

        Raises:
            RecordError: it could not be committed. It is gone from the lists as soon as that was; the rest
                is done by `unfinished`.
        """
        name = storable(session)
        gone: list[Statement] = [(_DELETE, (name,)), (_UNLINK, (name,)), forgotten_steps(name)]
        await self._database.write([*gone, *without_steps(name)])
        while rows := await self._database.read(_LEFT, (name, _BATCH)):
            indexed = [(row[0], _indexed(row)) for row in rows]
            statements: list[Statement] = [(_UNINDEX, (words, seq)) for seq, words in indexed if words]
            await self._database.write([*statements, *((_REMOVE, (seq,)) for seq, _ in indexed)])
        await self._database.write([(_GONE, (name,))])

    async def forget_words(self, most: int | None = None) -> None:
        """Take the words of what was deleted out of the index, where they stay at first, marked as gone.

        A few pages are written in each transaction, and in no more than `most` of them; the rest is left
        to the next time.

        Raises:
            RecordError: it could not be done.
        """
        steps = 0
        while most is None or steps < most:
            steps += 1
            ((before,),) = await self._database.read(_CHANGES)
            await self._database.write([(_MERGE, ())])
            ((after,),) = await self._database.read(_CHANGES)
            if after - before < _NOTHING_DONE:
                return

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
    """Return the text by which the index knows an entry; a damaged one keeps the text it has."""
    try:
        return words_of(entry_of(row).content)
    except RecordError:
        return ""


def _hits(rows: Iterable[Row]) -> Iterator[SearchHit]:
    for row in rows:
        # What is damaged is not found, and keeps nobody from finding the rest.
        with suppress(RecordError):
            yield SearchHit(Conversation(*row[:8]), entry_of(row[8:]))


def _terms(words: str) -> list[tuple[str, bool]]:
    """Return the phrases and then the words that are looked for, and whether each is a word."""
    text = normalize("NFC", storable(words).replace("\0", " "))
    terms = [(phrase or word, bool(word)) for phrase, word in _TERM.findall(text)]
    return sorted((one for one in terms if _has_words(one[0])), key=itemgetter(1))[:_MOST_WORDS]


def _query(terms: Sequence[tuple[str, bool]]) -> str:
    """Return what FTS5 is asked: every word is a string to it, and never its own language."""
    # A sign behind a word ends it: what only begins so is another word.
    ends = ("*" if is_word and term[-1].isalnum() else "" for term, is_word in terms)
    return " AND ".join(f'"{term}"{end}' for (term, _), end in zip(terms, ends, strict=True))


def _pattern(term: str) -> re.Pattern[str]:
    text = re.escape(_folded(term))
    return re.compile(rf"(?<![^\W_]){text}" if text[0].isalnum() else text)


def _has_all(patterns: Iterable[re.Pattern[str]], found: SearchHit) -> bool:
    text = _folded(words_of(found.entry.content))
    return all(pattern.search(text) for pattern in patterns)


def _folded(text: str) -> str:
    """Return a text as the index compares it, but for its signs: in small letters, without accents."""
    plain = (char for char in normalize("NFKD", text.casefold()) if not combining(char))
    return " ".join("".join(plain).split())


def _is_plain(text: str) -> bool:
    return all(char.isalnum() or char.isspace() for char in text)


def _has_words(text: str) -> bool:
    return any(char.isalnum() for char in text)
