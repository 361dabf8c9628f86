"""Gemini's variant of the Chat Completions dialect: signed thoughts, and a smaller schema vocabulary.

Gemini signs its thoughts and refuses a conversation in which one of its calls comes back without the
signature; `response.py` keeps the signatures. Calls that another model made never had one: Google documents a
placeholder to put there instead (Gemini API, "Thought signatures").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from leeward.security.kinds import Json
from leeward.security.lazy import dataclass, regex

from ..interface import Message, ModelInfo, ToolView
from ..wire import mapping
from .request import ChatCompletions, ChatWriter

__all__ = ["Gemini", "narrowed"]

_UNSIGNED: Mapping[str, Json] = {
    "extra_content": {"google": {"thought_signature": "skip_thought_signature_validator"}}
}
_SIGNS_NOTHING = regex(r"gemini-[12]\b|gemma")
_KEYWORDS = frozenset(
    {"type", "title", "description", "enum", "format", "nullable", "default", "pattern"}
    | {"items", "minItems", "maxItems", "properties", "required", "minProperties", "maxProperties"}
    | {"minimum", "maximum", "minLength", "maxLength"}
)
"""The words of JSON Schema that Google's own schemas share, `anyOf` beside them."""

_DEEPEST = 32


@dataclass(frozen=True, slots=True)
class Gemini(ChatCompletions):
    """The dialect as Google speaks it."""

    signed: bool = True

    def writer(self, model: str, owner: str) -> ChatWriter:
        """Return a writer of requests; only models that sign their calls ask for signatures."""
        return ChatWriter(replace(self, signed=_SIGNS_NOTHING.search(model) is None), model, owner)

    def tool(self, view: ToolView) -> dict[str, Json]:
        """Return the description of a tool, in the words of JSON Schema that Google knows."""
        declaration: dict[str, Json] = {"name": view.name, "description": view.description}
        if view.schema.get("properties"):
            declaration["parameters"] = narrowed(view.schema)
        return declaration

    def verbatim(self, message: Message, owner: str) -> tuple[Mapping[str, Json], list[Mapping[str, Json]]]:
        """Return what goes back; the first of a message's calls never goes without a signature."""
        own, extras = ChatCompletions.verbatim(self, message, owner)
        if self.signed and extras and not any(extras):
            extras = [_UNSIGNED, *extras[1:]]
        return own, extras

    def models(self, answer: Mapping[str, object]) -> tuple[list[ModelInfo], Mapping[str, str]]:
        """Return the models, under the names by which they are asked for."""
        found, following = ChatCompletions.models(self, answer)
        return [replace(info, id=info.id.removeprefix("models/")) for info in found], following


def narrowed(schema: Mapping[str, object]) -> dict[str, Json]:
    """Return a schema that says no more than Google's does: references put in, unknown words left out.

    It may accept more than the one it was made of; arguments are checked against that one anyway.
    """
    return _narrowed(schema, mapping(schema.get("$defs")) or mapping(schema.get("definitions")), 0)


def _narrowed(schema: Mapping[str, Any], named: Mapping[str, Any], depth: int) -> dict[str, Json]:
    if depth > _DEEPEST:
        return {}
    reference = str(schema.get("$ref", "")).rpartition("/")[2]
    if reference:
        schema = {**mapping(named.get(reference)), **schema}
    narrowed: dict[str, Json] = {name: value for name, value in schema.items() if name in _KEYWORDS}
    if "const" in schema:
        narrowed["enum"] = [schema["const"]]
    for name in ("items", "properties"):
        if name in narrowed:
            narrowed[name] = _inside(name, schema[name], named, depth + 1)
    alternatives = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(alternatives, list):
        narrowed = _one_of(narrowed, [mapping(one) for one in alternatives], named, depth)
    return _typed(narrowed)


def _inside(name: str, value: object, named: Mapping[str, object], depth: int) -> Json:
    if name == "properties":
        return {key: _narrowed(mapping(one), named, depth) for key, one in mapping(value).items()}
    return _narrowed(mapping(value), named, depth)


def _one_of(
    narrowed: dict[str, Json],
    alternatives: list[Mapping[str, object]],
    named: Mapping[str, object],
    depth: int,
) -> dict[str, Json]:
    """Return a choice between schemas; null among them is how others say that a value may be left out."""
    real = [_narrowed(one, named, depth + 1) for one in alternatives if one.get("type") != "null"]
    if len(real) < len(alternatives):
        narrowed["nullable"] = True
    return {**real[0], **narrowed} if len(real) == 1 else {**narrowed, "anyOf": real}


def _typed(narrowed: dict[str, Json]) -> dict[str, Json]:
    """Return a schema with one type, of an enumeration only if it is of texts, and no default of nothing."""
    kinds = narrowed.get("type")
    if isinstance(kinds, list):
        real = [kind for kind in kinds if kind != "null"]
        narrowed["type"] = real[0] if real else "string"
        if len(real) < len(kinds):
            narrowed["nullable"] = True
    if "enum" in narrowed and narrowed.get("type", "string") != "string":
        del narrowed["enum"]
    if narrowed.get("default", 0) is None:
        del narrowed["default"]
    return narrowed
