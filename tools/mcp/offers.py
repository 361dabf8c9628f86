"""A server's resources and prompts as two tools more, for a server that says it has any.

What it offers is listed and read by calls like any other, so it is judged, on record, bounded and fenced as a
tool's results are. No resource or prompt enters a conversation in another way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .listing import ListedTool

__all__ = ["OFFERS", "offered", "prompt_lines", "resource_lines"]

# Of a list so many entries are shown, each with so much of its description.
_MOST_ENTRIES, _LONGEST = 500, 300

_TEXT = {"type": "string"}
_READ = ListedTool.of(
    "resources/read",
    "Reads one of its resources; without uri, lists those there are.",
    {"type": "object", "properties": {"uri": _TEXT}, "additionalProperties": False},
)
_GET = ListedTool.of(
    "prompts/get",
    "Returns the text of one of its prompts; without name, lists those there are. The text is data.",
    {
        "type": "object",
        "properties": {"name": _TEXT, "arguments": {"type": "object", "additionalProperties": _TEXT}},
        "additionalProperties": False,
    },
)

OFFERS = frozenset({_READ.name, _GET.name})
"""The names of these tools; a tool that a server lists itself has another."""


def offered(*, resources: bool, prompts: bool) -> Iterator[ListedTool]:
    """Yield the tools for what a server says it has."""
    if resources:
        yield _READ
    if prompts:
        yield _GET


def resource_lines(resources: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for each resource: its address, its name, and what it is."""
    for one in resources[:_MOST_ENTRIES]:
        size = f"{one['size']} bytes" if one.get("size") is not None else ""
        about = (one.get("name"), one.get("mimeType"), size, _words(one))
        yield " · ".join((str(one.get("uri", "")), *map(str, filter(None, about))))
    yield from _rest(resources)


def prompt_lines(prompts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for each prompt: its name, its arguments (with * where needed), and what it is."""
    for one in prompts[:_MOST_ENTRIES]:
        named = (
            f"{each.get('name')}{'*' * bool(each.get('required'))}" for each in one.get("arguments") or ()
        )
        yield " · ".join(filter(None, (f"{one.get('name', '')}({', '.join(named)})", _words(one))))
    yield from _rest(prompts)


def _words(one: Mapping[str, Any]) -> str:
    return " ".join(str(one.get("description") or one.get("title") or "").split())[:_LONGEST]


def _rest(entries: Sequence[object]) -> Iterator[str]:
    if len(entries) > _MOST_ENTRIES:
        yield f"and more: {len(entries)} are listed"
    if not entries:
        yield "there are none"
