"""List the configuration keys with their accepted values, and suggest the key a misspelt name may mean.

All of it is read off the models, so that errors, the example and the reference say what the code does.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types
from pydantic.fields import FieldInfo

from leeward.security.lazy import dataclass, regex

from .models import Config
from .narrowing import Narrowing
from .toml_lines import KeyPath
from .types import Expected, Gathered, Private, Section

__all__ = ["KEYS", "SECTIONS", "Key", "dotted", "expected_at", "found", "is_private", "nearest", "printable"]

_BARE = regex(r"[A-Za-z0-9_-]+")
_SHOWN = 60
_LONGEST_NAME = 128


@dataclass(frozen=True, slots=True)
class Key:
    """One key that is set as a whole: a value, a list, or a table with names of the person's choice."""

    path: tuple[str, ...]
    field: FieldInfo
    default: object

    @property
    def description(self) -> str:
        """What it means, in a sentence."""
        return self.field.description or ""

    @property
    def expected(self) -> str:
        """What a good value is."""
        return _expected(self.field.annotation, self.field.metadata)

    @property
    def narrowing(self) -> Narrowing | None:
        """How a workspace may set it; None: not at all."""
        return next((item for item in self.field.metadata if isinstance(item, Narrowing)), None)

    @property
    def is_text(self) -> bool:
        """Whether its value is a string, so that words need no quotes where they cannot be mistaken."""
        annotation = self.field.annotation
        return annotation is str or get_origin(annotation) is Literal

    @property
    def is_table(self) -> bool:
        """Whether it is a table whose names are the person's own."""
        return get_origin(self.field.annotation) is Mapping

    @property
    def is_gathered(self) -> bool:
        """Whether its entries of all layers hold together."""
        return any(isinstance(item, Gathered) for item in self.field.metadata)

    @property
    def entry(self) -> type[Section] | None:
        """The model of its entries where these are tables, in an array or by names of the person's own."""
        arguments = get_args(self.field.annotation)
        return next((one for one in arguments if _is_section(one)), None)


def _is_section(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Section)


def _walk(
    model: type[Section], path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Key | type[Section]]]:
    """Yield every section and key below a model, a section before what it holds, keys before sections."""
    yield path, model
    inner: list[tuple[tuple[str, ...], type[Section]]] = []
    for name, info in model.model_fields.items():
        annotation: Any = info.annotation
        if _is_section(annotation):
            inner.append(((*path, name), annotation))
        else:
            default = () if info.is_required() else info.default
            yield (*path, name), Key((*path, name), info, default)
    for place, section in inner:
        yield from _walk(section, place)


_ALL = dict(_walk(Config, ()))

KEYS: Mapping[KeyPath, Key] = MappingProxyType({k: v for k, v in _ALL.items() if isinstance(v, Key)})
"""Every key by its path, in the order in which they are written down."""

SECTIONS: Mapping[KeyPath, type[Section]] = MappingProxyType(
    {k: v for k, v in _ALL.items() if not isinstance(v, Key)}
)
"""Every table with fixed names, the root first."""


def _resolve(loc: KeyPath) -> tuple[Any, list[Any]] | None:
    """Return type and metadata of the value at a path, entries of lists and tables included.

    A path that ends in `[key]` below an entry of a table is about the entry's name, as in pydantic's errors.
    """
    annotation: Any = Config
    names: Any = str
    metadata: list[object] = []
    for part in loc:
        if _is_section(annotation) and part != "[key]":
            info = annotation.model_fields.get(part)
            if info is None:
                return None
            annotation, metadata = info.annotation, list(info.metadata)
            continue
        if get_origin(annotation) is Mapping:
            names, annotation = get_args(annotation)
        else:
            annotation = get_args(annotation)[0] if get_origin(annotation) is tuple else names
        metadata = []
        if get_origin(annotation) is Annotated:
            annotation, *metadata = get_args(annotation)
    return annotation, metadata


def expected_at(loc: KeyPath) -> str:
    """Say what a good value at a path is, "" where there is no such key."""
    resolved = _resolve(loc)
    return "" if resolved is None else _expected(*resolved)


def is_private(loc: KeyPath) -> bool:
    """Whether the value at a path may hold a secret; a name nobody knows might."""
    resolved = _resolve(loc)
    return resolved is None or any(isinstance(item, Private) for item in resolved[1])


def _expected(annotation: Any, metadata: Iterable[Any]) -> str:
    """Put a type and its limits into words."""
    text = next((item.text for item in metadata if isinstance(item, Expected)), None)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _expected(arguments[0], arguments[1:])
    if origin in {Union, UnionType}:
        return text or _expected(next(one for one in arguments if one is not NoneType), ())
    if origin is tuple:
        each = "tables" if _is_section(arguments[0]) else f"strings, each {_expected(arguments[0], ())}"
        return f"a list of {each}"
    if origin is Mapping:
        return f"a table of names, each with {_expected(arguments[1], ())}"
    if origin is Literal:
        *most, last = (json.dumps(word) for word in arguments)
        return f"{', '.join(most)} or {last}" if most else last
    if _is_section(annotation):
        return "a table"
    words = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}
    return text or words[annotation] + _limits(metadata)


def _limits(metadata: Iterable[Any]) -> str:
    """Put the limits of a number into words: " from 1 to 20", " above 0 and up to 1"."""
    least = most = above = ""
    for limit in metadata:
        match limit:
            case annotated_types.Ge(ge):
                least = f" from {ge}"
            case annotated_types.Gt(gt):
                above = f" above {gt} and"
            case annotated_types.Le(le):
                most = f" to {le}"
    return f"{above} up{most}" if above else least + most


def found(value: object, loc: KeyPath) -> str:
    """Show a value in an error: short, escaped, and only its type where it might be secret."""
    match value:
        case bool():
            return "true" if value else "false"
        case list() | tuple():
            return "a list" if value else "an empty list"
        case dict():
            return "a table"
        case None:
            return "nothing"
        case str() if is_private(loc):
            return "a string (not shown)"
        case str():
            text = json.dumps(value[:_SHOWN])
            return text if len(value) <= _SHOWN else f"{text} and more"
        case int() | float():
            return repr(value) if not isinstance(value, int) or abs(value) < 10**18 else "a very large number"
    return f"a {type(value).__name__}"


def nearest(word: str, names: Iterable[str]) -> str | None:
    """Return the name a misspelt word most likely means, or None."""
    close = difflib.get_close_matches(word[:_SHOWN].lower(), list(names), n=1, cutoff=0.6)
    return close[0] if close else None


def dotted(path: KeyPath) -> str:
    """Write a path as TOML writes a key, entries of lists by number; unusual names quoted and escaped."""
    parts = (text if len(text) <= _LONGEST_NAME else f"{text[:_LONGEST_NAME]}..." for text in map(str, path))
    return ".".join(part if _BARE.fullmatch(part) else json.dumps(part) for part in parts)


def printable(text: str) -> str:
    """Escape what would move a terminal's cursor, hide or reorder text."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
