"""Judge a call without running it, with the pipeline's own reader and gates.

No tool runs and nothing is written: anything that tries either is refused. Answers given in advance (rules,
autonomy, and stored grants, which are only read) count as they do in the pipeline, so a question that is left
open is reported as `ask`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import NoReturn

from leeward.memory.changes import standing_changes
from leeward.memory.grants import standing_grants
from leeward.memory.labels import standing_labels
from leeward.security.call import Action, Cleared, Status, ToolCall, ToolSpec
from leeward.security.kinds import CommandFacts, Json, Runs, Wanted
from leeward.security.lazy import dataclass
from leeward.security.outcome import Output, PolicyBlocked
from leeward.security.paths import FileState
from leeward.security.permissions import CHANGED_SINCE, Asks, lapsed_behind
from leeward.security.pipeline import Pipeline
from leeward.security.policy import Policy
from leeward.security.ports import Answer, Ports, Question, RecordError, Spool
from leeward.security.refusal import error_object, question_object
from leeward.security.session import Event, Granted, GrantEntry, Session, apply_events
from leeward.security.trust import Origin
from leeward.security.verdict import Deny
from leeward.tools.builtin import builtin_tools
from leeward.tools.files import states
from leeward.tools.labels import words_read_by
from leeward.tools.process import Programs, find_programs
from leeward.tools.survey import looked_up_with, resolved

from .console import Startup
from .executors import all_tools, builtin_settings
from .grounding import given_as_such, given_by_config, given_in_turn
from .mcp import known_servers, named_servers
from .policy import to_policy
from .sandbox import rung_of
from .trace import Trace, TraceExecutor

__all__ = ["SEEN", "DryRun", "DryRunCall", "Judged", "policy_of", "specs_of"]

SEEN = (Origin.WEB, Origin.MCP, Origin.WORKSPACE, Origin.SECRET)
"""What a session can have read, as `--seen` and the field "seen" name it."""

_WORKSPACES = 256


@dataclass(frozen=True, slots=True)
class DryRunCall:
    """A call as a model would ask for it, and what had happened before.

    `person_words` is what the person wrote, `urls` what else they gave; `workspace` is where it would happen,
    if not where the command runs.
    """

    tool: str
    arguments: str
    person_words: str = ""
    urls: tuple[str, ...] = ()
    seen: frozenset[Origin] = frozenset()
    workspace: str | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """What would be decided: "allow", "ask" or "deny", by which gate (None: no objection) and why.

    `rule` names who answered beforehand where it was allowed; `error` is the object of a refusal, `runs` what
    command lines would run in (None: there are none); `lapsed` tells which grants would have let them run for
    real, and what changed since.
    """

    decision: str
    gate: str | None = None
    rule: str | None = None
    code: str | None = None
    reason: str | None = None
    asks: tuple[tuple[str, str], ...] = ()
    error: dict[str, Json] | None = None
    runs: Runs | None = None
    lapsed: tuple[tuple[str, str], ...] = ()

    def as_json(self) -> dict[str, Json]:
        """Return it as a line of `check --batch` says it."""
        answer: dict[str, Json] = {
            "decision": self.decision,
            "gate": self.gate,
            "rule": self.rule,
            "code": self.code,
            "reason": self.reason,
            "asks": [{"gate": gate, "question": question} for gate, question in self.asks],
        }
        if self.runs is not None:
            answer["runs"] = str(self.runs)
        if self.lapsed:
            answer["lapsed"] = [f"{what}: {files}" for what, files in self.lapsed]
        error = dict(self.error or {})
        if "suggestion" in error:
            answer["suggestion"] = error.pop("suggestion")
        names = {"code", "message", "gate", "rule", "retryable", "phase", "asks"}
        detail = {name: value for name, value in error.items() if name not in names}
        return answer | {"detail": detail} if detail else answer


class _Nothing:
    """In place of executor, approver, audit, store and observer, which must not be needed."""

    def __init__(self, specs: tuple[ToolSpec, ...]) -> None:
        self._specs = specs

    def now(self) -> float:
        return 0.0

    def specs(self) -> tuple[ToolSpec, ...]:
        return self._specs

    async def execute(self, cleared: Cleared) -> Output:
        raise PolicyBlocked(f"a dry run does not run {cleared.action.call.tool}")

    async def ask(self, _question: Question) -> Answer:
        return Answer.NOBODY

    async def append(self, _session: str, *_events: Event) -> None:
        self._refuse()

    async def put(self, _session: str, _text: str, _origin: Origin) -> str:
        self._refuse()

    def spool(self, _session: str) -> Spool:
        self._refuse()

    def live(self, call: str, chunk: str) -> None:
        """Ignore output: nothing runs."""

    def alert(self, message: str) -> None:
        """Ignore alerts: nothing is blocked."""

    def _refuse(self) -> NoReturn:
        raise RecordError("a dry run writes nothing")


class _Surveyor:
    """Looks paths up on the spot: nothing else is going on meanwhile, and a thread costs ten times more."""

    def __init__(self, database: Path) -> None:
        self._programs: dict[str, Programs] = {}
        self._changes = lru_cache(_WORKSPACES)(partial(standing_changes, database))

    async def resolve(self, paths: Sequence[str]) -> Mapping[str, str]:
        return resolved(paths)

    async def look_up(self, wanted: Wanted, policy: Policy) -> CommandFacts:
        if policy.workspace not in self._programs:
            self._programs[policy.workspace] = find_programs(os.environ, policy)
        programs, changes = self._programs[policy.workspace], self._changes(policy.workspace)
        return looked_up_with(wanted, policy, programs, changes)

    async def states(self, paths: Sequence[str], policy: Policy) -> Mapping[str, FileState]:
        return states(paths, policy)


class _NoStore:
    """The overflow store and the notes of a session that never was."""

    async def get(self, *_: object, **__: object) -> NoReturn:
        raise RecordError("a dry run reads nothing")

    async def search(self, *_: object, **__: object) -> NoReturn:
        raise RecordError("a dry run reads nothing")

    async def newest(self, *_: object, **__: object) -> NoReturn:
        raise RecordError("a dry run reads nothing")

    async def save(self, *_: object, **__: object) -> NoReturn:
        raise RecordError("a dry run writes nothing")


def policy_of(start: Startup, workspace: Path | None = None) -> Policy:
    """Return what is allowed in a workspace under a configuration, as if somebody could be asked.

    No hook is run by a dry run, so none is asked.
    """
    places = start.places
    policy = to_policy(
        start.loaded,
        workspace=workspace or places.workspace,
        home=places.home,
        headless=False,
        data_dir=places.data,
        config_dir=places.config,
    )
    return replace(policy, hooks=())


def specs_of(start: Startup) -> tuple[ToolSpec, ...]:
    """Return the tools there would be.

    Raises:
        CliError: one that the configuration names cannot be loaded.
    """
    policy, nothing = policy_of(start), _NoStore()
    session = Session("dry-run", policy)
    settings = builtin_settings(start.loaded.config, policy, nothing, nothing, lambda: session)
    config = start.loaded.config
    servers = known_servers(named_servers(config, start.places))
    return tuple(all_tools(config, (*builtin_tools(settings), *servers)).specs())


class DryRun:
    """Judges calls under one configuration, each in a session of its own.

    `rung` is what command lines can run in, if it is not to be found out.
    """

    def __init__(self, start: Startup, rung: Runs | None = None) -> None:
        self._start, self._rung = start, rung
        self._rungs: dict[str, Runs] = {}
        self._ground = lru_cache(_WORKSPACES)(self._ground_of)
        self._labels = lru_cache(_WORKSPACES)(partial(standing_labels, start.places.database))
        self._specs = specs_of(start)
        nothing = _Nothing(self._specs)
        self._ports = Ports(
            nothing, _Surveyor(start.places.database), nothing, nothing, nothing, nothing, nothing
        )

    async def judge(self, asked: DryRunCall) -> Judged:
        """Return what would be decided about a call.

        Raises:
            ValueError: its workspace cannot be one.
            RecordError: what was always-allowed there cannot be read.
        """
        session = await self._session(asked)
        call = ToolCall("dry-run", asked.tool, asked.arguments)
        action = await Pipeline(session, self._ports).judge.read(call)
        read = words_read_by(action, session, self._labels(session.policy.workspace))
        session = replace(session, labels=session.labels | read.labels)
        return _judged(Pipeline(session, self._ports), replace(action, file_labels=read.labels))

    async def _session(self, asked: DryRunCall) -> Session:
        """Return the session in which a call is made: its policy, the person's words and what was read."""
        policy, grants = self._ground(asked.workspace)
        policy = replace(policy, sandbox=replace(policy.sandbox, rung=await self._rung_in(policy)))
        session = Session("dry-run", policy, labels=asked.seen)
        events = given_in_turn(asked.person_words, session)
        given = given_as_such(asked.urls, session)
        granted = (Granted.taken_in(one, session.now) for one in grants)
        by_config = given_by_config(self._start.loaded.config, session)
        return apply_events(session, *by_config, *events, *given, *granted)

    async def follow(self, trace: Trace, workspace: str | None = None) -> list[Judged]:
        """Return what would be decided about each call of a trace, one after the other in one session.

        Raises:
            ValueError: its workspace cannot be one.
            RecordError: what was always-allowed there cannot be read.
        """
        executor = TraceExecutor(self._specs, trace.tools, trace.answer)
        nothing = _Nothing(())
        ports = Ports(executor, self._ports.surveyor, executor, executor, nothing, nothing, nothing)
        pipeline = Pipeline(await self._session(DryRunCall("", "", workspace=workspace)), ports)
        decisions = []
        for number, step in enumerate(trace.calls):
            executor.call = step
            for text in (trace.person_words if number == 0 else "", step.person_words):
                if text:
                    await pipeline.note(*given_in_turn(text, pipeline.session))
            call = ToolCall(f"dry-run-{number}", step.tool, step.arguments)
            judged = _judged(pipeline, await pipeline.judge.read(call))
            result = await pipeline.run(call)
            if judged.decision == "ask" and result.outcome.status is Status.DENIED:
                judged = replace(judged, decision="deny", gate=result.outcome.gate)
            decisions.append(judged)
        return decisions

    async def _rung_in(self, policy: Policy) -> Runs:
        """Return what command lines can run in, in a workspace."""
        if self._rung is not None:
            return self._rung
        if policy.workspace not in self._rungs:
            config, places = self._start.loaded.config, self._start.places
            self._rungs[policy.workspace] = await rung_of(config, places, policy)
        return self._rungs[policy.workspace]

    def _ground_of(self, workspace: str | None) -> tuple[Policy, list[GrantEntry]]:
        places = self._start.places
        policy = policy_of(self._start, Path(os.path.realpath(places.workspace / (workspace or "."))))
        return policy, standing_grants(places.database, policy.workspace, time.time())


def _judged(pipeline: Pipeline, action: Action) -> Judged:
    found = pipeline.judge.rule(action)
    if found.decision.denial is not None:
        return _denied(*found.decision.denial)
    if found.open_asks:
        return _open(found.open_asks)
    lapsed = lapsed_behind(action, pipeline.session) if action.is_command else ()
    runs = found.runs if action.is_command else None
    return Judged("allow", rule=found.approver or None, runs=runs, lapsed=lapsed)


def _denied(gate: str, denial: Deny) -> Judged:
    error = error_object(denial, gate)
    return Judged("deny", gate, denial.rule, denial.code, str(error["message"]), error=error)


def _open(left: Asks) -> Judged:
    (gate, first), *_ = left
    asks = tuple((name, ask.question) for name, ask in left)
    error = question_object(left, first.question)
    facts = dict.fromkeys(fact for _, ask in left for fact in ask.facts)
    lapsed = tuple(fact for fact in facts if fact[0].startswith(CHANGED_SINCE))
    return Judged("ask", gate, first.rule, str(error["code"]), first.question, asks, error, lapsed=lapsed)
