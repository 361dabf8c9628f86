"""Factories for the trusted base: policies, sessions, tools, actions, and fakes of every port."""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections import deque
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest
import trio

from leeward.security.action import ActionBuilder
from leeward.security.call import Asker, Checked, ToolCall, ToolSpec
from leeward.security.kinds import KIND_KEY, CommandFacts, Effect
from leeward.security.outcome import Output
from leeward.security.pipeline import Pipeline
from leeward.security.policy import Policy
from leeward.security.ports import Answer, Ports, RecordError
from leeward.security.session import Session, UrlsAdded, apply_events
from leeward.security.url import Provenance

WORKSPACE = "/ws"
HOME = "/home/ada"


def policy(**fields) -> Policy:
    return Policy(**{"workspace": WORKSPACE, "home": HOME, **fields})


def session(*events, said=(), **fields) -> Session:
    """A session under a policy made of `fields`, after some events; `said` are URLs the person gave."""
    held = fields.pop("policy", None) or policy(**fields)
    found = Session("s_test", held)
    for event in (*([UrlsAdded(0, tuple(said), Provenance.PERSON)] if said else []), *events):
        found = apply_events(found, event)
    return found


def spec(name="tool", effects=Effect.READ, *, kinds=None, schema=None, **fields) -> ToolSpec:
    """A tool whose arguments have these kinds (None: undeclared), or this schema; its check passes
    everything.
    """
    if schema is None:
        properties = {
            key: {"type": "string", **({KIND_KEY: kind} if kind else {})}
            for key, kind in (kinds or {}).items()
        }
        schema = {"type": "object", "properties": properties}
    return ToolSpec(name, "a tool", schema, **{"check": Checked, "effects": effects, **fields})


def call(tool="tool", arguments=None, *, call_id="c1", asker=Asker.MODEL) -> ToolCall:
    return ToolCall(
        call_id, tool, arguments if isinstance(arguments, str) else json.dumps(arguments or {}), asker
    )


def action(tool, arguments=None, *, held=None, resolved=None, call_id="c1", asker=Asker.MODEL):
    """Read a call as the pipeline does; `resolved` overrides where paths really lie."""
    held = held or policy()
    draft = ActionBuilder.of(call(tool.name, arguments, call_id=call_id, asker=asker), {tool.name: tool})
    paths = {path: (resolved or {}).get(path, path) for path in draft.paths(held)}
    return draft.read(held, paths, found(draft.wanted(held)))


def found(wanted) -> CommandFacts:
    """A machine where every path is what it seems, every program is the system's, and nothing is hidden."""
    return CommandFacts(
        real={path: posixpath.normpath(path) for path in wanted.real},
        matches=dict.fromkeys(wanted.matches, ()),
        programs={name: f"/usr/bin/{name}" for name in wanted.programs},
        exists=dict.fromkeys(wanted.exists, False),
    )


@dataclass
class Clock:
    at: float = 1000.0

    def now(self) -> float:
        return self.at


@dataclass
class Surveyor:
    """Paths lie where they say, unless `links` knows better."""

    links: dict = field(default_factory=dict)
    asked: list = field(default_factory=list)

    async def resolve(self, paths):
        self.asked.append(tuple(paths))
        await trio.lowlevel.checkpoint()
        return {path: self.links.get(path, path) for path in paths}

    async def look_up(self, wanted, policy):
        await trio.lowlevel.checkpoint()
        return found(wanted)


@dataclass
class Approver:
    """Answers from a queue, then always the last one; `hook` runs while the question is open."""

    answers: deque = field(default_factory=lambda: deque([Answer.NOBODY]))
    questions: list = field(default_factory=list)
    hook: object = None

    async def ask(self, question):
        self.questions.append(question)
        await trio.lowlevel.checkpoint()
        if self.hook is not None:
            await self.hook(question)
        return self.answers.popleft() if len(self.answers) > 1 else self.answers[0]


@dataclass
class Audit:
    """What was committed, in order; `refuses(event)` decides what cannot be.

    A cancelled caller leaves it in, and the same object is committed once.
    """

    committed: list = field(default_factory=list)
    refuses: object = lambda event: False

    async def append(self, session, *events):
        is_refused = any(self.refuses(event) for event in events)
        new = [event for event in events if not any(event is one for one in self.committed)]
        self.committed.extend([] if is_refused else new)
        await trio.lowlevel.checkpoint()
        if is_refused:
            raise RecordError("the disk is full")

    def of(self, kind, call=None):
        return [
            event
            for event in self.committed
            if isinstance(event, kind) and (call is None or event.call == call)
        ]


@dataclass
class Store:
    texts: dict = field(default_factory=dict)
    origins: dict = field(default_factory=dict)
    spools: list = field(default_factory=list)
    is_broken: bool = False

    async def put(self, session, text, origin):
        await trio.lowlevel.checkpoint()
        if self.is_broken:
            raise RecordError("the disk is full")
        key = "o_" + hashlib.sha256(text.encode()).hexdigest()[:12]
        self.texts[key] = text
        self.origins[key] = origin
        return key

    def spool(self, session):
        spool = Spooled(self, session)
        self.spools.append(spool)
        return spool


@dataclass
class Spooled:
    """A text on its way into a store; `pieces` are what it was given, `is_abandoned` how it ended."""

    store: Store
    session: str
    pieces: list = field(default_factory=list)
    is_abandoned: bool = False

    async def write(self, text):
        self.pieces.append(text)
        await trio.lowlevel.checkpoint()
        if self.store.is_broken:
            raise RecordError("the disk is full")

    async def finish(self, origin):
        return await self.store.put(self.session, "".join(self.pieces), origin)

    def abandon(self):
        self.is_abandoned = True


@dataclass
class Observer:
    chunks: list = field(default_factory=list)
    alerts: list = field(default_factory=list)
    is_broken: bool = False

    def live(self, call, chunk):
        self.chunks.append(chunk)
        if self.is_broken:
            raise RuntimeError("the screen is gone")

    def alert(self, message):
        self.alerts.append(message)
        if self.is_broken:
            raise RuntimeError("the screen is gone")


@dataclass
class Executor:
    """Runs what `does` says for a tool: an Output, an error to raise, or an async function of the Cleared."""

    tools: list
    does: dict = field(default_factory=dict)
    ran: list = field(default_factory=list)

    def specs(self):
        return self.tools

    def spec(self, name):
        return next((tool for tool in self.tools if tool.name == name), None)

    async def execute(self, cleared):
        self.ran.append(cleared.action)
        await trio.lowlevel.checkpoint()
        what = self.does.get(cleared.action.call.tool, Output("done"))
        if isinstance(what, BaseException):
            raise what
        return await what(cleared) if callable(what) else what


class Desk:
    """A pipeline with a fake in every port."""

    def __init__(
        self, *tools, start=None, secrets=frozenset(), grants=None, hooked=None, **policy_fields
    ) -> None:
        self.executor = Executor(list(tools))
        self.surveyor, self.approver, self.audit = Surveyor(), Approver(), Audit()
        self.store, self.clock, self.observer = Store(), Clock(), Observer()
        ports = Ports(
            self.executor,
            self.surveyor,
            self.approver,
            self.audit,
            self.store,
            self.clock,
            self.observer,
            grants,
            hooks=hooked,
        )
        self.pipeline = Pipeline(start or session(**policy_fields), ports, frozenset(secrets))

    @property
    def session(self) -> Session:
        return self.pipeline.session

    @property
    def ran(self) -> list:
        return self.executor.ran

    def says(self, *answers) -> None:
        self.approver.answers = deque(answers)

    async def run(self, tool="tool", arguments=None, **fields):
        return await self.pipeline.run(call(tool, arguments, **fields))


@pytest.fixture(scope="session")
def make() -> SimpleNamespace:
    """Every factory of this file under one name; all of them are pure."""
    return SimpleNamespace(
        policy=policy,
        session=session,
        spec=spec,
        call=call,
        action=action,
        desk=Desk,
        audit=Audit,
        clock=Clock,
        observer=Observer,
        store=Store,
        replace=replace,
    )
