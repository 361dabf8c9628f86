"""Classify values in a session: given by the person, shown by a text, or made up by the model.

Each is an index of keyed hashes (`index.py`), folded from events; what the events hold is made here. The key
is the session's: what is on record says nothing of a value to anybody who has not got it.

A text makes its values known unless it is the output of something a model had run, is a model's own words,
or comes from a file that a call wrote. What the call had brought along stays what it was. A model that used
a value before it saw it anywhere has *invented* it: when a text shows it later, the question names both.
"""

from __future__ import annotations

import base64
import hashlib
import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace
from functools import lru_cache

from ..lazy import dataclass, regex
from ..trust import Origin
from .acts import TEXT_IS_GIVEN, acts_in, verbs_for
from .index import ECHO, GAP, WIDTH, Sighting, TokenIndex
from .moments import moment_forms, moments_in
from .outward import Outward
from .sentences import affirmed, sentences_of
from .tokens import Piece, number_form, pieces_of, tokens_of

__all__ = [
    "OwnWords",
    "Values",
    "act_marks",
    "path_marks",
    "private_sighting",
    "text_marks",
    "used_marks",
    "word_marks",
]

_MOST_OF_ONE = 20_000
_MOST_GIVEN = 200_000
_MOST_USED = 4_000
_MOST_WRITTEN = 20_000
_SHORTEST_OWN = 4
_SHORTEST_JOINED = 6
_SIGNED = regex(r"\s*[-−–+~][\s$€£¥]*\.?\d")
_LONG_TOKEN, _WORDS_RUNNING = 8, 6
_APART = regex(r"[\W_]+")
_OTHERS = frozenset({Origin.WEB, Origin.MCP})
_PERSON = Sighting(Origin.PERSON)
_MODEL = Sighting(Origin.MODEL)

_CURRENCY = r"(?:USD|EUR|GBP|CHF|JPY|dollars?|euros?|pounds?|francs?|yen)\b"
_UNIT = (
    r"(?:minutes?|mins?|hours?|hrs?|days?|nights?|weeks?|months?|years?|times"
    r"|people|persons?|guests?|adults?|children|rooms?|seats?|tickets?|copies|pieces)\b"
)
_NAMING = r"\b(?i:ids?|numbers?|nos?\.|nr\.?|issue|request|ticket|order|room|table)(?:\s+is)?\s*[:=#]?\s*"
_MARKED = regex(
    r"[\"“„«`‘'](\S{1,3})[\"”“»`’']|[#@$€£¥](\S{1,3}?)(?=[\s,.;:!?)]|$)|(?<!\S)(\d{1,3})[ ]?[%€$£]"
    rf"|(?<!\S)(\d{{1,3}})[ -]?(?:{_CURRENCY}|{_UNIT})"
    rf"|{_NAMING}(?=[\w-]*\d)([\w-]{{1,3}})(?![\w-])"
    r"|\b(?:USD|EUR|GBP|CHF|JPY)[ ](\d{1,3})(?=[\s,.;:!?)]|$)"
)


@lru_cache(maxsize=8192)
def _hashed(token: str, key: bytes) -> bytes:
    digest = hashlib.blake2b(token.encode("utf-8", "surrogatepass"), digest_size=WIDTH, key=key).digest()
    return digest[:-1] + bytes([digest[-1] & ~ECHO])


def _kept(packed: bytes) -> str:
    return base64.b64encode(packed).decode()


def _packed(kept: str) -> bytes:
    """Return hashes as they are on record; what is none makes nothing known."""
    try:
        return base64.b64decode(kept, validate=True)
    except ValueError:
        return b""


@dataclass(frozen=True, slots=True)
class OwnWords:
    """The person's words in this turn that count as a yes: whole tokens, not in a negated sentence."""

    words: TokenIndex = field(default_factory=TokenIndex)
    marked: frozenset[bytes] = frozenset()
    acts: frozenset[bytes] = frozenset()

    def ask_for(self, tool: str, key: bytes) -> bool:
        """Whether the person asks for what a tool is named for."""
        return any(_hashed(verb, key) in self.acts for verb in verbs_for(tool))

    def leave_open(self, text: str, key: bytes) -> bool:
        """Whether a text may be sent that the person did not write: left open, or all in their words.

        Words of fewer than four characters make no difference.
        """
        if _hashed(TEXT_IS_GIVEN, key) not in self.acts:
            return True
        words = (token for token in tokens_of(text) if len(token) >= _SHORTEST_OWN)
        return all(self.words.holds(_hashed(word, key)) for word in words)

    def say_when(self, text: str, key: bytes) -> bool:
        """Whether a text is dates and times that the person wrote, each in whatever way."""
        forms = moment_forms(text)
        return bool(forms) and all(
            any(self.words.holds(_hashed(form, key)) for form in several) for several in forms
        )

    def say(self, text: str, key: bytes, forms: Iterable[Sequence[str]] = ()) -> bool:
        """Whether a text is what the person wrote, word for word, or in one of the forms of its kind.

        A short one counts only if it was quoted or marked: `to`, `a` and `12` occur in most texts. A sign
        is no punctuation: `-5000` is not 5000.
        """
        if _SIGNED.match(text):
            return False
        run = tokens_of(text)
        if len(run) == 1 and len(run[0]) < _SHORTEST_OWN:
            return _hashed(run[0], key) in self.marked
        runs = [one for one in (run, *forms) if len("".join(one)) >= _SHORTEST_OWN]
        return any(self.words.find([_hashed(token, key) for token in one]) is not None for one in runs)

    def say_number(self, number: float, key: bytes) -> bool:
        """Whether the person wrote a number, in whatever way; a short one has to be marked."""
        form = number_form(repr(number))
        if not form:
            return False
        hashed = _hashed(form, key)
        return hashed in self.marked or (
            len(form.partition(":")[2]) >= _SHORTEST_OWN and self.words.holds(hashed)
        )


@dataclass(frozen=True, slots=True)
class Values:
    """What is known of values in a session.

    `refused` are values that sentences of the person rule out, `regiven` those they gave since: the
    later word counts. `forgotten` are values that the person took back, until they give them again. `hidden`
    names calls whose output shows nothing, and what is kept of it; `written` are the paths that calls wrote,
    and `above` the folders these lie in. `private` holds the confidential texts,
    `untrusted` is the last text of somebody else, and `outward` what went out.
    """

    given: TokenIndex = field(default_factory=lambda: TokenIndex(most=_MOST_GIVEN))
    seen: TokenIndex = field(default_factory=TokenIndex)
    invented: TokenIndex = field(default_factory=lambda: TokenIndex(most=_MOST_GIVEN))
    refused: TokenIndex = field(default_factory=lambda: TokenIndex(most=_MOST_GIVEN))
    regiven: TokenIndex = field(default_factory=lambda: TokenIndex(most=_MOST_GIVEN))
    own: OwnWords = field(default_factory=OwnWords)
    forgotten: frozenset[tuple[bytes, ...]] = frozenset()
    hidden: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()
    above: frozenset[str] = frozenset()
    private: TokenIndex = field(default_factory=lambda: TokenIndex(most=_MOST_GIVEN))
    untrusted: Sighting | None = None
    outward: Outward = field(default_factory=Outward)

    def is_given(self, forms: Iterable[Sequence[str]], key: bytes) -> bool:
        """Whether the person wrote a value, in this session, and ruled it out in no later sentence."""
        runs = self._hashed(forms, key)
        return _is_in(self.given, runs) and not self._is_refused(runs)

    def is_refused(self, forms: Iterable[Sequence[str]], key: bytes) -> bool:
        """Whether the person's last word about a value is a sentence that says no."""
        return self._is_refused(self._hashed(forms, key))

    def _is_refused(self, runs: Sequence[Sequence[bytes]]) -> bool:
        if not len(self.refused):
            return False
        is_named = self.refused.is_full or _is_in(self.refused, runs)
        return is_named and not _is_in(self.regiven, runs)

    def seen_in(self, forms: Iterable[Sequence[str]], key: bytes) -> Sighting | None:
        """Return the text that first showed a value, or None."""
        return next(filter(None, map(self.seen.find, self._hashed(forms, key))), None)

    def _hashed(self, forms: Iterable[Sequence[str]], key: bytes) -> list[tuple[bytes, ...]]:
        """Return the hashes of a value's forms; none where the person took it back."""
        runs = [tuple(_hashed(token, key) for token in run) for run in forms]
        return [] if self.forgotten and not self.forgotten.isdisjoint(runs) else runs

    def is_invented(self, forms: Iterable[Sequence[str]], key: bytes) -> bool:
        """Whether a model used a value, or all the tokens of it, before a text showed it."""
        if self.invented.is_full:
            return True
        return any(all(self.invented.holds(_hashed(token, key)) for token in run) for run in forms)

    def may_show(self, paths: Iterable[str], names: Iterable[str], key: bytes) -> bool:
        """Whether the content of these paths, and of what has these names, was written by no call."""
        if not self.hidden.isdisjoint(names):
            return False
        if len(self.written) >= _MOST_WRITTEN:
            return not any(True for _ in paths)
        return not any(self._is_written(path, key) for path in paths)

    def _is_written(self, path: str, key: bytes) -> bool:
        marks = [_path_mark(one, key) for one in (path, *_folders_of(path))] if self.written else []
        return bool(marks) and (marks[0] in self.above or not self.written.isdisjoint(marks))

    def with_words(self, words: str, negated: str, marked: str, acts: str = "", *, own: bool) -> Values:
        """Return what is known after a message of the person: values they rule out count as seen only."""
        hashes = _packed(words)
        known = replace(
            self,
            given=self.given.with_tokens(hashes, _PERSON),
            seen=self.seen.with_tokens(_packed(negated), _PERSON),
        )
        if negated:
            refused = self.refused.with_tokens(_packed(negated), _PERSON)
            known = replace(known, refused=refused, regiven=TokenIndex(most=_MOST_GIVEN))
        if len(known.refused):
            known = replace(known, regiven=known.regiven.with_tokens(hashes, _PERSON))
        if own:
            spoken = self.own.words.with_tokens(hashes, _PERSON)
            more = (
                self.own.marked.union(_split(_packed(marked))),
                self.own.acts.union(_split(_packed(acts))),
            )
            known = replace(known, own=OwnWords(spoken, *more))
        if self.forgotten:
            again = TokenIndex().with_tokens(hashes, _PERSON)
            gone = frozenset(run for run in self.forgotten if again.find(run) is None)
            known = replace(known, forgotten=gone)
        return known

    def without(self, forms: Iterable[Iterable[Sequence[str]]], key: bytes) -> Values:
        """Return what is known once the person took values back, each given as the forms of it."""
        gone = (tuple(_hashed(token, key) for token in run) for runs in forms for run in runs)
        return replace(self, forgotten=self.forgotten.union(gone))

    def with_text(self, marks: str, sighting: Sighting, *, shows: bool = True) -> Values:
        """Return what is known once a text was shown; `shows`: it makes its values known."""
        packed = _packed(marks)
        known = replace(self, seen=self.seen.with_tokens(packed, sighting)) if shows else self
        if sighting.origin in _OTHERS:
            known = replace(known, untrusted=sighting)
        if not sighting.private:
            return known
        return replace(known, private=self.private.with_tokens(packed, sighting))

    def with_use(
        self,
        call: str,
        marks: str,
        written: Sequence[str],
        above: Sequence[str],
        ran: bool,
    ) -> Values:
        """Return what is known once a model used values in a call."""
        room = max(0, _MOST_WRITTEN - len(self.written))
        return replace(
            self,
            invented=self.invented.with_tokens(_packed(marks), _MODEL) if marks else self.invented,
            written=self.written.union(written[:room]) if written else self.written,
            above=self.above.union(above) if above else self.above,
            hidden=self.hidden | {call} if ran else self.hidden,
        )

    def hiding(self, call: str, *names: str | None) -> Values:
        """Return what is known once something is kept of a call: it shows no more than that call did."""
        if call not in self.hidden:
            return self
        return replace(self, hidden=self.hidden.union(filter(None, names)))

    def in_new_turn(self) -> Values:
        """Return what is known once a turn has begun: earlier messages are no yes to what it does."""
        return replace(self, own=OwnWords(), outward=self.outward.in_new_turn())

    def cleared(self) -> Values:
        """Return what stays when a conversation is forgotten: what calls wrote, and what went out."""
        kept = Values(hidden=self.hidden, written=self.written, above=self.above)
        return replace(kept, outward=self.outward.cleared())


def private_sighting(values: Values, texts: Iterable[str], key: bytes) -> Sighting | None:
    """Return the confidential text that first showed a long token of some texts, or six words running."""
    for tokens in map(tokens_of, texts):
        hashed = [_hashed(token, key) for token in tokens]
        running = 0
        for end, token in enumerate(tokens, start=1):
            running = running + 1 if values.private.holds(hashed[end - 1]) else 0
            runs = [hashed[end - 1 : end]] if running and len(token) >= _LONG_TOKEN else []
            runs += [hashed[end - _WORDS_RUNNING : end]] if running >= _WORDS_RUNNING else []
            for run in runs:
                if (found := _first_private(values, run)) is not None:
                    return found
    return None


def _first_private(values: Values, run: Sequence[bytes]) -> Sighting | None:
    """Return the confidential text that shows a run which nobody gave and nothing showed before."""
    if values.given.find(run) is not None:
        return None
    first = values.seen.find(run)
    return values.private.find(run) if first is None or first.private else None


def _is_in(index: TokenIndex, runs: Iterable[Sequence[bytes]]) -> bool:
    return any(index.find(run) is not None for run in runs)


def _split(packed: bytes) -> Iterator[bytes]:
    return (packed[place : place + WIDTH] for place in range(0, len(packed), WIDTH))


def word_marks(text: str, key: bytes) -> tuple[str, str, str]:
    """Return what is recorded of the person's words: those of a yes, those of a no, the marked ones."""
    parts = list(sentences_of(text))
    positive = [part for part, says_no in parts if not says_no]
    negated = (part for part, says_no in parts if says_no)
    short = (group for part in positive for match in _MARKED.finditer(part) for group in match.groups())
    forms = [form for word in short if word for form in (*tokens_of(word), number_form(word)) if form]
    # `10.00` was written in full, though the number is a short one.
    forms += (form for part in positive for word in tokens_of(part) if (form := _long_number(word)))
    marked = b"".join(_hashed(form, key) for form in dict.fromkeys(forms))
    affirming, denied = (
        _marks((piece for part in some for piece in _pieces_and_moments(part)), key)
        for some in (positive, negated)
    )
    return _kept(affirming), _kept(denied), _kept(marked)


def act_marks(text: str, key: bytes) -> str:
    """Return what is recorded of what a person's words ask to be done."""
    return _kept(b"".join(_hashed(verb, key) for verb in dict.fromkeys(acts_in(affirmed(text)))))


def _long_number(word: str) -> str:
    return number_form(word) if len(word) >= _SHORTEST_OWN else ""


def _pieces_and_moments(text: str) -> Iterator[Piece]:
    yield from pieces_of(text)
    moments = tuple((form, form) for form in dict.fromkeys(moments_in(text)))
    if moments:
        yield Piece((), moments)


def text_marks(text: str, key: bytes, echoes: str = "") -> str:
    """Return what is recorded of a text that was shown; `echoes` is what its call had brought along."""
    return _kept(_marks(pieces_of(text), key, echoes))


def _marks(pieces: Iterable[Piece], key: bytes, echoes: str = "") -> bytes:
    """Return the hashes of pieces, each closed by a gap, then the forms, which follow nothing."""
    found: list[bytes] = []
    hashed: dict[str, bytes] = {}
    for piece in pieces:
        for token in dict.fromkeys(piece.tokens):
            if token not in hashed:
                hashed[token] = _mark(token, token, key, echoes)
        found += map(hashed.__getitem__, piece.tokens)
        found.append(GAP)
        for form, written in piece.forms:
            found += (_mark(form, written, key, echoes), GAP)
        if len(found) > _MOST_OF_ONE:
            break
    return b"".join(found[:_MOST_OF_ONE])


def _mark(token: str, written: str, key: bytes, echoes: str) -> bytes:
    """Return the hash of a token, flagged where the call had brought it along."""
    hashed = _hashed(token, key)
    return _flagged(hashed) if echoes and _is_echo(written, echoes) else hashed


def _flagged(hashed: bytes) -> bytes:
    return hashed[:-1] + bytes([hashed[-1] | ECHO])


def _is_echo(written: str, echoes: str) -> bool:
    written = written.casefold()
    bare = re.sub(r"^https?://(?:www\.)?", "", written).rstrip("/")
    joined = _APART.sub("", bare)
    is_joined = len(joined) >= _SHORTEST_JOINED and joined in echoes
    return written in echoes or is_joined or (bool(bare) and bare in echoes)


def used_marks(texts: Iterable[str], values: Values, key: bytes) -> str:
    """Return what is recorded of values that a model used before the person gave or a text showed them."""
    found: dict[bytes, None] = {}
    known = (values.given, values.seen, values.invented)
    for piece in (piece for text in texts for piece in pieces_of(text)):
        for token in (*piece.tokens, *(form for form, _ in piece.forms)):
            hashed = _hashed(token, key)
            if hashed in found or any(index.holds(hashed) for index in known):
                continue
            found[hashed] = None
            if len(found) >= _MOST_USED:
                return _kept(b"".join(found))
    return _kept(b"".join(found))


def path_marks(paths: Iterable[str], key: bytes) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what is recorded of paths that a call writes, and of the folders they lie in."""
    paths = list(paths)
    above = dict.fromkeys(folder for path in paths for folder in _folders_of(path))
    written = dict.fromkeys(_path_mark(path, key) for path in paths)
    return tuple(written), tuple(_path_mark(folder, key) for folder in above)


def _folders_of(path: str) -> Iterator[str]:
    while (folder := posixpath.dirname(path)) != path:
        yield folder
        path = folder


def _path_mark(path: str, key: bytes) -> str:
    return hashlib.blake2b(path.encode("utf-8", "surrogatepass"), digest_size=8, key=key).hexdigest()
