"""Which strings do some arguments hold, and what does the schema declare each of them to be?

A string may sit under several branches of a schema (`anyOf`, `$ref`, …); it is then all the kinds
any of them names, because a gate must not have to guess which branch the tool will take.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from .call import KIND_KEY, Kind

__all__ = ["Leaf", "leaves"]

Schema: TypeAlias = Mapping[str, Any]

_COMBINATORS = ("anyOf", "oneOf", "allOf")


@dataclass(frozen=True, slots=True)
class Leaf:
    """One string, where it stands (JSON pointer; a trailing `#` means the key itself), and its kinds."""

    pointer: str
    text: str
    kinds: frozenset[Kind]


def leaves(arguments: Mapping[str, Any], schema: Schema) -> Iterator[Leaf]:
    """Yield every string in the arguments, keys a model chose included, with the kinds it has."""
    yield from _walk(arguments, (schema,), schema, "")


def _walk(value: Any, schemas: Sequence[Schema], root: Schema, pointer: str) -> Iterator[Leaf]:
    branches = tuple(branch for schema in schemas for branch in _branches(schema, root, ()))
    if isinstance(value, str):
        yield Leaf(pointer, value, _kinds(branches))
    elif isinstance(value, Mapping):
        for key, child in value.items():
            below = f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}"
            if not any(key in branch.get("properties", {}) for branch in branches):
                yield Leaf(f"{below}#", key, frozenset({Kind.UNDECLARED}))
            yield from _walk(child, _of_key(branches, key), root, below)
    elif isinstance(value, (list, tuple)):
        for index, child in enumerate(value):
            yield from _walk(child, _of_index(branches, index), root, f"{pointer}/{index}")


def _branches(schema: Any, root: Schema, seen: tuple[str, ...]) -> Iterator[Schema]:
    """Yield the schema and everything it combines or refers to; a reference is followed once."""
    if not isinstance(schema, Mapping):
        return
    reference = schema.get("$ref")
    combined = [part for word in _COMBINATORS for part in schema.get(word, ())]
    if KIND_KEY in schema or not (combined or reference):
        yield schema
    for part in combined:
        yield from _branches(part, root, seen)
    if isinstance(reference, str) and reference not in seen:
        yield from _branches(_referred(reference, root), root, (*seen, reference))


def _referred(reference: str, root: Schema) -> Any:
    """Follow a reference inside the document; one that leads elsewhere declares nothing."""
    if not reference.startswith("#"):
        return {}
    target: Any = root
    for part in reference[1:].split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        target = target.get(key, {}) if isinstance(target, Mapping) else {}
    return target


def _kinds(branches: Sequence[Schema]) -> frozenset[Kind]:
    allowing = [branch for branch in branches if _allows_string(branch)]
    return frozenset(map(_kind, allowing)) or frozenset({Kind.UNDECLARED})


def _allows_string(branch: Schema) -> bool:
    kind = branch.get("type")
    return kind is None or kind == "string" or (isinstance(kind, list) and "string" in kind)


def _kind(branch: Schema) -> Kind:
    """The kind a branch declares; one of a fixed list of words was written by the tool, not the model."""
    declared = branch.get(KIND_KEY)
    if isinstance(declared, str) and declared in set(Kind):
        return Kind(declared)
    return Kind.TEXT if "enum" in branch or "const" in branch else Kind.UNDECLARED


def _of_key(branches: Sequence[Schema], key: str) -> tuple[Schema, ...]:
    found: list[Schema] = []
    for branch in branches:
        if key in branch.get("properties", {}):
            found.append(branch["properties"][key])
            continue
        patterns = branch.get("patternProperties", {})
        matching = [schema for pattern, schema in patterns.items() if re.search(pattern, key)]
        extra = branch.get("additionalProperties")
        found.extend(matching or ([extra] if isinstance(extra, Mapping) else []))
    return tuple(found)


def _of_index(branches: Sequence[Schema], index: int) -> tuple[Schema, ...]:
    found: list[Schema] = []
    for branch in branches:
        prefix = branch.get("prefixItems", ())
        items = prefix[index] if index < len(prefix) else branch.get("items")
        if isinstance(items, Mapping):
            found.append(items)
    return tuple(found)
