"""Open what all sessions of a runtime have in common, once, and what those in one workspace have besides.

Common to all are the database with its stores, the models with their connections, the executors that the
configuration names, and the key of the audit; common to a workspace are the sandbox with its supervisors, the
programs that commands find, and what keeps trial runs. What belongs to one session is made by
`composition.py`.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import field
from functools import cache, partial
from typing import TYPE_CHECKING, TypedDict

import trio

from leeward.memory.audit import AuditLogger, hash_key
from leeward.memory.changes import CallChanges
from leeward.memory.grants import GrantStore
from leeward.memory.labels import LabelStore
from leeward.memory.notes import NoteStore
from leeward.memory.overflow import OverflowStore
from leeward.security.lazy import dataclass
from leeward.security.paths import writable
from leeward.security.text import use_mask_key
from leeward.tools.http.resolve import dns_resolver
from leeward.tools.labels import FileLabels
from leeward.tools.process import Kit, find_programs, git_settings, open_kit

from .clock import SystemClock
from .executors import configured_executors
from .model import Model, open_model
from .policy import to_policy
from .sandbox import histories_of, open_confinement
from .sessions import SessionStore, keeping_of, unknown_lines
from .storage import audit_of, open_storage, tidy

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from leeward.memory.checkpoints import CheckpointStore
    from leeward.memory.database import Database
    from leeward.security.call import ToolExecutor
    from leeward.security.policy import Policy, Sandboxing
    from leeward.security.ports import Approver, Clock
    from leeward.tools.composite import Registered
    from leeward.tools.git import Histories
    from leeward.tools.http.resolve import Resolver
    from leeward.tools.sandbox import Keeping, Sandbox

    from .config import Loaded, Locations
    from .events import RunEvent
    from .providers.interface import Provider

__all__ = [
    "Resources",
    "RuntimeOptions",
    "RuntimeSettings",
    "SessionOptions",
    "SessionSettings",
    "Workspace",
    "open_resources",
]


class SessionSettings(TypedDict, total=False):
    """The options of a session but for who is asked, which each front takes in a form of its own.

    workspace: the folder to work in, as an absolute path.
    config: a configuration file to read instead of the person's, or values by key, dotted or nested. The
        values of a session are laid over the configuration of its runtime.
    loaded: a configuration that was loaded before, such as the `loaded` of another session.
    executors: tools beside the built-in ones, trusted as these are.
    provider: the model.
    listener: a function that is called with every event of the session, also between turns.
    """

    workspace: Path | None
    config: Path | Mapping[str, object] | None
    loaded: Loaded | None
    executors: Sequence[ToolExecutor] | None
    provider: Provider | None
    listener: Callable[[RunEvent], None] | None


class SessionOptions(SessionSettings, total=False):
    """The options of a session. What is left out is as in its runtime.

    approver: who is asked; without one, every question is a refusal.
    """

    approver: Approver | None


class RuntimeSettings(SessionSettings, total=False):
    """The options of a runtime and its first session, but for who is asked.

    model: the model that answers, as for `--model` ("openai:NAME", "offline").
    key: the API key for it, instead of the configured one.
    clock: the time of day.
    places: where files are stored; by default in this person's folders.
    resolve: looks up host names for tools.
    """

    model: str | None
    key: str | None
    clock: Clock | None
    places: Locations | None
    resolve: Resolver


class RuntimeOptions(RuntimeSettings, SessionOptions, total=False):
    """The options of a runtime and its first session. Each may be left out."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """What sessions in one workspace share: how programs run there, and what keeps what they changed.

    `policy` is what holds there of the sandbox. Whether somebody can be asked is a session's own affair.
    """

    policy: Sandboxing
    kit: Kit
    sandbox: Sandbox
    keeping: Keeping
    histories: Callable[[], Histories]


@dataclass(slots=True)
class _Opened:
    """A workspace, how it is closed, and for how many it is open."""

    workspace: Workspace
    stack: AsyncExitStack
    users: int = 0


@dataclass(frozen=True, slots=True)
class Resources:
    """What is opened once for all sessions of a runtime."""

    loaded: Loaded
    places: Locations
    clock: Clock
    resolve: Resolver
    executors: Sequence[ToolExecutor]
    approver: Approver | None
    named: Sequence[Registered]
    database: Database
    audit: AuditLogger
    overflow: OverflowStore
    kept: SessionStore
    grants: GrantStore
    changes: CallChanges
    labels: FileLabels
    notes: NoteStore
    states: CheckpointStore
    key: bytes
    model: Model
    _tell: Callable[[str], None]
    _opened: dict[tuple[str, str], _Opened] = field(default_factory=dict)
    _served: list[ToolExecutor] = field(default_factory=list)
    _opening: trio.Lock = field(default_factory=trio.Lock)

    def serves(self, executor: ToolExecutor) -> bool:
        """Whether an executor is a session's own, or one of the runtime's that was lent nothing yet."""
        common = (*self.executors, *(one.executor for one in self.named))
        if not any(one is executor for one in common):
            return True
        is_new = not any(one is executor for one in self._served)
        if is_new:
            self._served.append(executor)
        return is_new

    def policy(self, loaded: Loaded, places: Locations, *, headless: bool) -> Policy:
        """Return what the gates see of a session's configuration, but for the sandbox that is found.

        The database, keys and secrets are those of the runtime, whatever a session's configuration names.
        """
        return to_policy(
            loaded,
            workspace=places.workspace,
            home=places.home,
            headless=headless,
            data_dir=places.data,
            config_dir=places.config,
            also=None if loaded is self.loaded else self.loaded,
        )

    @asynccontextmanager
    async def workspace(
        self, loaded: Loaded, places: Locations, policy: Policy
    ) -> AsyncGenerator[Workspace, None]:
        """Open what sessions of this configuration share in a workspace, or share it; the last one closes it.

        Raises:
            CliError: a sandbox is required, and none works here.
            RecordError: what a killed process left of keeping changes could not be finished.
        """
        key = (policy.workspace, loaded.digest)
        async with self._opening:
            opened = self._opened.get(key)
            if opened is None:
                opened = self._opened[key] = await self._open(loaded, places, policy)
            opened.users += 1
        try:
            yield opened.workspace
        finally:
            with trio.CancelScope(shield=True):
                async with self._opening:
                    opened.users -= 1
                    if not opened.users:
                        del self._opened[key]
                        await opened.stack.aclose()

    async def _open(self, loaded: Loaded, places: Locations, policy: Policy) -> _Opened:
        async with AsyncExitStack() as stack:
            kit = stack.enter_context(await trio.to_thread.run_sync(_kit, policy))
            confined = open_confinement(loaded.config, places, policy, self._tell, kit.readable)
            sandbox, policy = await stack.enter_async_context(confined)
            # Nothing looks at the workspace before it is whole again, or as it was.
            keeping = keeping_of(loaded.config, policy, self.states, self.database)
            for line in await keeping.finish_pending():
                self._tell(line)
            workspace = Workspace(
                policy.sandbox, kit, sandbox, keeping, cache(partial(histories_of, sandbox, policy))
            )
            return _Opened(workspace, stack.pop_all())


@asynccontextmanager
async def open_resources(
    loaded: Loaded, places: Locations, options: RuntimeOptions, tell: Callable[[str], None]
) -> AsyncGenerator[Resources, None]:
    """Open it; `Runtime.open` says what is raised.

    `tell` is called with what the person should know of: calls without a known end, damage to a file.
    """
    config, clock = loaded.config, options.get("clock") or SystemClock()
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(open_storage(places.database))
        key = await trio.to_thread.run_sync(hash_key, places.data)
        use_mask_key(key)
        audit = audit_of(database, clock, loaded, places)
        overflow = OverflowStore(database, clock, config.tools.overflow.max_total_bytes)
        grants, kept = GrantStore(database, clock), SessionStore.of(database, clock, audit, config)
        named = tuple(configured_executors(config))
        model = await stack.enter_async_context(
            open_model(config, options.get("provider"), options.get("key") or "")
        )
        shared = Resources(
            loaded=loaded,
            places=places,
            clock=clock,
            resolve=options.get("resolve") or dns_resolver,
            executors=options.get("executors") or (),
            approver=options.get("approver"),
            named=named,
            database=database,
            audit=audit,
            overflow=overflow,
            kept=kept,
            grants=grants,
            changes=CallChanges(database),
            labels=FileLabels(LabelStore(database)),
            notes=NoteStore(database, clock),
            states=kept.states,
            key=key,
            model=model,
            _tell=tell,
        )
        # Before anything else is done to sessions: those that were killed are settled and reported.
        for line in (*unknown_lines(await audit.unknown_outcomes()), *database.take_notices()):
            tell(line)
        await tidy(config, kept, overflow, grants, kept.states)
        yield shared


def _kit(policy: Policy) -> AbstractContextManager[Kit]:
    """Look up which programs and git settings are the person's; this waits for the disk."""
    return open_kit(
        find_programs(os.environ, policy), git_settings(os.environ, policy.home), writable(policy)
    )
