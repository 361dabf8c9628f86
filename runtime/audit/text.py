"""Format audit records as single lines, for `/audit`, `leeward audit` and the expectations of scripts.

Pure: from records to text. Everything that a model or a page may have written is escaped visibly.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from leeward.memory.audit import DAMAGED, Record
from leeward.security.action import canonical_json
from leeward.security.session import Grant, Scope
from leeward.security.text import visible
from leeward.security.trust import TrustLevel

__all__ = ["egress_lines", "record_lines", "record_text"]

Body: TypeAlias = Mapping[str, Any]

_WIDTH = 140
_ID = len("call_") + 8  # what `audit show` tells a call by, nearly always


def record_lines(records: Iterable[Record]) -> Iterator[str]:
    """Yield audit records with their local time, one line each."""
    for record in records:
        call = f"  {visible(record.call[:_ID])}" if record.kind == "decision" and record.call else ""
        text = record_text(record)
        cut = text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
        yield f"{record.seq:>6}  {_at(record)}  {cut}{call}"


def egress_lines(records: Iterable[Record]) -> Iterator[str]:
    """Yield attempts to open a URL with their local time, in full, one line each."""
    for record in records:
        tool = visible(record.tool or "")
        yield f"{record.seq:>6}  {_at(record)}  {tool:<12} {visible(_sent(record.body))}"


def record_text(record: Record) -> str:
    """Return all that an audit record says on one line, without its time."""
    tell = _TOLD.get(record.kind)
    try:
        text = tell(record.body) if tell is not None else ""
    except (LookupError, TypeError, ValueError):
        # A record of an early release, or one that somebody changed: the rest of the list must not go.
        text = "(shortened: leeward audit show ID has all of it)"
    if record.kind == "session":
        text = f"{record.session} {text}"
    head = f"{record.kind:<9} {visible(record.tool or ''):<14}"
    return f"{head} {visible(text)}".rstrip()


def _at(record: Record) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.at))


def _session(body: Body) -> str:
    kept_in = f", programs in {body['sandbox']}" if "sandbox" in body else ""
    return f"in {body.get('workspace', '')}{kept_in}"


def _configured(body: Body) -> str:
    files = ", ".join(body["files"]) or "no file"
    off = f"; switched off: {', '.join(body['off'])}" if body["off"] else ""
    return f"{body['autonomy']}, from {files}{off}"


def _read(body: Body) -> str:
    if body.get("source"):
        return f"{body['origin']}: values of {body['source']}"
    return ", ".join(body["labels"]) or f"{len(body['marks'])} more values to know again"


def _asked(body: Body) -> str:
    return "; ".join(f"{gate} asks: {question}" for gate, question in body["questions"])


def _decided(body: Body) -> str:
    arguments = _arguments(body["arguments"])
    if body["allowed"]:
        by = f" answered by {body['approver']}" if body["approver"] else ""
        how = {"trial": ", on trial", "read_only": ", read-only"}.get(body.get("runs", "real"), "")
        how = ", through an overlay" if body.get("overlay") else how
        return f"allowed{how}{by} {arguments}"
    person, _, how = body["approver"].partition("; ")
    who = f", {person} said no{f' ({how})' if how else ''}" if person not in {"", "nobody"} else ""
    who = ", nobody was there to say yes" if body["approver"] == "nobody" else who
    return f"denied by {body['gate']} ({body['rule']}) {body['code']}{who}: {body['reason']} {arguments}"


def _arguments(arguments: str) -> str:
    """Return arguments without the options that are off: on one line there is no room for those."""
    try:
        values = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    if not isinstance(values, dict) or not any(value is False for value in values.values()):
        return arguments
    return canonical_json({key: value for key, value in values.items() if value is not False})


def _finished(body: Body) -> str:
    status = body["status"] if body["category"] is None else f"{body['status']} ({body['category']})"
    parts = [status, f"{body['size']} bytes", f"{body['seconds']:.3f} s"]
    if body["exit_code"] is not None:
        parts.append(f"exit code {body['exit_code']}")
    return ", ".join([*parts, *_rest(body)])


def _job(body: Body) -> str:
    parts = [f"{body['job']} {body['state']}"]
    if body["state"] != "running":
        parts += [f"{body['size']} characters", f"{body['seconds']:.3f} s"]
    return ", ".join([*parts, *_rest(body)])


def _rest(body: Body) -> Iterator[str]:
    if body["overflow"]:
        yield f"kept as {body['overflow']}"
    if body["detail"]:
        yield body["detail"]


def _granted(body: Body) -> str:
    scope, until, folder = Scope(body["scope"]), body["until"], body.get("folder")
    trusted = body.get("effect", "")
    grant = Grant(body["id"], body["tool"], body["match"], scope, until, folder, effect=trusted)
    how = "taken in" if body["stored"] else "granted"
    return f"{how}: {grant.what}{grant.purpose} for {grant.holds} ({grant.id})"


def _level(body: Body) -> str:
    return f"{TrustLevel(body['level']).name.lower()}: {body['cause']}"


def _restored(body: Body) -> str:
    how = "done" if body["done"] else "begun"
    forced = ", forced" if body["forced"] else ""
    left = f", {body['left']} left as they were" if body["left"] else ""
    return f"{body['direction']} of {body['call'][:_ID]} {how}: {body['paths']} paths{left}{forced}"


def _sent(body: Body) -> str:
    """Return what is known of an attempt: whether it was allowed, where it went, what came of it."""
    hop = f"hop {body['hop']}: " if body["hop"] else ""
    ruled = f"{'allowed' if body['allowed'] else 'refused'} by {body['gate']} ({body['rule']})"
    if not body["ended"]:
        return f"{hop}{body['url']} {ruled}"
    came = f"HTTP {body['http_status']}" if body["http_status"] is not None else "no answer"
    parts = [
        f"{came} from {body['address']}" if body["address"] else "not reached",
        f"{body['sent']} bytes out, {body['received']} in",
        f"{body['seconds']:.3f} s",
        *([body["problem"]] if body["problem"] else []),
    ]
    decided = f" {ruled}" if body["rule"] else ""
    return f"{hop}{body['method']} {body['url']}{decided}, {', '.join(parts)}"


def _skill(body: Body) -> str:
    if not body["skill"]:
        return "none is followed any more"
    uses = body["uses"]
    narrowed = "" if uses is None else f", calls only {' '.join(name for name, _ in uses) or 'no tool'}"
    return f"{body['skill']} ({body['digest'][:12]}){narrowed}"


_TOLD: Mapping[str, Callable[[Body], str]] = {
    "session": _session,
    "config": _configured,
    "autonomy": lambda body: f"{body['autonomy_now']}: {body['cause']}",
    "skill": _skill,
    "server_asked": lambda body: (
        f"{body['server']} wants {body['wants']}: {body['answer']} ({body['message']})"
    ),
    "refused_answer": lambda body: f"{body['why']}: {body['how']}",
    "model": lambda body: f"{body['model']}: {body['cause']}",
    "turn": lambda body: str(body["turn"]),
    "given": lambda body: f"{' '.join(body['urls'])} ({body['provenance']})",
    "withdrawn": lambda body: " ".join(body["urls"]),
    "words": lambda body: "of the person" + (" in this turn" if body["own"] else ""),
    "read": _read,
    "approval": _asked,
    "decision": _decided,
    "egress": _sent,
    "outcome": _finished,
    "job": _job,
    "snapshot": _restored,
    "endorsement": lambda body: f"{' '.join(name or 'all' for name in body['files'])}: {body['cause']}",
    "block": _level,
    "trust": _level,
    "grant": _granted,
    "revocation": lambda body: str(body["id"]),
    "resumed": lambda body: "what was allowed in it has lapsed" if body["lapsed"] else "",
    "head": lambda body: f"signed after {body['count']} records",
    "pruned": lambda body: f"{body['records']} records were deleted",
    DAMAGED: lambda body: f"a {body['was']} that was changed: {body['problem']} (leeward audit verify)",
}
