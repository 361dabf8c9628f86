"""`leeward agents`: which sub-agents there are here, and all of one; to write their files is the person's."""

from __future__ import annotations

import trio

from leeward.security.kinds import Json
from leeward.security.text import visible

from ..agents import AgentDefinition, definitions
from ..console import look
from ..exits import CliError, Exit
from ..options import Options
from ..printer import Printer

__all__ = ["agents"]


async def agents(options: Options, printer: Printer) -> Exit:
    """List sub-agents, or show one.

    Raises:
        CliError: there is no such sub-agent.
    """
    found, problems = await trio.to_thread.run_sync(definitions, look(options).places)
    for problem in problems:
        printer.warn(visible(problem))
    if options.action == "list":
        shown = [found[name] for name in sorted(found)]
        lines = [visible(f"{one.name:<16} {one.description[:200]}") for one in shown]
        lines = lines or ["there are no sub-agents"]
    else:
        if options.name not in found:
            what = visible(f"there is no sub-agent {options.name}")
            raise CliError(Exit.NOT_FOUND, "NOT_FOUND", what, suggestion="leeward agents list")
        shown = [found[options.name]]
        lines = [f"{key:<12} {visible(str(value))}" for key, value in _row(shown[0]).items()]
        lines += ["", *map(visible, shown[0].text.split("\n"))]
    printer.answer("".join(f"{line}\n" for line in lines))
    rows = [_row(one) for one in shown]
    for row in rows:
        printer.event({"schema": 1, "type": "agent", **row})
    return printer.finish(Exit.SUCCESS, {"agents": [*rows]})


def _row(one: AgentDefinition) -> dict[str, Json]:
    return {
        "name": one.name,
        "description": one.description,
        "tools": " ".join(one.tools),
        "autonomy": str(one.autonomy),
        "max_turns": one.max_turns,
        "model": one.model,
        "place": one.place,
    }
