"""Which values of a call did its tool declare secret, and how is a call shown and kept without them?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from .action import canonical_json
from .call import Action, ToolSpec, pointer_step
from .kinds import KIND_KEY, Kind
from .schema import Leaf, leaves

__all__ = ["HIDDEN", "secrets_in", "shown_arguments", "takes_secret", "without_secrets"]

HIDDEN = "[redacted:secret]"
"""What stands in the place of a value that was declared secret."""


def secrets_in(action: Action) -> frozenset[str]:
    """Return the values that were declared secret, also where the rest of the call does not fit its tool."""
    return frozenset(leaf.text for leaf in _secret_leaves(action) if leaf.text)


def shown_arguments(action: Action) -> str:
    """Return the canonical JSON of an action's arguments, or the text that was none, without its secrets."""
    if not action.arguments:
        return without_secrets(action.call.arguments, action.spec)
    pointers = {leaf.pointer for leaf in _secret_leaves(action)}
    return canonical_json(_hidden(action.arguments, "", pointers) if pointers else action.arguments)


def without_secrets(arguments: str, spec: ToolSpec | None) -> str:
    """Return the arguments of a call as they may be shown and kept; what cannot be read is hidden whole."""
    if spec is None or not arguments.strip() or not takes_secret(spec.schema):
        return arguments
    try:
        given = json.loads(arguments)
        if not isinstance(given, dict):
            return HIDDEN
        pointers = {leaf.pointer for leaf in leaves(given, spec.schema) if Kind.SECRET in leaf.kinds}
        return json.dumps(_hidden(given, "", pointers), ensure_ascii=False) if pointers else arguments
    except (ValueError, RecursionError):
        return HIDDEN


def takes_secret(schema: Any) -> bool:
    """Whether a value is declared secret anywhere in a schema."""
    if isinstance(schema, Mapping):
        return schema.get(KIND_KEY) == Kind.SECRET or any(map(takes_secret, schema.values()))
    return isinstance(schema, (list, tuple)) and any(map(takes_secret, schema))


def _secret_leaves(action: Action) -> Iterator[Leaf]:
    """Yield the leaves that were declared secret; an action with problems has no atoms to tell them by."""
    if action.problems and action.spec is not None:
        found = leaves(action.arguments, action.spec.schema)
        yield from (leaf for leaf in found if Kind.SECRET in leaf.kinds)
    for atom in action.of_kind(Kind.SECRET):
        yield Leaf(atom.pointer, atom.raw, frozenset({atom.kind}))


def _hidden(value: Any, pointer: str, pointers: set[str]) -> Any:
    if pointer in pointers:
        return HIDDEN
    if isinstance(value, Mapping):
        return {key: _hidden(child, pointer + pointer_step(key), pointers) for key, child in value.items()}
    if isinstance(value, (list, tuple)):
        return [_hidden(child, pointer + pointer_step(index), pointers) for index, child in enumerate(value)]
    return value
