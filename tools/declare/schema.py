"""Walk a JSON Schema without mistaking data inside it for schema.

Everything that rewrites or inspects a tool's schema goes through here. What a kind means to a reader of
arguments is defined in `security/kinds.py`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from leeward.security.kinds import KIND_KEY, Kind

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
    changed: Schema = {}
    for word, child in schema.items():
        if word in _NAMED and isinstance(child, Mapping):
            changed[word] = {name: rewritten(named, change) for name, named in child.items()}
        elif word in (*_LISTED, "items") and isinstance(child, list):
            changed[word] = [rewritten(listed, change) for listed in child]
        elif word in _SINGLE and word != "propertyNames":
            changed[word] = rewritten(child, change)
        else:
            changed[word] = child
    return change(changed)


def guarded(schema: Mapping[str, Any], *, is_foreign: bool = False) -> Schema:
    """Return the schema with each string that nobody declared declared a URL.

    Words from a fixed list stay as they are: the tool wrote those, not the model. Of a foreign tool
    `Text` is not taken at its word: it is a URL, too, where the tool names no other argument as one,
    and is else judged by everything it could be.
    """
    result: Schema = rewritten(dict(schema), _as_url)
    if is_foreign:
        names_url = any(node.get(KIND_KEY) == Kind.URL for node in nodes(dict(schema)))
        result = copy.deepcopy(result)
        for node in nodes(result):
            if node.get(KIND_KEY) == Kind.TEXT and not node.keys() & {"enum", "const"}:
                node[KIND_KEY] = str(Kind.UNDECLARED if names_url else Kind.URL)
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
