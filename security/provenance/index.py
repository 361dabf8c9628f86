"""Index the tokens of a session's texts: keyed hashes in order, each with where it was first seen.

    data     five bytes for each token, in the order of the texts; five zero bytes where a text or a leaf ends
    slots    open addressing: the first position of each token, four bytes; the hash itself is in `data`
    starts   the position at which each text begins, and what that text was

The last bit of a hash says that the call whose result this is had brought the token along. Such a token makes
nothing known by itself, and is there so that a run can be found that holds it.

An index is a view of an append-only log, as the ledger is: adding gives a longer view, and earlier ones
stay what they were. Where `MOST_TOKENS` is reached nothing more is added: what is not in it nobody saw.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import field
from itertools import islice

from ..lazy import dataclass
from ..trust import Origin

__all__ = ["ECHO", "GAP", "MOST_TOKENS", "WIDTH", "Sighting", "TokenIndex"]

WIDTH = 5
GAP = bytes(WIDTH)
ECHO = 1

MOST_TOKENS = 1_500_000
"""Tokens of an index, at most: seven megabytes, and about ten of text."""

_FEWEST_SLOTS = 1 << 10
_MOST_SLOTS = 1 << 21
_MOST_CANDIDATES = 64


@dataclass(frozen=True, slots=True)
class Sighting:
    """The text that a value was first seen in: whose words it was, what it was, and by which call it came.

    `private` tells that it was confidential.
    """

    origin: Origin
    label: str = ""
    call: str = ""
    private: bool = False


@dataclass(slots=True)
class _Log:
    """What several views share; a slot holds a position and one more, for zero is an empty one."""

    data: bytearray = field(default_factory=bytearray)
    slots: array[int] = field(default_factory=lambda: array("I", bytes(4 * _FEWEST_SLOTS)))
    used: int = 0
    starts: list[int] = field(default_factory=list)
    sightings: list[Sighting] = field(default_factory=list)

    def slot_of(self, token: bytes) -> int:
        """Return the slot that a token is in, or the empty one where it belongs."""
        mask, data, slots = len(self.slots) - 1, self.data, self.slots
        slot = (int.from_bytes(token, "big") >> 1) & mask
        while entry := slots[slot]:
            start = (entry - 1) * WIDTH
            if data[start : start + WIDTH] == token:
                break
            slot = (slot + 1) & mask
        return slot

    def insert(self, token: bytes, position: int) -> None:
        """Take in the token at a position, unless it is in already, or there is no room."""
        slot = self.slot_of(token)
        if self.slots[slot] or self.used * 3 >= len(self.slots) * 2:
            return
        self.slots[slot] = position + 1
        self.used += 1
        if self.used * 3 >= len(self.slots) * 2 and len(self.slots) < _MOST_SLOTS:
            self._grow()

    def _grow(self) -> None:
        entries = [entry for entry in self.slots if entry]
        self.slots = array("I", bytes(4 * 4 * len(self.slots)))
        for entry in entries:
            start = (entry - 1) * WIDTH
            self.slots[self.slot_of(bytes(self.data[start : start + WIDTH]))] = entry


@dataclass(frozen=True, slots=True, eq=False)
class TokenIndex:
    """The first `_length` tokens of a log; two views are equal if they hold the same."""

    _log: _Log = field(default_factory=_Log)
    _length: int = 0
    most: int = MOST_TOKENS

    def __len__(self) -> int:
        return self._length

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TokenIndex) and self._held() == other._held()

    def __hash__(self) -> int:
        return hash(self._held())

    def _held(self) -> tuple[bytes, tuple[tuple[int, Sighting], ...]]:
        log = self._log
        starts = ((start, one) for start, one in zip(log.starts, log.sightings, strict=True))
        return bytes(log.data[: self._length * WIDTH]), tuple(
            pair for pair in starts if pair[0] < self._length
        )

    @property
    def is_full(self) -> bool:
        """Whether there was no room for all of what was to be added."""
        return self._length >= self.most

    def with_tokens(self, packed: bytes, sighting: Sighting) -> TokenIndex:
        """Return a view that holds the hashes of a text, too, as many as there is room for."""
        packed = packed[: (self.most - self._length) * WIDTH]
        packed = packed[: len(packed) // WIDTH * WIDTH]
        if not packed:
            return self
        log = self._log
        if len(log.data) > self._length * WIDTH:
            # A longer view has grown from this one; what it holds must not be seen from here.
            log = _copied(log, self._length)
        log.starts.append(self._length)
        log.sightings.append(sighting)
        log.data += packed
        _take_in(log, packed, self._length)
        return TokenIndex(log, self._length + len(packed) // WIDTH, self.most)

    def find(self, run: Sequence[bytes]) -> Sighting | None:
        """Return where tokens were first seen one after the other, or None."""
        position = self._first(run[0]) if len(run) == 1 else self._first_run(run)
        if position is None:
            return None
        log = self._log
        return log.sightings[bisect_right(log.starts, position) - 1]

    def sightings(self) -> Iterator[Sighting]:
        """Yield the texts in it, in the order in which they were shown."""
        log = self._log
        for start, sighting in zip(log.starts, log.sightings, strict=True):
            if start < self._length:
                yield sighting

    def holds(self, token: bytes) -> bool:
        """Whether a token is known."""
        return self._first(token) is not None

    def _first(self, token: bytes) -> int | None:
        log = self._log
        entry = log.slots[log.slot_of(token)]
        return entry - 1 if 0 < entry <= self._length else None

    def _first_run(self, run: Sequence[bytes]) -> int | None:
        """Find a run by the places of each token of it, those of the one that came up last before others.

        That one is the rarest as a rule. Of a token that occurs in many places the first ones are looked at.
        """
        firsts = [(self._first(token), anchor) for anchor, token in enumerate(run)]
        known = ((first, anchor) for first, anchor in firsts if first is not None)
        for first, anchor in sorted(known, reverse=True):
            for position in islice(self._places(run[anchor], first), _MOST_CANDIDATES):
                if self._matches(run, position - anchor):
                    return position
        return None

    def _places(self, token: bytes, position: int) -> Iterator[int]:
        """Yield each place of a token from one on."""
        data, end = self._log.data, self._length * WIDTH
        while True:
            yield position
            found = data.find(token, (position + 1) * WIDTH, end)
            while found >= 0 and found % WIDTH:
                found = data.find(token, found + 1, end)
            if found < 0:
                return
            position = found // WIDTH

    def _matches(self, run: Sequence[bytes], start: int) -> bool:
        if start < 0 or start + len(run) > self._length:
            return False
        data = self._log.data
        for number, token in enumerate(run):
            place = (start + number) * WIDTH
            held = data[place : place + WIDTH]
            if held[:-1] != token[:-1] or held[-1] & ~ECHO != token[-1]:
                return False
        return True


def _take_in(log: _Log, packed: bytes, position: int) -> None:
    """Enter each token of a text at its first place in it."""
    fresh = set()
    for place in range(0, len(packed), WIDTH):
        token = packed[place : place + WIDTH]
        if token in fresh or token == GAP or token[-1] & ECHO:
            continue
        fresh.add(token)
        log.insert(token, position + place // WIDTH)


def _copied(log: _Log, length: int) -> _Log:
    copy = _Log()
    for number, (start, sighting) in enumerate(zip(log.starts, log.sightings, strict=True)):
        if start >= length:
            break
        end = log.starts[number + 1] if number + 1 < len(log.starts) else length
        packed = bytes(log.data[start * WIDTH : min(end, length) * WIDTH])
        copy.starts.append(start)
        copy.sightings.append(sighting)
        copy.data += packed
        _take_in(copy, packed, start)
    return copy
