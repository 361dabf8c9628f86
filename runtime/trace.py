"""Judge a recorded trace: a person's words, a model's calls, and their results.

    {"trace": NAME, "said": "…",
     "tools": [{"name", "effects": […], "arguments": {NAME: KIND}, "result": ORIGIN, "confidential": false}],
     "calls": [{"tool", "args", "result", "result_origin"}], "answers": "yes" | "always"}

Every call passes a pipeline of its own making: it is judged in the session that the calls before it left. An
Ask is taken as a yes to this one call, or as "always" where that is on offer and the trace wants it, and the
result of a call that was not denied is admitted like any output. Nothing runs and nothing is written. What a
tool leaves unsaid is everything it could be.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import Any

from leeward.security.call import Checked, Cleared, ToolSpec
from leeward.security.kinds import KIND_KEY, Effect, Json, Kind
from leeward.security.lazy import dataclass
from leeward.security.outcome import Output
from leeward.security.ports import Answer, Question
from leeward.security.session import Event
from leeward.security.trust import Origin

__all__ = ["BadTrace", "Trace", "TraceCall", "TraceExecutor", "as_json", "read_trace"]


class BadTrace(ValueError):
    """A line holds no trace that can be judged; the message says what of it is wrong."""


_LONGEST_RESULT = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class TraceCall:
    """A call of a trace and its result. `person_words` is the person's message right before it, if any."""

    tool: str
    arguments: str
    result: str = ""
    origin: Origin | None = None
    person_words: str = ""


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace as it was read; `notes` say what of it was passed over."""

    name: str
    person_words: str
    tools: tuple[ToolSpec, ...]
    calls: tuple[TraceCall, ...]
    notes: tuple[str, ...] = ()
    answer: Answer = Answer.YES


class TraceExecutor:
    """Every tool at once: it gives back the result that the trace tells for the call at hand.

    It answers questions, too: with yes, to this one call, or with "always" where `answer` says so.
    """

    def __init__(
        self, specs: Sequence[ToolSpec], tools: Sequence[ToolSpec], answer: Answer = Answer.YES
    ) -> None:
        self._answer = answer
        declared = {tool.name: tool for tool in tools}
        own = (spec for spec in specs if spec.name not in declared)
        self._specs = (*own, *declared.values())
        self.call: TraceCall = TraceCall("", "")

    def specs(self) -> Sequence[ToolSpec]:
        """Return the tools of the trace, and those of the configuration it names no others for."""
        return self._specs

    async def execute(self, cleared: Cleared) -> Output:
        """Return what came back in the trace."""
        cleared.take()
        return Output(self.call.result, self.call.origin)

    async def ask(self, question: Question) -> Answer:
        """Say yes, for good where that is wanted and on offer."""
        return self._answer if question.always is not None else Answer.YES

    async def append(self, _session: str, *_events: Event) -> None:
        """Write nothing: the session is the fold over what happened."""


def read_trace(fields: Mapping[str, object]) -> Trace:
    """Read a line of a batch that holds a trace.

    Raises:
        BadTrace: a field is not what it must be.
    """
    notes: list[str] = []
    known = {"trace", "said", "tools", "calls", "workspace", "answers"}
    notes += [f"the field {name[:64]!r} is not known and was passed over" for name in fields.keys() - known]
    tools = tuple(_tool(_object(one, "tools"), notes) for one in _list(fields, "tools"))
    calls = tuple(_call(_object(one, "calls")) for one in _list(fields, "calls"))
    answer = _ANSWERS.get(_text(fields, "answers") or "yes")
    if answer is None:
        raise BadTrace(f"answers: expected one of {', '.join(_ANSWERS)}")
    return Trace(_text(fields, "trace"), _text(fields, "said"), tools, calls, tuple(notes), answer)


_ANSWERS: Mapping[str, Answer] = {"yes": Answer.YES, "always": Answer.ALWAYS}


def _tool(fields: Mapping[str, Any], notes: list[str]) -> ToolSpec:
    name, declared = _text(fields, "name"), fields.get("arguments") or {}
    if not isinstance(declared, Mapping):
        raise BadTrace("arguments: expected an object of kinds by name")
    properties = {key: _argument(kind, f"{name}.{key}") for key, kind in declared.items()}
    defaults = {key: one["default"] for key, one in properties.items() if "default" in one}

    def check(arguments: Mapping[str, Any]) -> Checked:
        return Checked({**defaults, **arguments})

    result = _origin(fields.get("result"), f"result of {name}")
    effects = _effects(fields, name, notes)
    is_confidential = fields.get("confidential") is True
    spec = ToolSpec(name, "", {"properties": properties}, check, effects, result=result)
    return replace(spec, confidential=is_confidential)


def _argument(declared: object, where: str) -> dict[str, Any]:
    """Return the schema of an argument; what holds several values holds each of this kind."""
    fields_of: Mapping[str, Any] = declared if isinstance(declared, Mapping) else {"kind": declared}
    kind = _KINDS.get(str(fields_of.get("kind")).replace("_", "").lower())
    if kind is None:
        raise BadTrace(f"{where}: expected one of {', '.join(Kind)} or number")
    marked = {} if kind in ("number", Kind.UNDECLARED) else {KIND_KEY: str(kind)}
    usual = {"default": fields_of["default"]} if "default" in fields_of else {}
    return {**marked, "items": marked, **usual}


_KINDS: Mapping[str, str] = {
    **{str(kind).replace("_", ""): kind for kind in Kind},
    "workspacepath": Kind.PATH,
    "sourcepath": Kind.PATH,
    "shellcommand": Kind.COMMAND,
    **dict.fromkeys(("number", "integer", "boolean", "switch"), "number"),
}
"""Kinds by the names of the field, and by those of the markers in Python; numbers and switches have none."""


def _effects(fields: Mapping[str, Any], name: str, notes: list[str]) -> Effect:
    """Return the effects of a tool; one that says none, or one that there is not, has all."""
    names = fields.get("effects")
    if names is None:
        return Effect.ALL
    if not isinstance(names, list):
        raise BadTrace(f"effects of {name}: expected a list")
    found = [Effect.__members__.get(str(one).upper()) for one in names]
    if None in found:
        notes.append(f"{name} names an effect that there is not, so it has all of them")
        return Effect.ALL
    return reduce(or_, filter(None, found), Effect(0))


def _call(fields: Mapping[str, Any]) -> TraceCall:
    arguments = fields.get("args", {})
    result = fields.get("result", "")
    shown = result if isinstance(result, str) else json.dumps(result)
    return TraceCall(
        tool=_text(fields, "tool"),
        arguments=arguments if isinstance(arguments, str) else json.dumps(arguments),
        result=shown[:_LONGEST_RESULT],
        origin=_origin(fields.get("result_origin"), "result_origin"),
        person_words=_text(fields, "said"),
    )


def _origin(name: object, where: str) -> Origin | None:
    if name is None:
        return None
    if name not in set(Origin):
        raise BadTrace(f"{where}: expected one of {', '.join(Origin)}")
    return Origin(str(name))


def _object(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise BadTrace(f"{where}: expected a list of objects")
    return value


def _list(fields: Mapping[str, object], name: str) -> list[object]:
    value = fields.get(name)
    if not isinstance(value, list):
        raise BadTrace(f"{name}: expected a list")
    return value


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name) or ""
    if not isinstance(value, str):
        raise BadTrace(f"{name}: expected a string")
    return value


def as_json(trace: Trace, decisions: Sequence[Mapping[str, Json]]) -> dict[str, Json]:
    """Return the answer to a trace: each decision in order, and how many were questions or denials."""
    words = [decision["decision"] for decision in decisions]
    answer: dict[str, Json] = {
        "trace": trace.name,
        "calls": list(decisions),
        "questions": words.count("ask"),
        "denied": words.count("deny"),
    }
    return {**answer, "warnings": list(trace.notes)} if trace.notes else answer
