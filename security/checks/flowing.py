"""Find the parts of a call that do not come from the person, once a text of others may have caused it.

1. Each destination, id, URL, path, secret and number must be in the person's words, be a declared default, or
   be a value they trust by a grant.
2. The act itself must be one that the person's words of this turn ask for (`provenance/acts.py`).
3. In a text that is sent, each link, address, account and phone number must be the person's. If they wrote
   what to write, so must every longer word. If they left that open ("send her a summary"), the rest may be
   the model's, since nothing here can tell a true summary from a false one.
4. A tool may send to the same place once in a turn; a second text is not covered by the first request.
5. A call that creates or changes something may hold no word that is not the person's (`own_words.py`).
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping

from ..call import Action, Atom
from ..kinds import Effect, Kind
from ..lazy import dataclass
from ..paths import ResolvedPath, is_inside, runs_later_reason
from ..provenance import actionable_in, forms_of, number_form, sent_mark
from ..session import Session
from ..trust import Origin
from ..url import Provenance, Url
from .own_words import is_own_words
from .sighting import is_given

__all__ = [
    "ACTING",
    "Foreign",
    "carries_out",
    "describe_private",
    "describe_untrusted",
    "foreign_in",
    "risky_paths",
    "sent_to",
    "suspicion_note",
]

ACTING = Effect.CREATE | Effect.WRITE | Effect.EXECUTE | Effect.SEND
"""Effects that others see, or that later runs obey."""

_OTHERS = frozenset({Origin.WEB, Origin.MCP})
_PLACES = frozenset(
    {Kind.DESTINATION, Kind.RESOURCE_ID, Kind.URL, Kind.PATH, Kind.SECRET, Kind.COMMAND, Kind.HOST}
)
_GIVEN = frozenset({Provenance.PERSON, Provenance.SLASH, Provenance.CONFIG})


@dataclass(frozen=True, slots=True)
class Foreign:
    """The parts of a call that are not the person's: places and ids as atoms, others as text to show."""

    places: tuple[Atom, ...] = ()
    others: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.places or self.others)


def describe_untrusted(session: Session) -> str:
    """Describe in a few words the last text of others that was read."""
    last = session.values.untrusted
    if last is not None and last.label.replace("_", "").isalnum() and last.label.isascii():
        return f"the result of `{last.label}`"
    return "text from an MCP server" if Origin.WEB not in session.labels else "text from the web"


def suspicion_note(session: Session) -> str:
    """Return " " and a sentence if a text that was read looks like orders, else ""."""
    kinds = ", ".join(session.suspicion)
    return f" A text that was read looks like orders to an assistant: {kinds}." if kinds else ""


def describe_private(session: Session) -> str:
    """Describe in a few words the first confidential text that was read."""
    first = next(session.values.private.sightings(), None)
    return f"the result of `{first.label}`" if first is not None and first.label else "unknown source"


def carries_out(action: Action, session: Session) -> bool:
    """Whether a call can carry text out: it has a text argument, or a URL that adds to a known one.

    A command whose network is limited to single hosts is judged for each connection instead.
    """
    if action.of is not None:
        return False
    if action.is_command:
        return Effect.SEND in action.effects and not session.policy.sandbox.by_host
    if not _is_query(action) or any(atom.raw for atom in _texts(action)):
        return True
    known = (
        session.ledger.lookup(atom.canonical) for atom in action.atoms if isinstance(atom.canonical, Url)
    )
    return any(one.source is None or one.added or one.below for one in known)


def risky_paths(action: Action, session: Session) -> tuple[Atom, ...]:
    """Return the paths that a call changes outside the workspace, or that run later, and nobody gave."""
    changed = (atom for atom in action.of_kind(Kind.PATH) if not atom.only_read)
    return tuple(
        atom for atom in changed if _is_risky(atom, session) and not _is_given_path(atom, action, session)
    )


def _is_risky(atom: Atom, session: Session) -> bool:
    place, policy = atom.canonical, session.policy
    if not isinstance(place, ResolvedPath):
        return True
    both = (place.text, place.real)
    return not all(is_inside(path, policy.workspace) for path in both) or any(map(runs_later_reason, both))


def _is_given_path(atom: Atom, action: Action, session: Session) -> bool:
    """Whether the person wrote a path, from the workspace's root or in full."""
    if session.is_endorsed(atom.kind, atom.shown, action.effects):
        return True
    place, workspace = atom.canonical, session.policy.workspace
    if not isinstance(place, ResolvedPath) or place.text != place.real:
        return False
    spelled = (atom.raw, place.text, posixpath.relpath(place.text, workspace))
    forms = tuple(form for text in spelled for form in forms_of(atom.kind, None, text))
    return session.values.is_given(forms, session.values_key)


def foreign_in(action: Action, session: Session) -> Foreign:
    """Return what of a call that reaches others is not the person's.

    Of a query, which sends in order to learn something, only the destination counts: URLs are `grounding`'s.
    """
    sent = sent_to(action, session)
    before = [("sent there before", action.call.tool)] if sent and sent in session.values.outward.sent else []
    if is_own_words(action, session):
        return Foreign(others=tuple(before))
    is_query = _is_query(action)
    kinds = {Kind.DESTINATION} if is_query else _PLACES
    atoms = (atom for atom in action.atoms if atom.kind in kinds)
    places = tuple(atom for atom in atoms if not _is_persons(atom, action, session))
    others = before if is_query else [*before, *_others(action, session)]
    return Foreign(places, tuple(dict.fromkeys(others)))


def _others(action: Action, session: Session) -> Iterator[tuple[str, str]]:
    """Yield what is not the person's beside places and ids, each with what it is."""
    own, key, tool = session.values.own, session.values_key, action.call.tool
    yield from _numbers(action, session)
    if not own.ask_for(tool, key):
        yield "not asked for", tool
    is_more = any(not own.leave_open(atom.raw, key) for atom in _texts(action))
    if is_more or action.effects & ACTING & ~Effect.SEND:
        yield "says more than you did", tool
    yield from (("in its text", value) for value in _actionable(action, session))


def sent_to(action: Action, session: Session) -> str:
    """Return the mark of a tool and the destinations it sends to; "" where it does no such thing."""
    if Effect.SEND not in action.effects:
        return ""
    places = (atom.shown.casefold() for atom in action.of_kind(Kind.DESTINATION))
    return sent_mark(action.call.tool, places, session.values_key)


def _is_query(action: Action) -> bool:
    """Whether a call sends in order to learn something, at most."""
    return Effect.BRING_IN in action.effects and not action.effects & ACTING & ~Effect.SEND


def _texts(action: Action) -> tuple[Atom, ...]:
    return action.of_kind(Kind.TEXT, Kind.UNDECLARED)


def _is_persons(atom: Atom, action: Action, session: Session) -> bool:
    if session.is_endorsed(atom.kind, atom.shown, action.effects) or _name_of(atom) in action.usual:
        return True
    match atom.kind:
        case Kind.URL:
            return isinstance(atom.canonical, Url) and _is_given_url(atom.canonical, session)
        case Kind.PATH:
            return _is_given_path(atom, action, session)
        case Kind.DESTINATION if isinstance(atom.canonical, Url):
            return _is_given_url(atom.canonical, session)
        case Kind.COMMAND | Kind.HOST:
            return False
        case _:
            return is_given(atom, action, session)


def _is_given_url(url: Url, session: Session) -> bool:
    known = session.ledger.lookup(url)
    return known.provenance in _GIVEN and not known.added and not known.below


def _name_of(atom: Atom) -> str:
    return atom.pointer[1:].partition("/")[0].replace("~1", "/").replace("~0", "~")


def _numbers(action: Action, session: Session) -> Iterator[tuple[str, str]]:
    """Yield each number and switch that the person did not write."""
    given, key = session.values, session.values_key
    chosen = {name: value for name, value in action.arguments.items() if name not in action.usual}
    for name, value in _leaves(chosen, ""):
        if isinstance(value, bool):
            if not session.values.own.say(str(value), key):
                yield name, str(value).lower()
        elif isinstance(value, (int, float)) and not (
            (form := number_form(repr(value))) and given.is_given(((form,),), key)
        ):
            yield name, repr(value)


def _leaves(value: object, name: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):
        for key, child in value.items():
            yield from _leaves(child, name or str(key))
    elif isinstance(value, (list, tuple)):
        for child in value:
            yield from _leaves(child, name)
    else:
        yield name, value


def _actionable(action: Action, session: Session) -> Iterator[str]:
    """Yield what can be acted on in the texts of a call, and nobody but others or the model wrote."""
    key = session.values_key
    for atom in _texts(action):
        for value, kind, forms in actionable_in(atom.raw):
            if session.is_endorsed(kind, value, action.effects) or session.values.is_given(forms, key):
                continue
            seen = session.values.seen_in(forms, key)
            is_own = seen is not None and seen.origin not in _OTHERS and seen.origin is not Origin.MODEL
            if not is_own or session.values.is_invented(forms, key):
                yield value
