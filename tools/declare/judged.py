"""Put what was judged where the text of an argument stands, and text where a judged value is returned.

The check leaves text in the values it makes, so validators of a tool always see text. When the call runs,
each argument declared a path or a URL becomes the value that the gates judged at its place, and a command
line the one that is to be run. Where that cannot be done the call ends: no function gets the text itself.
"""

from __future__ import annotations

import copy
import dataclasses
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeAlias, TypeVar

from pydantic import BaseModel, RootModel
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from leeward.security.call import Atom
from leeward.security.kinds import Kind
from leeward.security.outcome import PolicyBlocked
from leeward.security.paths import ResolvedPath
from leeward.security.schema import leaves
from leeward.security.url import Url

from .kinds import JUDGED

__all__ = ["Replacements", "as_text", "judged_values", "with_judged"]

_K = TypeVar("_K")

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
    """Return a copy of a checked value with the judged values in it; `judged` is what stands at this place.

    Raises:
        PolicyBlocked: the tool's own validators left something there that has no such place.
    """
    if not isinstance(judged, dict) and isinstance(value, str):
        return judged
    match value:
        case RootModel():
            return value.model_copy(update={"root": with_judged(value.root, judged)})
        case _ if not isinstance(judged, dict):
            pass  # A validator made something else of the text, which nobody judged.
        case BaseModel():
            return _model_with(value, judged)
        case dict():
            return _mapping_with(value, judged)
        case list() | tuple() | deque():
            items = dict(enumerate(value))
            items.update(_changed({str(index): index for index in items}, items.get, judged))
            return getattr(value, "_make", type(value))(items.values())
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return _data_class_with(value, judged)
    kind = type(value).__name__
    raise PolicyBlocked(f"the tool makes a {kind} of an argument, in which the judged value has no place")


def _model_with(value: BaseModel, judged: Mapping[str, object]) -> BaseModel:
    told, extra = type(value).model_fields, value.__pydantic_extra__ or {}
    values = {name: getattr(value, name) for name in told} | extra
    return value.model_copy(update=_changed(_names(values, told), values.get, judged))


def _data_class_with(value: Any, judged: Mapping[str, object]) -> object:
    told = getattr(type(value), "__pydantic_fields__", {})
    names = _names((field.name for field in dataclasses.fields(value)), told)
    changed, copied = _changed(names, partial(getattr, value), judged), copy.copy(value)
    for name, new in changed.items():
        object.__setattr__(copied, name, new)  # It may be frozen.
    return copied


def _mapping_with(value: dict[object, object], judged: Mapping[str, object]) -> dict[object, object]:
    # Keys may be numbers, or words of an enumeration; here they are as JSON has them.
    names = {next(iter(to_jsonable_python({key: None}))): key for key in value}
    changed, copied = _changed(names, value.get, judged), copy.copy(value)
    copied.update(changed)
    return copied


def _changed(
    names: Mapping[str, _K], get: Callable[[_K], object], judged: Mapping[str, object]
) -> dict[_K, object]:
    """Return what changes in a container; `names` tells what it calls that which JSON calls otherwise."""
    if not judged.keys() <= names.keys():
        raise PolicyBlocked("the tool leaves out an argument that was judged")
    return {names[step]: with_judged(get(names[step]), below) for step, below in judged.items()}


def _names(fields: Iterable[str], told: Mapping[str, FieldInfo]) -> dict[str, str]:
    """Return the fields of a model or data class by the names they have in JSON."""
    return {(told[name].serialization_alias if name in told else None) or name: name for name in fields}


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
