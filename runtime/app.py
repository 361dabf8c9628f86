"""The composition root: who is handed what, and what one session of the product consists of.

Everything is opened here and closed here, in the reverse order. Nothing here decides anything: what
may run is the pipeline's business, what a turn is stands in `turn.py`.
"""

from __future__ import annotations

import json
import math
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial

import trio

from leeward.memory import AuditLogger, OverflowStore, Transcript
from leeward.security import (
    Answer,
    Approver,
    Asker,
    BreakerReset,
    Clock,
    Forgot,
    Json,
    Known,
    LevelSet,
    Origin,
    Pipeline,
    Policy,
    Ports,
    Provenance,
    Question,
    Session,
    Source,
    ToolCall,
    ToolExecutor,
    ToolResult,
    TrustLevel,
    Withdrawn,
    tell,
    without_secrets,
)
from leeward.tools import CompositeExecutor, Resolver, Surveyor, dns_resolver, open_builtin_tools

from .batches import OneAtATime
from .config import Loaded, load
from .config_policy import to_policy
from .conversation import Conversation
from .events import Alert, CallEnded, CallStarted, LiveOutput, RunEvent, TurnEnded
from .given import given_by, given_by_config
from .models import Model, open_model
from .places import Places, find_places
from .providers import Provider, new_call_id
from .registry import all_tools, builtin_settings
from .storage import open_storage
from .talk import Talk

__all__ = ["Nobody", "Runtime", "SystemClock"]


class SystemClock:
    """The time of day."""

    def now(self) -> float:
        """Return seconds since the epoch."""
        return time.time()


class Nobody:
    """The approver where nobody can be asked: every question is a refusal at once."""

    async def ask(self, _question: Question) -> Answer:
        """Return `Answer.NOBODY`."""
        await trio.lowlevel.checkpoint()
        return Answer.NOBODY


class _Relay:
    """The pipeline's observer: hands what it hears to all who listen. A listener may fail, a call may not."""

    def __init__(self) -> None:
        self.listeners: list[Callable[[RunEvent], None]] = []

    def live(self, call: str, chunk: str) -> None:
        self.emit(LiveOutput(call, chunk))

    def alert(self, message: str) -> None:
        self.emit(Alert(message))

    def emit(self, event: RunEvent) -> None:
        for listener in tuple(self.listeners):
            tell(partial(listener, event))


@dataclass(frozen=True, slots=True)
class _Parts:
    """What is opened once and outlives a session."""

    loaded: Loaded
    places: Places
    policy: Policy
    ports: Ports
    audit: AuditLogger
    overflow: OverflowStore
    transcript: Transcript
    model: Model


class _Current:
    """Which session is the current one: what `read_overflow` may read belongs to it."""

    session = ""


class _Alone:
    """Sees that a conversation is changed by one at a time."""

    def __init__(self) -> None:
        self._busy = False

    def __enter__(self) -> None:
        if self._busy:
            raise trio.BusyResourceError("a turn of this session is running")
        self._busy = True

    def __exit__(self, *_: object) -> None:
        self._busy = False


class Runtime:
    """One session at work: a conversation, its pipeline, and what is kept of both.

    Made by `Runtime.open`. `audit`, `overflow` and `transcript` may be read at any time.
    """

    def __init__(
        self,
        parts: _Parts,
        tools: CompositeExecutor,
        relay: _Relay,
        current: _Current,
    ) -> None:
        self._parts = parts
        self._relay = relay
        self._current = current
        self._alone = _Alone()
        self.loaded = parts.loaded
        self.config = parts.loaded.config
        self.places = parts.places
        self.tools = tools
        self.provider = parts.model.provider
        self.audit = parts.audit
        self.overflow = parts.overflow
        self.transcript = parts.transcript

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        loaded: Loaded | None = None,
        *,
        executors: Sequence[ToolExecutor] = (),
        approver: Approver | None = None,
        provider: Provider | None = None,
        clock: Clock | None = None,
        places: Places | None = None,
        listener: Callable[[RunEvent], None] | None = None,
        resolve: Resolver = dns_resolver,
    ) -> AsyncGenerator[Runtime, None]:
        """Open a session with everything it needs, and close it all at the end.

        Args:
            loaded: the configuration; by default what `load()` finds for this person.
            executors: tools of the embedding program, trusted like built-in ones.
            approver: who is asked; without one, every question is a refusal.
            provider: the model; by default the one the configuration names, else the offline one.
            clock: the time of day.
            places: where things lie; by default this person's folders and the current one.
            listener: is told every event, those outside of turns included.
            resolve: looks host names up for tools.

        Raises:
            ConfigError, CliError: the configuration, a plug-in or the model cannot be used.
            RecordError: the database cannot be opened.
        """
        loaded = loaded or load()
        places = places or find_places(loaded.config)
        clock = clock or SystemClock()
        relay, current = _Relay(), _Current()
        if listener is not None:
            relay.listeners.append(listener)
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
            overflow = OverflowStore(database, clock)
            settings = builtin_settings(loaded.config, policy, overflow, lambda: current.session, resolve)
            built_in = await stack.enter_async_context(open_builtin_tools(settings))
            composite = all_tools(loaded.config, built_in, executors)
            model = await stack.enter_async_context(open_model(loaded.config, provider))
            audit = AuditLogger(database, clock)
            asked = OneAtATime(approver or Nobody())
            ports = Ports(composite, Surveyor(), asked, audit, overflow, clock, relay)
            transcript = Transcript(database, clock)
            parts = _Parts(loaded, places, policy, ports, audit, overflow, transcript, model)
            runtime = cls(parts, composite, relay, current)
            await overflow.prune(loaded.config.tools.overflow.retention_days)
            await runtime.new_session()
            yield runtime

    @property
    def session_id(self) -> str:
        """The id of the session."""
        return self.pipeline.session.id

    @property
    def conversation(self) -> Conversation:
        """What was said in the session."""
        return self.talk.conversation

    async def new_session(self) -> None:
        """Begin another session: nothing of the one before is known in it.

        Raises:
            RecordError: its beginning could not be recorded; the session before goes on.
            trio.BusyResourceError: a turn is running.
        """
        with self._alone:
            parts = self._parts
            session = Session(f"s_{secrets.token_hex(6)}", parts.policy, now=parts.ports.clock.now())
            workspace = str(parts.places.workspace)
            details: dict[str, Json] = {"autonomy": str(parts.policy.autonomy), "model": self.provider.name}
            await parts.audit.start_session(session.id, workspace, parts.loaded.digest, details)
            await parts.transcript.start(session.id, workspace)
            self.pipeline = Pipeline(session, parts.ports, parts.model.secrets)
            self.talk = Talk(
                self.pipeline, self.tools, self.transcript, self.config, self.places, self._relay.alert
            )
            self._current.session = session.id
            await self.pipeline.note(*given_by_config(self.config, session))

    async def clear(self) -> None:
        """Forget conversation, URLs, labels, grants and repeat counters; the rest stays.

        Raises:
            trio.BusyResourceError: a turn is running.
        """
        with self._alone:
            self.talk.clear()
            session = self.pipeline.session
            await self.pipeline.note(Forgot(session.now), *given_by_config(self.config, session))

    def switch_model(self, spec: str) -> None:
        """Have another model answer from the next turn on; it is told everything that was said so far.

        Raises:
            CliError: there is no such model, or its settings or key cannot be used.
            trio.BusyResourceError: a turn is running.
        """
        with self._alone:
            self.provider = self._parts.model.choose(spec)

    async def give(self, text: str, provenance: Provenance) -> tuple[str, ...]:
        """Put what the person's words name into the ledger, and return it in canonical form."""
        events = given_by(text, provenance, self.pipeline.session)
        await self.pipeline.note(*events)
        return tuple(url for event in events for url in event.urls)

    async def withdraw(self, known: Known) -> None:
        """Forget one URL or destination, however it became known."""
        await self.pipeline.note(Withdrawn(self.pipeline.session.now, (known.text,)))

    async def set_trust(self, tool: str, level: TrustLevel) -> None:
        """Set a tool's trust level for this session; raising a blocked one empties its window."""
        now = self.pipeline.session.now
        await self.pipeline.note(LevelSet(now, tool, level, "the person, by /trust"))

    async def reset_breaker(self) -> None:
        """Start counting denials anew."""
        await self.pipeline.note(BreakerReset(self.pipeline.session.now))

    async def call(
        self, tool: str, arguments: Mapping[str, Json] | str, asker: Asker = Asker.MODEL
    ) -> ToolResult:
        """Run one call through the pipeline; arguments as an object or JSON text. The listeners hear it."""
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        call = ToolCall(new_call_id(), tool, text, asker)
        shown = without_secrets(text, self.tools.spec(tool))
        self._relay.emit(CallStarted(replace(call, arguments=shown)))
        result = await self.pipeline.run(call)
        self._relay.emit(CallEnded(result))
        return result

    async def admit(self, text: str, kind: str, name: str = "") -> str:
        """Return text that is nobody's words (piped input, a fetched page) fenced, as it may go along."""
        return await self.pipeline.admit(text, Source(kind, Origin.WEB, name))

    async def turn(self, text: str, attached: str = "") -> TurnEnded:
        """Run one turn on the person's words; the listeners hear what happens.

        `attached` is text that `admit` returned, and goes to the model along with the words.

        Raises:
            trio.BusyResourceError: another turn is running; a conversation has one at a time.
        """
        with self._alone:
            return await self.talk.turn(self.provider, text, attached, self._relay.emit)

    @asynccontextmanager
    async def run(self, text: str, attached: str = "") -> AsyncGenerator[AsyncIterator[RunEvent], None]:
        """Run one turn and iterate over its events as they happen; leaving the block cancels it.

        Raises:
            trio.BusyResourceError: another turn is running.
        """
        send, receive = trio.open_memory_channel[RunEvent](math.inf)
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(_turn_into, self, send, text, attached)
                with receive:
                    yield receive
                    nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            # One task and the caller's own block: whichever raised, its error is what happened.
            if len(group.exceptions) > 1:
                raise
            raise group.exceptions[0] from group.exceptions[0].__cause__


async def _turn_into(
    runtime: Runtime,
    send: trio.MemorySendChannel[RunEvent],
    text: str,
    attached: str,
    *,
    task_status: trio.TaskStatus[None],
) -> None:
    """Run a turn whose events go into a channel; whoever left the block early wants to hear no more."""

    def hear(event: RunEvent) -> None:
        with suppress(trio.BrokenResourceError):
            send.send_nowait(event)

    with runtime._alone, send:
        runtime._relay.listeners.append(hear)
        task_status.started()
        try:
            await runtime.talk.turn(runtime.provider, text, attached, runtime._relay.emit)
        finally:
            runtime._relay.listeners.remove(hear)
