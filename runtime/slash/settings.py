"""Slash commands about settings: the model, tools, MCP servers, configuration, and what protects here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from leeward.security.lazy import LazyModule
from leeward.security.text import visible

from ..config import trust_in
from ..console import Startup
from ..describe import bound_lines, bounds_of, config_lines, status_lines, tool_line
from ..exits import CliError, Exit
from .result import SlashResult, failed

if TYPE_CHECKING:
    from .. import diagnosis
    from ..app import RuntimeSession
else:
    # It opens sandboxes and looks at programs, which chats do only when asked.
    diagnosis = LazyModule("leeward.runtime.diagnosis")

__all__ = ["list_tools", "servers_text", "set_model", "show_config", "show_findings", "show_status"]

_SERVERS_USAGE = "usage: /mcp [NAME | end NAME]"


async def set_model(runtime: RuntimeSession, argument: str) -> SlashResult:
    """Have another model answer, if one is named, and return which one answers."""
    if argument:
        try:
            await runtime.switch_model(argument)
        except CliError as error:
            return failed(visible(error.message))
    return SlashResult(visible(runtime.provider.name))


async def list_tools(runtime: RuntimeSession, _argument: str) -> SlashResult:
    """List the tools, with their trust and their effects."""
    session = runtime.pipeline.session
    return SlashResult("\n".join(tool_line(spec, session) for spec in runtime.tools.specs()))


async def servers_text(runtime: RuntimeSession, argument: str) -> str:
    """Show the servers, or one of them with its tools; end one, which the next call starts again.

    Raises:
        CliError: there is no such server, or nothing of that is meant.
    """
    servers, words = runtime.servers, argument.split()
    if not words:
        lines = [
            visible(f"{name}: {server.state} · {server.settings.endpoint}")
            for name, server in servers.servers.items()
        ]
        lines += [
            visible(f"{name}: not allowed · {one.endpoint} ({servers.names.allowing(name)} allows it)")
            for name, one in servers.names.waiting.items()
        ]
        return "\n".join(lines) or "there are no servers; leeward mcp add NAME -- COMMAND adds one"
    server = servers.servers.get(words[-1])
    if server is None:
        why = f"there is no server {words[-1]}; /mcp lists them"
        raise CliError(Exit.NOT_FOUND, "NOT_FOUND", why)
    if words[:-1] == ["end"]:
        server.close()
        return f"{words[-1]} is ended; the next call of a tool of it starts it again"
    if len(words) > 1:
        raise CliError(Exit.ARG_ERROR, "USAGE", _SERVERS_USAGE)
    session, source = runtime.pipeline.session, server.settings.source
    specs = [spec for spec in runtime.tools.specs() if spec.source == source]
    heads = [visible(f"{words[0]}: {server.state} · {server.settings.endpoint}")]
    return "\n".join([*heads, *(tool_line(spec, session) for spec in specs)])


async def show_config(runtime: RuntimeSession, argument: str) -> SlashResult:
    """Show the values that are not the default, or those whose key begins so, with where each was set."""
    lines = config_lines(runtime.loaded, argument)
    what = f"no key begins with {visible(argument)}" if argument else "every value is the default"
    return SlashResult("\n".join(lines) or what, failed=bool(argument) and not lines)


async def show_findings(runtime: RuntimeSession, _argument: str) -> SlashResult:
    """Return what protection rests on, and whether it is well."""
    trust = await trio.to_thread.run_sync(trust_in, runtime.places)
    found = await diagnosis.findings_of(Startup(runtime.loaded, runtime.places, None, trust))
    return SlashResult(
        "\n".join(visible(line) for one in found for line in str(one).split("\n")),
        failed=any(one.is_well is False for one in found),
    )


async def show_status(runtime: RuntimeSession, _argument: str) -> SlashResult:
    """Return the state of the session, and the bounds of its programs."""
    lines = [*status_lines(runtime.pipeline.session, runtime.provider.name, runtime.loaded.filters)]
    lines += bound_lines(runtime.config, runtime.sandbox)
    return SlashResult("\n".join(lines), data={"bounds": bounds_of(runtime.config, runtime.sandbox)})
