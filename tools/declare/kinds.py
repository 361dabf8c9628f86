"""What a parameter *is*, said in its annotation: the markers a tool's author writes.

    async def weather(city: Text, page: Url, station: ResourceId | None = None) -> str: ...

Each marker is `str` to a type checker and a strict string to pydantic, which carries the kind into
the JSON Schema. Nothing is parsed or changed here: what a URL or a path means is read once, by
`security/action.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypeAlias

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from leeward.security.kinds import EFFECT_KEY, KIND_KEY, Kind

__all__ = [
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


@dataclass(frozen=True, slots=True)
class Declared:
    """Marks a string as being of a kind. It must come out of validation as it went in.

    `only_read` tells that a tool does no more with what it names than read it.
    """

    kind: Kind
    only_read: bool = False

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        if source is not str:
            raise TypeError(f"only a str can be declared a {self.kind}, not {source!r}")
        return core_schema.str_schema(strict=True)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        done = {EFFECT_KEY: "read"} if self.only_read else {}
        return {**handler(schema), KIND_KEY: str(self.kind), **done}


WorkspacePath: TypeAlias = Annotated[str, Declared(Kind.PATH)]
"""A path; relative ones start at the workspace. Open it as `cleared.place(pointer).real`, no other way."""

SourcePath: TypeAlias = Annotated[str, Declared(Kind.PATH, only_read=True)]
"""A path that is only read, whatever else the tool does; opened as a `WorkspacePath` is."""

Url: TypeAlias = Annotated[str, Declared(Kind.URL)]
"""A URL the person must have given. Use it as `cleared.url(pointer)`, the form that was judged."""

ShellCommand: TypeAlias = Annotated[str, Declared(Kind.COMMAND)]
"""A line that a shell will run."""

ResourceId: TypeAlias = Annotated[str, Declared(Kind.RESOURCE_ID)]
"""An identifier of something elsewhere: judged by REQ-F-045, so no `..`, `?`, `#`, `%XX` and the like."""

Destination: TypeAlias = Annotated[str, Declared(Kind.DESTINATION)]
"""Where something is sent that is not a URL: an e-mail address, a git remote, a host."""

Secret: TypeAlias = Annotated[str, Declared(Kind.SECRET)]
"""A value that is never shown or recorded."""

Text: TypeAlias = Annotated[str, Declared(Kind.TEXT)]
"""Prose, code, a search word: nothing that is opened, run or sent to by what it says."""
