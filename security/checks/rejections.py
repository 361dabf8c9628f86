"""Find the arguments of a call that match a hallucination pattern, and describe each for `errors`.

The gate `arguments` denies a call with them. Arguments that do not fit the schema never reach that gate, so
`known` reports theirs beside the schema's errors: a model can then correct the call in one attempt.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..call import Action
from ..kinds import Json, Kind
from ..schema import leaves
from ..url import parse_url
from .arguments import PATTERNS, Canonical, Rejection, rejected_pattern

__all__ = ["pattern_errors", "rejections"]

_Part = tuple[str, Kind, str, Canonical, bool]


def rejections(action: Action) -> dict[str, tuple[str, Rejection]]:
    """Return each bad argument with its whole value and the pattern that wins, in the order given."""
    found, whole = dict[str, tuple[str, Rejection]](), dict[str, str]()
    for pointer, kind, text, canonical, declared in _parts(action):
        # The first part of a place is the argument itself, the ones behind it are read out of it.
        whole.setdefault(pointer, text)
        rejection = rejected_pattern(kind, text, canonical, declared=declared)
        if rejection is None:
            continue
        raw = whole[pointer]
        if raw != text:
            rejection = Rejection(rejection.pattern)
        if pointer not in found or _rank(rejection) < _rank(found[pointer][1]):
            found[pointer] = (raw, rejection)
    return found


def _parts(action: Action) -> Iterator[_Part]:
    if action.of is not None:
        # Names of what a trial run changed come from the file system, not from a model.
        return
    for atom in action.atoms:
        yield atom.pointer, atom.kind, atom.raw, atom.canonical, atom.declared
    if not action.problems or action.spec is None:
        return
    # A call with schema errors has no atoms; the kinds of its strings are still known from the schema.
    for leaf in leaves(action.arguments, action.spec.schema):
        # An error quotes the value, which a secret must not be.
        for kind in sorted(leaf.kinds) if Kind.SECRET not in leaf.kinds else ():
            canonical = parse_url(leaf.text) if kind is Kind.URL else ""
            yield leaf.pointer, kind, leaf.text, canonical, kind is not Kind.UNDECLARED


def _rank(rejection: Rejection) -> int:
    return PATTERNS.index(rejection.pattern) if rejection.pattern in PATTERNS else len(PATTERNS)


def pattern_errors(found: dict[str, tuple[str, Rejection]]) -> list[dict[str, Json]]:
    """Return the JSON objects of rejected arguments: `argument`, `rejected_pattern`, `suggestion`, …."""
    return [_error(pointer, raw, rejection) for pointer, (raw, rejection) in found.items()]


def _error(pointer: str, raw: str, rejection: Rejection) -> dict[str, Json]:
    name = _name(pointer)
    error: dict[str, Json] = {
        "message": f"Argument '{name}' contains a rejected pattern",
        "argument": name,
        "input_value": raw,
        "rejected_pattern": rejection.pattern,
        "phase": "validation",
        "retryable": False,
    }
    if rejection.suggestion is not None:
        error["suggestion"] = rejection.suggestion
    return error


def _name(pointer: str) -> str:
    """Return the argument's name: its JSON pointer as a dotted path (`items.0.id`)."""
    parts = pointer.removesuffix("#").split("/")[1:]
    return ".".join(part.replace("~1", "/").replace("~0", "~") for part in parts) or "arguments"
