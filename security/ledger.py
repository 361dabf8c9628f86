"""Which URLs may be opened, and why.

A URL becomes known by what the person said, wrote into the configuration, or by a page that was
opened by permission; how it became known says how far it reaches. A `Ledger` is a view of an
append-only log: adding a URL gives a longer view of the same log, and earlier views stay what
they were. Finding URLs in a text is left to `extract.py`, the verdict to `gates/grounding.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from enum import StrEnum
from itertools import islice, takewhile

from .url import DEFAULT_PORTS, Url

__all__ = ["Grounding", "Ledger", "Provenance"]

_HOSTS_COMPARED = 64
_ALIKE = 0.6


class Provenance(StrEnum):
    """How a URL became known.

    `HINT` is a word of the person that may be a host or a file (`docs.rs/tokio`).
    """

    PERSON = "person"
    SLASH = "slash command"
    CONFIG = "config"
    HINT = "person, perhaps a file"
    REDIRECT = "redirect"
    LINK = "link"
    SEARCH = "search"


_EXACT = frozenset({Provenance.REDIRECT, Provenance.LINK, Provenance.SEARCH})


@dataclass(frozen=True, slots=True)
class Grounding:
    """What the ledger knows of a URL.

    `source` is the entry it stands on, None where there is none; then `nearest` is the known URL
    most like it. `added` is the query and fragment that the source does not have, as they stand
    in the URL ("?x=1#top"), or what was appended to the source's query ("&x=1").
    """

    source: Url | None = None
    provenance: Provenance | None = None
    added: str = ""
    nearest: Url | None = None


@dataclass(slots=True)
class _Log:
    """What several views share. `by_host` and `places` hold positions in `entries`."""

    entries: list[tuple[Url, Provenance]] = field(default_factory=list)
    by_host: dict[str, list[int]] = field(default_factory=dict)
    places: dict[tuple[str, Provenance], int] = field(default_factory=dict)

    def append(self, url: Url, provenance: Provenance) -> None:
        position = len(self.entries)
        self.entries.append((url, provenance))
        self.by_host.setdefault(url.host, []).append(position)
        self.places[url.text, provenance] = position


@dataclass(frozen=True, slots=True, eq=False)
class Ledger:
    """The first `_length` entries of a log; two views are equal if their entries are."""

    _log: _Log = field(default_factory=_Log)
    _length: int = 0

    def __len__(self) -> int:
        return self._length

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ledger) and self.entries() == other.entries()

    def __hash__(self) -> int:
        return hash(self.entries())

    def entries(self) -> tuple[tuple[Url, Provenance], ...]:
        """Return every known URL with how it became known, in the order of becoming known."""
        return tuple(islice(self._log.entries, self._length))

    def with_urls(self, urls: Iterable[Url], provenance: Provenance) -> Ledger:
        """Return a view that knows these URLs, too; what is known already is not added again."""
        log, length = self._log, self._length
        for url in urls:
            if log.places.get((url.text, provenance), length) < length:
                continue
            if len(log.entries) > length:
                # A longer view has grown from this one; what it added must not be seen from here.
                log = _copied(log, length)
            log.append(url, provenance)
            length += 1
        return Ledger(log, length)

    def lookup(self, url: Url) -> Grounding:
        """Return what a URL stands on, in time proportional to what is known of its host."""
        found = [
            grounding
            for entry, provenance in self._of_host(url.host)
            if (grounding := _grounded(url, entry, provenance)) is not None
        ]
        return min(found, key=_doubt) if found else Grounding(nearest=self._nearest(url))

    def _of_host(self, host: str) -> Iterable[tuple[Url, Provenance]]:
        positions = takewhile(lambda position: position < self._length, self._log.by_host.get(host, ()))
        return (self._log.entries[position] for position in positions)

    def _nearest(self, url: Url) -> Url | None:
        """Return the known URL that shares most of the path, or else one whose host looks much alike."""
        hosts = {url.host, *islice(reversed(self._log.by_host), _HOSTS_COMPARED)}
        by_likeness = sorted(((_likeness(host, url.host), host) for host in hosts), reverse=True)
        for likeness, host in by_likeness:
            known = [entry for entry, _ in self._of_host(host)]
            if known and likeness >= _ALIKE:
                return max(known, key=lambda entry: _shared(entry.segments, url.segments))
        return None


def _copied(log: _Log, length: int) -> _Log:
    copy = _Log()
    for url, provenance in islice(log.entries, length):
        copy.append(url, provenance)
    return copy


def _grounded(url: Url, entry: Url, provenance: Provenance) -> Grounding | None:
    """Return how a URL stands on one entry, or None if it does not."""
    if not _is_same_server(url, entry):
        return None
    same_path = url.segments == entry.segments
    if provenance in _EXACT:
        if not same_path or url.query != entry.query:
            return None
    elif _shared(url.segments, entry.segments) < min(len(url.segments), len(entry.segments)):
        return None
    return Grounding(entry, provenance, _added(url, entry if same_path else None))


def _is_same_server(url: Url, entry: Url) -> bool:
    """Whether scheme, host and port agree; a known http URL stands for its https form, never the reverse."""
    if url.host != entry.host:
        return False
    ours, theirs = (url.scheme, url.port), (entry.scheme, entry.port)
    upgrade = (("https", DEFAULT_PORTS["https"]), ("http", DEFAULT_PORTS["http"]))
    return ours == theirs or (ours, theirs) == upgrade


def _shared(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    """Return how many whole segments two paths begin with in common."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _added(url: Url, entry: Url | None) -> str:
    """Return the query and fragment that an entry of the same path (None: there is none) does not have."""
    query, known = url.query or "", (entry.query or "") if entry is not None else ""
    added = ""
    if query and query != known:
        added = query[len(known) :] if known and query.startswith(f"{known}&") else f"?{query}"
    if url.fragment and (entry is None or url.fragment != entry.fragment or added):
        added += f"#{url.fragment}"
    return added


def _doubt(grounding: Grounding) -> tuple[bool, bool, int]:
    """Order groundings: a sure one before a hint, one that needs no question before one that does."""
    return grounding.added != "", grounding.provenance is Provenance.HINT, len(grounding.added)


def _likeness(host: str, other: str) -> float:
    return 1.0 if host == other else SequenceMatcher(None, host, other).ratio()
