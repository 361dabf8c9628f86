"""Verify the audit: detect records that were changed, deleted, moved, inserted or cut off.

`Walk` is given the rows in order and returns the first fault; it keeps no row. `_Scene` then reads the
surrounding rows once to determine what happened there. Columns are read as bytes, so a text that is not
valid any more is a finding and not a failure. After the records, their indexes are checked, and the
views that other programs read.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import NamedTuple

from leeward.security.lazy import dataclass
from leeward.security.ports import RecordError

from ..database import AROUND_AUDIT, GENESIS, Database, Row, Value, audit_schema, is_damage, record_hash
from .heads import ChainFault, Fault, Head, Verified
from .signing import is_signed

__all__ = ["unsigned_problem", "verify"]

_PAGE = """
SELECT seq, CAST(prev AS BLOB), CAST(hash AS BLOB), CAST(at AS REAL), CAST(session AS BLOB),
    CAST(kind AS BLOB), CAST(call AS BLOB), CAST(tool AS BLOB), CAST(body AS BLOB), CAST(id AS BLOB),
    typeof(prev) || typeof(hash) || typeof(at) || typeof(session) || typeof(kind) || typeof(body)
    || typeof(id) || replace(typeof(call) || typeof(tool), 'null', 'text')
FROM audit WHERE seq >= ? ORDER BY seq LIMIT ?
"""
_FIRST = "SELECT min(seq) FROM audit"
_LEAST = -(2**63)  # the smallest number of a row: rows inserted before the first are checked, too
_LAST_HEAD = "SELECT max(seq) FROM audit WHERE kind = 'head'"
_INDEXES = "PRAGMA integrity_check(audit)"
_AGAIN = 3
_ROWS = 256  # rows in one page; memory and the wait of writers grow with it

# Run once, and only when the chain is broken, so they need no index.
_BY_HASH = "SELECT seq FROM audit WHERE hash = ? AND seq <> ? ORDER BY seq LIMIT 1"
_BY_PREV = "SELECT seq FROM audit WHERE prev = ? AND seq > ? ORDER BY seq LIMIT 1"

_TYPES = "blobblobreal" + "text" * 6


class Link(NamedTuple):
    """A row as it is in the file."""

    seq: int
    prev: bytes
    hash: bytes
    at: float
    session: bytes
    kind: bytes
    call: bytes | None
    tool: bytes | None
    body: bytes
    id: bytes
    types: str

    def is_whole(self) -> bool:
        """Whether the row's own hash fits its content."""
        texts = (self.session, self.kind, self.call, self.tool, self.body, self.id)
        return self.types == _TYPES and record_hash(self.prev, self.at, *texts) == self.hash

    def fits(self, other: Link) -> bool:
        """Whether the row's own hash fits the content of another row, all of it or only its body."""
        whole = (other.at, other.session, other.kind, other.call, other.tool, other.body, other.id)
        mine = (self.at, self.session, self.kind, self.call, self.tool, other.body, self.id)
        return any(record_hash(self.prev, *columns) == self.hash for columns in (whole, mine))


@dataclass(frozen=True, slots=True)
class Break:
    """The first row that does not fit, and what should be before it."""

    link: Link
    prev: bytes


class Walk:
    """Checks the records one by one. `key` is the public key that heads must be signed with, if there is one.

    `anchors` are heads that were kept elsewhere.
    """

    def __init__(self, key: str | None, anchors: Iterable[Head] = ()) -> None:
        self.count = 0
        self._tip = GENESIS
        self._key = key
        self._anchors: dict[int, list[Head]] = {}
        for anchor in anchors:
            self._anchors.setdefault(anchor.count, []).append(anchor)
        self._sure = 0
        self._records = 0
        self._heads = 0
        self._head: Head | None = None
        self._pruned = 0
        self._told = False
        self._vouched = False

    def begin_at(self, seq: int, prev: bytes) -> None:
        """Begin with a row that is not the first, trusting that it follows a record of this hash."""
        self.count, self._tip, self._records = seq - 1, prev, 1

    def step(self, link: Link) -> Break | ChainFault | None:
        """Take in the next row; return what is wrong with it."""
        if link.seq <= self.count:
            why = f"record {link.seq} was put in: the numbers of records begin with 1"
            return ChainFault(link.seq, Fault.INSERTED, why)
        if not self._records and link.seq > 1:
            problem = self._begin_behind(link)
            if problem is not None:
                return problem
        if link.seq > self.count + 1:
            return _missing(self.count + 1, link.seq - 1)
        is_whole, fits = link.is_whole(), link.prev == self._tip
        if link.kind == b"head" and (not is_whole or fits):
            found = self._judge_head(link)
            if found is not None:
                return found
        if not is_whole or not fits:
            return Break(link, self._tip)
        self._records += 1
        self.count, self._tip = link.seq, link.hash
        self._note(link)
        return self._compare()

    def end(self) -> Verified:
        """Return what was found when all rows fit."""
        problem = None
        last = max(self._anchors, default=0)
        if last > self.count:
            problem = _cut(self.count + 1, last)
        elif self._pruned and not self._vouched:
            problem = _missing(1, self._pruned)
        return self.found(problem)

    def found(self, problem: ChainFault | None) -> Verified:
        """Return what was found, with the one problem that ended the walk."""
        # The record of a head holds a signature of its own content.
        signed = self._head.count + 1 if self._head is not None else 0
        unsigned = min(self.count - signed, self._records)
        return Verified(self._records, self._heads, self._head, problem, unsigned)

    def _begin_behind(self, link: Link) -> ChainFault | None:
        """Return the fault of beginning with this row, None if all before it were pruned at a signed head."""
        head = _head_of(link)
        if head is None or head.count != link.seq - 1 or self._signature_problem(link.seq, head):
            return _missing(1, link.seq - 1)
        self._pruned = self.count = self._sure = head.count
        self._tip = bytes.fromhex(head.hash)
        return self._compare()

    def _judge_head(self, link: Link) -> ChainFault | None:
        head = _head_of(link)
        if head is None:
            return ChainFault(
                link.seq, Fault.HEAD, f"record {link.seq} is a head of the audit, and holds none"
            )
        problem = self._signature_problem(link.seq, head)
        if problem is None and (head.count, head.hash) != (self.count, self._tip.hex()):
            problem = ChainFault(
                link.seq,
                Fault.HEAD,
                f"the head in record {link.seq} is about {head.count} records with another end than the"
                f" {self.count} before it: it replaced the right one, or what it signs was"
                " changed",
            )
        return problem

    def _signature_problem(self, seq: int, head: Head) -> ChainFault | None:
        if self._key is None:
            why = "there is no key to check it with: audit.key is missing from the data folder"
        elif head.key != self._key:
            why = f"its key is {head.key[:16]}…, and the one of this data folder is {self._key[:16]}…"
        elif not is_signed(head):
            why = "the signature does not fit: the head was changed or made up"
        else:
            return None
        return ChainFault(
            seq, Fault.SIGNATURE, f"the head about {head.count} records, for record {seq}: {why}"
        )

    def _note(self, link: Link) -> None:
        """Count heads, and check that a pruning explains the missing records, and that it was signed."""
        if link.kind == b"head":
            self._heads += 1
            self._head = _head_of(link)
            self._sure = link.seq - 1
            self._vouched = self._told
        elif link.kind == b"pruned" and self._pruned and _object(link.body).get("count") == self._pruned:
            self._told = True

    def _compare(self) -> ChainFault | None:
        """Compare the chain with the heads from elsewhere that were made after this many records."""
        for anchor in self._anchors.get(self.count, ()):
            if anchor.hash != self._tip.hex():
                return _cut(self._sure + 1, anchor.count)
            if problem := self._signature_problem(anchor.count, anchor):
                return problem
            self._sure = anchor.count
        return None


def _missing(first: int, last: int) -> ChainFault:
    which = f"record {first} is" if first == last else f"records {first} to {last} are"
    return ChainFault(
        first, Fault.MISSING, f"{which} missing: deleted, and no signed record tells of a pruning"
    )


def _cut(first: int, last: int) -> ChainFault:
    which = f"record {first} is" if first == last else f"records {first} to {last} are"
    return ChainFault(
        first,
        Fault.CUT,
        f"{which} not there as a head says that was kept elsewhere: the end of the audit was cut off, or an"
        " older copy took its place (and it may have been written anew since)",
    )


async def verify(database: Database, key: str | None, anchors: Iterable[Head] = ()) -> Verified:
    """Check the whole chain, a page at a time, up to the first problem.

    Raises:
        RecordError: the database cannot be read.
    """
    kept = tuple(anchors)
    for anchor in kept:
        if not is_signed(anchor):
            why = "the signature of the given head does not fit: is a letter of it wrong?"
            return Walk(key).found(ChainFault(anchor.count, Fault.SIGNATURE, why))
    for _ in range(_AGAIN):
        first = await database.read(_FIRST)
        verified = await _walked(database, Walk(key, kept))
        # Another process may have pruned between two pages, so that the next one was missing.
        if verified.problem is None or await database.read(_FIRST) == first:
            break
    return verified


async def unsigned_problem(database: Database, key: str | None) -> ChainFault | None:
    """Return the fault of the newest head or of a record behind it; the head vouches for the records before.

    Raises:
        RecordError: the database cannot be read.
    """
    problem: ChainFault | None = None
    for _ in range(_AGAIN):
        first = await database.read(_FIRST)
        problem = await _behind_last_head(database, Walk(key))
        if problem is None or await database.read(_FIRST) == first:
            break
    return problem


async def _behind_last_head(database: Database, walk: Walk) -> ChainFault | None:
    ((newest,),) = await database.read(_LAST_HEAD)
    rows = await database.read(_PAGE, (newest, 1)) if newest is not None else []
    if not rows:
        return await _first_wrong(database, walk)
    seq, prev, *_ = rows[0]
    walk.begin_at(seq, prev)
    return await _first_wrong(database, walk, seq)


async def _walked(database: Database, walk: Walk) -> Verified:
    try:
        wrong = await _first_wrong(database, walk)
        if wrong is not None:
            return walk.found(wrong)
        verified = walk.end()
        return verified if verified.problem is not None else walk.found(await _around(database))
    except RecordError as error:
        if not is_damage(error.__cause__):
            raise
        seq = walk.count + 1
        return walk.found(
            ChainFault(seq, Fault.CHANGED, f"from record {seq} on the file is damaged: {error}")
        )


async def _first_wrong(database: Database, walk: Walk, begin: int = _LEAST) -> ChainFault | None:
    async with aclosing(_links(database, begin)) as links:
        async for link in links:
            match walk.step(link):
                case Break() as broken:
                    return await _Scene(database, broken).problem()
                case ChainFault() as problem:
                    return problem
    return None


async def _around(database: Database) -> ChainFault | None:
    """Check the indexes and views of the records: a query by one of them must find what is there."""
    found: dict[str, str] = dict(await database.read(AROUND_AUDIT))
    for name, sql in audit_schema().items():
        if found.get(name) != sql:
            why = f"{name} is gone or not as Leeward made it: what it shows may not be what is on record"
            return ChainFault(0, Fault.FILE, why)
    ((integrity,), *_) = await database.read(_INDEXES)
    if integrity != "ok":
        return ChainFault(
            0, Fault.FILE, f"the records are whole, and what leads to them is damaged: {integrity}"
        )
    return None


async def _links(database: Database, begin: int = _LEAST) -> AsyncGenerator[Link, None]:
    """Yield all rows from a number on in their order, a page at a time."""
    while True:
        rows = await database.read(_PAGE, (begin, _ROWS))
        for row in rows:
            yield Link(*row)
        if len(rows) < _ROWS:
            return
        begin = rows[-1][0] + 1


class _Scene:
    """The place where the chain broke; finds out what happened from the rows around it."""

    def __init__(self, database: Database, found: Break) -> None:
        self._database = database
        self._link = found.link
        self._prev = found.prev

    async def problem(self) -> ChainFault:
        """Return what happened."""
        return await (self._out_of_place() if self._link.is_whole() else self._changed())

    async def _changed(self) -> ChainFault:
        """Name what happened to a record with other contents: changed, inserted, or exchanged."""
        link, seq = self._link, self._link.seq
        here = f"record {seq}"
        if not link._replace(prev=self._prev).is_whole():
            after = await self._first(_PAGE, seq + 1, 1)
            was_skipped = after is not None and Link(*after).prev == self._prev
            if was_skipped or (after is None and link.prev != self._prev):
                return ChainFault(seq, Fault.INSERTED, f"{here} was put in: the chain goes by it")
            other = await self._exchanged_with()
            if other is not None:
                why = f"{here} was exchanged: its content is now in record {other}"
                return ChainFault(seq, Fault.REORDERED, why)
        return ChainFault(seq, Fault.CHANGED, f"{here} was changed: its hash does not fit its content")

    async def _exchanged_with(self) -> int | None:
        """Return the record that now holds the content that this one's hash is about."""
        async with aclosing(_links(self._database)) as links:
            async for other in links:
                if other.seq != self._link.seq and other.types == _TYPES and self._link.fits(other):
                    return other.seq
        return None

    async def _out_of_place(self) -> ChainFault:
        """Name what happened to an intact record that does not follow the one before it."""
        seq = self._link.seq
        here = f"record {seq}"
        found = await self._first(_BY_HASH, self._link.prev, seq)
        if found is not None and found[0] > seq:
            why = f"{here} was moved: it belongs behind what is now record {found[0]}"
            return ChainFault(seq, Fault.REORDERED, why)
        if found is not None:
            first = found[0] + 1
            why = f"record {first} was put in: {here} goes on from record {found[0]}"
            return ChainFault(first, Fault.INSERTED, why)
        found = await self._first(_BY_PREV, self._prev, seq)
        if found is not None:
            why = f"{here} was put in: record {found[0]} goes on from the one before it"
            return ChainFault(seq, Fault.INSERTED, why)
        why = f"the record before {here} is missing: it was deleted, and the rest moved up"
        return ChainFault(seq, Fault.MISSING, why)

    async def _first(self, sql: str, *values: Value) -> Row | None:
        rows = await self._database.read(sql, values)
        return rows[0] if rows else None


def _head_of(link: Link) -> Head | None:
    try:
        return Head.of_body(link.body.decode()) if link.kind == b"head" else None
    except ValueError:
        return None


def _object(body: bytes) -> dict[str, object]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
