"""Export a session as an OpenTelemetry trace in OTLP/JSON. Pure.

There is one span for the session and, below it, one for each call, named and described by the semantic
conventions for generative AI (`execute_tool`, `gen_ai.tool.*`); attributes of our own begin with `leeward.`.
Identifiers are hex and 64-bit integers are strings, as the protocol's JSON wants it (OTLP specification,
"JSON Protobuf Encoding").
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from leeward.memory.audit import Record
from leeward.security.kinds import Json

from ..version import VERSION

__all__ = ["trace"]

_INTERNAL = 1
_OK, _ERROR = 1, 2
_FAILED = frozenset({"error", "timeout"})


def trace(session: str, records: Sequence[Record]) -> dict[str, Json]:
    """Return a session as one document that a collector takes."""
    calls: dict[str, list[Record]] = {}
    for record in records:
        if record.call is not None:
            calls.setdefault(record.call, []).append(record)
    spans = [_session_span(session, records)] if records else []
    spans += [_call_span(session, call, own) for call, own in calls.items()]
    resource = _attributes({"service.name": "leeward", "service.version": VERSION})
    scope: dict[str, Json] = {"name": "leeward.audit", "version": VERSION}
    scoped: list[Json] = [{"scope": scope, "spans": spans}]
    return {"resourceSpans": [{"resource": {"attributes": resource}, "scopeSpans": scoped}]}


def _session_span(session: str, records: Sequence[Record]) -> dict[str, Json]:
    began = next((record.body for record in records if record.kind == "session"), {})
    about = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "leeward",
        "gen_ai.conversation.id": session,
        "leeward.workspace": began.get("workspace"),
        "leeward.autonomy": began.get("autonomy"),
        "leeward.config_hash": began.get("config_hash"),
    }
    apart = [record for record in records if record.call is None and record.kind != "session"]
    return {
        "traceId": _identifier(session, 16),
        "spanId": _identifier(f"session {session}", 8),
        "name": "invoke_agent leeward",
        "kind": _INTERNAL,
        "startTimeUnixNano": _nanos(records[0].at),
        "endTimeUnixNano": _nanos(max(record.at for record in records)),
        "attributes": _attributes(about),
        "events": [_event(record) for record in apart],
        "status": {},
    }


def _call_span(session: str, call: str, records: Sequence[Record]) -> dict[str, Json]:
    decided = next((r.body for r in records if r.kind == "decision" and not r.body.get("hop")), {})
    ended = next((record.body for record in records if record.kind == "outcome"), {})
    tool = records[0].tool or ""
    failure = ended.get("category") or ended.get("status") if ended.get("status") in _FAILED else None
    refused = decided.get("code") if decided and not decided.get("allowed") else None
    about = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "gen_ai.tool.call.id": call,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.arguments": decided.get("arguments"),
        "gen_ai.conversation.id": session,
        "gen_ai.request.model": decided.get("model") or None,
        "error.type": failure or refused,
        **{f"leeward.{name}": decided.get(name) for name in _DECIDED},
        **{f"leeward.{name}": ended.get(name) for name in _ENDED},
        "leeward.gates": [f"{word['gate']}={word['word']}" for word in _words(decided)] or None,
    }
    last = max(record.at for record in records)
    return {
        "traceId": _identifier(session, 16),
        "spanId": _identifier(f"call {call}", 8),
        "parentSpanId": _identifier(f"session {session}", 8),
        "name": f"execute_tool {tool}",
        "kind": _INTERNAL,
        "startTimeUnixNano": _nanos(records[0].at),
        "endTimeUnixNano": _nanos(last),
        "attributes": _attributes(about),
        "events": [_event(record) for record in records],
        "status": _status(ended, failure, decided.get("reason") if refused else None),
    }


_DECIDED = (
    *("allowed", "gate", "rule", "code", "reason", "approver", "waited", "asker", "trust", "labels"),
    "digest",
)
_ENDED = ("status", "category", "exit_code", "size", "truncated", "overflow", "seconds")


def _words(decided: Mapping[str, Any]) -> Iterator[Mapping[str, object]]:
    """Yield the answers of the gates; in an older record an answer is a list."""
    for word in decided.get("words", ()):
        yield word if isinstance(word, Mapping) else {"gate": word[0], "word": word[1]}


def _status(ended: Mapping[str, object], failure: str | None, refusal: str | None) -> dict[str, Json]:
    if refusal is not None or failure is not None:
        return {"code": _ERROR, "message": refusal or failure or ""}
    return {"code": _OK} if ended.get("status") == "ok" else {}


def _event(record: Record) -> dict[str, Json]:
    plain = (item for item in record.body.items() if isinstance(item[1], str | bool | int | float))
    attributes = _attributes({f"leeward.{name}": value for name, value in plain if name != "at"})
    return {"timeUnixNano": _nanos(record.at), "name": record.kind, "attributes": attributes}


def _identifier(name: str, size: int) -> str:
    """Return the identifier of something, the same each time it is exported."""
    return hashlib.sha256(f"leeward {name}".encode("utf-8", "surrogatepass")).hexdigest()[: 2 * size]


def _nanos(at: float) -> str:
    return str(round(at * 1_000_000) * 1000)


def _attributes(about: Mapping[str, object]) -> list[Json]:
    return [{"key": key, "value": _value(value)} for key, value in about.items() if value not in (None, "")]


def _value(value: object) -> dict[str, Json]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case list() | tuple():
            return {"arrayValue": {"values": [_value(item) for item in value]}}
    return {"stringValue": str(value)}
