"""What of secrets and of confidential texts a call would carry outward.

Known secrets are looked for in pieces of six characters, each as it is, backwards, in rot13, in hex and in
base64. The base64 of six bytes is eight characters of the base64 of any text that holds them, at every third
place: so the pieces cover each alignment, and a secret that is cut up as well. Case, blanks and punctuation
between the characters make no difference, where the encoding knows none. What pieces of a secret a call let
out is in its record: over several calls they add up.

Of confidential texts a call carries a token of eight characters or more, or six words running, that the
session saw there first and the person did not give.
"""

from __future__ import annotations

import base64
import codecs
import hashlib
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

import re2

from ..action import texts_of
from ..call import Action
from ..kinds import Effect, Kind
from ..lazy import dataclass, regex
from ..paths import secret_reason
from ..policy import Policy
from ..provenance import private_sighting
from ..session import Session
from ..url import Grounding, Url, judge_host, percent_decoded

__all__ = [
    "OUTWARD",
    "CarriedSecret",
    "carried_secret",
    "confidential_source",
    "is_confidential",
    "is_random",
    "let_out",
    "texts_out",
]

OUTWARD = Effect.SEND | Effect.BRING_IN
"""What takes arguments somewhere else: a query goes out as well as a message."""

_PIECE = 6
_MOST_LET_OUT = 12
_LONGEST_SECRET = 4096
_FEWEST_RANDOM = 24
_APART = regex(r"[\W_]+")
_CHUNK = regex(r"[A-Za-z0-9]{4,}")
_TURNS = regex(r"[a-z](?=[A-Z0-9])|[A-Z](?=[0-9])|[0-9](?=[A-Za-z])")


@dataclass(frozen=True, slots=True)
class _Spellings:
    """How a piece of a secret can be written in a text: folded and without punctuation, or to the letter."""

    folded: tuple[str, ...]
    exact: tuple[str, ...]

    def stand_in(self, folded: str, exact: str) -> bool:
        return any(form in folded for form in self.folded) or any(form in exact for form in self.exact)


@dataclass(frozen=True, slots=True)
class CarriedSecret:
    """A secret that a call would complete; `is_canary` where it is the marker of the session."""

    is_canary: bool


class _Pieces:
    """The pieces of some secrets, each with its place, and one expression that tells whether any is there."""

    def __init__(self, secrets: Iterable[str]) -> None:
        read = ((secret, _folded(secret)) for secret in sorted(secrets))
        self.secrets = tuple((secret, plain) for secret, plain in read if len(plain) >= _PIECE)
        self.spelled = tuple(tuple(_pieces_of(secret, plain)) for secret, plain in self.secrets)
        pieces = [piece for group in self.spelled for piece in group]
        self._folded = _any_of(form for piece in pieces for form in piece.folded)
        self._exact = _any_of(form for piece in pieces for form in piece.exact)

    def places_in(self, text: str) -> list[frozenset[int]]:
        """Return for each secret the places of its pieces that are in a text; no list where none does."""
        folded, exact = _folded(text), "".join(text.split())
        if not self._folded.search(folded) and not self._exact.search(exact):
            return []
        return [
            frozenset(place for place, piece in enumerate(group) if piece.stand_in(folded, exact))
            for group in self.spelled
        ]


_NOT_ALNUM = bytes(code for code in range(128) if not chr(code).isalnum())


def _folded(text: str) -> str:
    """Return a text without all but letters and digits, in one case; ten times faster where it is ASCII."""
    if text.isascii():
        return text.encode().translate(None, _NOT_ALNUM).decode().lower()
    return _APART.sub("", unicodedata.normalize("NFKC", text)).casefold()


def _any_of(literals: Iterable[str]) -> Any:
    return re2.compile("|".join(map(re2.escape, dict.fromkeys(literals))) or r"[^\x00-\x{10FFFF}]")


def _pieces_of(secret: str, plain: str) -> Iterator[_Spellings]:
    """Yield the pieces of a secret in the order of its characters without punctuation."""
    bare = _APART.sub("", unicodedata.normalize("NFKC", secret))[:_LONGEST_SECRET]
    for start in range(max(0, min(len(plain), _LONGEST_SECRET) - _PIECE) + 1):
        piece = plain[start : start + _PIECE]
        turned = codecs.encode(piece, "rot13")
        raw = bare[start : start + _PIECE].encode("utf-8", "surrogatepass")
        folded = (
            piece,
            piece[::-1],
            turned,
            turned[::-1],
            raw.hex(),
            piece.encode("utf-8", "surrogatepass").hex(),
        )
        written = _as_written(secret, start)
        encoded = (base64.b64encode(raw), *(encode(written) for encode in _BASE64 if written))
        yield _Spellings(folded, tuple(dict.fromkeys(one.decode()[:8] for one in encoded)))


_BASE64 = (base64.b64encode, base64.urlsafe_b64encode)


def _as_written(secret: str, start: int) -> bytes:
    """Return six bytes of a secret with its punctuation, from a place on; none where it ends before."""
    raw = secret.encode("utf-8", "surrogatepass")[start : start + _PIECE]
    return raw if len(raw) == _PIECE else b""


@lru_cache(maxsize=16)
def _pieces(secrets: frozenset[str]) -> _Pieces:
    return _Pieces(secrets)


def texts_out(action: Action) -> str:
    """Return all that a call says, secrets and escaped bytes included, as one text.

    Values follow each other with nothing between but what is looked past, so that one which is spread over
    several arguments is found.
    """
    texts = [*texts_of(action), *(atom.raw for atom in action.of_kind(Kind.SECRET))]
    texts += [percent_decoded(text) for text in texts if "%" in text]
    return "\n".join(texts)


def let_out(action: Action, session: Session) -> tuple[str, ...]:
    """Return the marks of the pieces of known secrets that a call would carry, as they are recorded."""
    pieces, found = _known(session), _found_in(action, session)
    return tuple(
        dict.fromkeys(
            _mark(plain, place, session.values_key)
            for (_, plain), places in zip(pieces.secrets, found, strict=False)
            for place in sorted(places)
        )
    )


def _found_in(action: Action, session: Session) -> list[frozenset[int]]:
    """Return what pieces of known secrets a call carries; looked for once, for the gate and the record."""
    return action.call.once.of(_looked_for, action, _known(session))


def _looked_for(action: Action, pieces: _Pieces) -> list[frozenset[int]]:
    return pieces.places_in(texts_out(action))


def _known(session: Session) -> _Pieces:
    return _pieces(session.secrets | {session.canary})


@lru_cache(maxsize=4096)
def _mark(plain: str, place: int, key: bytes) -> str:
    text = f"{place}:{plain}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=6, key=key).hexdigest()


def carried_secret(action: Action, session: Session) -> CarriedSecret | None:
    """Return the secret of which too much would be outside, this call and those before it taken together.

    That is twelve characters, or half of a longer one, or all of a shorter one.
    """
    pieces = _known(session)
    for (secret, plain), places in zip(pieces.secrets, _found_in(action, session), strict=False):
        if not places:
            continue
        before = session.values.outward.let_out
        if before:
            every = range(len(plain) - _PIECE + 1)
            places |= {place for place in every if _mark(plain, place, session.values_key) in before}
        covered = {place + offset for place in places for offset in range(_PIECE)}
        if len(covered) >= min(len(plain), max(_MOST_LET_OUT, len(plain) // 2)):
            return CarriedSecret(secret == session.canary)
    return None


def confidential_source(action: Action, session: Session) -> str | None:
    """Return what confidential text a call repeats from: a long token of it, or six words running."""
    if not len(session.values.private):
        return None
    found = private_sighting(session.values, texts_of(action), session.values_key)
    return None if found is None else found.label


def is_random(known: Grounding) -> bool:
    """Whether what a URL has beside the one that was given could carry much that nobody reads.

    Counted are the characters of its parts that no word is like: letters and digits in turn, or cases.
    """
    added = percent_decoded("/".join(known.below) + known.added)
    mixed = (chunk for chunk in _CHUNK.findall(added) if len(_TURNS.findall(chunk)) * 6 >= len(chunk))
    return sum(map(len, mixed)) >= _FEWEST_RANDOM


def is_confidential(action: Action, policy: Policy) -> bool:
    """Whether what a call brings must not leave without a question.

    That is what a tool declares so, a file that is secret by its name and read all the same (`allow_read`),
    and what a private host says (`allow_networks`): neither is leave to hand it on.
    """
    if action.spec is not None and action.spec.confidential:
        return True
    if policy.allow_read and action.places:
        strict = replace(policy, allow_read=())
        if any(secret_reason(path, strict) for place in action.places for path in (place.text, place.real)):
            return True
    urls = (atom.canonical for atom in action.atoms if isinstance(atom.canonical, Url))
    return any(judge_host(url.host) is not None for url in urls)
