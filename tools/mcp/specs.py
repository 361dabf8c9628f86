"""Turn what a server lists, and what the person declared of it, into specs that the gates judge.

The check is made from the server's schema. What a model is shown, and what says which argument is of which
kind, is a copy that holds structure and names alone: every free text of a server is between marks in the
description. A kind or an effect comes from the person only, never from the server.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from leeward.security.call import ToolSpec
from leeward.security.filters import Screened, Source, fence, redact, strip
from leeward.security.kinds import EFFECT_KEY, KIND_KEY, LASTS_KEY, Effect, Kind
from leeward.security.lazy import regex
from leeward.security.trust import Origin, TrustLevel

from ..declare import nodes, rewritten, spec_from_schema
from .listing import ListedTool, Listing, ListingRefused
from .settings import ServerSettings, ToolDeclaration

__all__ = ["specs_of", "tool_name"]

Schema = dict[str, Any]
Levels = Mapping[str, TrustLevel]

_NAME = regex(r"[A-Za-z0-9_$@.-]{1,64}")
_WORD = regex(r"[A-Za-z0-9_./:+@-]{1,64}")
_OURS = (KIND_KEY, EFFECT_KEY, LASTS_KEY)
_NAMED = ("properties", "$defs", "definitions")
_LISTED = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "not", "contains")
_NUMBERS = frozenset(
    {
        "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength",
        "minItems", "maxItems", "minProperties", "maxProperties",
    }
)  # fmt: skip
_LONGEST = 64


def tool_name(server: str, tool: str) -> str:
    """Return what a server's tool is called here; a name of the server's may hold more than ours can."""
    return f"{server}__{re.sub(r'[^a-z0-9_]', '_', tool.lower())}"[:_LONGEST]


def specs_of(
    settings: ServerSettings, listing: Listing, levels: Levels, refused: Callable[[str], None]
) -> list[ToolSpec]:
    """Return the specs of a server's tools; `refused` gets the reason where one is left out.

    `levels` are those the person gave to tools as they are now, by their digests.

    Raises:
        ListingRefused: two of its tools would have one name.
    """
    found: dict[str, ToolSpec] = {}
    for tool in listing.tools.values():
        name = tool_name(settings.name, tool.name)
        if name in found:
            raise ListingRefused(f"two of its tools would both be called {name}")
        level = levels.get(tool.digest, TrustLevel.QUARANTINED)
        try:
            found[name] = _spec(settings, tool, level, listing.version)
        except (ValueError, RecursionError, AttributeError, TypeError) as error:
            refused(f"the tool {tool.name} cannot be used: {error}")
    for name in settings.tools.keys() - listing.tools.keys():
        refused(f"[mcp.servers.{settings.name}.tools.{name}] declares a tool that it does not list")
    return list(found.values())


def _spec(settings: ServerSettings, tool: ListedTool, level: TrustLevel, version: str) -> ToolSpec:
    declared = settings.tools.get(tool.name, ToolDeclaration())
    effects = Effect.ALL if declared.effects is None else declared.effects | settings.least_effects
    own = _without_ours(tool.schema)
    spec = spec_from_schema(
        tool_name(settings.name, tool.name),
        _description(settings, tool),
        own,
        effects=effects,
        timeout=settings.timeout,
        result=Origin.MCP,
    )
    shown = _shown(own)
    for argument, kind in declared.arguments.items():
        shown = _declared(shown, _steps(argument), kind, argument)
    return replace(
        spec,
        schema=shown,
        level=level,
        source=settings.source,
        definition=tool.digest,
        version=version,
        hosts=settings.reached,
    )


def _description(settings: ServerSettings, tool: ListedTool) -> str:
    """Return what a model reads of a tool: our words, and the server's as data."""
    source = Source("mcp", Origin.MCP, settings.name)
    notes = [f"{pointer}: {text}" for pointer, text in _texts(tool.schema)]
    text = "\n".join((tool.description, *(("Its arguments:", *notes) if notes else ())))
    marked = fence(redact(strip(Screened(text), source), source), source).text
    return f"A tool of the MCP server {settings.name}, which describes it so:\n{marked}"


def _texts(schema: object, pointer: str = "") -> Iterator[tuple[str, str]]:
    """Yield the free texts of a schema with their places; they go between marks."""
    if isinstance(schema, Mapping):
        for word, child in schema.items():
            if word in ("description", "title", "pattern", "format", "$comment") and isinstance(child, str):
                yield pointer or "/", child if word == "description" else f"{word}: {child}"
            elif word in ("enum", "const", "default", "examples") and not _is_structure(word, child):
                yield pointer or "/", f"{word}: {child!r}"
            else:
                yield from _texts(child, pointer if word == "properties" else f"{pointer}/{word}")
    elif isinstance(schema, list):
        for index, child in enumerate(schema):
            yield from _texts(child, f"{pointer}/{index}")


def _is_structure(word: str, value: object) -> bool:
    """Whether fixed values of a schema are words that say nothing but themselves."""
    if word == "enum":
        return isinstance(value, list) and all(map(_is_word, value))
    return word == "const" and _is_word(value)


def _is_word(value: object) -> bool:
    return value is None or isinstance(value, bool | int | float) or bool(_WORD.fullmatch(str(value)))


def _without_ours(schema: Schema) -> Schema:
    """Return a server's schema without the words by which tools of ours declare kinds and effects."""
    for node in nodes(schema):
        for word in _OURS:
            node.pop(word, None)
    return schema


def _shown(schema: Any) -> Any:
    """Return the structure of a schema: types, names, bounds and references, and no free text.

    Raises:
        ValueError: a name in it is none, but could be a text for the model to read.
    """
    if not isinstance(schema, dict):
        return schema is not False
    shown: Schema = {}
    for word, child in schema.items():
        if word in _NAMED and isinstance(child, Mapping):
            shown[word] = {_named(name): _shown(inner) for name, inner in child.items()}
        elif word in _LISTED and isinstance(child, list):
            shown[word] = [_shown(inner) for inner in child]
        elif word in _SINGLE:
            shown[word] = [_shown(one) for one in child] if isinstance(child, list) else _shown(child)
        elif word == "required" and isinstance(child, list):
            shown[word] = [_named(name) for name in child]
        elif word == "$ref":
            shown[word] = "/".join(("#", *map(_named, str(child).split("/")[1:])))
        elif _is_plain(word, child):
            shown[word] = child
    if "patternProperties" in schema:
        # Its patterns are texts; a name that falls under one may be sent, and is of no declared kind.
        shown.pop("additionalProperties", None)
    return shown


def _is_plain(word: str, value: object) -> bool:
    if word == "type":
        return all(map(_is_word, value)) if isinstance(value, list) else _is_word(value)
    if word in _NUMBERS:
        return isinstance(value, int | float)
    return word == "uniqueItems" or _is_structure(word, value)


def _named(name: object) -> str:
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise ValueError("an argument's name is more than letters, digits and . _ - $ @, or is too long")
    return name


def _steps(argument: str) -> tuple[str, ...]:
    return tuple(argument.split("/")[1:]) if argument.startswith("/") else (argument,)


def _declared(schema: Schema, steps: tuple[str, ...], kind: Kind, argument: str) -> Schema:
    """Return a schema in which the strings at a place are of a kind.

    Raises:
        ValueError: there is no such place.
    """
    if not steps:
        result: Schema = rewritten(schema, lambda node: _of_kind(node, kind))
        return result
    step, rest = steps[0], steps[1:]
    word = "properties" if step in schema.get("properties", {}) else "items"
    if word == "properties":
        inner = _declared(schema["properties"][step], rest, kind, argument)
        return {**schema, "properties": {**schema["properties"], step: inner}}
    if step != "*" or not isinstance(schema.get("items"), dict):
        raise ValueError(f"it has no argument {argument}, which is declared")
    return {**schema, "items": _declared(schema["items"], rest, kind, argument)}


def _of_kind(node: Schema, kind: Kind) -> Schema:
    """Declare a schema's strings, where it is the one that admits them."""
    types = node.get("type")
    admits = types is None or types == "string" or (isinstance(types, list) and "string" in types)
    combines = any(word in node for word in ("anyOf", "oneOf", "allOf", "$ref"))
    return {**node, KIND_KEY: str(kind)} if admits and not combines else node
