"""Put what came of a step on record as JSON, and read it back: its results, turns and slash command.

A row says that a step has begun, that a call of it did or ended, that a turn did, what a slash command gave;
one that says the step is done takes the place of these. The last row is about the whole run.

What a model wrote is kept without the secrets in it, like the conversation; results come without them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeAlias

from leeward.security.call import Outcome, Status, ToolCall, ToolResult
from leeward.security.kinds import with_leaves
from leeward.security.lazy import dataclass
from leeward.security.outcome import Category
from leeward.security.ports import RecordError

from .. import slash
from ..events import EndReason, TurnEnded, result_json
from ..exits import CliError, Exit, Json
from ..sessions import MOVED, CallRecord

if TYPE_CHECKING:
    from leeward.memory.sessions import StepRecord

    from ..slash import SlashResult

__all__ = [
    "OpenStep",
    "RunOnRecord",
    "StepOutcome",
    "result_row",
    "slash_row",
    "turn_row",
]

Mask: TypeAlias = Callable[[str], str]
"""Returns a text without the secrets that are known."""

Shown: TypeAlias = Mapping[str, str]
"""The arguments of calls as they may be shown, by the ids of the calls."""

_COUNTS = ("calls", "refused", "input_tokens", "output_tokens", "cache_read_tokens", "cost")


@dataclass(slots=True)
class StepOutcome:
    """What is on record of a step: of a whole one, or of one that broke off.

    `failure` is the error that a whole step ended with, `value` the answer in the form that was wanted.
    `turn` counts the turns of the session up to it, `at` is when it was written.
    """

    results: list[ToolResult] = field(default_factory=list)
    turns: list[TurnEnded] = field(default_factory=list)
    slash: SlashResult | None = None
    value: Json = None
    failure: CliError | None = None
    turn: int = 0
    at: float = 0.0

    def row(self, mask: Mask, shown: Shown) -> dict[str, Json]:
        """Return it as JSON."""
        return {
            "results": [result_row(result, mask, shown) for result in self.results],
            "turns": [turn_row(ended, mask) for ended in self.turns],
            "slash": None if self.slash is None else slash_row(self.slash, mask),
            "value": _masked(self.value, mask),
            "failure": None if self.failure is None else _failure_row(self.failure, mask),
            "turn": self.turn,
        }

    @classmethod
    def of(cls, row: Mapping[str, Any], at: float) -> StepOutcome:
        """Read it back.

        Raises:
            RecordError: it is not as it was written.
        """
        return cls(
            [_result_of(one) for one in row["results"]],
            [_turn_of(one) for one in row["turns"]],
            None if row["slash"] is None else _slash_of(row["slash"]),
            row["value"],
            None if row["failure"] is None else _failure_of(row["failure"]),
            row["turn"],
            at,
        )


@dataclass(slots=True)
class OpenStep:
    """A step that began and is not done: what came of it by now, its calls by the ids they ran by.

    `before` is the last record of the audit from before it.
    """

    number: int
    before: int
    outcome: StepOutcome
    calls: dict[str, CallRecord] = field(default_factory=dict)

    def take(self, kind: str, content: Mapping[str, Any]) -> None:
        """Take in what was written about it."""
        match kind:
            case "call":
                self.calls[content["call"]] = CallRecord(content["call"], content["model_id"])
            case "result":
                result = _result_of(content)
                self.outcome.results.append(result)
                call = result.call
                self.calls[call.id] = CallRecord(call.id, call.model_id, result.text)
            case "turn":
                self.outcome.turns.append(_turn_of(content))
                self.outcome.turn = content["turn"]
            case "slash":
                self.outcome.slash = _slash_of(content)


@dataclass(slots=True)
class RunOnRecord:
    """What is on record of a run: the steps that are done, by their numbers, and the one that broke off.

    `model` and `head` are who answered and the signed head, once it has ended. With `moved` its session was
    resumed outside of it.
    """

    done: dict[int, StepOutcome] = field(default_factory=dict)
    open: OpenStep | None = None
    model: str = ""
    head: str | None = None
    moved: bool = False

    @classmethod
    def of(cls, rows: Sequence[StepRecord]) -> RunOnRecord:
        """Read it from its rows.

        Raises:
            RecordError: one is not as it was written.
        """
        found = cls()
        try:
            for row in rows:
                found._take(row)
        except (KeyError, TypeError, ValueError) as error:
            raise RecordError(f"what is on record of a step cannot be read: {error!r}") from error
        return found

    def is_over(self, steps: int) -> bool:
        """Whether nothing is left to be done of so many steps."""
        ended = any(one.failure or (one.slash and one.slash.exit) for one in self.done.values())
        return ended or len(self.done) == steps

    def _take(self, row: StepRecord) -> None:
        content: Mapping[str, Any] = row.content
        match row.kind:
            case "end":
                self.model, self.head = content["model"], content["audit_head"]
            case kind if kind == MOVED:
                self.moved = True
            case "done":
                self.done[row.step], self.open = StepOutcome.of(content, row.at), None
            case "begun":
                began = StepOutcome(turn=content["turn"], at=row.at)
                self.open = OpenStep(row.step, content["before"], began)
            case kind if self.open is not None:
                self.open.take(kind, content)


def result_row(result: ToolResult, mask: Mask, shown: Shown) -> dict[str, Json]:
    """Return a result as JSON, and with it what the model was shown."""
    call = result.call
    asked = {"arguments": mask(shown.get(call.id, "")), "model_id": call.model_id}
    return {**result_json(result), **asked, "seen": result.text}


def _result_of(row: Mapping[str, Any]) -> ToolResult:
    category = None if row["category"] is None else Category(row["category"])
    outcome = Outcome(Status(row["status"]), category, row["gate"], row["exit_code"])
    call = ToolCall(row["call"], row["tool"], row["arguments"], model_id=row["model_id"])
    return ToolResult(call, outcome, row["seen"], row["text"], row["error"], row["overflow_id"])


def turn_row(ended: TurnEnded, mask: Mask) -> dict[str, Json]:
    """Return the end of a turn as JSON; one that an error ended has no outcome, and is not written."""
    counts = {name: getattr(ended, name) for name in _COUNTS}
    return {"reason": ended.reason.value, "text": mask(ended.text), **counts}


def _turn_of(row: Mapping[str, Any]) -> TurnEnded:
    counts = {name: row[name] for name in _COUNTS}
    return TurnEnded(EndReason(row["reason"]), row["text"], **counts)


def slash_row(result: SlashResult, mask: Mask) -> dict[str, Json]:
    """Return what a slash command answered as JSON, and the turn that it wants."""
    data = None if result.data is None else _masked(dict(result.data), mask)
    turn = None if result.turn is None else _masked([*result.turn], mask)
    text = mask(result.text)
    return {"text": text, "failed": result.failed, "exit": result.exit, "data": data, "turn": turn}


def _slash_of(row: Mapping[str, Any]) -> SlashResult:
    turn = None if row["turn"] is None else (row["turn"][0], row["turn"][1])
    return slash.SlashResult(row["text"], turn, row["exit"], row["failed"], data=row["data"])


def _failure_row(error: CliError, mask: Mask) -> dict[str, Json]:
    kept = {name: _masked(value, mask) for name, value in error.error().items()}
    return {**kept, "exit": int(error.exit)}


def _masked(value: Json, mask: Mask) -> Json:
    """Return a value of JSON with a mask over each text and number in it, names among them."""

    def leaf(one: Json) -> Json:
        written = one if isinstance(one, str) else json.dumps(one)
        masked = mask(written)
        return one if masked == written else masked

    return with_leaves(value, leaf)


def _failure_of(row: Mapping[str, Any]) -> CliError:
    detail = {name: value for name, value in row.items() if name not in {"exit", "code", "message"}}
    return CliError(Exit(row["exit"]), row["code"], row["message"], **detail)
