"""What the person configured of a server, as values: how it is reached, what it is given, what is declared.

`definition` is the hash of all that says which program or service it is and what it may do. What was cached
or trusted of another definition counts for nothing.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType

from leeward.security.kinds import Effect, Kind
from leeward.security.lazy import dataclass
from leeward.security.url import Url, parse_url, reach_of_url

__all__ = ["ServerSettings", "ToolDeclaration"]


@dataclass(frozen=True, slots=True)
class ToolDeclaration:
    """What the person says of a tool: its effects (None: all of them), and kinds by argument.

    An argument is the name of a property, or a JSON pointer into the arguments in which `*` is any item.
    """

    effects: Effect | None = None
    arguments: Mapping[str, Kind] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """One server. It has a `command` (program and arguments) or a `url`.

    `secrets` are the values of the variables it is given by name; `env` holds what is no secret. `bearer`
    is what a service is shown in each request. It reaches `hosts` (rules as commands have them), changes the
    workspace with `writes`, and reads `readable` besides. A call has `timeout` seconds, a start
    `start_timeout`. With `roots` it learns where the workspace is, with `asks` it may ask the person and
    their model, and `workspace` is the folder that brought it along, "" for the person's own.
    """

    name: str
    command: tuple[str, ...] = ()
    url: str = ""
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    secrets: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    bearer: str = field(default="", repr=False)
    hosts: tuple[str, ...] = ()
    writes: bool = False
    readable: tuple[str, ...] = ()
    roots: bool = False
    asks: bool = False
    timeout: float = 60.0
    start_timeout: float = 20.0
    tools: Mapping[str, ToolDeclaration] = field(default_factory=lambda: MappingProxyType({}))
    workspace: str = ""

    @property
    def source(self) -> str:
        """What its tools name as where they come from."""
        return f"server:{self.name}"

    @property
    def definition(self) -> str:
        """The SHA-256 (hex) of which program or service this is, and what it is given."""
        parts = (
            self.command,
            self.url,
            sorted(self.env.items()),
            sorted(self.secrets),
            self.hosts,
            self.writes,
            self.readable,
            self.roots,
            self.workspace,
            *(("asks",) if self.asks else ()),
        )
        return hashlib.sha256(json.dumps(parts).encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def reached(self) -> tuple[str, ...]:
        """The rules for what it reaches: its hosts, or that of its service."""
        url = parse_url(self.url) if self.url else None
        return (reach_of_url(url),) if isinstance(url, Url) else self.hosts

    @property
    def least_effects(self) -> Effect:
        """What any call of it does, whatever is declared: a service is sent the arguments."""
        reached = Effect.SEND | Effect.BRING_IN if self.url or self.hosts else Effect(0)
        return reached | (Effect.WRITE | Effect.CREATE if self.writes else Effect(0))

    @property
    def endpoint(self) -> str:
        """The URL of its service, or the command line that starts it."""
        given = [f"{name}={shlex.quote(value)}" for name, value in sorted(self.env.items())]
        return self.url or " ".join((*given, shlex.join(self.command)))
