"""Yield every string of a call's arguments with the kinds its schema declares.

A string may be covered by several branches of a schema (`anyOf`, `$ref`, …); it then has every kind
that any of them names, because a gate must not have to guess which branch the tool will take.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import re2

from .call import pointer_step
from .kinds import EFFECT_KEY, KIND_KEY, Kind
from .lazy import dataclass

__all__ = ["Leaf", "changes", "declared_kinds", "leaves"]

Schema: TypeAlias = Mapping[str, Any]

_SEVERAL = ("anyOf", "oneOf", "allOf")
_CONDITION, _CONSEQUENCES = "if", ("then", "else")


@dataclass(frozen=True, slots=True)
class Leaf:
    """One string, its place (JSON pointer; a trailing `#` means the key itself), and its kinds.

    `only_read`: whatever branch of the schema a tool takes it by, it does no more than read what is there.
    `is_fixed`: it is one of the words that a branch lists, which the tool wrote and not the model.
    """

    pointer: str
    text: str
    kinds: frozenset[Kind]
    only_read: bool = False
    is_fixed: bool = False


def leaves(arguments: Mapping[str, Any], schema: Schema) -> Iterator[Leaf]:
    """Yield every string in the arguments, keys a model chose included, with the kinds it has."""
    yield from _walk(arguments, (schema,), schema, "")


def _walk(value: Any, schemas: Sequence[Schema], root: Schema, pointer: str) -> Iterator[Leaf]:
    branches = _branches(schemas, root)
    if isinstance(value, str):
        allowing = _allowing(branches, value)
        only_read = bool(allowing) and all(branch.get(EFFECT_KEY) == "read" for branch in allowing)
        is_fixed = any("enum" in branch or "const" in branch for branch in allowing)
        kinds = frozenset(map(_kind, allowing)) or frozenset({Kind.UNDECLARED})
        yield Leaf(pointer, value, kinds, only_read, is_fixed)
    elif isinstance(value, Mapping):
        for key, child in value.items():
            below = pointer + pointer_step(key)
            if not any(key in branch.get("properties", {}) for branch in branches):
                yield Leaf(f"{below}#", key, frozenset({Kind.UNDECLARED}))
            yield from _walk(child, _of_key(branches, key), root, below)
    elif isinstance(value, (list, tuple)):
        for index, child in enumerate(value):
            yield from _walk(child, _of_index(branches, index), root, f"{pointer}/{index}")


def changes(given: Any, checked: object, pointer: str = "") -> Iterator[str]:
    """Yield the pointers at which the checked arguments differ from the given ones; defaults may be added."""
    if isinstance(given, Mapping) and isinstance(checked, Mapping):
        for key, value in given.items():
            below = pointer + pointer_step(key)
            if key not in checked:
                yield below
            else:
                yield from changes(value, checked[key], below)
    elif isinstance(given, list) and isinstance(checked, (list, tuple)) and len(given) == len(checked):
        for index, value in enumerate(given):
            yield from changes(value, checked[index], f"{pointer}/{index}")
    elif given != checked or isinstance(given, bool) != isinstance(checked, bool):
        yield pointer


def declared_kinds(schema: Schema) -> Iterator[tuple[str, frozenset[Kind]]]:
    """Yield each place that arguments can have, with the kinds its strings are declared to be.

    In a pointer the last number means all further items of a list, and * a key that no schema
    names. A place that is like another before it is left out, for schemas may refer to themselves.
    """
    waiting: deque[tuple[str, tuple[Schema, ...]]] = deque([("", (schema,))])
    seen: set[frozenset[int]] = set()
    while waiting:
        pointer, schemas = waiting.popleft()
        branches = _branches(schemas, schema)
        place = frozenset(map(id, branches))
        if place in seen:
            continue
        seen.add(place)
        yield pointer, frozenset(_kind(branch) for branch in branches if KIND_KEY in branch)
        names = dict.fromkeys(key for branch in branches for key in branch.get("properties", {}))
        longest = max((len(branch.get("prefixItems", ())) for branch in branches), default=0)
        waiting += ((pointer + pointer_step(key), _of_key(branches, key)) for key in names)
        waiting += ((f"{pointer}/{index}", _of_index(branches, index)) for index in range(longest))
        waiting.append((f"{pointer}/{longest}", _of_index(branches, longest)))
        waiting.append((f"{pointer}/*", _of_other_key(branches)))


def _of_other_key(branches: Sequence[Schema]) -> tuple[Schema, ...]:
    """Return what a key falls under that no branch names; of patterns, any may match it."""
    found = [schema for branch in branches for schema in branch.get("patternProperties", {}).values()]
    found += [branch.get("additionalProperties") for branch in branches]
    return tuple(schema for schema in found if isinstance(schema, Mapping))


def _branches(schemas: Iterable[object], root: Schema) -> tuple[Schema, ...]:
    """Return the schemas and all they combine or refer to, each once, however they refer to each other."""
    found: dict[int, Schema] = {}
    waiting = deque(schemas)
    while waiting:
        schema = waiting.popleft()
        if isinstance(schema, Mapping) and id(schema) not in found:
            found[id(schema)] = schema
            waiting.extend(_combined(schema, root))
    return tuple(found.values())


def _combined(schema: Schema, root: Schema) -> Iterator[object]:
    for word in _SEVERAL:
        yield from schema.get(word, ())
    if _CONDITION in schema:
        # What is asked of a value says nothing of what it is; only what follows does.
        yield from (schema[word] for word in _CONSEQUENCES if word in schema)
    yield from schema.get("dependentSchemas", {}).values()
    if isinstance(schema.get("$ref"), str):
        yield _referred(schema["$ref"], root)


def _referred(reference: str, root: Schema) -> object:
    """Follow a reference inside the document; one that leads elsewhere declares nothing."""
    if reference != "#" and not reference.startswith("#/"):
        return {}
    target: object = root
    for part in reference[1:].split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(target, list) and key.isdecimal() and int(key) < len(target):
            target = target[int(key)]
        else:
            target = target.get(key, {}) if isinstance(target, Mapping) else {}
    return target


def _allowing(branches: Sequence[Schema], text: str) -> list[Schema]:
    """Return the branches by which a tool may take a string."""
    return [branch for branch in branches if _allows(branch, text) and not _only_combines(branch)]


def _only_combines(branch: Schema) -> bool:
    """Whether a schema leaves it to others to say what a string is."""
    if KIND_KEY in branch or "enum" in branch or "const" in branch:
        return False
    decides = all(word in branch for word in (_CONDITION, *_CONSEQUENCES))
    return decides or any(word in branch for word in (*_SEVERAL, "$ref"))


def _allows(branch: Schema, text: str) -> bool:
    """Whether a branch may be the one a string is taken by; another's fixed words say nothing of it."""
    kind = branch.get("type")
    if "const" in branch and branch["const"] != text:
        return False
    if "enum" in branch and text not in branch["enum"]:
        return False
    return kind is None or kind == "string" or (isinstance(kind, list) and "string" in kind)


def _kind(branch: Schema) -> Kind:
    """Return the kind a branch declares; words of a fixed list come from the tool, not the model."""
    declared = branch.get(KIND_KEY)
    if isinstance(declared, str) and declared in set(Kind):
        return Kind(declared)
    return Kind.TEXT if "enum" in branch or "const" in branch else Kind.UNDECLARED


def _of_key(branches: Sequence[Schema], key: str) -> tuple[Schema, ...]:
    found: list[Schema] = []
    for branch in branches:
        named = [branch["properties"][key]] if key in branch.get("properties", {}) else []
        patterns = branch.get("patternProperties", {}).items()
        named += [schema for pattern, schema in patterns if _may_match(pattern, key)]
        rest = (branch.get("additionalProperties"), branch.get("unevaluatedProperties"))
        found.extend(named or [schema for schema in rest if isinstance(schema, Mapping)])
    return tuple(found)


def _may_match(pattern: str, key: str) -> bool:
    """Whether a key falls under a pattern; one this reader cannot read (they are ECMA's) may match all."""
    expression = _linear(pattern)
    return expression is None or expression.search(key) is not None


@lru_cache(maxsize=256)
def _linear(pattern: str) -> Any | None:
    """Return what takes linear time for any key: the pattern is the tool's, the key the model's."""
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError):
        return None


def _of_index(branches: Sequence[Schema], index: int) -> tuple[Schema, ...]:
    found: list[object] = []
    for branch in branches:
        items = branch.get("items")
        # Before draft 2020-12 a list under `items` was what `prefixItems` is.
        prefix = items if isinstance(items, list) else branch.get("prefixItems", ())
        rest = branch.get("additionalItems") if isinstance(items, list) else items
        found.append(prefix[index] if index < len(prefix) else rest)
        found += [branch.get("contains"), branch.get("unevaluatedItems")]
    return tuple(schema for schema in found if isinstance(schema, Mapping))
