"""The ledger: which URLs may be opened and which destinations sent to, and why.

Both become known by the person's words or configuration, or by a page that was
opened by permission; how they became known says how far they reach. A `Ledger` is a view of an
append-only log: adding or forgetting gives a longer view of the same log, and earlier views stay
what they were. Finding URLs in a text is left to `extract.py`, the verdict to `gates/grounding.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from difflib import SequenceMatcher
from enum import StrEnum
from itertools import islice, takewhile
from typing import TypeAlias

from ..lazy import dataclass
from .destination import Destination, DestinationKind, parse_destination
from .parse import DEFAULT_PORTS, Url, comparable, parse_url

__all__ = ["Grounding", "Known", "Ledger", "Provenance", "parse_place"]

Known: TypeAlias = Url | Destination
"""An entry of a ledger."""

_HOSTS_COMPARED = 64
_ALIKE = 0.6


def parse_place(text: str) -> Known | None:
    """Return the URL, mail address or repository that a text is, or None."""
    url = parse_url(text)
    return url if isinstance(url, Url) else parse_destination(text)


class Provenance(StrEnum):
    """How a URL became known.

    `HINT` is a word of the person that may be a host or a file (`docs.rs/tokio`), `FOREIGN` a link
    that leads from the site of its page to another, `DERIVED` one on a page whose URL nobody gave in
    full, so that it may repeat what a model put into that.
    """

    PERSON = "person"
    SLASH = "slash command"
    CONFIG = "config"
    HINT = "person, perhaps a file"
    REDIRECT = "redirect"
    LINK = "link"
    DERIVED = "link below"
    FOREIGN = "link to another site"
    SEARCH = "search"


_GIVEN = frozenset({Provenance.PERSON, Provenance.SLASH, Provenance.CONFIG})
_ECHOES = frozenset({Provenance.REDIRECT, Provenance.DERIVED})
_EXACT = frozenset({Provenance.LINK, Provenance.FOREIGN, Provenance.SEARCH}) | _ECHOES
_DOUBTFUL = frozenset({Provenance.HINT, Provenance.FOREIGN})


@dataclass(frozen=True, slots=True)
class Grounding:
    """What the ledger knows of a URL.

    `source` is the entry it rests on, None where there is none; then `nearest` is the known URL
    most like it. `added` is the query and fragment that the source does not have, as written
    in the URL ("?x=1#top"), or what was appended to the source's query ("&x=1"); `below` holds the
    segments of the path that lie below the source's.
    """

    source: Url | None = None
    provenance: Provenance | None = None
    added: str = ""
    below: tuple[str, ...] = ()
    nearest: Url | None = None


@dataclass(slots=True)
class _Log:
    """What several views share.

    An entry without a provenance says that all before it about the same place is forgotten. `by_host`,
    `places` and `forgotten` hold positions in `entries`.
    """

    entries: list[tuple[Known, Provenance | None]] = field(default_factory=list)
    by_host: dict[str, list[int]] = field(default_factory=dict)
    places: dict[tuple[str, Provenance], int] = field(default_factory=dict)
    forgotten: dict[str, list[int]] = field(default_factory=dict)

    def append(self, known: Known, provenance: Provenance | None) -> None:
        position = len(self.entries)
        self.entries.append((known, provenance))
        if provenance is None:
            self.forgotten.setdefault(known.text, []).append(position)
        else:
            self.by_host.setdefault(known.host, []).append(position)
            self.places[known.text, provenance] = position

    def is_live(self, position: int, length: int) -> bool:
        """Whether an entry still counts in the view of the first `length` entries."""
        if position >= length:
            return False
        ends = self.forgotten.get(self.entries[position][0].text, ())
        return not any(position < end < length for end in ends)


@dataclass(frozen=True, slots=True, eq=False)
class Ledger:
    """The first `_length` entries of a log; two views are equal if what they know is."""

    _log: _Log = field(default_factory=_Log)
    _length: int = 0

    def __len__(self) -> int:
        return len(self.entries())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ledger) and self.entries() == other.entries()

    def __hash__(self) -> int:
        return hash(self.entries())

    def entries(self) -> tuple[tuple[Known, Provenance], ...]:
        """Return all that is known with how it became known, in the order of becoming known."""
        return tuple(
            (known, provenance)
            for position, (known, provenance) in enumerate(islice(self._log.entries, self._length))
            if provenance is not None and self._log.is_live(position, self._length)
        )

    def with_urls(self, urls: Iterable[Known], provenance: Provenance) -> Ledger:
        """Return a view that knows these, too; what is known already is not added again."""
        view = self
        for url in urls:
            position = view._log.places.get((url.text, provenance), view._length)
            if not view._log.is_live(position, view._length):
                view = view._with(url, provenance)
        return view

    def without(self, known: Iterable[Known]) -> Ledger:
        """Return a view that has forgotten these, however they became known."""
        view = self
        for one in known:
            view = view._with(one, None)
        return view

    def known_otherwise(self, than: Provenance) -> Ledger:
        """Return a ledger without what is known in this way only."""
        ledger = Ledger()
        for known, provenance in self.entries():
            if provenance is not than:
                ledger = ledger._with(known, provenance)
        return ledger

    def _with(self, known: Known, provenance: Provenance | None) -> Ledger:
        log = self._log
        if len(log.entries) > self._length:
            # A longer view has grown from this one; what it added must not be seen from here.
            log = _copied(log, self._length)
        log.append(known, provenance)
        return Ledger(log, self._length + 1)

    def lookup(self, url: Url) -> Grounding:
        """Return what a URL rests on, in time proportional to what is known of its host."""
        found = [
            grounding
            for entry, provenance in self._of_host(url.host)
            if isinstance(entry, Url) and (grounding := _grounded(url, entry, provenance)) is not None
        ]
        return min(found, key=_doubt) if found else Grounding(nearest=self._nearest(url))

    def has(self, url: Url) -> bool:
        """Whether exactly this URL is known, fragments aside, and holds nothing that a call made up.

        That is not so of what a server answered to a URL that only lay below a given one: a redirect
        or link may repeat what was in its path.
        """
        return any(
            isinstance(entry, Url)
            and provenance not in _ECHOES
            and _is_same_server(url, entry)
            and (_segments(url), _query(url)) == (_segments(entry), _query(entry))
            for entry, provenance in self._of_host(url.host)
        )

    def provenance_of(self, destination: Destination) -> Provenance | None:
        """Return how a destination was given, or None if nobody gave it.

        A URL that was given covers its host, and the repository of its path and those below.
        """
        for entry, provenance in self._of_host(destination.host):
            if provenance in _GIVEN and _stands_for(entry, destination):
                return provenance
        return None

    def _of_host(self, host: str) -> Iterable[tuple[Known, Provenance]]:
        for position in takewhile(lambda found: found < self._length, self._log.by_host.get(host, ())):
            known, provenance = self._log.entries[position]
            if provenance is not None and self._log.is_live(position, self._length):
                yield known, provenance

    def _nearest(self, url: Url) -> Url | None:
        """Return the known URL that shares most of the path, or else one whose host looks much alike."""
        hosts = {url.host, *islice(reversed(self._log.by_host), _HOSTS_COMPARED)}
        by_likeness = sorted(((_likeness(host, url.host), host) for host in hosts), reverse=True)
        for likeness, host in by_likeness:
            known = [entry for entry, _ in self._of_host(host) if isinstance(entry, Url)]
            if known and likeness >= _ALIKE:
                return max(known, key=lambda entry: _shared(entry.segments, url.segments))
        return None


def _copied(log: _Log, length: int) -> _Log:
    copy = _Log()
    for known, provenance in islice(log.entries, length):
        copy.append(known, provenance)
    return copy


def _grounded(url: Url, entry: Url, provenance: Provenance) -> Grounding | None:
    """Return how a URL rests on one entry, or None if it does not."""
    if not _is_same_server(url, entry):
        return None
    wanted, known = _segments(url), _segments(entry)
    same_path = wanted == known
    if provenance in _EXACT:
        if not same_path or _query(url) != _query(entry):
            return None
    elif _shared(wanted, known) < min(len(wanted), len(known)):
        return None
    return Grounding(
        entry, provenance, _added(url, entry if same_path else None), url.segments[len(entry.segments) :]
    )


def _is_same_server(url: Url, entry: Url) -> bool:
    """Whether scheme, host and port agree; a known http URL covers its https form, never the reverse."""
    if url.host != entry.host:
        return False
    ours, theirs = (url.scheme, url.port), (entry.scheme, entry.port)
    upgrade = (("https", DEFAULT_PORTS["https"]), ("http", DEFAULT_PORTS["http"]))
    return ours == theirs or (ours, theirs) == upgrade


def _segments(url: Url) -> tuple[str, ...]:
    return tuple(map(comparable, url.segments))


def _query(url: Url) -> str:
    return comparable(url.query or "")


def _shared(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    """Return how many whole segments two paths begin with in common."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _added(url: Url, entry: Url | None) -> str:
    """Return the query and fragment that an entry of the same path (None: there is none) does not have."""
    query, known = _query(url), _query(entry) if entry is not None else ""
    added = ""
    if query and query != known:
        added = query[len(known) :] if known and query.startswith(f"{known}&") else f"?{url.query}"
    if url.fragment and (entry is None or url.fragment != entry.fragment or added):
        added += f"#{url.fragment}"
    return added


def _doubt(grounding: Grounding) -> tuple[bool, bool, int, int]:
    """Order groundings: one that needs no question first, then by how much was added."""
    is_doubtful = grounding.provenance in _DOUBTFUL
    return grounding.added != "", is_doubtful, len(grounding.added), len(grounding.below)


def _stands_for(entry: Known, destination: Destination) -> bool:
    """Whether what a person gave means this destination, too."""
    if isinstance(entry, Destination) and destination.kind is not DestinationKind.HOST:
        return entry == destination
    if destination.kind is DestinationKind.HOST:
        is_place = isinstance(entry, Url) or entry.kind is DestinationKind.REPOSITORY
        return is_place and destination.port in (None, entry.port)
    if destination.kind is DestinationKind.MAIL or not isinstance(entry, Url):
        return False
    known = tuple(segment.removesuffix(".git") for segment in entry.segments)
    is_below = known == destination.segments[: len(known)]
    return is_below and destination.user in ("", "git") and destination.port is None


def _likeness(host: str, other: str) -> float:
    return 1.0 if host == other else SequenceMatcher(None, host, other).ratio()
