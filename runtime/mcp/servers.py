"""The MCP servers of a runtime: what the configuration and a trusted workspace name, opened as executors.

The tools of a server that was started once are known from then on, so nothing is started to list them. A
server that a workspace brings along in its `.mcp.json` is used only if that workspace is trusted and the
person allowed the very server that it names now.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import field, replace
from functools import partial, reduce
from operator import or_
from pathlib import Path
from types import MappingProxyType
from typing import Any

import trio

from leeward.security.kinds import Effect, Kind
from leeward.security.lazy import dataclass
from leeward.security.outcome import PolicyBlocked, ToolError
from leeward.security.text import visible
from leeward.security.trust import TrustLevel
from leeward.tools.mcp import (
    Asker,
    CallGate,
    KnownServer,
    Listing,
    ListingRefused,
    McpExecutor,
    Server,
    ServerSettings,
    ServerStore,
    Surroundings,
    ToolDeclaration,
    Transport,
    specs_of,
)

from ..config import SERVER_NAME, WORKSPACE_SERVERS, Config, Locations, ServerSection, trust_in
from .connections import Connect

__all__ = [
    "WORKSPACE_SERVERS",
    "NamedServers",
    "Servers",
    "allowed",
    "known_servers",
    "named_servers",
    "open_servers",
    "servers_of",
]

_FOLDER = "mcp"
_LARGEST = 64 * 1024
_MOST_BROUGHT = 32

Alert = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class NamedServers:
    """The servers there are by name, and where what is known of them lies.

    `waiting` are those of the workspace that the person did not allow; `problem` says why its file could not
    be read, "" where it could.
    """

    store: ServerStore
    named: Mapping[str, ServerSettings] = field(default_factory=lambda: MappingProxyType({}))
    waiting: Mapping[str, ServerSettings] = field(default_factory=lambda: MappingProxyType({}))
    problem: str = ""

    def allowing(self, name: str) -> str:
        """Return the command that allows a waiting server as it is now; this waits for the disk."""
        settings = self.waiting[name]
        return f"leeward mcp trust {name} quarantined --seal {self.store.get(settings).seal(settings)}"

    @property
    def secrets(self) -> frozenset[str]:
        """The values that servers are given and nobody else is shown."""
        given = (one for server in self.named.values() for one in (*server.secrets.values(), server.bearer))
        return frozenset(filter(None, given))


def named_servers(config: Config, places: Locations, environ: Mapping[str, str] = os.environ) -> NamedServers:
    """Return the servers that are configured and enabled, and those a trusted workspace brings along."""
    store = ServerStore(places.data / _FOLDER)
    named = {
        name: _settings(name, section, environ)
        for name, section in config.mcp.servers.items()
        if section.enabled
    }
    waiting: dict[str, ServerSettings] = {}
    problem = ""
    try:
        brought = _brought(places)
    except ValueError as error:
        brought, problem = {}, f"{WORKSPACE_SERVERS} of this workspace is not used: {error}"
    for name, settings in brought.items():
        if name not in config.mcp.servers:
            allowed = store.get(settings).is_allowed
            (named if allowed else waiting)[name] = settings
    return NamedServers(store, named, waiting, problem)


def _settings(name: str, section: ServerSection, environ: Mapping[str, str]) -> ServerSettings:
    return ServerSettings(
        name,
        command=section.command,
        url=section.url,
        env=section.env,
        secrets={key: environ.get(key, "") for key in section.secrets},
        bearer=environ.get(section.bearer_env, "") if section.bearer_env else "",
        hosts=section.hosts,
        writes=section.write,
        readable=tuple(map(os.path.realpath, section.read)),
        roots=section.roots,
        asks=section.asks,
        timeout=section.timeout,
        start_timeout=section.start_timeout,
        tools={
            key: ToolDeclaration(
                None if tool.effects is None else _effects(tool.effects),
                {argument: Kind(kind) for argument, kind in tool.arguments.items()},
            )
            for key, tool in section.tools.items()
        },
    )


def _effects(words: tuple[str, ...]) -> Effect:
    return reduce(or_, (Effect[word.upper()] for word in words), Effect(0))


def _brought(places: Locations) -> dict[str, ServerSettings]:
    """Return the servers in the workspace's own file, if it is trusted and has one.

    Raises:
        ValueError: the file cannot be used.
    """
    if trust_in(places).answer is not True:
        return {}
    raw = _contents(places.workspace / WORKSPACE_SERVERS)
    if raw is None:
        return {}
    try:
        content = json.loads(raw)
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    servers = content.get("mcpServers") if isinstance(content, dict) else None
    if not isinstance(servers, dict) or len(servers) > _MOST_BROUGHT:
        raise ValueError(f'it has no table "mcpServers" of {_MOST_BROUGHT} servers at most')
    brought: dict[str, ServerSettings] = {}
    for name, settings in servers.items():
        plain = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:24].rstrip("_")
        if re.fullmatch(SERVER_NAME, plain) is None or not isinstance(settings, dict):
            raise ValueError("a server in it has no usable name, or is no table")
        if plain in brought:
            raise ValueError(f"two servers in it are called {plain}, as names are written here")
        brought[plain] = _brought_along(plain, settings, str(places.workspace))
    return brought


def _brought_along(name: str, settings: Mapping[str, Any], workspace: str) -> ServerSettings:
    command, words, env = settings.get("command", ""), settings.get("args", []), settings.get("env", {})
    url = settings.get("url", "")
    texts = [command, url, *(words if isinstance(words, list) else [None])]
    texts += [*env.keys(), *env.values()] if isinstance(env, dict) else [None]
    if not all(isinstance(text, str) and "\0" not in text for text in texts) or bool(command) == bool(url):
        raise ValueError(f"the server {name} has neither a command with args and env nor a url, all of texts")
    return ServerSettings(
        name, command=(command, *words) if command else (), url=url, env=dict(env), workspace=workspace
    )


def _contents(path: Path) -> bytes | None:
    """Return the content of a regular file, None where there is none.

    Raises:
        ValueError: it is too large, or cannot be read.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(f"it cannot be read: {error.strerror}") from error
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is no regular file")
        raw = file.read(_LARGEST + 1)
    if len(raw) > _LARGEST:
        raise ValueError("it is larger than 64 KiB")
    return raw


@dataclass(slots=True)
class Servers:
    """The servers of a runtime, by name, and as executors."""

    names: NamedServers
    servers: Mapping[str, Server]
    executors: list[McpExecutor] = field(default_factory=list)


@asynccontextmanager
async def open_servers(
    names: NamedServers, connect: Connect, workspace: str, alert: Alert, asker: Asker | None = None
) -> AsyncGenerator[Servers, None]:
    """Yield the servers with their tools. Only those whose tools nobody knows yet are started.

    What cannot be used is reported, and its tools are missing.
    """
    for line in _waiting_lines(names):
        alert(line)
    around = Surroundings(connect, workspace, alert, partial(_keep, names.store), asker)
    async with AsyncExitStack() as stack:
        servers: dict[str, Server] = {}
        for name, settings in names.named.items():
            known = await trio.to_thread.run_sync(names.store.get, settings)
            servers[name] = Server(settings, around, known.listing)
            await stack.enter_async_context(servers[name].opened())
            for tool, lines in known.changed().items():
                shown = "\n".join(
                    (f"server {name}: {tool} changed since it was trusted, so it is not", *lines)
                )
                alert(visible(shown))
        await _list_unknown(servers, alert)
        yield Servers(names, servers, list(_executors(names.store, servers, alert)))


@asynccontextmanager
async def servers_of(
    config: Config, places: Locations, connect: Connect, alert: Alert, asker: Asker | None = None
) -> AsyncGenerator[Servers, None]:
    """Yield the servers that are configured or brought along, as `open_servers` does."""
    names = await trio.to_thread.run_sync(named_servers, config, places)
    async with open_servers(names, connect, str(places.workspace), alert, asker) as servers:
        yield servers


async def _list_unknown(servers: Mapping[str, Server], alert: Alert) -> None:
    """Start those whose tools nobody knows."""

    async def listed(name: str, server: Server) -> None:
        try:
            await server.refresh()
        except ToolError as error:
            alert(visible(f"server {name} cannot be used: {error}"))

    async with trio.open_nursery() as nursery:
        for name, server in servers.items():
            if server.listing is not None:
                continue
            if server.settings.url:
                alert(f"nobody knows the tools of the server {name} yet: leeward mcp test {name} asks it")
            else:
                nursery.start_soon(listed, name, server)


def known_servers(names: NamedServers, alert: Alert = lambda _: None) -> list[McpExecutor]:
    """Return the servers as executors that can tell their tools, and start nothing."""

    @asynccontextmanager
    async def connect(_: ServerSettings, __: CallGate) -> AsyncIterator[Transport]:
        raise PolicyBlocked("no server is started here")
        yield

    around = Surroundings(connect, "")
    servers = {
        name: Server(settings, around, names.store.get(settings).listing)
        for name, settings in names.named.items()
    }
    return list(_executors(names.store, servers, alert))


def _executors(store: ServerStore, servers: Mapping[str, Server], alert: Alert) -> Iterator[McpExecutor]:
    for name, server in servers.items():
        if server.listing is None:
            continue

        def refused(why: str, name: str = name) -> None:
            alert(visible(f"server {name}: {why}"))

        try:
            levels = store.get(server.settings).levels
            yield McpExecutor(server, specs_of(server.settings, server.listing, levels, refused))
        except ListingRefused as error:
            refused(str(error))


def _keep(store: ServerStore, settings: ServerSettings, listing: Listing) -> None:
    """Remember what a server listed; where that cannot be written, it is asked again the next time."""
    try:
        store.put(settings, replace(store.get(settings), listing=listing))
    except OSError:
        return


def _waiting_lines(names: NamedServers) -> Iterator[str]:
    if names.problem:
        yield visible(names.problem)
    for name, settings in names.waiting.items():
        yield visible(
            f"{WORKSPACE_SERVERS} of this workspace names the server {name}, which is not used: "
            f"{settings.endpoint} ({names.allowing(name)} allows it as it is)"
        )


def allowed(
    store: ServerStore, settings: ServerSettings, known: KnownServer, level: TrustLevel, tool: str = ""
) -> KnownServer:
    """Note how far a server is trusted as it is known, or one of its tools, and that it may be started.

    Raises:
        OSError: that cannot be written.
    """
    known = replace(known.trusting(level, tool), is_allowed=True)
    store.put(settings, known)
    return known
