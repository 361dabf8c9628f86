"""Decide whether every value of a call comes from the person's own words; such a call needs no question.

1. It only sends, creates or changes, and no file: what runs something is asked about as ever, and so is what
   becomes of a file that was there.
2. Every value of it, numbers and switches included, is what the person wrote in this turn, as whole tokens
   one after the other, or what the tool declares where nobody says it. Nothing at all is no more than that
   only where the tool declares nothing: no end is not the end that it would have had.
3. Dates and times of day are the person's in whatever way they are written. They may be worked out (the end
   of an hour, the day that tomorrow is) as long as nobody else's text was read.
4. What may replace or remove something, and anything at all once somebody else's text was read, is an act
   that the person's words ask for: that they name a value says nothing of what is to be done with it.

What counts as the person's words is in `provenance/values.py`: no word of a sentence that negates, and a
short one only if it was quoted or marked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..call import Action, Atom
from ..kinds import Effect, Kind
from ..provenance import forms_of, is_moment
from ..session import Session
from ..trust import Origin
from ..url import Url

__all__ = ["is_own_words"]

_ALLOWED = Effect.READ | Effect.CREATE | Effect.SEND | Effect.WRITE
_DOING = Effect.CREATE | Effect.SEND | Effect.WRITE
_OTHERS = frozenset({Origin.WEB, Origin.MCP})


def is_own_words(action: Action, session: Session) -> bool:
    """Whether a call only sends, creates or changes what the person wrote in this turn."""
    if action.effects & ~_ALLOWED or not action.effects & _DOING:
        return False
    if action.spec is None or action.is_cut or action.of is not None:
        return False
    is_change = Effect.WRITE in action.effects
    if is_change and action.of_kind(Kind.PATH):
        return False
    has_to_be_asked_for = is_change or bool(session.labels & _OTHERS)
    if has_to_be_asked_for and not session.values.own.ask_for(action.call.tool, session.values_key):
        return False
    chosen = {name: value for name, value in action.arguments.items() if name not in action.usual}
    values = [leaf for name, value in chosen.items() for leaf in _leaves_of(name, value, action)]
    written = {atom.raw: forms_of(atom.kind, atom.canonical, atom.raw) for atom in _places(action)}
    if any(_is_empty(value) and _has_default(name, action) for name, value in chosen.items()):
        return False
    return any(value not in (None, "") for value in values) and all(
        _is_said(value, written, session) for value in values
    )


def _places(action: Action) -> tuple[Atom, ...]:
    """Return the places that all of a string names; groups of an account number make no difference."""
    return tuple(atom for atom in action.of_kind(Kind.DESTINATION) if not isinstance(atom.canonical, Url))


def _leaves_of(name: str, value: object, action: Action) -> Iterator[object]:
    yield from _leaves({name: value} if name in action.free else value)


def _is_empty(value: object) -> bool:
    return value is None or value in ((), "") or (isinstance(value, str) and not value.strip())


def _has_default(name: str, action: Action) -> bool:
    declared = action.spec.schema.get("properties", {}).get(name) if action.spec is not None else None
    usual = declared.get("default") if isinstance(declared, Mapping) else None
    return not _is_empty(usual)


def _leaves(value: object) -> Iterator[object]:
    """Yield every value, and every key that a model chose."""
    if isinstance(value, Mapping):
        yield from value
        for child in value.values():
            yield from _leaves(child)
    elif isinstance(value, (list, tuple)):
        for child in value:
            yield from _leaves(child)
    else:
        yield value


def _is_said(value: object, written: Mapping[str, Iterable[Sequence[str]]], session: Session) -> bool:
    own, key = session.values.own, session.values_key
    match value:
        case str():
            if not value.strip() or own.say(value, key, written.get(value, ())):
                return True
            return own.say_when(value, key) if session.labels & _OTHERS else is_moment(value)
        case bool():
            return own.say(str(value), key)
        case int() | float():
            return own.say_number(value, key)
    return value is None
