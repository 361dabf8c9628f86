"""The Runtime and its sessions, and everything a caller can do with one.

Callers open a runtime, begin or resume a session, say something in it, call a tool, and leave. What sessions
share is opened in `resources.py`, a session's own parts in `composition.py`. The pipeline decides what may
run; a turn is run by `conversation/turn.py`.
"""

from __future__ import annotations

import json
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, Unpack

import trio

from leeward.security.action import without_secrets
from leeward.security.call import Asker, ToolCall, ToolResult
from leeward.security.filters import Source
from leeward.security.pipeline import Pipeline
from leeward.security.ports import RecordError
from leeward.security.session import ConversationCleared, Event, LevelSet, ModelSet, RefusedAnswer, Session
from leeward.security.trust import Origin, TrustLevel

from .agents import AgentHost
from .composition import Components, open_parts
from .config import KEYS, Loaded, Locations, find_places, laid_over, load
from .conversation import Chat, History, ModelReader
from .events import CallEnded, CallStarted, RunEvent, TurnEnded
from .grounding import given_by, given_by_config
from .providers.interface import new_call_id
from .resources import RuntimeOptions, RuntimeSettings, SessionOptions, SessionSettings, open_resources
from .sessions import (
    EventRelay,
    ResumedSession,
    TurnLock,
    configured,
    end_run,
    find,
    lock,
    new_session_id,
    news_of,
    take_in,
    take_up,
)

if TYPE_CHECKING:
    from leeward.memory.audit import AuditLogger
    from leeward.memory.changes import CallChanges
    from leeward.memory.grants import GrantStore
    from leeward.memory.notes import NoteStore
    from leeward.memory.overflow import OverflowStore
    from leeward.memory.sessions import SessionLock, Transcript
    from leeward.security.kinds import Json
    from leeward.security.outcome import Picture
    from leeward.security.policy import Autonomy
    from leeward.security.url import Provenance
    from leeward.tools.checkpoints import Checkpoints
    from leeward.tools.composite import CompositeExecutor
    from leeward.tools.labels import FileLabels
    from leeward.tools.sandbox import Sandbox
    from leeward.tools.shell import Jobs
    from leeward.tools.skills import Skills
    from leeward.tools.todo import TodoList

    from .config import Config
    from .mcp import Servers
    from .providers.interface import Provider
    from .sessions import SessionStore

__all__ = [
    "Runtime",
    "RuntimeOptions",
    "RuntimeSession",
    "RuntimeSettings",
    "SessionOptions",
    "SessionSettings",
    "resume_run",
]


class RuntimeSession:
    """One session: a conversation, its pipeline, and what is stored of both.

    Made by `Runtime.session`. `audit`, `overflow`, `transcript`, `grants` and `notes` are shared by all
    sessions in the database, and may be read at any time.
    """

    def __init__(self, parts: Components) -> None:
        shared = parts.shared
        self._parts = parts
        self._relay = parts.relay
        self._alone = TurnLock()
        self.pipeline: Pipeline
        self.talk: Chat
        self.loaded: Loaded = parts.loaded
        self.config: Config = parts.loaded.config
        self.places: Locations = parts.places
        self.sandbox: Sandbox = parts.sandbox
        self.tools: CompositeExecutor = parts.tools
        self.servers: Servers = parts.servers
        self.skills: Skills = parts.skills
        self.todo: TodoList = parts.todo
        self.jobs: Jobs = parts.current.jobs
        self.checkpoints: Checkpoints | None = parts.current.checkpoints
        self.provider: Provider = parts.provider
        # The level to go back to once a plan is accepted or dropped; None while none is made.
        self.before_plan: Autonomy | None = None
        self.audit: AuditLogger = shared.audit
        self.overflow: OverflowStore = shared.overflow
        self.kept: SessionStore = shared.kept
        self.transcript: Transcript = shared.kept.transcript
        self.grants: GrantStore = shared.grants
        self.changes: CallChanges = shared.changes
        self.labels: FileLabels = shared.labels
        self.notes: NoteStore = shared.notes

    @property
    def session_id(self) -> str:
        """The id of this session."""
        return self.pipeline.session.id

    @property
    def conversation(self) -> History:
        """The conversation of this session."""
        return self.talk.conversation

    async def new_session(self) -> None:
        """End this session and begin a new one, which knows nothing of it.

        Raises:
            RecordError: the beginning could not be recorded; the current session continues.
            trio.BusyResourceError: a turn is running.
        """
        with self._alone:
            parts, session = self._parts, _fresh(self._parts, new_session_id())
            taken = lock(self.kept.database, session.id)
            workspace = str(parts.places.workspace)
            details: dict[str, Json] = {"autonomy": str(parts.policy.autonomy), "model": self.provider.name}
            details["sandbox"] = parts.policy.sandbox.level
            try:
                # Nobody knows whether a write that was cancelled got in: a session begins, and then it ends.
                with trio.CancelScope(shield=True):
                    await self.audit.start_session(session.id, workspace, parts.loaded.digest, details)
                    await self.transcript.start(session.id, workspace)
            except BaseException:
                taken.release()
                raise
            await _begin(self, session, taken, *given_by_config(self.config, session))

    async def resume(self, name: str = "", answers: Mapping[str, str] | None = None) -> ResumedSession:
        """Resume another session: the one whose id begins with `name`, or the latest of this workspace.

        Its conversation comes back, with its URLs, labels and grants. The listeners receive a notice about
        whatever does not come back, and about calls whose outcome is unknown. With `answers` (texts by the
        ids of calls that the last turn left open) `turn` can resume that turn: calls without one are run
        then, and the caller knows already whose outcome is unknown.

        The session of a key can be resumed while no run of the key is under way; none resumes it afterwards.

        Raises:
            LeewardError: there is no such session, or it or its key is in use; the current session continues.
            RecordError: it could not be read; the current session continues.
            trio.BusyResourceError: a turn is running.
        """
        return await _resumed(self, name, answers, is_run=False)

    async def clear(self) -> None:
        """Forget the conversation, URLs, labels, grants and repeat counters; keep everything else.

        Raises:
            RecordError: the clearing could not be recorded; then only the conversation is forgotten.
            trio.BusyResourceError: a turn is running.
        """
        with self._alone:
            if not await self.talk.clear():
                raise RecordError(
                    "conversation cleared, but the clear could not be recorded; "
                    "URLs, labels and grants remain"
                )
            session = self.pipeline.session
            await self.pipeline.note(ConversationCleared(session.now), *given_by_config(self.config, session))

    async def switch_model(self, spec: str) -> None:
        """Use another model from the next turn on; it receives the whole conversation.

        Raises:
            LeewardError: there is no such model, or its settings or its key cannot be used.
            trio.BusyResourceError: a turn is running.
        """
        with self._alone:
            self.provider = self._parts.shared.model.choose(spec)
            now = self.pipeline.session.now
            await self.pipeline.note(ModelSet(now, self.provider.name, "the person, by /model"))

    async def give(self, text: str, provenance: Provenance) -> tuple[str, ...]:
        """Add the URLs in a text of the person's to the ledger; return them in canonical form."""
        events = given_by(text, provenance, self.pipeline.session)
        await self.pipeline.note(*events)
        return tuple(url for event in events for url in event.urls)

    async def set_trust(self, tool: str, level: TrustLevel) -> None:
        """Set a tool's trust level for this session. Unblocking a tool also empties its window."""
        why, spec = f"set by the person; /trust {tool} LEVEL changes it", self.tools.spec(tool)
        definition = spec.definition if spec is not None else ""
        await self.pipeline.note(LevelSet(self.pipeline.session.now, tool, level, why, definition))

    async def compact(self) -> bool:
        """Summarise the conversation, except for the person's words; return whether anything was.

        Raises:
            trio.BusyResourceError: a turn is running.
        """
        with self._alone:
            return await self.talk.compact(self.provider, self._relay.emit)

    async def call(
        self, tool: str, arguments: Mapping[str, Json] | str, asker: Asker = Asker.MODEL
    ) -> ToolResult:
        """Run one call through the pipeline, with arguments as an object or JSON text."""
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        call = ToolCall(new_call_id(), tool, text, asker)
        shown = without_secrets(text, self.tools.spec(tool), call.once)
        self._relay.emit(CallStarted(replace(call, arguments=shown)))
        result = await self.pipeline.run(call)
        self._relay.emit(CallEnded(result))
        return result

    async def admit(self, text: str, kind: str, name: str = "") -> str:
        """Return a text that the person did not write, such as piped input, fenced for the model."""
        return await self.pipeline.admit(text, Source(kind, Origin.WEB, name, shows=True))

    async def turn(
        self, text: str, attached: str = "", pictures: tuple[Picture, ...] = (), *, continues: bool = False
    ) -> TurnEnded:
        """Run one turn on the person's words; return how it ended. The listeners receive its events.

        `attached` is text from `admit`, which goes to the model with the words. So do
        `pictures`, if the model takes them: each is a `ToolResult.picture` of a call of the person. If it
        `continues`, the words are in the conversation already, and the turn that broke off is resumed.

        Raises:
            trio.BusyResourceError: another turn is running; a conversation has one at a time.
        """
        with self._alone:
            return await self._turned(text, attached, pictures, continues=continues)

    async def _turned(
        self, text: str, attached: str, pictures: tuple[Picture, ...] = (), *, continues: bool = False
    ) -> TurnEnded:
        async def turn(attached: str) -> TurnEnded:
            if continues:
                return await self.talk.resume_turn(self.provider, self._relay.emit)
            return await self.talk.turn(self.provider, text, attached, self._relay.emit, pictures)

        return await self._parts.hooks.around(self.pipeline, text, attached, turn)

    @asynccontextmanager
    async def run(self, text: str, attached: str = "") -> AsyncGenerator[AsyncIterator[RunEvent], None]:
        """Run one turn, and iterate over its events as they happen. Leaving the block cancels it.

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


class Runtime(RuntimeSession):
    """Opens what all sessions of a program share, and the first of these sessions.

    A `Runtime` is itself that first session. `session` opens others beside it:

        async with Runtime.open() as runtime:
            async with runtime.session(workspace=folder) as session:
                ended = await session.turn("read notes.txt")
    """

    @classmethod
    @asynccontextmanager
    async def open(
        cls, loaded: Loaded | None = None, /, **options: Unpack[RuntimeOptions]
    ) -> AsyncGenerator[Runtime, None]:
        """Open the shared resources and begin the first session; close both when the block is left.

        `loaded` is a configuration that was loaded before, such as the `loaded` of another runtime. By
        default the person's is read, with the options `config` and `model` over it. For the other options
        see `RuntimeOptions`.

        Raises:
            TypeError: `config` or `model` is given beside `loaded`, which has them already, or `config` is
                neither a path nor a mapping.
            ConfigError: the configuration cannot be used.
            LeewardError: a plug-in or the model cannot be used, or a required sandbox does not work here.
            RecordError: the database cannot be opened.
            RuntimeError: the running event loop is not trio's.
        """
        if not trio.lowlevel.in_trio_task():
            raise RuntimeError(
                "Runtime.open needs trio, and this is another loop: use leeward.aio.Runtime.open in asyncio,"
                " or leeward.sync.open where there is no loop"
            )
        _check_loaded_alone(loaded, options)
        loaded = loaded or options.get("loaded") or _configured(options)
        places = options.get("places") or find_places(loaded.config, options.get("workspace"))
        relay = _relay_to(options.get("listener"))
        async with AsyncExitStack() as stack:
            opened = open_resources(loaded, places, options, relay.tell_once)
            shared = await stack.enter_async_context(opened)
            approver, provider = shared.approver, options.get("provider")
            own = open_parts(shared, loaded, places, relay, None, approver, provider)
            runtime = cls(await stack.enter_async_context(own))
            async with _begun(runtime):
                yield runtime

    @asynccontextmanager
    async def session(self, **options: Unpack[SessionOptions]) -> AsyncGenerator[RuntimeSession, None]:
        """Begin another session, with its own ledger, labels, grants, jobs and budget; end it on leaving.

        Leave it before the runtime. All sessions share the database and the connections to models, so `[llm]`
        and `[storage]` of a session's own configuration have no effect. For the options see `SessionOptions`.

        Raises:
            TypeError: both `loaded` and `config` are given, or `config` is neither a path nor a mapping.
            ConfigError: the configuration cannot be used.
            LeewardError: a tool cannot be used, or a required sandbox does not work here.
            RecordError: the beginning could not be recorded.
        """
        _check_loaded_alone(None, options)
        shared, loaded = self._parts.shared, options.get("loaded") or _configured_over(self.loaded, options)
        workspace = options.get("workspace")
        places = self.places if workspace is None else replace(self.places, workspace=workspace)
        opened = open_parts(
            shared,
            loaded,
            places,
            _relay_to(options.get("listener")),
            options.get("executors"),
            options.get("approver") or shared.approver,
            options.get("provider"),
        )
        async with opened as parts, _begun(RuntimeSession(parts)) as session:
            yield session

    async def note_refused_answer(
        self, why: str, *, session: str = "", call: str | None = None, digest: str = "", how: str = ""
    ) -> None:
        """Put on record that an answer which came from elsewhere to a question did not count.

        Args:
            why: "replayed", "late", "altered", "unknown" or "malformed".
            session: the id of the session that had asked; by default the first one.
            call: the id of the call that was asked about, where that is known.
            digest: the hash of the question as it was shown.
            how: who gave the answer.

        Raises:
            RecordError: it could not be written.
        """
        event = RefusedAnswer(self._parts.ports.clock.now(), call, why, digest, how)
        await self.audit.append(session or self.session_id, event)


def _check_loaded_alone(loaded: Loaded | None, options: RuntimeOptions | SessionOptions) -> None:
    """Refuse options that would have no effect beside a loaded configuration."""
    whole = loaded or options.get("loaded")
    names = ("config", "model") if loaded is None else ("loaded", "config", "model")
    given = [f"`{name}`" for name in names if options.get(name) is not None]
    if whole is not None and given:
        raise TypeError(
            f"a loaded configuration has every value already, so {' and '.join(given)} would have no effect: "
            "give either the one or the other"
        )


def _configured(options: RuntimeOptions) -> Loaded:
    """Read the configuration, with what was given as arguments over it."""
    config, model = options.get("config"), options.get("model")
    file = config if isinstance(config, Path) else None
    return load(file=file, flags=_values_in(config) | ({} if model is None else {"llm.model": model}))


def _configured_over(loaded: Loaded, options: SessionOptions) -> Loaded:
    """Return the configuration of a session: the file it names, or its values over those of its runtime."""
    config = options.get("config")
    if config is None:
        return loaded
    return load(file=config) if isinstance(config, Path) else laid_over(loaded, _values_in(config))


def _values_in(config: Path | Mapping[str, object] | None) -> dict[str, object]:
    """Return the values of the option `config` by dotted key; a file has no values here."""
    if isinstance(config, Mapping):
        return dict(_dotted(config))
    if config is not None and not isinstance(config, Path):
        kind = type(config).__name__
        raise TypeError(f"`config` is a pathlib.Path or a mapping of values by key, not a {kind}")
    return {}


def _dotted(values: Mapping[str, object], above: str = "") -> Iterator[tuple[str, object]]:
    """Yield values by the dotted keys that the configuration has, from tables however deeply nested."""
    for name, value in values.items():
        path = f"{above}{name}"
        if isinstance(value, Mapping) and tuple(path.split(".")) not in KEYS:
            yield from _dotted(value, f"{path}.")
        else:
            yield path, value


_Session = TypeVar("_Session", bound=RuntimeSession)


@asynccontextmanager
async def _begun(session: _Session) -> AsyncGenerator[_Session, None]:
    """Begin a session, and end it, though it be cancelled while it begins."""
    try:
        await session.new_session()
        yield session
    finally:
        await session._parts.hooks.end()
        await session._parts.current.end(session.audit, session._relay.alert)


def _relay_to(listener: Callable[[RunEvent], None] | None) -> EventRelay:
    relay = EventRelay()
    if listener is not None:
        relay.listeners.append(listener)
    return relay


def _fresh(parts: Components, session: str) -> Session:
    """Return a session without a past."""
    return Session(session, parts.policy, now=parts.ports.clock.now(), key=parts.shared.key)


async def resume_run(
    runtime: RuntimeSession, session: str, answers: Mapping[str, str] | None
) -> ResumedSession:
    """Resume the session of a key for the run that holds the key; otherwise as `RuntimeSession.resume`."""
    return await _resumed(runtime, session, answers, is_run=True)


async def _resumed(
    runtime: RuntimeSession, name: str, answers: Mapping[str, str] | None, *, is_run: bool
) -> ResumedSession:
    with runtime._alone:
        parts = runtime._parts
        found = await find(runtime.kept.catalog, name, str(parts.places.workspace), runtime.session_id)
        taken = lock(runtime.kept.database, found.id)
        try:
            left = await take_up(runtime.kept, found, _fresh(parts, found.id), parts.loaded.digest)
            if not is_run:
                await end_run(runtime.kept, found.id)
        except BaseException:
            taken.release()
            raise
        given = given_by_config(runtime.config, left.session) if left.lapsed else ()
        await _begin(runtime, left.session, taken, *left.events, *given, left=left, answers=answers)
        await runtime.conversation.store()
        for line in (*left.notices, *(left.unknown if answers is None else ())):
            runtime._relay.tell_once(line)
        return left


async def _begin(
    runtime: RuntimeSession,
    session: Session,
    taken: SessionLock,
    *events: Event,
    left: ResumedSession | None = None,
    answers: Mapping[str, str] | None = None,
) -> None:
    """Make a session the current one, by these events and under the configuration that holds now."""
    parts, current, alert = runtime._parts, runtime._parts.current, runtime._relay.alert
    try:
        await current.end(runtime.audit, alert)
    except BaseException:
        taken.release()
        raise
    # Nothing is awaited until all of it is there: no turn may start in half of a session.
    pipeline = runtime.pipeline = Pipeline(session, parts.ports, parts.secrets)
    news = partial(news_of, current, pipeline)
    runtime.talk = Chat(
        pipeline,
        runtime.tools,
        runtime.transcript,
        runtime.config,
        runtime.places,
        alert,
        news,
        parts.skills,
    )
    current.begin(pipeline, taken)
    current.reader = ModelReader(lambda: runtime.provider, runtime.talk.meter)
    parts.todo.tasks = ()
    parts.agents.host = AgentHost(
        pipeline,
        runtime.config,
        str(runtime.places.workspace),
        lambda: runtime.provider,
        parts.shared.model.choose,
        runtime.talk.meter,
        runtime.talk.views,
        runtime.tools.spec,
        runtime._relay.emit,
    )
    if left is not None:
        runtime.talk.resume(left.taken, left.charges, answers)
    model = ModelSet(session.now, runtime.provider.name, "chosen when the session was taken up")
    await pipeline.note(*events, configured(parts.loaded, session), model)
    await take_in(pipeline)
    await parts.hooks.begin(pipeline)


async def _turn_into(
    runtime: RuntimeSession,
    send: trio.MemorySendChannel[RunEvent],
    text: str,
    attached: str,
    *,
    task_status: trio.TaskStatus[None],
) -> None:
    """Run a turn whose events go into a channel; a caller that left the block early gets no more."""

    def hear(event: RunEvent) -> None:
        with suppress(trio.BrokenResourceError):
            send.send_nowait(event)

    with runtime._alone, send:
        runtime._relay.listeners.append(hear)
        task_status.started()
        try:
            await runtime._turned(text, attached)
        finally:
            runtime._relay.listeners.remove(hear)
