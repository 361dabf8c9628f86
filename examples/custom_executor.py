"""Two ways to bring tools of one's own: a typed function, and a whole executor.

    [tools]
    executors = ["custom_executor:executors"]

or `Runtime.open(config, executors=executors())`. Either way every call passes all gates first: `page`
below is opened only if the person gave it, `station` is refused where it looks made up, and the plain
string of `library_search` is judged by everything it could be.
"""

from __future__ import annotations

from collections.abc import Sequence

from leeward import (
    Cleared,
    Effect,
    Output,
    PermanentFailure,
    ResourceId,
    Text,
    ToolExecutor,
    ToolSpec,
    Url,
    spec_from_schema,
    tool,
)

__all__ = ["Library", "executors", "weather"]


@tool(effects=Effect.SEND | Effect.BRING_IN, timeout=20)
async def weather(city: Text, page: Url, station: ResourceId | None = None) -> dict[str, str | None]:
    """Current weather for a city, as the given page tells it."""
    return {"city": city, "page": page.text, "station": station, "sky": "clear"}


class Library:
    """Two tools in one executor, described by JSON Schema."""

    def __init__(self) -> None:
        self.books = {"tides": "The Book of Tides"}

    def specs(self) -> Sequence[ToolSpec]:
        """Return both tools."""
        search = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
        lend = {
            "type": "object",
            "properties": {"book": {"type": "string", "x-leeward-kind": "resource_id"}},
            "required": ["book"],
            "additionalProperties": False,
        }
        return (
            spec_from_schema("library_search", "Find a book by a word.", search, effects=Effect.READ),
            spec_from_schema("library_lend", "Lend a book.", lend, effects=Effect.READ),
        )

    async def execute(self, cleared: Cleared) -> Output:
        """Run either tool."""
        arguments = cleared.take()
        if cleared.action.call.tool == "library_search":
            word = str(arguments["query"]).lower()
            found = [title for key, title in self.books.items() if key in word]
            return Output("\n".join(found) or "no book of that kind")
        raise PermanentFailure(f"the book {arguments['book']!r} is lent already")


def executors() -> list[ToolExecutor]:
    """Return what the configuration names: every executor of this module."""
    return [weather, Library()]
