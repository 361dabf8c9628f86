"""The composition root: open what sessions are built on, wire it together, close it in reverse order.

Nothing here decides anything. The pipeline decides what may run; `app.py` offers what can be done with a
session.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

import trio

from leeward.memory.audit import AuditLogger, hash_key
from leeward.memory.grants import GrantStore
from leeward.memory.notes import NoteStore
from leeward.memory.overflow import OverflowStore
from leeward.memory.sessions import Catalog, Transcript
from leeward.security.call import ToolExecutor
from leeward.security.paths import writable
from leeward.security.policy import Policy
from leeward.security.ports import Approver, Clock, Ports
from leeward.security.sandbox import SandboxLevel
from leeward.tools.builtin import open_builtin_tools
from leeward.tools.composite import CompositeExecutor
from leeward.tools.http.resolve import Resolver
from leeward.tools.process import Kit, find_programs, git_settings, open_kit
from leeward.tools.sandbox import Sandbox
from leeward.tools.shell import Trials
from leeward.tools.survey import Surveyor

from .config import Loaded, Locations
from .executors import all_tools, builtin_settings, configured_executors, passed_on
from .model import Model, open_model
from .policy import to_policy
from .providers.interface import Provider
from .sandbox import histories_of, open_confinement
from .sessions import (
    CheckpointNotice,
    Current,
    EventRelay,
    NoApprover,
    SessionStore,
    checkpoints_of,
    jobs_of,
    keeping_of,
    unknown_lines,
)
from .storage import audit_of, open_storage, tidy

__all__ = ["Components", "open_parts"]


@dataclass(frozen=True, slots=True)
class Components:
    """What is opened once and outlives a session; `current` knows which session that is."""

    loaded: Loaded
    places: Locations
    policy: Policy
    ports: Ports
    audit: AuditLogger
    overflow: OverflowStore
    kept: SessionStore
    grants: GrantStore
    notes: NoteStore
    key: bytes
    sandbox: Sandbox
    tools: CompositeExecutor
    model: Model
    relay: EventRelay
    current: Current


@asynccontextmanager
async def open_parts(
    loaded: Loaded,
    places: Locations,
    clock: Clock,
    relay: EventRelay,
    executors: Sequence[ToolExecutor],
    approver: Approver | None,
    provider: Provider | None,
    resolve: Resolver,
) -> AsyncGenerator[Components, None]:
    """Open all of it; `Runtime.open` says what the arguments are, and what is raised."""
    config, current = loaded.config, Current()
    policy = to_policy(
        loaded,
        workspace=places.workspace,
        home=places.home,
        headless=approver is None,
        data_dir=places.data,
        config_dir=places.config,
    )
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(open_storage(places.database))
        audit = audit_of(database, clock, loaded, places)
        overflow = OverflowStore(database, clock, config.tools.overflow.max_total_bytes)
        notes, grants = NoteStore(database, clock), GrantStore(database, clock)
        kept = SessionStore(audit, Transcript(database, clock), Catalog(database, clock), database.path)

        kit = stack.enter_context(await trio.to_thread.run_sync(_kit, policy))
        confined = open_confinement(config, places, policy, relay.alert, kit.readable)
        sandbox, policy = await stack.enter_async_context(confined)
        jobs = current.jobs = jobs_of(config, current, overflow, clock)
        await stack.enter_async_context(jobs.opened())
        # Nothing looks at the workspace before it is whole again, or as it was.
        keeping = keeping_of(config, policy, database, clock)
        for line in await keeping.finish_pending():
            relay.tell_once(line)
        points = current.checkpoints = checkpoints_of(config, policy, database, clock, current, relay.alert)

        named = tuple(configured_executors(config))
        variables = passed_on(named)
        settings = builtin_settings(config, policy, overflow, notes, current.session, resolve)
        given = kit.variables(confined=sandbox.level is not SandboxLevel.NONE)
        settings = replace(settings, runner=sandbox.run, jobs=jobs, passed_on=variables)
        histories, caches = histories_of(sandbox, policy), frozenset(config.tools.shell.caches)
        trials = Trials(sandbox, keeping, policy, current.session, histories, caches)
        settings = replace(settings, given=given, before=kit.refresh, trials=trials)
        built_in = await stack.enter_async_context(open_builtin_tools(settings))
        tools = all_tools(config, built_in, executors, points, named)
        model = await stack.enter_async_context(open_model(config, provider, variables.values()))

        asked = NoApprover() if approver is None else CheckpointNotice(approver, points)
        ports = Ports(
            tools,
            Surveyor(kit.programs, policy, trials.secret_history),
            asked,
            audit,
            overflow,
            clock,
            relay,
            grants,
        )
        key = await trio.to_thread.run_sync(hash_key, places.data)
        stack.callback(current.leave)
        # Before anything else is done to sessions: those that were killed are settled and told of.
        for line in (*unknown_lines(await audit.unknown_outcomes()), *database.take_notices()):
            relay.tell_once(line)
        await tidy(config, kept, overflow, grants, points)
        yield Components(
            loaded=loaded,
            places=places,
            policy=policy,
            ports=ports,
            audit=audit,
            overflow=overflow,
            kept=kept,
            grants=grants,
            notes=notes,
            key=key,
            sandbox=sandbox,
            tools=tools,
            model=model,
            relay=relay,
            current=current,
        )


def _kit(policy: Policy) -> AbstractContextManager[Kit]:
    """Look up which programs and git settings are the person's; this waits for the disk."""
    return open_kit(
        find_programs(os.environ, policy), git_settings(os.environ, policy.home), writable(policy)
    )
