"""The composition root of a session: wire its own parts to what it shares, and end them in reverse order.

A session has its own policy, tools, jobs, checkpoints and approver; `resources.py` opens what it shares with
others. Nothing here decides anything. The pipeline decides what may run; `app.py` offers what can be done
with a session.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
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
    from leeward.tools.builtin import BuiltinSettings
    from leeward.tools.composite import Around, CompositeExecutor
    from leeward.tools.hooks import HookRunner
    from leeward.tools.sandbox import Sandbox
    from leeward.tools.shell import Readers, Trials
    from leeward.tools.skills import Skills

    from .config import Loaded, Locations
    from .mcp import Servers
    from .providers.interface import Provider
    from .resources import Resources, Workspace
    from .vault import Vault

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


@dataclass(frozen=True, slots=True)
class _Base:
    """What is there before the tools of a session: they, and its ports, are made from it."""

    shared: Resources
    loaded: Loaded
    places: Locations
    relay: EventRelay
    current: Current
    policy: Policy
    workspace: Workspace
    sandbox: Sandbox
    record: ChangeRecord

    @property
    def caches(self) -> frozenset[str]:
        """The folders of the configuration that count as caches of tools."""
        return frozenset(self.loaded.config.tools.shell.caches)


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
    async with AsyncExitStack() as stack:
        base = await _open_base(stack, shared, loaded, places, relay, headless=approver is None)
        own = shared.executors if executors is None else executors
        registered = (*(Registered(executor, "handed in") for executor in own), *shared.named)
        base, vault = await _with_vault(base, registered)
        trials, readers = _runs_of(base)
        settings = replace(_tool_settings(base, vault), trials=trials, readers=readers)
        built_in = await stack.enter_async_context(open_builtin_tools(settings))
        # What the runtime's executors are lent is decided by its own configuration, in every session.
        served = [one for one in registered if shared.serves(one.executor)]
        hand_out(vault, served, partial(secret_client, settings))
        servers = await stack.enter_async_context(_servers(base, settings, approver))
        skills, loads = await _skills(base)
        agents = await _agents(base)
        ours = (*built_in, *loads, *((agents,) if agents.definitions else ()), *servers.executors)
        tools = all_tools(loaded.config, ours, own, _around(base), shared.named)
        hooks = open_hooks(loaded.config, base.sandbox, base.policy.home, settings.given, relay.alert)
        ports = _ports(base, tools, trials, approver, hooks)
        stack.callback(base.current.leave)
        yield Components(
            shared=shared,
            loaded=loaded,
            places=places,
            policy=base.policy,
            ports=ports,
            sandbox=base.sandbox,
            tools=tools,
            servers=servers,
            skills=skills,
            agents=agents,
            todo=settings.todo,
            provider=provider or shared.model.provider,
            relay=relay,
            current=base.current,
            secrets=shared.model.secrets | vault.values | servers.names.secrets,
            hooks=TurnHooks(hooks, relay.emit),
        )


async def _open_base(
    stack: AsyncExitStack,
    shared: Resources,
    loaded: Loaded,
    places: Locations,
    relay: EventRelay,
    *,
    headless: bool,
) -> _Base:
    """Open the workspace with its sandbox, then the jobs, which end before it is closed."""
    config, current = loaded.config, Current()
    policy = shared.policy(loaded, places, headless=headless)
    workspace = await stack.enter_async_context(shared.workspace(loaded, places, policy))
    policy = replace(policy, sandbox=workspace.policy)
    current.jobs = jobs_of(config, current, shared.overflow, shared.clock, relay.alert)
    await stack.enter_async_context(current.jobs.opened())
    record = ChangeRecord(shared.changes, policy.workspace, lambda: current.session().id)
    current.checkpoints = checkpoints_of(config, policy, shared.states, record, relay.alert)
    return _Base(
        shared=shared,
        loaded=loaded,
        places=places,
        relay=relay,
        current=current,
        policy=policy,
        workspace=workspace,
        sandbox=workspace.sandbox.heard_by(relay.alert),
        record=record,
    )


async def _with_vault(base: _Base, registered: Sequence[Registered]) -> tuple[_Base, Vault]:
    """Read the secrets; the policy then names only those that there are."""
    askpass = base.workspace.kit.askpass
    vault = await trio.to_thread.run_sync(open_vault, base.loaded.config, registered, askpass)
    for line in vault.notices:
        base.relay.tell_once(line)
    lendable = tuple(one for one in base.policy.secrets if one.name in vault.lendable)
    return replace(base, policy=replace(base.policy, secrets=lendable)), vault


def _runs_of(base: _Base) -> tuple[Callable[[], Trials], Callable[[], Readers]]:
    """Return what gives the trial runs, and the read-only runs.

    Each is made for the first command that runs in one: they load more than all else together.
    """
    sandbox, policy, session, workspace = base.sandbox, base.policy, base.current.session, base.workspace

    @cache
    def trials() -> Trials:
        keeping, histories = workspace.keeping, workspace.histories()
        return shell.Trials(sandbox, keeping, policy, session, histories, base.caches)

    @cache
    def readers() -> Readers:
        return shell.Readers(sandbox, policy, session, workspace.histories(), base.caches)

    return trials, readers


def _tool_settings(base: _Base, vault: Vault) -> BuiltinSettings:
    """Return what the built-in tools need, but for what runs commands on trial and read-only."""
    shared, current, sandbox, kit = base.shared, base.current, base.sandbox, base.workspace.kit
    settings = builtin_settings(
        base.loaded.config, base.policy, shared.overflow, shared.notes, current.session, shared.resolve
    )
    return replace(
        settings,
        runner=sandbox.run,
        jobs=current.jobs,
        lend=vault.lend,
        todo=TodoList(),
        reader=lambda: current.reader,
        given=kit.variables(confined=sandbox.level is not SandboxLevel.NONE),
        before=kit.refresh,
    )


def _servers(
    base: _Base, settings: BuiltinSettings, approver: Approver | None
) -> AbstractAsyncContextManager[Servers]:
    """Return the MCP servers, to be opened; what they ask the person for goes to the `approver`."""
    config, shared, current = base.loaded.config, base.shared, base.current
    network = Network(base.policy, shared.resolve, config.tools.fetch.ca_file)
    connect = connection(base.sandbox, network, settings.given)
    asker = PersonAsker(approver, lambda: current.pipeline, lambda: current.reader)
    return servers_of(config, base.places, connect, base.relay.tell_once, asker)


async def _skills(base: _Base) -> tuple[Skills, Sequence[ToolExecutor]]:
    """Return the skills, and the tools that load one, if there are any."""
    current = base.current
    skills = await trio.to_thread.run_sync(skills_of, base.places, lambda: current.pipeline)
    return skills, skills.tools() if await trio.to_thread.run_sync(skills.folders) else ()


async def _agents(base: _Base) -> Agents:
    """Return the sub-agents, and tell the person which definitions cannot be used."""
    defined, wrong = await trio.to_thread.run_sync(definitions, base.places)
    for line in wrong:
        base.relay.tell_once(visible(line))
    return Agents(defined, base.loaded.config.agent.timeout)


def _around(base: _Base) -> Around:
    """Return what wraps every call: the checkpoints, or the record of changes alone where they are off."""
    points = base.current.checkpoints
    return base.record.around if points is None else points.around


def _ports(
    base: _Base,
    tools: CompositeExecutor,
    trials: Callable[[], Trials],
    approver: Approver | None,
    hooks: HookRunner,
) -> Ports:
    """Return the ports of the session's pipeline."""
    shared = base.shared

    async def secret_history() -> str:
        return await trials().secret_history()

    return Ports(
        executor=tools,
        surveyor=Surveyor(base.workspace.kit.programs, base.policy, secret_history, shared.changes),
        approver=NoApprover() if approver is None else CheckpointNotice(approver, base.current.checkpoints),
        audit=shared.audit,
        store=shared.overflow,
        clock=shared.clock,
        observer=base.relay,
        grants=shared.grants,
        distiller=Engine(base.loaded.filters),
        hooks=hooks if base.loaded.config.hooks else None,
        files=shared.labels,
    )
