"""Build the details a question shows about a call, and find values that are too long to review.

Of a value that is too long both ends are shown, for the end is where something is hidden. A person says yes
to it only once all of it was shown, and never for longer than one call.
"""

from __future__ import annotations

from collections.abc import Iterator

from . import command
from .action import canonical_json
from .call import Action, Atom
from .kinds import CommandLine, Kind
from .lazy import dataclass, regex
from .text import look_alike_flags, visible

__all__ = [
    "ACTS",
    "Ends",
    "arguments_of",
    "ends_of",
    "flags_of",
    "is_act",
    "is_taken_in",
    "quoted_name",
    "too_long",
]

ACTS = {Kind.COMMAND: "runs", Kind.PATH: "path", Kind.URL: "opens"}
"""What a call does, by the kind of what it does it with; these are always shown in full."""

_PLAIN_NAME = regex(r"[A-Za-z][A-Za-z0-9_]{0,39}")
_LONGEST_NAME = 60
_LONGEST_HEAD, _LONGEST_TAIL = 2000, 1000
_HEAD_LINES, _TAIL_LINES = 20, 10
_LONGEST_ACT = 1000  # characters of a path or URL that a person takes in at a glance, at most


@dataclass(frozen=True, slots=True)
class Ends:
    """The beginning and the end of a value, and the number of characters in between (none: all is shown)."""

    head: str
    missing: int = 0
    tail: str = ""


def ends_of(value: str) -> Ends:
    """Return both ends of a value, up to a number of characters and of lines."""
    if len(value) <= _LONGEST_HEAD + _LONGEST_TAIL and value.count("\n") < _HEAD_LINES + _TAIL_LINES:
        return Ends(value)
    head = "\n".join(value[:_LONGEST_HEAD].split("\n")[:_HEAD_LINES])
    tail = "\n".join(value[-_LONGEST_TAIL:].split("\n")[-_TAIL_LINES:])
    return Ends(head, len(value) - len(head) - len(tail), tail)


def too_long(action: Action) -> tuple[str, ...]:
    """Return the names of what a person cannot take in at once: what the call does, and its arguments."""
    acts = (ACTS[atom.kind] for atom in action.atoms if is_act(atom) and not is_taken_in(atom))
    rest = (name for name, value in arguments_of(action) if ends_of(value).missing)
    return tuple(dict.fromkeys((*acts, *rest)))


def is_act(atom: Atom) -> bool:
    """Whether an atom is shown as what the call does."""
    return atom.declared and atom.kind in ACTS


def is_taken_in(atom: Atom) -> bool:
    """Whether a person takes in at a glance what a call does."""
    if isinstance(atom.canonical, CommandLine):
        return command.is_shown_in_full(command.explain(atom.canonical, atom.raw))
    return len(atom.shown) <= _LONGEST_ACT


def arguments_of(action: Action) -> Iterator[tuple[str, str]]:
    """Yield the arguments that are not shown as what the call does, by name; a preview replaces its own."""
    pointers = {atom.pointer for atom in action.atoms if is_act(atom)}
    secrets = {atom.raw for atom in action.of_kind(Kind.SECRET) if atom.declared and atom.raw}
    preview = action.preview()
    if preview is not None:
        yield preview.name, preview.text
        pointers |= {f"/{key}" for key in preview.instead_of}
    for key, value in action.arguments.items():
        if f"/{key}" in pointers or _is_default(action, key, value):
            continue
        shown = value if isinstance(value, str) else canonical_json(value)
        for secret in secrets:
            shown = shown.replace(secret, "[secret]")
        plain = _PLAIN_NAME.fullmatch(key) and key not in ACTS.values()
        yield key if plain else quoted_name(key), shown


def flags_of(action: Action) -> tuple[str, ...]:
    """Return which letters of a call pass for those of another script: in its name, acts and arguments."""
    values = (value for _, value in arguments_of(action))
    acts = (atom.raw for atom in action.atoms if is_act(atom))
    # One by one: what is written in one value says nothing about the script of another.
    flags = (flag for text in (action.call.tool, *acts, *values) for flag in look_alike_flags(text))
    return tuple(dict.fromkeys(flags))


def quoted_name(name: str) -> str:
    """Return a name that somebody else chose so that it cannot be mistaken for one of ours."""
    shown = visible(canonical_json(name))
    return shown if len(shown) <= _LONGEST_NAME else f"{shown[:_LONGEST_NAME]}…"


def _is_default(action: Action, key: str, value: object) -> bool:
    """Whether a switch or a number is what it is where nobody says it; it then says nothing."""
    declared = action.spec.schema.get("properties", {}).get(key, {}) if action.spec is not None else {}
    usual = declared.get("default")
    return isinstance(value, int) and type(usual) is type(value) and usual == value
