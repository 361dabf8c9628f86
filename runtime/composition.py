"""The composition root of a session: wire its own parts to what it shares, and end them in reverse order.

A session has its own policy, tools, jobs, checkpoints and approver; `resources.py` opens what it shares with
others. Nothing here decides anything. The pipeline decides what may run; `app.py` offers what can be done
with a session.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING

import trio

from leeward.security.lazy import dataclass
from leeward.security.ports import Approver, Ports
from leeward.security.sandbox import SandboxLevel
from leeward.security.text import visible
from leeward.tools import shell
from leeward.tools.builtin import open_builtin_tools, secret_client
from leeward.tools.checkpoints import ChangeRecord
from leeward.tools.composite import Registered
from leeward.tools.distill import Engine
from leeward.tools.survey import Surveyor
from leeward.tools.todo import TodoList

from .agents import Agents, definitions
from .conversation import skills_of
from .executors import all_tools, builtin_settings
from .hooks import TurnHooks, open_hooks
from .mcp import Network, PersonAsker, connection, servers_of
from .sessions import CheckpointNotice, Current, EventRelay, NoApprover, checkpoints_of, jobs_of
from .vault import hand_out, open_vault

if TYPE_CHECKING:
    from leeward.security.call import ToolExecutor
    from leeward.security.policy import Policy
    from leeward.tools.composite import CompositeExecutor
    from leeward.tools.sandbox import Sandbox
    from leeward.tools.shell import Readers, Trials
    from leeward.tools.skills import Skills

    from .config import Loaded, Locations
    from .mcp import Servers
    from .providers.interface import Provider
    from .resources import Resources

__all__ = ["Components", "open_parts"]


@dataclass(frozen=True, slots=True)
class Components:
    """What a session is made of and outlives its conversation; `current` knows which one that is."""

    shared: Resources
    loaded: Loaded
    places: Locations
    policy: Policy
    ports: Ports
    sandbox: Sandbox
    tools: CompositeExecutor
    servers: Servers
    skills: Skills
    agents: Agents
    todo: TodoList
    provider: Provider
    relay: EventRelay
    current: Current
    secrets: frozenset[str]
    hooks: TurnHooks


@asynccontextmanager
async def open_parts(
    shared: Resources,
    loaded: Loaded,
    places: Locations,
    relay: EventRelay,
    executors: Sequence[ToolExecutor] | None,
    approver: Approver | None,
    provider: Provider | None,
) -> AsyncGenerator[Components, None]:
    """Open a session's own parts; `Runtime.session` says what the arguments are, and what is raised."""
    config, current, clock = loaded.config, Current(), shared.clock
    policy = shared.policy(loaded, places, headless=approver is None)
    async with AsyncExitStack() as stack:
        workspace = await stack.enter_async_context(shared.workspace(loaded, places, policy))
        policy = replace(policy, sandbox=workspace.policy)
        sandbox = workspace.sandbox.heard_by(relay.alert)
        jobs = current.jobs = jobs_of(config, current, shared.overflow, clock, relay.alert)
        await stack.enter_async_context(jobs.opened())
        record = ChangeRecord(shared.changes, policy.workspace, lambda: current.session().id)
        points = checkpoints_of(config, policy, shared.states, record, relay.alert)
        current.checkpoints = points

        own = shared.executors if executors is None else executors
        registered = (*(Registered(executor, "handed in") for executor in own), *shared.named)
        vault = await trio.to_thread.run_sync(open_vault, config, registered, workspace.kit.askpass)
        for line in vault.notices:
            relay.tell_once(line)
        policy = replace(policy, secrets=tuple(one for one in policy.secrets if one.name in vault.lendable))
        settings = builtin_settings(
            config, policy, shared.overflow, shared.notes, current.session, shared.resolve
        )
        kit, caches = workspace.kit, frozenset(config.tools.shell.caches)

        # Made for the first command that runs in one: they load more than all else together.
        @cache
        def trials() -> Trials:
            keeping, histories = workspace.keeping, workspace.histories()
            return shell.Trials(sandbox, keeping, policy, current.session, histories, caches)

        @cache
        def readers() -> Readers:
            return shell.Readers(sandbox, policy, current.session, workspace.histories(), caches)

        async def secret_history() -> str:
            return await trials().secret_history()

        settings = replace(
            settings,
            runner=sandbox.run,
            jobs=jobs,
            lend=vault.lend,
            todo=(todo := TodoList()),
            reader=lambda: current.reader,
            given=kit.variables(confined=sandbox.level is not SandboxLevel.NONE),
            before=kit.refresh,
            trials=trials,
            readers=readers,
        )
        built_in = await stack.enter_async_context(open_builtin_tools(settings))
        around = record.around if points is None else points.around
        # What the runtime's executors are lent is decided by its own configuration, in every session.
        served = [one for one in registered if shared.serves(one.executor)]
        hand_out(vault, served, partial(secret_client, settings))
        network = Network(policy, shared.resolve, config.tools.fetch.ca_file)
        connect = connection(sandbox, network, settings.given)
        asker = PersonAsker(approver, lambda: current.pipeline, lambda: current.reader)
        opened = servers_of(config, places, connect, relay.tell_once, asker)
        servers = await stack.enter_async_context(opened)
        skills = await trio.to_thread.run_sync(skills_of, places, lambda: current.pipeline)
        loads = skills.tools() if await trio.to_thread.run_sync(skills.folders) else ()
        defined, wrong = await trio.to_thread.run_sync(definitions, places)
        for line in wrong:
            relay.tell_once(visible(line))
        agents = Agents(defined, config.agent.timeout)
        ours = (*built_in, *loads, *((agents,) if defined else ()), *servers.executors)
        tools = all_tools(config, ours, own, around, shared.named)

        hooks = open_hooks(config, sandbox, policy.home, settings.given, relay.alert)
        asked = NoApprover() if approver is None else CheckpointNotice(approver, points)
        ports = Ports(
            tools,
            Surveyor(kit.programs, policy, secret_history, shared.changes),
            asked,
            shared.audit,
            shared.overflow,
            clock,
            relay,
            shared.grants,
            Engine(loaded.filters),
            hooks if config.hooks else None,
            shared.labels,
        )
        stack.callback(current.leave)
        yield Components(
            shared=shared,
            loaded=loaded,
            places=places,
            policy=policy,
            ports=ports,
            sandbox=sandbox,
            tools=tools,
            servers=servers,
            skills=skills,
            agents=agents,
            todo=todo,
            provider=provider or shared.model.provider,
            relay=relay,
            current=current,
            secrets=shared.model.secrets | vault.values | servers.names.secrets,
            hooks=TurnHooks(hooks, relay.emit),
        )
