"""A whole session in folders of its own: a model that says what it is given, and a person who answers so.

    async with open_session(tmp_path, send, says=[[("send", {"text": "x"})], "sent"]) as at:
        ended = await at.turn("send x")
        await at.assert_denied("send", by="permissions")

Judging, storing and the audit are the product's own. Nothing of the person's is read or written, no model is
asked, and no connection leaves this process.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import trio

from leeward.security.call import ToolCall, ToolExecutor, ToolResult
from leeward.security.kinds import Json
from leeward.security.ports import Answer, Question, Reply
from leeward.security.session import Decided, Event, Finished

from ..app import Runtime
from ..config import Locations, load
from ..events import TurnEnded
from ..providers.interface import ModelEvent, Request, new_call_id
from ..providers.scripted import ENDED, replay, reply
from .web import FakeWeb

__all__ = ["RecordingApprover", "ScriptedModel", "SessionBench", "open_session"]

Says: TypeAlias = str | Sequence[tuple[str, Mapping[str, Json]]]
"""A reply of a model: a text, or calls as (tool, arguments)."""

_CONFIG = {"tools.sandbox.level": "none", "tools.shell.trial": "off"}
"""What does not depend on the machine a test runs on."""


class ScriptedModel:
    """A model that makes one reply after another, and "(script ended)" after the last.

    `requests` are what it was asked.
    """

    name = "scripted"

    def __init__(self, *replies: Says) -> None:
        self.replies: deque[Says] = deque(replies)
        self.requests: list[Request] = []

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Make the next reply."""
        self.requests.append(request)
        answer = self.replies.popleft() if self.replies else ENDED
        if isinstance(answer, str):
            return replay(reply(answer))
        calls = [ToolCall(new_call_id(), tool, json.dumps(dict(given))) for tool, given in answer]
        return replay(reply("", calls))

    @property
    def results(self) -> list[str]:
        """The results of calls, as they went to the model with the last request."""
        messages = self.requests[-1].messages if self.requests else ()
        return [message.text for message in messages if message.role == "tool"]


class RecordingApprover:
    """A person who gives these answers in turn, and then no more; `questions` are what was asked."""

    def __init__(self, *answers: Reply) -> None:
        self.answers: deque[Reply] = deque(answers)
        self.questions: list[Question] = []

    async def ask(self, question: Question) -> Reply:
        """Return the next answer."""
        await trio.lowlevel.checkpoint()
        self.questions.append(question)
        return self.answers.popleft() if self.answers else Answer.NOBODY


class SessionBench:
    """A session at work, and what a test asks about it.

    `model`, `person` and `web` are the fakes, `workspace` is the folder, `runtime` the session itself.
    """

    def __init__(
        self, runtime: Runtime, model: ScriptedModel, person: RecordingApprover, web: FakeWeb
    ) -> None:
        self.runtime = runtime
        self.model = model
        self.person = person
        self.web = web
        self.workspace: Path = runtime.places.workspace

    async def turn(self, text: str) -> TurnEnded:
        """Run one turn on the person's words."""
        return await self.runtime.turn(text)

    async def call(self, tool: str, arguments: Mapping[str, Json]) -> ToolResult:
        """Run one call as if the model had asked for it."""
        return await self.runtime.call(tool, arguments)

    async def record(self) -> list[Event]:
        """Return everything that is on record of the session, in order."""
        return await self.runtime.audit.events_of(self.runtime.session_id)

    async def decisions(self, tool: str | None = None) -> list[Decided]:
        """Return the decisions, about one tool or all."""
        found = [event for event in await self.record() if isinstance(event, Decided)]
        return [event for event in found if tool in (None, event.tool)]

    async def assert_denied(self, tool: str, *, by: str | None = None) -> Decided:
        """Assert that the last call of a tool was denied, by a gate, and did not run; return the decision."""
        decided = await self._last(tool)
        assert not decided.allowed, f"{tool} was allowed: {decided.arguments}"
        assert by in (None, decided.gate), f"{tool} was denied by {decided.gate} ({decided.reason}), not {by}"
        ended = [event for event in await self.record() if isinstance(event, Finished)]
        assert decided.call not in {event.call for event in ended}, f"{tool} was denied, and ran"
        return decided

    async def assert_allowed(self, tool: str, *, by: str | None = None) -> Decided:
        """Assert that the last call of a tool was allowed and ended; return the decision.

        `by` is the beginning of who answered the questions there were: "the person", "rule …".
        """
        decided = await self._last(tool)
        assert decided.allowed, f"{tool} was denied by {decided.gate}: {decided.reason}"
        assert by is None or decided.approver.startswith(by), f"{tool} was allowed by {decided.approver!r}"
        ended = [event for event in await self.record() if isinstance(event, Finished)]
        assert decided.call in {event.call for event in ended}, f"{tool} was allowed, and has no outcome"
        return decided

    async def _last(self, tool: str) -> Decided:
        decisions = await self.decisions(tool)
        assert decisions, (
            f"{tool} was never called; known: {', '.join(s.name for s in self.runtime.tools.specs())}"
        )
        return decisions[-1]


@asynccontextmanager
async def open_session(
    folder: str | Path,
    *executors: ToolExecutor,
    says: Iterable[Says] = (),
    answers: Iterable[Reply] = (),
    config: Mapping[str, object] | None = None,
    pages: Mapping[str, str] | None = None,
) -> AsyncGenerator[SessionBench, None]:
    """Open a session in a folder, and close it at the end.

    Args:
        folder: workspace, home and database lie in it; it is made.
        executors: the tools under test, trusted as handed to `Runtime.open`.
        says: the replies of the model, each a text or a list of calls as (tool, arguments).
        answers: the person's answers, in order; a question with no answer left is a no.
        config: values by dotted key, such as `{"tools.plugins": ["tides"]}`.
        pages: the texts of the web by URL; there is nothing else.

    Raises:
        ConfigError: a value of the configuration cannot be used.
        LeewardError: a tool cannot be used.
    """
    places = _places_in(Path(folder))
    loaded = load(config_dir=places.config, environment={}, flags={**_CONFIG, **(config or {})})
    model, person, web = ScriptedModel(*says), RecordingApprover(*answers), FakeWeb(pages)
    with web.installed():
        async with Runtime.open(
            loaded,
            places=places,
            provider=model,
            approver=person,
            resolve=web.resolve,
            executors=executors,
        ) as runtime:
            yield SessionBench(runtime, model, person, web)


def _places_in(folder: Path) -> Locations:
    """Lay workspace, home and database out in a folder."""
    where = folder.resolve()
    places = Locations(
        workspace=where / "workspace",
        home=where / "home",
        config=where / "home" / "config",
        data=where / "home" / "data",
        database=where / "home" / "data" / "leeward.db",
    )
    for made in (places.workspace, places.config):
        made.mkdir(parents=True, exist_ok=True)
    return places
