"""The tools a server lists, as frozen values, held to bounds; a list that breaks one is refused whole.

A tool's digest covers its name, description and schema. Nothing a server claims of a tool's effects is part
of what is judged; claims are kept to be shown to a person.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Any

from leeward.security.lazy import dataclass

__all__ = ["MOST_BYTES", "MOST_TOOLS", "ListedTool", "Listing", "ListingRefused", "difference"]

MOST_TOOLS = 128
"""Tools of one server, at most."""

MOST_BYTES = 64 * 1024
"""Bytes of names, descriptions and schemas of one server together, at most: all of it goes to the model."""

_LONGEST_NAME = 128
_MOST_CLAIMS = 8


class ListingRefused(ValueError):
    """A list of tools breaks a bound; the message says which, and the server's tools are not used."""


@dataclass(frozen=True, slots=True)
class ListedTool:
    """A tool as its server describes it. `text` is the canonical JSON of name, description and schema.

    `claims` are the server's hints about its effects, which grant nothing.
    """

    name: str
    text: str
    claims: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, name: str, description: str, schema: Mapping[str, Any], claims: Iterable[str] = ()
    ) -> ListedTool:
        """Return a tool as a server lists it.

        Raises:
            ListingRefused: it cannot be written as JSON, or has no usable name.
        """
        if not name or len(name) > _LONGEST_NAME or not name.isprintable():
            raise ListingRefused("it lists a tool whose name is empty, too long or not printable")
        definition = {"name": name, "description": description, "inputSchema": schema}
        try:
            text = json.dumps(definition, sort_keys=True, separators=(",", ":"), allow_nan=False)
        except (ValueError, TypeError, RecursionError) as error:
            raise ListingRefused("it lists a tool whose schema cannot be written as JSON") from error
        return cls(name, text, tuple(claims)[:_MOST_CLAIMS])

    @property
    def description(self) -> str:
        """The server's own words."""
        return str(json.loads(self.text)["description"])

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments, a new copy each time."""
        schema: dict[str, Any] = json.loads(self.text)["inputSchema"]
        return schema

    @property
    def digest(self) -> str:
        """The SHA-256 (hex) of the tool's name, description and schema."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Return it as it is kept."""
        return {"name": self.name, "text": self.text, "claims": list(self.claims)}

    @classmethod
    def from_json(cls, stored: Any) -> ListedTool:
        """Return what was kept.

        Raises:
            ListingRefused: that is no tool.
        """
        try:
            definition = json.loads(stored["text"])
            claims = (str(claim) for claim in stored.get("claims", ()))
            return cls.of(
                str(definition["name"]),
                str(definition["description"]),
                dict(definition["inputSchema"]),
                claims,
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ListingRefused("it is not kept as a tool") from error


@dataclass(frozen=True, slots=True)
class Listing:
    """What a server says it is, and its tools. `server` and `version` are its own words."""

    server: str = ""
    version: str = ""
    tools: Mapping[str, ListedTool] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def of(cls, server: str, version: str, tools: Iterable[ListedTool]) -> Listing:
        """Return a list that keeps to the bounds.

        Raises:
            ListingRefused: it does not.
        """
        found: dict[str, ListedTool] = {}
        size = 0
        for tool in tools:
            if tool.name in found:
                raise ListingRefused(f"it lists the tool {tool.name} twice")
            found[tool.name] = tool
            size += len(tool.text)
            if len(found) > MOST_TOOLS:
                raise ListingRefused(f"it lists more than {MOST_TOOLS} tools")
            if size > MOST_BYTES:
                raise ListingRefused(
                    f"its tools are described in more than {MOST_BYTES // 1024} KiB, all of which would go "
                    "along with every request to the model"
                )
        return cls(server[:_LONGEST_NAME], version[:_LONGEST_NAME], MappingProxyType(found))


def difference(old: ListedTool | None, new: ListedTool | None) -> list[str]:
    """Return what changed between two definitions of a tool, a line each with its sign."""
    before, after = (_lines(tool) for tool in (old, new))
    lines = difflib.unified_diff(before, after, lineterm="", n=0)
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


def _lines(tool: ListedTool | None) -> list[str]:
    if tool is None:
        return []
    return json.dumps(json.loads(tool.text), indent=1, sort_keys=True).splitlines()
