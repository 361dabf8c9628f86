"""Do some arguments fit a JSON Schema that a tool brought along?

For tools that have no signature: whole executors, servers that describe themselves. The schema is a
stranger's text, so it may refer to nothing outside itself, and its patterns may not run for ever.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from typing import Any

import jsonschema_rs

from leeward.security.call import Checked, Problem, pointer_step
from leeward.security.outcome import Category

from .schema import Schema, nodes
from .validation import plain

__all__ = ["checker", "own_schema"]

# A pattern with look-around cannot run in linear time; past this many steps it counts as not matching.
_BACKTRACK_LIMIT = 100_000

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


def own_schema(schema: Mapping[str, Any]) -> Schema:
    """Return a copy of a tool's schema that its author can no longer change.

    Raises:
        ValueError: it is no schema of an object, or it refers to something outside itself.
    """
    own: Schema = copy.deepcopy(dict(schema))
    if own.setdefault("type", "object") != "object":
        raise ValueError("the schema of a tool's arguments must be that of an object")
    for node in nodes(own):
        for word in _REFERENCES:
            target = node.get(word, "#")
            if not isinstance(target, str) or not target.startswith("#"):
                raise ValueError(f"the schema refers to {target!r}; only references within it are followed")
    return own


def checker(schema: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], Checked]:
    """Return the check for a schema that `own_schema` made.

    Defaults of the arguments themselves are filled in before checking; deeper ones are the tool's
    own affair. Unknown arguments are refused where the schema says so.

    Raises:
        ValueError: the schema is not valid.
    """
    try:
        validator = jsonschema_rs.validator_for(
            dict(schema),
            mask="the value",
            offline=True,
            pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACK_LIMIT),
        )
    except jsonschema_rs.ValidationError as error:
        raise ValueError(f"the schema is not valid: {error.message}") from error
    properties = schema.get("properties", {})
    defaults = {
        name: child["default"]
        for name, child in properties.items()
        if isinstance(child, dict) and "default" in child
    }

    def check(arguments: Mapping[str, Any]) -> Checked:
        full = copy.deepcopy(defaults) | plain(arguments)
        try:
            json.dumps(full, ensure_ascii=False, allow_nan=False).encode()
        except ValueError:
            return Checked(full, (Problem("", "the arguments hold something that is not JSON"),))
        return Checked(full, tuple(map(_problem, validator.iter_errors(full))))

    return check


def _problem(error: jsonschema_rs.ValidationError) -> Problem:
    pointer = "".join(map(pointer_step, error.instance_path))
    if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Type):
        return Problem(pointer, error.message, Category.TYPE_MISMATCH)
    return Problem(pointer, error.message)
