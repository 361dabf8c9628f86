"""Store the entries of each conversation, in order; an entry never changes.

The runtime decides what an entry holds; it is kept as JSON together with its origin, so that it has the
same trust when it is read again. A session is resumed from a `Recall`. Listing, searching, forking and
deleting sessions are in `catalog.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TypeAlias

from leeward.security.kinds import Json
from leeward.security.lazy import dataclass
from leeward.security.ports import Clock, RecordError
from leeward.security.trust import Origin

from ..database import Database, Row, Statement, parsed, storable, stored_json

__all__ = [
    "ENTRY_COLUMNS",
    "SELECT_ENTRY",
    "Charge",
    "Line",
    "Recall",
    "Transcript",
    "TranscriptEntry",
    "entry_of",
    "words_of",
]

_TITLE = 80  # characters
_NESTED = ("text", "content")

ENTRY_COLUMNS = (
    " entry.seq, entry.turn, entry.role, entry.content, entry.origin, entry.at, entry.place,"
    " entry.model, entry.input_tokens, entry.output_tokens, entry.cache_read_tokens, entry.cost,"
    " entry.estimated"
)
SELECT_ENTRY = "SELECT" + ENTRY_COLUMNS + " FROM entry WHERE session = ?"
_START = (
    "INSERT INTO conversation (id, started, workspace, used) VALUES (?1, ?2, ?3, ?2)"
    " ON CONFLICT (id) DO NOTHING"
)
_APPEND = (
    "INSERT INTO entry (session, place, turn, role, content, origin, at, model, input_tokens, output_tokens,"
    " cache_read_tokens, cost, estimated) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    # An entry whose writing was reported as failed, and was not, is written again when it is tried again.
    " ON CONFLICT (session, place) DO NOTHING"
)
_INDEX = "INSERT INTO entry_words (rowid, words) SELECT last_insert_rowid(), ? WHERE changes() > 0"
_NAME = "UPDATE conversation SET title = ? WHERE id = ? AND title = ''"
_USE = "UPDATE conversation SET used = ?, turns = max(turns, ?) WHERE id = ?"
_ENTRIES = SELECT_ENTRY + " ORDER BY place"
_LAST_OF_ROLE = SELECT_ENTRY + " AND role = ? AND place > ? ORDER BY place DESC LIMIT 1"
_WORDS = SELECT_ENTRY + " AND role = 'user' AND place > ? AND place < ? ORDER BY place"
_FROM = SELECT_ENTRY + " AND place >= ? ORDER BY place"
_END = "SELECT place, turn FROM entry WHERE session = ? ORDER BY place DESC LIMIT 1"
_CHARGES = (
    "SELECT model, sum(input_tokens), sum(output_tokens), sum(cache_read_tokens),"
    " CASE WHEN count(*) = count(cost) THEN total(cost) END, sum(estimated)"
    " FROM entry WHERE session = ? AND role IN ('assistant', 'summary') AND model <> '' GROUP BY model"
)


Pending: TypeAlias = Callable[[], Awaitable[None]]
"""Waits until something is on the disk, or raises `RecordError`."""


@dataclass(frozen=True, slots=True)
class Charge:
    """What a model's answers have cost: tokens, and money (None: no price is known for that model).

    `model` is "" where nothing was asked; `estimated` counts the answers whose service reported no usage.
    """

    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cost: float | None = None
    estimated: int = 0


_FREE = Charge()


@dataclass(frozen=True, slots=True)
class Line:
    """One thing to be kept. `place` orders the lines of a session and is given once, `turn` counts from 1.

    The roles "user", "assistant" and "tool" are those of messages. A "summary" replaces the messages
    before the place it names as "kept", but for the person's words; at a "clear" all before it is forgotten.
    """

    place: int
    turn: int
    role: str
    content: Json
    origin: Origin
    charge: Charge = _FREE


@dataclass(frozen=True, slots=True)
class TranscriptEntry(Line):
    """One thing that was kept, and since when (seconds since the epoch)."""

    seq: int = 0
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Recall:
    """What is needed to resume a session: the messages that count, and what all of it has cost.

    `words` are the person's entries before the summary, `rest` is everything behind what it sums up.
    """

    words: tuple[TranscriptEntry, ...]
    summary: TranscriptEntry | None
    rest: tuple[TranscriptEntry, ...]
    charges: tuple[Charge, ...]
    last_place: int
    last_turn: int


class Transcript:
    """The messages of all sessions."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def start(self, session: str, workspace: str) -> None:
        """Make a session known, as every one must be before its first entry; again does no harm.

        Raises:
            RecordError: it could not be committed.
        """
        values = (storable(session), self._clock.now(), storable(workspace))
        await self._database.write([(_START, values)])

    async def append(self, session: str, line: Line) -> None:
        """Add a line and return once it is committed.

        Raises:
            RecordError: it could not be committed, or the session was never started.
        """
        await self.add(session, line)()

    def add(self, session: str, line: Line) -> Pending:
        """Put a line in line to be written with whatever is written next; what is returned waits for it.

        Raises:
            RecordError: nothing can be written any more.
        """
        now, name, spent = self._clock.now(), storable(session), line.charge
        row = (name, line.place, line.turn, line.role, stored_json(line.content), line.origin.value, now)
        tokens = (spent.input_tokens, spent.output_tokens, spent.cache_read_tokens)
        statements: list[Statement] = [
            (_APPEND, (*row, storable(spent.model), *tokens, spent.cost, spent.estimated))
        ]
        if words := words_of(line.content):
            # Right behind its entry: SQLite tells the number of the last row, and whether there was one.
            statements.append((_INDEX, (words,)))
        if line.role == "user":
            statements.append((_USE, (now, line.turn, name)))
        if line.origin is Origin.PERSON and (title := first_words(line.content)):
            statements.append((_NAME, (storable(title), name)))
        return partial(self._database.written, self._database.queue(statements))

    async def entries(self, session: str) -> list[TranscriptEntry]:
        """Return all messages of a session, in order; nothing for an unknown one.

        Raises:
            RecordError: it could not be read.
        """
        return [entry_of(row) for row in await self._database.read(_ENTRIES, (storable(session),))]

    async def recall(self, session: str) -> Recall:
        """Return what is needed to resume a session; what was forgotten or compacted stays where it is.

        Raises:
            RecordError: it could not be read.
        """
        name = storable(session)
        cleared = await self._last(name, "clear", 0)
        begin = cleared.place if cleared is not None else 0
        summary = await self._last(name, "summary", begin)
        kept = max(_kept(summary), begin + 1)
        words = await self._database.read(_WORDS, (name, begin, kept))
        rest = await self._database.read(_FROM, (name, kept))
        place, turn = next(iter(await self._database.read(_END, (name,))), (0, 0))
        return Recall(
            tuple(map(entry_of, words)),
            summary,
            tuple(map(entry_of, rest)),
            tuple(await self.charges(session)),
            place,
            turn,
        )

    async def charges(self, session: str) -> list[Charge]:
        """Return what the answers of each model in a session have cost, together.

        Raises:
            RecordError: it could not be read.
        """
        return [Charge(*row) for row in await self._database.read(_CHARGES, (storable(session),))]

    async def _last(self, name: str, role: str, after: int) -> TranscriptEntry | None:
        rows = await self._database.read(_LAST_OF_ROLE, (name, role, after))
        return entry_of(rows[0]) if rows else None


def entry_of(row: Row) -> TranscriptEntry:
    """Return the entry in a row of `ENTRY_COLUMNS`.

    Raises:
        RecordError: the row holds no entry.
    """
    seq, turn, role, content, origin, at, place, *charge = row
    spent = Charge(*charge) if charge[0] else _FREE
    try:
        return TranscriptEntry(place, turn, role, parsed(content), Origin(origin), spent, seq, at)
    except (ValueError, TypeError) as error:
        raise RecordError(f"entry {seq} of the conversation cannot be read: {error}") from error


def _kept(summary: TranscriptEntry | None) -> int:
    """Return the first place that no summary replaces."""
    content = summary.content if summary is not None else None
    kept = content.get("kept") if isinstance(content, Mapping) else None
    return kept if isinstance(kept, int) else 0


def words_of(content: Json) -> str:
    """Return the text of an entry that can be searched.

    It must stay the same for what is stored: the index gets it again when the entry goes.
    """
    if not isinstance(content, Mapping):
        return ""
    texts = (content.get("text"), content.get("attached"))
    return storable("\n".join(text if isinstance(text, str) else "" for text in texts)).replace("\0", " ")


def first_words(content: Json) -> str:
    """Return the beginning of the first text in an entry, on one line, "" where there is none.

    A text is a string by itself, in a list, or under "text" or "content" in an object: the forms in
    which messages of models are written.
    """
    match content:
        case str():
            return " ".join(content.split())[:_TITLE].rstrip()
        case Mapping():
            return next(filter(None, (first_words(content.get(key)) for key in _NESTED)), "")
        case list() | tuple():
            return next(filter(None, map(first_words, content)), "")
        case _:
            return ""
