"""The markers by which a tool's author declares what a parameter is.

    async def weather(city: Text, page: Url, station: ResourceId | None = None) -> str: ...

A marker is a strict string to pydantic, which carries the kind into the JSON Schema. To a type checker it is
what the function gets: the judged value for paths and URLs (`judged.py`), else a `str`. Nothing is parsed or
changed here: what a URL or a path means is read once, by `security/action.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeAlias

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticSerializationUnexpectedValue, core_schema

from leeward.security.kinds import EFFECT_KEY, KIND_KEY, Kind
from leeward.security.lazy import dataclass
from leeward.security.paths import ResolvedPath
from leeward.security.url import Url as JudgedUrl

__all__ = [
    "JUDGED",
    "Declared",
    "Destination",
    "ResourceId",
    "Secret",
    "ShellCommand",
    "SourcePath",
    "Text",
    "Url",
    "WorkspacePath",
]


JUDGED: Mapping[Kind, type] = {Kind.URL: JudgedUrl, Kind.PATH: ResolvedPath}
"""What a function gets instead of the text of an argument, by its kind."""


@dataclass(frozen=True, slots=True)
class Declared:
    """Marks an argument as being of a kind. Its text must come out of validation as it went in.

    `only_read` tells that a tool does no more with what it names than read it.
    """

    kind: Kind
    only_read: bool = False

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        expected = JUDGED.get(self.kind, str)
        if source is not expected:
            raise TypeError(f"only a {expected.__name__} can be declared a {self.kind}, not {source!r}")
        if self.kind not in JUDGED:
            return core_schema.str_schema(strict=True)
        # Used in the check, and for a judged value in what a tool returns.
        serialization = core_schema.plain_serializer_function_ser_schema(_text, when_used="json")
        return core_schema.str_schema(strict=True, serialization=serialization)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        done = {EFFECT_KEY: "read"} if self.only_read else {}
        return {**handler(schema), KIND_KEY: str(self.kind), **done}


def _text(value: object) -> str:
    if isinstance(value, (str, *JUDGED.values())):
        return str(value)
    # Another member of a union is meant.
    raise PydanticSerializationUnexpectedValue("neither text nor a judged value")


WorkspacePath: TypeAlias = Annotated[ResolvedPath, Declared(Kind.PATH)]
"""A path, absolute or below the workspace. The function gets it as judged; `real` has no symlinks."""

SourcePath: TypeAlias = Annotated[ResolvedPath, Declared(Kind.PATH, only_read=True)]
"""A path that the tool only reads, whatever else it does. The function gets it as a `WorkspacePath`."""

Url: TypeAlias = Annotated[JudgedUrl, Declared(Kind.URL)]
"""A URL to open. The function gets it as judged, with `text`, `host`, `port` and more."""

ShellCommand: TypeAlias = Annotated[str, Declared(Kind.COMMAND)]
"""A command line that a shell will run."""

ResourceId: TypeAlias = Annotated[str, Declared(Kind.RESOURCE_ID)]
"""The identifier of something elsewhere. One with `..`, `?`, `#`, `%XX` and the like is refused."""

Destination: TypeAlias = Annotated[str, Declared(Kind.DESTINATION)]
"""Where something is sent, other than a URL: an e-mail address, a git remote, a host."""

Secret: TypeAlias = Annotated[str, Declared(Kind.SECRET)]
"""A value that is never shown or recorded."""

Text: TypeAlias = Annotated[str, Declared(Kind.TEXT)]
"""Any other text: prose, code, a search word. It is not opened, run or used as an address."""
