"""Models of the configuration of MCP servers: how each is reached, what it may do, what its tools are.

Models and nothing else. A workspace cannot set this; what it brings along in a `.mcp.json` is read by
`runtime/mcp/servers.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from .types import (
    Expected,
    PathText,
    Private,
    ReachRule,
    Section,
    ServerName,
    ServerUrl,
    VariableName,
)

__all__ = ["McpSection", "ServerSection", "ServerToolSection"]

_WEEK = 7 * 24 * 3600

EffectWord = Literal["read", "create", "write", "execute", "send", "bring_in"]
KindWord = Literal["path", "url", "command", "resource_id", "destination", "host", "secret", "text"]
PlainText = Annotated[str, Field(min_length=1, max_length=4096), Expected("a text that is not empty")]
ToolKey = Annotated[str, Field(min_length=1, max_length=128), Expected("a tool as the server names it")]
_CHANGING = frozenset({"create", "write", "execute"})


def _mismatch(key: str, expected: str) -> PydanticCustomError:
    context = {"key": key, "expected": expected, "beside": key}
    return PydanticCustomError("mismatch", "{key}: expected {expected}", context)


class ServerToolSection(Section):
    """What you say of one tool of a server; what you do not say is judged by everything it could be."""

    effects: Annotated[
        tuple[EffectWord, ...] | None,
        Field(strict=False, description="What it does: read, create, write, execute, send, bring_in."),
        Expected('a list of "read", "create", "write", "execute", "send" and "bring_in"'),
    ] = None
    arguments: Annotated[
        Mapping[PlainText, KindWord],
        Field(description="What arguments are, by name: path, url, command, text and so on."),
    ] = {}


class ServerSection(Section):
    """One MCP server: a program that Leeward starts in its sandbox, or a service."""

    command: Annotated[
        tuple[PlainText, ...],
        Field(strict=False, description="The program and its arguments; started in the workspace."),
    ] = ()
    url: Annotated[ServerUrl, Field(description="Or where a service is reached, by streamable HTTP.")] = ""
    enabled: Annotated[bool, Field(description="Whether its tools can be used.")] = True
    env: Annotated[
        Mapping[VariableName, PlainText],
        Field(description="Variables it is given; it does not have yours."),
        Private(),
    ] = {}
    secrets: Annotated[
        tuple[VariableName, ...],
        Field(strict=False, description="Variables of yours that it is given, by name."),
    ] = ()
    bearer_env: Annotated[
        VariableName, Field(description="The variable with the token a service is shown.")
    ] = ""
    hosts: Annotated[
        tuple[ReachRule, ...],
        Field(strict=False, description="Hosts a program reaches while it runs a call; none: no network."),
    ] = ()
    write: Annotated[bool, Field(description="Whether a program may change the workspace.")] = False
    read: Annotated[
        tuple[PathText, ...],
        Field(strict=False, description="Further folders and files a program may read."),
    ] = ()
    roots: Annotated[bool, Field(description="Whether it learns where the workspace is.")] = False
    asks: Annotated[
        bool,
        Field(description="Whether it may ask you for values or an answer of your model, each a question."),
    ] = False
    timeout: Annotated[float, Field(gt=0, le=_WEEK, description="Seconds a call may take.")] = 60.0
    start_timeout: Annotated[float, Field(gt=0, le=600, description="Seconds a start may take.")] = 20.0
    tools: Annotated[
        Mapping[ToolKey, ServerToolSection],
        Field(description="What you say of its tools: effects, and kinds of arguments."),
    ] = {}

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if bool(self.command) == bool(self.url):
            raise _mismatch("command", "either a command or a url, and not both")
        if self.url and (self.env or self.secrets or self.hosts or self.write or self.read):
            raise _mismatch("url", "no env, secrets, hosts, write or read beside it: those are of a program")
        if self.command and self.bearer_env:
            raise _mismatch("bearer_env", "a url beside it: a program is given secrets")
        for name, tool in self.tools.items():
            if self.write and tool.effects is not None and not _CHANGING & {*tool.effects}:
                problem = f"effects of {name} that change something, for write lets the server do that"
                raise _mismatch("tools", problem)
        return self


class McpSection(Section):
    """Servers of the Model Context Protocol, whose tools are used like others."""

    servers: Annotated[
        Mapping[ServerName, ServerSection],
        Field(description="Servers by name; their tools are called NAME__TOOL."),
    ] = {}
