r"""Test a tool behind the real gates and filters.

    async def test_lines_are_counted(tmp_path):
        (tmp_path / "notes.md").write_text("one\ntwo\n")
        bench = ToolBench(count_lines, workspace=tmp_path)
        assert (await bench.call("count_lines", {"path": "notes.md"})).shown == "2"
        assert (await bench.call("count_lines", {"path": "../notes.md"})).outcome.gate == "arguments"

Judging, running and screening are the product's own; paths are looked up on the real disk. Storage and the
person are fakes: the record stays in memory, questions are answered from a list, and the clock does not move.
No configuration is read and no model is asked.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path

import trio

from leeward.security.call import Asker, ToolCall, ToolExecutor, ToolResult
from leeward.security.kinds import Json
from leeward.security.pipeline import Pipeline
from leeward.security.policy import Autonomy, Policy, Rule, RuleAction
from leeward.security.ports import Answer, Ports, Question
from leeward.security.session import Event, Session, TurnStarted
from leeward.security.trust import Origin, TrustLevel
from leeward.tools.composite import CompositeExecutor, Registered
from leeward.tools.survey import Surveyor

from ..grounding import said_by_person

__all__ = ["ToolBench"]

_NOW = 1_000_000_000.0


class _Memory:
    """The ports that keep, in memory: audit, overflow store and observer; and a clock that never moves."""

    def __init__(self, bench: ToolBench) -> None:
        self._bench = bench

    def now(self) -> float:
        return _NOW

    async def append(self, _session: str, *events: Event) -> None:
        # An event that was not known to be written is offered again; it is one event all the same.
        known = set(map(id, self._bench.record))
        self._bench.record.extend(event for event in events if id(event) not in known)
        await trio.lowlevel.checkpoint()

    def spool(self, _session: str) -> _Spool:
        return _Spool(self)

    async def put(self, _session: str, text: str, *_: object) -> str:
        key = f"of_{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:12]}"
        self._bench.kept[key] = text
        await trio.lowlevel.checkpoint()
        return key

    def live(self, _call: str, chunk: str) -> None:
        self._bench.live.append(chunk)

    def alert(self, message: str) -> None:
        self._bench.alerts.append(message)

    async def ask(self, question: Question) -> Answer:
        self._bench.questions.append(question)
        await trio.lowlevel.checkpoint()
        return self._bench.answers.popleft() if self._bench.answers else Answer.NOBODY


class _Spool:
    """An output that is kept while it comes."""

    def __init__(self, memory: _Memory) -> None:
        self._memory = memory
        self._pieces: list[str] = []

    async def write(self, text: str) -> None:
        self._pieces.append(text)
        await trio.lowlevel.checkpoint()

    async def finish(self, _origin: Origin) -> str:
        return await self._memory.put("", "".join(self._pieces))

    def abandon(self) -> None:
        """Do nothing: nothing is kept before the end."""


class ToolBench:
    """A session with nothing but the tools under test.

    `record` holds every event that was recorded, `questions` what was asked, `live` what the tools showed
    while they ran, `alerts` the notices for the person, and `kept` the outputs that were too long, by id.
    `answers` may be added to at any time; a question with no answer left is a no.
    """

    def __init__(
        self,
        *executors: ToolExecutor,
        workspace: str | Path,
        answers: Iterable[Answer] = (),
        level: TrustLevel = TrustLevel.TRUSTED,
        autonomy: Autonomy = Autonomy.SUPERVISED,
        allow: Iterable[tuple[str, str | None]] = (),
    ) -> None:
        """Register the tools.

        Args:
            executors: the tools under test.
            workspace: the folder that relative paths start at; it is the home of nobody.
            answers: to the questions, in their order.
            level: how far the tools are trusted: TRUSTED as handed to `Runtime.open`, VERIFIED as named in
                a configuration or brought by a plug-in.
            autonomy: how much is done without asking.
            allow: permission rules given beforehand, each a tool and what must match (None: any call).

        Raises:
            NameClash, ValueError: the tools' names cannot be used.
        """
        self.record: list[Event] = []
        self.questions: list[Question] = []
        self.live: list[str] = []
        self.alerts: list[str] = []
        self.kept: dict[str, str] = {}
        self.answers: deque[Answer] = deque(answers)
        folder = Path(workspace).resolve()
        rules = tuple(Rule(tool, RuleAction.ALLOW, match, where="the test") for tool, match in allow)
        policy = Policy(str(folder), str(folder.parent), autonomy, rules=rules)
        tools = CompositeExecutor(Registered(executor, level=level) for executor in executors)
        memory = _Memory(self)
        ports = Ports(tools, Surveyor(policy=policy), memory, memory, memory, memory, memory)
        self.pipeline: Pipeline = Pipeline(Session("test", policy, now=_NOW), ports)
        self._calls = 0

    async def say(self, text: str) -> None:
        """Say something as the person, in a turn of its own: the URLs in it may be opened."""
        session = self.pipeline.session
        await self.pipeline.note(TurnStarted(_NOW), *said_by_person(text, session))

    async def call(
        self, tool: str, arguments: Mapping[str, Json] | str, asker: Asker = Asker.MODEL
    ) -> ToolResult:
        """Ask for a tool as a model would; arguments as an object, or as the text a model wrote.

        A refusal or failure is a result as well: `outcome` names how the call ended and which gate denied it,
        `error` says why, `shown` is what the person sees, `text` what the model does.
        """
        self._calls += 1
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        return await self.pipeline.run(ToolCall(f"call_{self._calls}", tool, text, asker))
