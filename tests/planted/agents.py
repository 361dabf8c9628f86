"""Wrong: the answer of a sub-agent has the label of the least trusted text that was read by then."""

from dataclasses import replace

from leeward.runtime.agents import Agents
from leeward.tools.notes import weakest


def spoil(runtime):
    agents, right = runtime._parts.agents, Agents.execute

    async def execute(cleared):
        output = await right(agents, cleared)
        return replace(output, origin=weakest({output.origin, *runtime.pipeline.session.labels}))

    agents.execute = execute
