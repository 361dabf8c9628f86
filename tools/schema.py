"""How is a JSON Schema walked, without taking data that stands in it for more schema?

Everything that rewrites or inspects a tool's schema goes through here; what a kind means to a
reader of arguments is `security/kinds.py`'s business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from leeward.security import KIND_KEY, Kind

__all__ = ["Schema", "guarded", "nodes", "rewritten"]

Schema: TypeAlias = dict[str, Any]

_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTED = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = (
    "items",
    "additionalItems",
    "additionalProperties",
    "contains",
    "else",
    "if",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
)


def nodes(schema: object) -> Iterator[Schema]:
    """Yield a schema and every schema in it, outer ones first; `true` and `false` are left out."""
    if not isinstance(schema, dict):
        return
    yield schema
    for word, child in schema.items():
        if word in _NAMED and isinstance(child, Mapping):
            for named in child.values():
                yield from nodes(named)
        elif word in (*_LISTED, "items") and isinstance(child, list):
            for listed in child:
                yield from nodes(listed)
        elif word in _SINGLE:
            yield from nodes(child)


def rewritten(schema: object, change: Callable[[Schema], Schema]) -> Any:
    """Return a copy in which every schema that declares no kind was changed, inner ones first."""
    if schema is True:
        # Anything is admitted, so a string is too.
        schema = {}
    if not isinstance(schema, dict) or KIND_KEY in schema:
        return schema
    copy: Schema = {}
    for word, child in schema.items():
        if word in _NAMED and isinstance(child, Mapping):
            copy[word] = {name: rewritten(named, change) for name, named in child.items()}
        elif word in (*_LISTED, "items") and isinstance(child, list):
            copy[word] = [rewritten(listed, change) for listed in child]
        elif word in _SINGLE and word != "propertyNames":
            copy[word] = rewritten(child, change)
        else:
            copy[word] = child
    return change(copy)


def guarded(schema: Mapping[str, Any]) -> Schema:
    """Return the schema with each string that nobody declared declared a URL.

    Words from a fixed list stay as they are: the tool wrote those, not the model.
    """
    result: Schema = rewritten(dict(schema), _as_url)
    return result


def _as_url(schema: Schema) -> Schema:
    """Declare one schema a URL if it could admit a string, and close what it leaves open."""
    if "enum" in schema or "const" in schema:
        return schema
    if _allows(schema, "object") and schema.get("additionalProperties", True) is True:
        # A key that the schema does not name may still be sent, and may hold a URL like any other.
        schema = {**schema, "additionalProperties": {KIND_KEY: str(Kind.URL)}}
    if _allows(schema, "array") and schema.get("items", True) is True:
        schema = {**schema, "items": {KIND_KEY: str(Kind.URL)}}
    refers = any(word in schema for word in ("$ref", "anyOf", "oneOf", "allOf"))
    if _allows(schema, "string") and not refers:
        schema = {**schema, KIND_KEY: str(Kind.URL)}
    return schema


def _allows(schema: Schema, name: str) -> bool:
    """Whether a schema admits values of a type; one that names no type admits all."""
    kind = schema.get("type")
    return kind is None or kind == name or (isinstance(kind, list) and name in kind)
