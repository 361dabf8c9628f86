"""`leeward mcp`: which servers there are, what they list, how far each is trusted; start one to find out.

Only `test` starts a server. `add` and `remove` change the person's configuration file, and leave a file as it
was where the result would not be what is meant.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import trio

from leeward.security.call import ToolSpec
from leeward.security.kinds import Json
from leeward.security.outcome import ToolError
from leeward.security.text import visible
from leeward.security.trust import TrustLevel
from leeward.tools.http.resolve import dns_resolver
from leeward.tools.mcp import (
    ListedTool,
    Listing,
    Server,
    ServerSettings,
    Surroundings,
    specs_of,
    tool_name,
)
from leeward.tools.process import find_programs, git_settings, open_kit

from ..config import CannotChange, ConfigError, config_folder, replace_file, text_of, with_value
from ..console import Startup, look
from ..describe import effects_of
from ..dry_run import policy_of
from ..exits import CliError, Exit
from ..mcp import NamedServers, Network, PersonsGate, allowed, connection, named_servers
from ..options import Options
from ..printer import Printer
from ..sandbox import open_confinement

__all__ = ["mcp", "with_server", "without_server"]


async def mcp(options: Options, printer: Printer) -> Exit:
    """List servers, add or remove one, start one to see what it lists, show that, say how far it is trusted.

    Raises:
        CliError: there is no such server or tool, or the configuration cannot be changed so.
    """
    if options.action in ("add", "remove"):
        return await trio.to_thread.run_sync(_configure, options, printer)
    start = look(options)
    names = named_servers(start.loaded.config, start.places)
    if names.problem:
        printer.warn(visible(names.problem))
    if options.action == "list":
        return _list(start, names, printer)
    settings = {**names.waiting, **names.named}.get(options.name)
    if settings is None:
        known = ", ".join((*names.named, *names.waiting))
        why = f"there is no server {options.name}; " + (
            f"there are {known}" if known else "no server is configured"
        )
        way = "leeward mcp list" if known else "leeward mcp add NAME -- COMMAND"
        raise CliError(Exit.NOT_FOUND, "NOT_FOUND", visible(why), suggestion=way)
    if options.action == "trust":
        return _trust(names, settings, options, printer)
    if options.action == "test":
        if options.name in names.waiting:
            raise _not_allowed(names, settings)
        settings = await _tested(start, names, settings, printer)
    return _tools(names, settings, printer)


def _list(start: Startup, names: NamedServers, printer: Printer) -> Exit:
    rows: list[dict[str, Json]] = []
    lines: list[str] = []
    off = [name for name in start.loaded.config.mcp.servers if name not in names.named]
    for name, settings in (*names.named.items(), *names.waiting.items()):
        known = names.store.get(settings)
        tools = len(known.listing.tools) if known.listing is not None else None
        state = "not allowed yet" if name in names.waiting else "in use"
        levels = sorted({level.name.lower() for _, level in known.trusted.values()})
        of = f"{tools} tools" if tools is not None else "never started"
        trusted = f", trusted: {', '.join(levels)}" if levels else ""
        seal = known.seal(settings)
        lines.append(f"{name:<16} {state}, {of}{trusted} · seal {seal} · {visible(settings.endpoint)}")
        row: dict[str, Json] = {"name": name, "state": state, "tools": tools, "reached": settings.endpoint}
        rows.append(row | {"seal": seal})
    lines += [f"{name:<16} switched off" for name in off]
    rows += [
        {"name": name, "state": "switched off", "tools": None, "reached": "", "seal": ""} for name in off
    ]
    printer.answer("".join(f"{line}\n" for line in lines or ["there are no servers"]))
    for one in rows:
        printer.event({"schema": 1, "type": "server", **one})
    return printer.finish(Exit.SUCCESS, {"servers": rows})


def _tools(names: NamedServers, settings: ServerSettings, printer: Printer) -> Exit:
    """Show what a server listed when it was started last."""
    known = names.store.get(settings)
    if known.listing is None:
        raise CliError(
            Exit.NOT_FOUND,
            "NOT_FOUND",
            f"nobody knows the tools of {settings.name} yet",
            suggestion=f"leeward mcp test {settings.name}",
        )
    problems: list[str] = []
    specs = {
        spec.definition: spec for spec in specs_of(settings, known.listing, known.levels, problems.append)
    }
    listing = known.listing
    lines = [visible(f"{settings.name}: {listing.server} {listing.version}, {len(listing.tools)} tools")]
    rows: list[dict[str, Json]] = []
    for tool in listing.tools.values():
        spec = specs.get(tool.digest)
        lines += _tool_lines(settings, tool, spec)
        rows.append(_tool_json(tool, spec))
    for name, changes in known.changed().items():
        lines += [f"{visible(name)} changed since it was trusted:", *map(visible, changes)]
    for problem in problems:
        printer.warn(visible(problem))
    seal = known.seal(settings)
    lines.append(f"leeward mcp trust {settings.name} LEVEL --seal {seal} raises them as they are here")
    printer.answer("".join(f"{line}\n" for line in lines))
    for one in rows:
        printer.event({"schema": 1, "type": "definition", **one})
    data: dict[str, Json] = {"server": settings.name, "version": listing.version, "seal": seal}
    data["tools"] = [*rows]
    return printer.finish(Exit.SUCCESS, data)


def _tool_lines(settings: ServerSettings, tool: ListedTool, spec: ToolSpec | None) -> Iterator[str]:
    name = tool_name(settings.name, tool.name)
    if spec is None:
        yield f"{name}  cannot be used"
        return
    claims = f"; it says of itself: {', '.join(tool.claims)}" if tool.claims else ""
    level = spec.level.name.lower()
    yield visible(f"{name}  {level} · {effects_of(spec.effects)} · {tool.digest[:12]}{claims}")
    named = ", ".join(map(str, tool.schema.get("properties") or ()))
    if named:
        yield visible(f"    arguments: {named[:200]}")
    first = tool.description.strip().partition("\n")[0]
    if first:
        yield visible(f"    {first[:200]}")


def _tool_json(tool: ListedTool, spec: ToolSpec | None) -> dict[str, Json]:
    row: dict[str, Json] = {
        "tool": tool.name,
        "digest": tool.digest,
        "description": tool.description,
        "schema": tool.schema,
        "claims": list(tool.claims),
    }
    if spec is None:
        return row
    return row | {
        "name": spec.name,
        "level": spec.level.name.lower(),
        "effects": effects_of(spec.effects).split(", "),
    }


def _trust(names: NamedServers, settings: ServerSettings, options: Options, printer: Printer) -> Exit:
    """Note how far the tools of a server are trusted as they are now, and that it may be started."""
    known = names.store.get(settings)
    listing = known.listing
    level = TrustLevel[options.level.upper()]
    if level < TrustLevel.QUARANTINED or settings.name in names.waiting:
        _check_seal(known.seal(settings), settings, options.seal)
    if options.tool and (listing is None or options.tool not in listing.tools):
        what = f"{settings.name} lists no tool {visible(options.tool)}"
        raise CliError(Exit.NOT_FOUND, "NOT_FOUND", what, suggestion=f"leeward mcp tools {settings.name}")
    try:
        known = allowed(names.store, settings, known, level, options.tool)
    except OSError as error:
        why = f"could not be noted: {error.strerror}"
        raise CliError(Exit.GENERAL_ERROR, "STORAGE_ERROR", why) from error
    tools = [options.tool] if options.tool else [*(known.listing.tools if known.listing else ())]
    lines = [visible(f"{settings.name} may be started as it is: {settings.endpoint}")]
    lines += [visible(f"{tool_name(settings.name, tool)} is {options.level}") for tool in tools]
    if known.listing is None:
        lines.append(f"its tools are quarantined until they are known: leeward mcp test {settings.name}")
    printer.answer("".join(f"{line}\n" for line in lines))
    data: dict[str, Json] = {"server": settings.name, "level": options.level, "tools": list(tools)}
    printer.event({"schema": 1, "type": "trusted", **data})
    return printer.finish(Exit.SUCCESS, data)


def _check_seal(seal: str, settings: ServerSettings, given: str) -> None:
    """Refuse to trust what the person was not shown: a list may change from one moment to the next.

    Raises:
        CliError: no seal was given, or another.
    """
    if given == seal:
        return
    why = "changed since you were shown it" if given else "may have changed since you were shown it"
    how = f"leeward mcp tools {settings.name} (or list, before its first start) shows it with its --seal"
    raise CliError(Exit.ARG_ERROR, "ARG_ERROR", f"{settings.name} {why}; nothing was noted", suggestion=how)


def _not_allowed(names: NamedServers, settings: ServerSettings) -> CliError:
    return CliError(
        Exit.PRECONDITION,
        "INPUT_REQUIRED",
        visible(f"this workspace names {settings.name}, and nobody allowed it: {settings.endpoint}"),
        suggestion=names.allowing(settings.name),
    )


# ------------------------------------------------------------------ starting one


async def _tested(
    start: Startup, names: NamedServers, settings: ServerSettings, printer: Printer
) -> ServerSettings:
    """Start a server, and remember what it lists.

    Raises:
        CliError: it cannot be started, or its list is refused.
    """
    async with _opened(start, names, settings, printer) as server:
        began = trio.current_time()
        try:
            await server.refresh()
        except ToolError as error:
            what = visible(f"{settings.name} cannot be used: {error}")
            raise CliError(Exit.GENERAL_ERROR, str(error.category).upper(), what) from error
        printer.note(f"{settings.name} was ready after {trio.current_time() - began:.1f} s")
    return settings


@asynccontextmanager
async def _opened(
    start: Startup, names: NamedServers, settings: ServerSettings, printer: Printer
) -> AsyncIterator[Server]:
    policy = policy_of(start)
    programs = await trio.to_thread.run_sync(find_programs, os.environ, policy)
    with open_kit(programs, git_settings(os.environ, policy.home)) as kit:
        confined = open_confinement(start.loaded.config, start.places, policy, printer.warn, kit.readable)
        async with confined as (sandbox, _):
            network = Network(policy, dns_resolver, start.loaded.config.tools.fetch.ca_file)
            connect = connection(sandbox, network, kit.variables(confined=True))

            def kept(one: ServerSettings, listing: Listing) -> None:
                names.store.put(one, replace(names.store.get(one), listing=listing))

            around = Surroundings(connect, policy.workspace, printer.warn, kept)
            server = Server(settings, around)
            # A service hears of the end while its gate is open.
            async with server.gate.during(PersonsGate(policy, settings.reached)), server.opened():
                yield server


# ------------------------------------------------------------------ the configuration file


def _configure(options: Options, printer: Printer) -> Exit:
    """Add a server to the person's configuration file, or take one out."""
    named = options.config or os.environ.get("LEEWARD_CONFIG")
    file = Path(os.path.realpath(named or config_folder() / "config.toml"))
    try:
        whole = text_of(file)
    except CannotChange as error:
        raise CliError(Exit.ARG_ERROR, "CONFIG_ERROR", str(error)) from error
    # Some editors begin a file so.
    text = whole.removeprefix("\ufeff")
    if options.action == "add":
        changed = with_server(text, options.name, options.words, options.url)
        line = f"{options.name} was added to {file}; leeward mcp test {options.name} shows its tools"
    else:
        changed = without_server(text, options.name)
        line = f"{options.name} was taken out of {file}"
    _replace(file, whole.removesuffix(text) + changed)
    printer.answer(f"{visible(line)}\n")
    data: dict[str, Json] = {"server": options.name, "file": str(file)}
    printer.event({"schema": 1, "type": "changed", **data})
    return printer.finish(Exit.SUCCESS, data)


def with_server(text: str, name: str, words: tuple[str, ...], url: str) -> str:
    """Return a configuration with one server more, at its end.

    Raises:
        CliError: there is one of that name, or the configuration cannot be read.
    """
    if name in _servers(text):
        raise _refused(f"there is a server {name} in it already")
    if bool(words) == bool(url):
        raise CliError(Exit.ARG_ERROR, "ARG_ERROR", "mcp add wants either -- COMMAND … or --url URL")
    key, value = ("url", url) if url else ("command", list(words))
    try:
        return with_value(text, ("mcp", "servers", name, key), value)
    except CannotChange as error:
        raise _refused(str(error)) from error


def without_server(text: str, name: str) -> str:
    """Return a configuration without a server's tables; every other line stays as it is.

    Raises:
        CliError: there is no such server, or more than its own tables would have to be changed.
    """
    before = _parsed(text)
    if name not in _servers(text):
        raise CliError(Exit.NOT_FOUND, "NOT_FOUND", f"there is no server {visible(name)} in it")
    kept: list[str] = []
    is_of_server = False
    for line in text.splitlines(keepends=True):
        if line.lstrip().startswith("["):
            is_of_server = _is_header_of(line, name)
        if not is_of_server:
            kept.append(line)
    changed = "".join(kept)
    wanted = {**before, "mcp": {**before["mcp"], "servers": dict(before["mcp"]["servers"])}}
    del wanted["mcp"]["servers"][name]
    if not _is_same(changed, wanted):
        raise _refused(f"{name} is not in tables of its own there; take it out by hand")
    return changed


def _is_header_of(line: str, name: str) -> bool:
    """Whether a line begins the table of a server, or one in it."""
    try:
        read = tomllib.loads(line)
    except ValueError:
        return False
    return [*read] == ["mcp"] and [*read["mcp"]] == ["servers"] and [*read["mcp"]["servers"]] == [name]


def _is_same(text: str, wanted: Mapping[str, Any]) -> bool:
    try:
        found = tomllib.loads(text)
    except ValueError:
        return False
    without: Callable[[Any], Any] = lambda tree: {  # noqa: E731 — defined once, used twice
        key: {inner: value for inner, value in one.items() if value} if key == "mcp" else one
        for key, one in tree.items()
        if key != "mcp" or any(one.values())
    }
    return bool(without(found) == without(wanted))


def _servers(text: str) -> Mapping[str, Any]:
    servers = _parsed(text).get("mcp", {}).get("servers", {})
    return servers if isinstance(servers, dict) else {}


def _parsed(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except ValueError as error:
        raise _refused(f"it is not TOML: {error}") from error


def _replace(file: Path, text: str) -> None:
    try:
        replace_file(file, text)
    except ConfigError as error:
        raise _refused(str(error)) from error


def _refused(why: str) -> CliError:
    return CliError(Exit.ARG_ERROR, "CONFIG_ERROR", f"the configuration was not changed: {why}")
