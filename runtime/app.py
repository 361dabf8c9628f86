"""The Runtime: one session at work, and everything a caller can do with it.

Callers open it, begin or resume a session, say something in it, call a tool, and leave. What sessions are
built on is opened in `composition.py`, the composition root. The pipeline decides what may run; a turn is run
by `conversation/turn.py`.
"""

from __future__ import annotations

import json
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial

import trio

from leeward.memory.sessions import SessionLock
from leeward.security.action import without_secrets
from leeward.security.call import Asker, ToolCall, ToolExecutor, ToolResult
from leeward.security.filters import Source
from leeward.security.kinds import Json
from leeward.security.pipeline import Pipeline
from leeward.security.ports import Approver, Clock, RecordError
from leeward.security.session import ConversationCleared, Event, LevelSet, ModelSet, Session
from leeward.security.trust import Origin, TrustLevel
from leeward.security.url import Provenance
from leeward.tools.http.resolve import Resolver, dns_resolver

from .clock import SystemClock
from .composition import Components, open_parts
from .config import Loaded, Locations, find_places, load
from .conversation import Chat, History
from .events import CallEnded, CallStarted, RunEvent, TurnEnded
from .grounding import given_by, given_by_config
from .providers.interface import Provider, new_call_id
from .sessions import (
    EventRelay,
    ResumedSession,
    TurnLock,
    configured,
    find,
    lock,
    new_session_id,
    news_of,
    take_in,
    take_up,
)

__all__ = ["Runtime"]


class Runtime:
    """One session at work: a conversation, its pipeline, and what is kept of both.

    Made by `Runtime.open`. `audit`, `overflow`, `transcript`, `grants` and `notes` may be read at any time.
    """

    def __init__(self, parts: Components) -> None:
        self._parts = parts
        self._relay = parts.relay
        self._alone = TurnLock()
        self.pipeline: Pipeline
        self.talk: Chat
        self.loaded = parts.loaded
        self.config = parts.loaded.config
        self.places = parts.places
        self.sandbox = parts.sandbox
        self.tools = parts.tools
        self.jobs = parts.current.jobs
        self.checkpoints = parts.current.checkpoints
        self.provider = parts.model.provider
        self.audit = parts.audit
        self.overflow = parts.overflow
        self.kept = parts.kept
        self.transcript = parts.kept.transcript
        self.grants = parts.grants
        self.notes = parts.notes

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
        places: Locations | None = None,
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
        relay = EventRelay()
        if listener is not None:
            relay.listeners.append(listener)
        opened = open_parts(
            loaded, places, clock or SystemClock(), relay, executors, approver, provider, resolve
        )
        async with opened as parts:
            runtime = cls(parts)
            await runtime.new_session()
            try:
                yield runtime
            finally:
                await parts.current.end(parts.audit, relay.alert)

    @property
    def session_id(self) -> str:
        """The id of the session."""
        return self.pipeline.session.id

    @property
    def conversation(self) -> History:
        """What was said in the session."""
        return self.talk.conversation

    async def new_session(self) -> None:
        """Begin another session: nothing of the one before is known in it.

        Raises:
            RecordError: its beginning could not be recorded; the session before goes on.
            trio.BusyResourceError: a turn is running.
        """
        with self._alone:
            parts, session = self._parts, _fresh(self._parts, new_session_id())
            taken = lock(parts.kept.database, session.id)
            workspace = str(parts.places.workspace)
            details: dict[str, Json] = {"autonomy": str(parts.policy.autonomy), "model": self.provider.name}
            details["sandbox"] = parts.policy.sandbox.level
            try:
                await parts.audit.start_session(session.id, workspace, parts.loaded.digest, details)
                await self.transcript.start(session.id, workspace)
            except BaseException:
                taken.release()
                raise
            await _begin(self, session, taken, *given_by_config(self.config, session))

    async def resume(self, name: str = "") -> ResumedSession:
        """Resume another session: the one whose id begins so, or else the latest of this workspace.

        What it had read, what it was given and allowed, and what was said in it come back; listeners hear
        what did not, and which calls have no known end.

        Raises:
            CliError: there is no such session, or it is open elsewhere; the session before goes on.
            RecordError: it could not be read; the session before goes on.
            trio.BusyResourceError: a turn is running.
        """
        with self._alone:
            parts = self._parts
            found = await find(parts.kept.catalog, name, str(parts.places.workspace), self.session_id)
            taken = lock(parts.kept.database, found.id)
            try:
                left = await take_up(parts.kept, found, _fresh(parts, found.id), parts.loaded.digest)
            except BaseException:
                taken.release()
                raise
            given = given_by_config(self.config, left.session) if left.lapsed else ()
            await _begin(self, left.session, taken, *left.events, *given, left=left)
            await self.conversation.store()
            for line in left.told:
                self._relay.tell_once(line)
            return left

    async def clear(self) -> None:
        """Forget conversation, URLs, labels, grants and repeat counters; the rest stays.

        Raises:
            RecordError: that the conversation is forgotten could not be recorded, so that the rest is not.
            trio.BusyResourceError: a turn is running.
        """
        with self._alone:
            if not await self.talk.clear():
                raise RecordError("what was said is forgotten here, and what it led to could not be")
            session = self.pipeline.session
            await self.pipeline.note(ConversationCleared(session.now), *given_by_config(self.config, session))

    async def switch_model(self, spec: str) -> None:
        """Have another model answer from the next turn on; it is told everything that was said so far.

        Raises:
            CliError: there is no such model, or its settings or key cannot be used.
            trio.BusyResourceError: a turn is running.
        """
        with self._alone:
            self.provider = self._parts.model.choose(spec)
            now = self.pipeline.session.now
            await self.pipeline.note(ModelSet(now, self.provider.name, "the person, by /model"))

    async def give(self, text: str, provenance: Provenance) -> tuple[str, ...]:
        """Put what the person's words name into the ledger, and return it in canonical form."""
        events = given_by(text, provenance, self.pipeline.session)
        await self.pipeline.note(*events)
        return tuple(url for event in events for url in event.urls)

    async def set_trust(self, tool: str, level: TrustLevel) -> None:
        """Set a tool's trust level for this session; raising a blocked one empties its window."""
        why = f"set by the person; /trust {tool} LEVEL changes it"
        await self.pipeline.note(LevelSet(self.pipeline.session.now, tool, level, why))

    async def compact(self) -> bool:
        """Have what was said summed up, but for the person's words; return whether there was anything.

        Raises:
            trio.BusyResourceError: a turn is running.
        """
        with self._alone:
            return await self.talk.compact(self.provider, self._relay.emit)

    async def call(
        self, tool: str, arguments: Mapping[str, Json] | str, asker: Asker = Asker.MODEL
    ) -> ToolResult:
        """Run one call through the pipeline; arguments as an object or JSON text. The listeners hear it."""
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        call = ToolCall(new_call_id(), tool, text, asker)
        shown = without_secrets(text, self.tools.spec(tool), call.once)
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


def _fresh(parts: Components, session: str) -> Session:
    """Return a session without a past."""
    return Session(session, parts.policy, now=parts.ports.clock.now(), key=parts.key)


async def _begin(
    runtime: Runtime, session: Session, taken: SessionLock, *events: Event, left: ResumedSession | None = None
) -> None:
    """Make a session the current one, by these events and under the configuration that holds now."""
    parts, current, alert = runtime._parts, runtime._parts.current, runtime._relay.alert
    try:
        await current.end(parts.audit, alert)
    except BaseException:
        taken.release()
        raise
    # Nothing is awaited until all of it is there: words must not be said in half of a session.
    pipeline = runtime.pipeline = Pipeline(session, parts.ports, parts.model.secrets)
    news = partial(news_of, current, pipeline)
    runtime.talk = Chat(
        pipeline, runtime.tools, runtime.transcript, runtime.config, runtime.places, alert, news
    )
    current.begin(pipeline, taken)
    if left is not None:
        runtime.talk.resume(left.taken, left.charges)
    model = ModelSet(session.now, runtime.provider.name, "chosen when the session was taken up")
    await pipeline.note(*events, configured(parts.loaded, session), model)
    await take_in(pipeline)


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
