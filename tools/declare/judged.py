"""Replace argument texts by their judged values (paths, URLs) before a function runs, and back in results.

The check leaves text in the values it makes, so validators of a tool always see text. When the call runs,
each argument declared a path or a URL becomes the value that the gates judged at its place, and a command
line the one that is to be run. Where that cannot be done the call ends: no function gets the text itself.
"""

from __future__ import annotations

import copy
import dataclasses
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from pathlib import PurePath
from typing import Any, NamedTuple, TypeAlias

from pydantic import BaseModel, RootModel
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from leeward.security.call import Atom, pointer_step
from leeward.security.kinds import Kind
from leeward.security.outcome import PolicyBlocked
from leeward.security.paths import ResolvedPath
from leeward.security.schema import leaves
from leeward.security.url import Url

from .kinds import JUDGED

__all__ = ["Replacements", "as_text", "differences", "judged_values", "with_judged"]

Replacements: TypeAlias = "dict[str, Replacements | Url | ResolvedPath | str]"
"""What comes in the place of texts, by the steps that lead there from the arguments object."""


def judged_values(
    arguments: Mapping[str, object], schema: Mapping[str, object], atoms: Iterable[Atom]
) -> Replacements:
    """Return what a function gets instead of the texts its schema declares; `arguments` are as they are run.

    A word that the schema lists stays: the tool wrote it.

    Raises:
        PolicyBlocked: one of them was not judged, or not as what the function declares.
    """
    judged = {(atom.kind, atom.pointer): atom.canonical for atom in atoms if atom.declared}
    found: Replacements = {}
    for leaf in leaves(arguments, schema):
        kind = next((kind for kind in (*JUDGED, Kind.COMMAND) if kind in leaf.kinds), None)
        if kind is None or leaf.is_fixed:
            continue
        value: object = judged.get((kind, leaf.pointer))
        if value is None or not isinstance(value, JUDGED.get(kind, object)):
            raise PolicyBlocked(f"no {kind} was judged for the argument at {leaf.pointer}")
        *folders, last = (step.replace("~1", "/").replace("~0", "~") for step in leaf.pointer.split("/")[1:])
        below: Any = found
        for step in folders:
            below = below.setdefault(step, {})
        below[last] = leaf.text if kind is Kind.COMMAND else value
    return found


def with_judged(value: object, judged: object) -> object:
    """Return a copy of a checked value with the judged values in it; `judged` belongs to this place.

    Raises:
        PolicyBlocked: the tool's own validators left something there that has no such place.
    """
    if isinstance(value, RootModel):
        return value.model_copy(update={"root": with_judged(value.root, judged)})
    if isinstance(value, str) and not isinstance(judged, dict):
        return judged
    parts = _parts(value)
    if parts is None or not isinstance(judged, dict):
        # A validator made something else of the text, which nobody judged.
        kind = type(value).__name__
        raise PolicyBlocked(f"the tool converts an argument to a {kind}, which cannot hold the judged value")
    if not judged.keys() <= parts.keys():
        raise PolicyBlocked("the tool leaves out an argument that was judged")
    return _replaced(
        value, {parts[step].name: with_judged(parts[step].value, below) for step, below in judged.items()}
    )


def differences(value: object, dumped: object, pointer: str = "") -> Iterator[str]:
    """Yield the pointers at which a checked value is not what was dumped of it, and so is judged.

    Such a value would run unjudged: a serializer of the tool undid what a validator made of the argument.
    What JSON has no value for (bytes, a date) is written as the tool and pydantic write it.
    """
    if isinstance(value, RootModel):
        yield from differences(value.root, dumped, pointer)
        return
    if value is None or isinstance(value, (str, int, float, Enum, PurePath)):
        if to_jsonable_python(value) != dumped:
            yield pointer
        return
    parts = _parts(value)
    if parts is None:
        return
    shown = dumped if isinstance(dumped, dict) else dict(_numbered(dumped))
    for step, part in parts.items():
        if step in shown:
            yield from differences(part.value, shown[step], pointer + pointer_step(step))
        elif part.is_given:
            yield pointer


class _Part(NamedTuple):
    """A value in a container, by the container's own name for it.

    It is no default: the call, or a validator, gave it.
    """

    name: Any
    value: object
    is_given: bool = True


def _parts(value: object) -> dict[str, _Part] | None:
    """Return what a container holds, by the steps of JSON pointers; None for what is no container."""
    match value:
        case BaseModel():
            extra = value.__pydantic_extra__ or {}
            names = (*type(value).model_fields, *extra)
            found = (_Part(name, getattr(value, name), name in value.model_fields_set) for name in names)
            return _by_alias(found, type(value).model_fields)
        case dict():
            # Keys may be numbers, or words of an enumeration; here they are as JSON has them.
            return {next(iter(to_jsonable_python({key: None}))): _Part(key, value[key]) for key in value}
        case list() | tuple() | deque():
            return {step: _Part(int(step), item) for step, item in _numbered(value)}
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = tuple(field.name for field in dataclasses.fields(value))
            found = (_Part(name, getattr(value, name), is_given=False) for name in names)
            return _by_alias(found, getattr(type(value), "__pydantic_fields__", {}))
    return None


def _by_alias(parts: Iterable[_Part], fields: Mapping[str, FieldInfo]) -> dict[str, _Part]:
    """Return fields by the names they have in JSON, without those that are never written."""
    found: dict[str, _Part] = {}
    for part in parts:
        field = fields.get(part.name)
        if field is None or not field.exclude:
            found[(field and field.serialization_alias) or part.name] = part
    return found


def _numbered(value: object) -> Iterator[tuple[str, object]]:
    items = value if isinstance(value, (list, tuple, deque)) else ()
    return ((str(index), item) for index, item in enumerate(items))


def _replaced(value: Any, changed: dict[Any, object]) -> object:
    """Return a copy of a container with other values under some of its own names."""
    match value:
        case BaseModel():
            return value.model_copy(update=changed)
        case list() | tuple() | deque():
            items = [changed.get(index, item) for index, item in enumerate(value)]
            return getattr(value, "_make", type(value))(items)
    copied = copy.copy(value)
    if isinstance(copied, dict):
        copied.update(changed)
        return copied
    for name, new in changed.items():
        object.__setattr__(copied, name, new)  # It may be frozen.
    return copied


def as_text(value: object) -> object:
    """Return what a tool returned with judged values as their text; models do that themselves."""
    match value:
        case Url() | ResolvedPath():
            return str(value)
        case dict():
            return {as_text(key): as_text(child) for key, child in value.items()}
        case list() | tuple() | deque():
            return [as_text(child) for child in value]
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            if hasattr(value, "__pydantic_serializer__"):
                return value
            return {field.name: as_text(getattr(value, field.name)) for field in dataclasses.fields(value)}
        case _:
            return value
