"""Verify the audit: detect records that were changed, deleted, moved, inserted or cut off.

1. Each record holds the hash of the record before it, and its own hash covers its content. `Walk` checks this
   row by row, in the order of the numbers, and stops at the first fault.
2. A record of kind `head` signs the number of records before it and the hash of the last one. A head that was
   copied elsewhere (an *anchor*) proves that the audit once had that many records.
3. Which change broke the chain (a record that was inserted, moved or deleted) is not looked for: anybody who
   can write the file can make one look like another.
4. Last, SQLite checks the indexes of the records, and the views that other programs read are compared with
   those that Leeward makes.

Columns are read as bytes: text that is no longer valid UTF-8 is a fault to report, not an error.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import NamedTuple

from leeward.security.ports import RecordError

from ..database import AROUND_AUDIT, GENESIS, Database, audit_schema, is_damage, record_hash
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
_LOWEST_SEQ = -(2**63)  # SQLite's smallest integer: a row inserted before number 1 is found, too
_LAST_HEAD = "SELECT max(seq) FROM audit WHERE kind = 'head'"
_INDEXES = "PRAGMA integrity_check(audit)"
_ATTEMPTS = 3
_PAGE_ROWS = 256  # rows read at once; more rows take more memory, and let writers wait longer

_VALID_TYPES = "blobblobreal" + "text" * 6


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
        """Whether the row's hash is that of its content."""
        texts = (self.session, self.kind, self.call, self.tool, self.body, self.id)
        return self.types == _VALID_TYPES and record_hash(self.prev, self.at, *texts) == self.hash


class Walk:
    """Checks the records one by one; holds no row.

    `key` is the public key of this data folder, which must have signed the heads; without it every head is a
    fault. `anchors` are heads that were copied elsewhere.
    """

    def __init__(self, key: str | None, anchors: Iterable[Head] = ()) -> None:
        self.count: int = 0  # the number of the last record that was checked
        self._tip = GENESIS  # its hash
        self._key = key
        self._anchors: dict[int, list[Head]] = {}  # by the number of records that they sign
        for anchor in anchors:
            self._anchors.setdefault(anchor.count, []).append(anchor)
        self._proven = 0  # a head or an anchor has signed the records up to this number
        self._records = 0  # records seen: fewer than `count` if some were pruned
        self._heads = 0
        self._last_head: Head | None = None
        # An audit that was pruned begins after record `_pruned`. This is no fault if a later record states
        # the pruning, and a head behind that one signs the statement.
        self._pruned = 0
        self._pruning_recorded = False
        self._pruning_signed = False

    def begin_at(self, seq: int, prev: bytes) -> None:
        """Begin at a row that is not the first. That the row before it has this hash is not checked."""
        self.count, self._tip, self._records = seq - 1, prev, 1

    def step(self, link: Link) -> ChainFault | None:
        """Check the next row; return its fault, or None."""
        if link.seq <= self.count:
            why = f"record {link.seq} was inserted: records are numbered from 1"
            return ChainFault(link.seq, Fault.OUT_OF_PLACE, why)
        if not self._records and link.seq > 1:
            problem = self._begin_after_pruning(link)
            if problem is not None:
                return problem
        if link.seq > self.count + 1:
            return _missing(self.count + 1, link.seq - 1)
        is_whole, is_next = link.is_whole(), link.prev == self._tip
        # A head is checked first, since its own faults are the most exact. There is nothing
        # wrong with what an intact head at the wrong place signs.
        if link.kind == b"head" and (not is_whole or is_next):
            problem = self._head_problem(link)
            if problem is not None:
                return problem
        if not is_whole:
            why = f"record {link.seq} was changed: its hash does not fit its content"
            return ChainFault(link.seq, Fault.CHANGED, why)
        if not is_next:
            why = "does not continue the record before it: a record was inserted, moved or deleted here"
            return ChainFault(link.seq, Fault.OUT_OF_PLACE, f"record {link.seq} {why}")
        self._records += 1
        self.count, self._tip = link.seq, link.hash
        self._note(link)
        return self._anchor_problem()

    def end(self) -> Verified:
        """Return the result after the last row, if no row had a fault."""
        problem = None
        last = max(self._anchors, default=0)
        if last > self.count:
            problem = _cut(self.count + 1, last)
        elif self._pruned and not self._pruning_signed:
            problem = _missing(1, self._pruned)
        return self.result(problem)

    def result(self, problem: ChainFault | None) -> Verified:
        """Return the result, with the problem that ended the walk if there was one."""
        # A head signs the records before it, and its own record needs no further one: it is the signature.
        signed = self._last_head.count + 1 if self._last_head is not None else 0
        unsigned = min(self.count - signed, self._records)
        return Verified(self._records, self._heads, self._last_head, problem, unsigned)

    def _begin_after_pruning(self, link: Link) -> ChainFault | None:
        """Begin at this row if it is a head that signs exactly the records missing before it; else a fault.

        Later records have to show that these were pruned and not deleted (`_note`).
        """
        head = _head_of(link)
        if head is None or head.count != link.seq - 1 or self._signature_problem(link.seq, head):
            return _missing(1, link.seq - 1)
        self._pruned = self.count = self._proven = head.count
        self._tip = bytes.fromhex(head.hash)
        return self._anchor_problem()

    def _head_problem(self, link: Link) -> ChainFault | None:
        head = _head_of(link)
        if head is None:
            why = f"record {link.seq} is of kind 'head', but its content is not a signed head"
            return ChainFault(link.seq, Fault.HEAD, why)
        problem = self._signature_problem(link.seq, head)
        if problem is None and (head.count, head.hash) != (self.count, self._tip.hex()):
            problem = ChainFault(
                link.seq,
                Fault.HEAD,
                f"the head in record {link.seq} does not sign the {self.count} records before it: the head"
                f" was replaced by another (about {head.count} records), or the records were rewritten",
            )
        return problem

    def _signature_problem(self, seq: int, head: Head) -> ChainFault | None:
        if self._key is None:
            why = "it cannot be checked, because audit.key is missing from the data folder"
        elif head.key != self._key:
            why = f"it was made with the key {head.key[:16]}…; this data folder has {self._key[:16]}…"
        elif not is_signed(head):
            why = "it is not valid: the head was changed, or was never signed with this key"
        else:
            return None
        return ChainFault(
            seq, Fault.SIGNATURE, f"the signature of the head of {head.count} records (record {seq}): {why}"
        )

    def _note(self, link: Link) -> None:
        """Remember the last head, and whether records explain a pruning at the beginning."""
        if link.kind == b"head":
            self._heads += 1
            self._last_head = _head_of(link)
            self._proven = link.seq - 1
            self._pruning_signed = self._pruning_recorded
        elif link.kind == b"pruned" and self._pruned and _json_object(link.body).get("count") == self._pruned:
            self._pruning_recorded = True

    def _anchor_problem(self) -> ChainFault | None:
        """Compare the records so far with the anchors that were made when there were as many."""
        for anchor in self._anchors.get(self.count, ()):
            if anchor.hash != self._tip.hex():
                return _cut(self._proven + 1, anchor.count)
            if problem := self._signature_problem(anchor.count, anchor):
                return problem
            self._proven = anchor.count
        return None


def _missing(first: int, last: int) -> ChainFault:
    which = f"record {first} is" if first == last else f"records {first} to {last} are"
    return ChainFault(first, Fault.MISSING, f"{which} missing and no signed record states a pruning: deleted")


def _cut(first: int, last: int) -> ChainFault:
    which = f"record {first} is" if first == last else f"records {first} to {last} are"
    return ChainFault(
        first,
        Fault.CUT,
        f"{which} missing or not what a head kept elsewhere has signed: the end of the audit was cut off, or"
        " an older copy was put in its place (other records may have been written since)",
    )


async def verify(database: Database, key: str | None, anchors: Iterable[Head] = ()) -> Verified:
    """Check the whole chain, a page at a time, up to the first problem.

    Raises:
        RecordError: the database cannot be read.
    """
    kept = tuple(anchors)
    for anchor in kept:
        if not is_signed(anchor):
            why = "the head you gave is not validly signed; was it copied completely?"
            return Walk(key).result(ChainFault(anchor.count, Fault.SIGNATURE, why))
    for _ in range(_ATTEMPTS):
        first = await database.read(_FIRST)
        verified = await _walk_all(database, Walk(key, kept))
        # Another process may have pruned while we read page by page; then records are missing that were not
        # deleted. The first row has changed in that case, and we read again.
        if verified.problem is None or await database.read(_FIRST) == first:
            break
    return verified


async def unsigned_problem(database: Database, key: str | None) -> ChainFault | None:
    """Check the newest head and the records after it; return their fault, or None.

    The records before it were signed when the head was written, and are not read.

    Raises:
        RecordError: the database cannot be read.
    """
    problem: ChainFault | None = None
    for _ in range(_ATTEMPTS):
        first = await database.read(_FIRST)
        problem = await _problem_after_last_head(database, Walk(key))
        if problem is None or await database.read(_FIRST) == first:
            break
    return problem


async def _problem_after_last_head(database: Database, walk: Walk) -> ChainFault | None:
    ((newest,),) = await database.read(_LAST_HEAD)
    rows = await database.read(_PAGE, (newest, 1)) if newest is not None else []
    if not rows:
        return await _first_problem(database, walk)
    seq, prev, *_ = rows[0]
    walk.begin_at(seq, prev)
    return await _first_problem(database, walk, seq)


async def _walk_all(database: Database, walk: Walk) -> Verified:
    try:
        problem = await _first_problem(database, walk)
        if problem is not None:
            return walk.result(problem)
        verified = walk.end()
        return verified if verified.problem is not None else walk.result(await _index_problem(database))
    except RecordError as error:
        if not is_damage(error.__cause__):
            raise
        seq = walk.count + 1
        return walk.result(
            ChainFault(seq, Fault.CHANGED, f"the file is damaged from record {seq} on: {error}")
        )


async def _first_problem(database: Database, walk: Walk, begin: int = _LOWEST_SEQ) -> ChainFault | None:
    async with aclosing(_links(database, begin)) as links:
        async for link in links:
            problem = walk.step(link)
            if problem is not None:
                return problem
    return None


async def _index_problem(database: Database) -> ChainFault | None:
    """Check the indexes and views of the records, since a query through a wrong one hides records."""
    found: dict[str, str] = dict(await database.read(AROUND_AUDIT))
    for name, sql in audit_schema().items():
        if found.get(name) != sql:
            why = f"{name} is missing, or not as Leeward made it: queries through it may show wrong records"
            return ChainFault(0, Fault.FILE, why)
    ((integrity,), *_) = await database.read(_INDEXES)
    if integrity != "ok":
        return ChainFault(
            0, Fault.FILE, f"the records are intact, but an index of them is damaged: {integrity}"
        )
    return None


async def _links(database: Database, begin: int = _LOWEST_SEQ) -> AsyncGenerator[Link, None]:
    """Yield the rows in order from a number on; they are read a page at a time."""
    while True:
        rows = await database.read(_PAGE, (begin, _PAGE_ROWS))
        for row in rows:
            yield Link(*row)
        if len(rows) < _PAGE_ROWS:
            return
        begin = rows[-1][0] + 1


def _head_of(link: Link) -> Head | None:
    try:
        return Head.of_body(link.body.decode()) if link.kind == b"head" else None
    except ValueError:
        return None


def _json_object(body: bytes) -> dict[str, object]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
