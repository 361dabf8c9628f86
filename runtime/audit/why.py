"""Explain a call from its records: every gate's answer, the outcome, and what would have allowed it.

Pure. What a model, a page or a program wrote is escaped visibly. A remedy is no promise, for a call is judged
anew each time, and none takes a protection away where something narrower would do.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import ip_address, ip_network

from leeward.memory.audit import Record, body_of, event_of
from leeward.security.call import Status
from leeward.security.kinds import Json, Runs
from leeward.security.lazy import dataclass
from leeward.security.paths import NAMED_SECRET, NOT_TO_BE_READ, literally
from leeward.security.session import Asked, AtomRecord, Configured, Decided, Finished, GateVerdict
from leeward.security.text import visible
from leeward.security.url import judge_host, parse_destination

__all__ = ["Explanation", "explained", "remedies", "sources_at"]


# By gate and rule, else by gate: what helps, and the configuration key that has to do with it.
_REMEDIES: Mapping[tuple[str, str], tuple[str, str]] = {
    ("known", "unknown_tool"): ("call a tool that exists; leeward tools lists them", ""),
    ("known", "schema"): ("pass arguments that fit the tool's schema", ""),
    ("arguments", ""): ("write the value without that pattern", ""),
    ("permissions", "readonly"): ("choose another autonomy than readonly", "permissions.autonomy"),
    ("permissions", "agent"): ("name the tool in the file of the sub-agent", ""),
    ("permissions", "skill"): ("use /skill off, or a skill that uses the tool", ""),
    ("permissions", ""): ("narrow or remove that rule; no answer overrides it", ""),
    ("anomaly", "blocked"): ("lift the block with /trust TOOL LEVEL", ""),
    ("trust", ""): ("use /trust TOOL LEVEL; the configuration can only lower a level", "security.trust"),
    ("paths", "secret"): ("nothing: no tool reads secret files", ""),
    ("paths", "protected"): ("nothing: no tool changes this file; you can", ""),
    ("paths", "unreadable"): ("pass a path that can be read", ""),
    ("grounding", "not_provided"): ("write it in a message, or use /browse URL", ""),
    ("grounding", "unreadable"): ("pass a URL that can be read", ""),
    ("hosts", "unreadable"): ("pass a URL that can be read", ""),
    ("hosts", "https_only"): ("use https, or add the host to the list", "tools.fetch.allow_http"),
    ("hosts", "refused_host"): ("add its network to the list", "tools.fetch.allow_networks"),
    ("hosts", "domain_denylist"): ("remove the host from the list", "tools.fetch.domain_denylist"),
    ("hosts", "domain_allowlist"): ("add the host to the list", "tools.fetch.domain_allowlist"),
    ("hosts", "readonly"): ("choose another autonomy than readonly", "permissions.autonomy"),
    ("commands", "blocked"): ("remove the entry from the list", "tools.shell.blocked_commands"),
    ("budget", "readonly"): ("choose another autonomy than readonly", "permissions.autonomy"),
    ("commands", "readonly"): ("choose another autonomy than readonly", "permissions.autonomy"),
    ("commands", ""): ("nothing: no rule, grant or answer lets this command run", ""),
    ("budget", "calls_per_session"): ("use /new, or raise the limit", "agent.max_tool_calls_per_session"),
    ("budget", "calls_per_turn"): ("send another message, or raise it", "agent.max_tool_calls_per_turn"),
    ("budget", "repeated"): ("make another call: this one brings nothing new", ""),
    ("hooks", "denied"): ("do what the reason of the hook says, or remove the hook", "hooks"),
    ("hooks", "failed"): ("repair the hook, or remove it", "hooks"),
    ("approval", ""): ("ask again: the call had changed since the question", ""),
    ("follow", ""): ("ask for the last address itself", ""),
}  # fmt: skip
_BY_AUTONOMY = frozenset({"permissions", "trust", "commands"})


def remedies(decided: Decided, sources: Mapping[str, str]) -> tuple[str, ...]:
    """Return what would have allowed a call, one sentence each; none where it was allowed.

    `sources` tells where keys of the configuration were set then.
    """
    if decided.allowed:
        return ()
    denials = [verdict for verdict in decided.words if verdict.word == "deny"]
    if decided.gate is not None and decided.gate not in {verdict.gate for verdict in decided.words}:
        denials.append(GateVerdict(decided.gate, "deny", decided.rule))
    found = [line for verdict in denials for line in _of_denial(verdict, sources)]
    if not denials:
        found = list(_of_questions(decided, sources))
    return tuple(dict.fromkeys(map(visible, found)))


def _of_denial(verdict: GateVerdict, sources: Mapping[str, str]) -> Iterator[str]:
    nothing = ("nothing: denials cannot be pre-approved", "")
    table = _REMEDIES.get((verdict.gate, verdict.rule)) or _REMEDIES.get((verdict.gate, ""))
    text, key = _of_name(verdict) or _of_address(verdict) or table or nothing
    yield f"{verdict.gate}: {text}{_where_set(key, sources)}"
    if verdict.suggestion:
        yield f"{verdict.gate} suggests: {verdict.suggestion}"


def _of_name(verdict: GateVerdict) -> tuple[str, str] | None:
    """Return what lifts the refusal of a file for which the configuration can speak; no place is lifted."""
    if verdict.reason.endswith(NAMED_SECRET):
        return "add the file to the list", "tools.file.allow_read"
    if verdict.reason.endswith(NOT_TO_BE_READ):
        return "remove the pattern from the list", "tools.file.deny_read"
    return None


def _of_address(verdict: GateVerdict) -> tuple[str, str] | None:
    """Return what lifts the refusal of an address, or of a name for which no network speaks."""
    if verdict.gate != "hosts" or verdict.rule not in {"refused_host", "domain_allowlist"}:
        return None
    try:
        address = ip_address(_host_of(verdict).strip("[]"))
    except ValueError:
        nothing = "nothing: a network cannot allow such a name"
        return (nothing, "") if verdict.rule == "refused_host" else None
    if verdict.rule == "domain_allowlist":
        return "empty the list: while it has entries, addresses are refused", "tools.fetch.domain_allowlist"
    if judge_host(str(address), (str(ip_network(address)),)) is not None:
        return "nothing: this address cannot be allowed", ""
    return "add its network to the list", "tools.fetch.allow_networks"


def _host_of(verdict: GateVerdict) -> str:
    """Return the host that a refusal is about."""
    facts = dict(verdict.facts)
    place = parse_destination(facts.get("destination", ""))
    return facts.get("host") or (place.host if place is not None else "")


def _where_set(key: str, sources: Mapping[str, str]) -> str:
    if not key:
        return ""
    set_at = sorted({place for name, place in sources.items() if name == key or name.startswith(f"{key}.")})
    return f" ({key}, {'set at ' + ', '.join(set_at) if set_at else 'not set'})"


def _of_questions(decided: Decided, sources: Mapping[str, str]) -> Iterator[str]:
    """Say who could have answered: somebody present always, an answer in advance where it may."""
    asks = [verdict for verdict in decided.words if verdict.word == "ask"]
    yield "your yes, when it was asked"
    forced = [verdict.gate for verdict in asks if verdict.force]
    if forced:
        yield f"nothing in advance: {' and '.join(forced)} needs an answer from a person who is present"
        return
    own = [verdict.where or verdict.rule for verdict in asks if verdict.own_rule]
    for tool, match, folder, command in decided.always:
        if folder is None and command is None:
            yield f"for this session: /permissions allow {tool}{f' {match}' if match is not None else ''}"
        if not own:
            pattern = None if folder is None else literally(folder)
            keys = {"tool": tool, "match": match, "folder": pattern, "command": command, "action": "allow"}
            lines = (
                f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in keys.items() if value
            )
            rule = f"{{ {', '.join(lines)} }}"
            yield f"for good: an allow rule{_where_set('permissions.rules', sources)}: {rule}"
    if own:
        yield f"no allow rule: your own ask rule ({', '.join(own)}) outweighs it"
    if asks and all(verdict.gate in _BY_AUTONOMY for verdict in asks):
        yield f"autonomy full{_where_set('permissions.autonomy', sources)}"
    for verdict in asks:
        if verdict.suggestion:
            yield f"{verdict.gate} suggests, without a question: {verdict.suggestion}"


_LONGEST = 400
_GATE = 12


@dataclass(frozen=True, slots=True)
class Explanation:
    """What is on record about one call.

    `decided` is None while it waits for an answer; `hops` are the decisions about where it was led on to.
    """

    call: str
    session: str
    asked: Asked | None
    decided: Decided | None
    hops: tuple[Decided, ...]
    finished: Finished | None
    sources: Mapping[str, str]

    def lines(self) -> Iterator[str]:
        """Yield the explanation for people."""
        decided = self.decided
        if decided is None:
            yield f"{visible(self.call)}: {self._open()}"
            return
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(decided.at))
        yield f"{visible(decided.call)}  {visible(decided.tool)}  {at}  session {visible(self.session)}"
        yield from _fact_lines("asked for", _asker(decided))
        yield from _fact_lines("through", _through(decided))
        yield from _fact_lines("arguments", _shown(decided.arguments))
        yield from _fact_lines("runs", _runs(decided))
        yield from _read_as(decided)
        yield ""
        yield f"{_headline(decided)}"
        yield ""
        for verdict in decided.words:
            yield from _word(verdict)
        yield from _block("what would have allowed it", remedies(decided, self.sources))
        yield from _block("where it was led on to", (_hop(hop) for hop in self.hops))
        yield ""
        yield f"outcome: {self._outcome()}"

    def as_json(self) -> dict[str, Json]:
        """Return the explanation as `--output json` says it."""
        decided = self.decided
        answer: dict[str, Json] = {
            "call": self.call,
            "session": self.session,
            "decision": _as_json(decided),
            "headline": _headline(decided) if decided is not None else self._open(),
            "would_allow": list(remedies(decided, self.sources)) if decided is not None else [],
            "hops": [_as_json(hop) for hop in self.hops],
            "outcome": _as_json(self.finished),
            "became": self._outcome(),
        }
        return answer

    def _open(self) -> str:
        questions = self.asked.questions if self.asked is not None else ()
        return "waits for an answer: " + "; ".join(f"{gate}: {question}" for gate, question in questions)

    def _outcome(self) -> str:
        if self.decided is None or not self.decided.allowed:
            return "it was not run"
        if self.finished is None:
            return "no outcome is on record: it runs, or the process ended before it did"
        return ", ".join(_ended(self.finished))


def _as_json(event: Decided | Finished | None) -> Json:
    fields: Json = None if event is None else json.loads(body_of(event))
    return fields


def explained(call: str, records: Sequence[Record], sources: Mapping[str, str]) -> Explanation:
    """Return the explanation of one call from all its records; `sources` as in `Configured`."""
    events = [event_of(record.kind, record.body) for record in records]
    decisions = [event for event in events if isinstance(event, Decided)]
    first = next((event for event in decisions if not event.hop), None)
    asked = next((event for event in events if isinstance(event, Asked)), None)
    ended = next((event for event in events if isinstance(event, Finished)), None)
    hops = tuple(event for event in decisions if event.hop)
    return Explanation(call, records[0].session, asked, first, hops, ended, sources)


def sources_at(configured: Iterable[Record], seq: int) -> dict[str, str]:
    """Return where keys were set in the configuration that held at a record."""
    held: dict[str, str] = {}
    for record in configured:
        event = event_of(record.kind, record.body)
        if record.seq < seq and isinstance(event, Configured):
            held = dict(event.sources)
    return held


def _fact_lines(name: str, text: str) -> Iterator[str]:
    if text:
        yield f"  {name:<{_GATE}} {visible(text)}"


def _shown(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _asker(decided: Decided) -> str:
    model = f" ({decided.model})" if decided.model else ""
    trust = f"; {decided.tool} was {decided.trust} ({decided.trust_from})" if decided.trust else ""
    seen = f"; read by then: {', '.join(decided.labels)}" if decided.labels else ""
    return f"by the {decided.asker}{model}{trust}{seen}" if decided.asker else ""


def _through(decided: Decided) -> str:
    """Return the sub-agents a call came through, each with the call that started it and its autonomy."""
    frames = decided.reading.through if decided.reading is not None else ()
    return " > ".join(f"{name} ({level}, started by {call})" for name, call, _, level in frames)


def _runs(decided: Decided) -> str:
    """Return in what a command ran, where not plainly for real; of its changes, which run made them."""
    if decided.of and decided.reading is not None and decided.reading.wished:
        return f"again, so that it can write; {decided.of} ran read-only"
    if decided.of:
        is_covered = decided.reading is not None and decided.reading.covered_by
        return f"in the workspace, as {decided.of} left it {'apart' if is_covered else 'in its trial run'}"
    if decided.overlay:
        return f"for real; what it changed of the workspace is held apart, and judged as {decided.call}.keep"
    words = {
        Runs.TRIAL: f"on trial; what it changed is judged as {decided.call}.keep",
        Runs.READ_ONLY: f"read-only; should it want to write, that is judged as {decided.call}.again",
    }
    return words.get(decided.runs, "") if decided.allowed else ""


def _read_as(decided: Decided) -> Iterator[str]:
    if decided.reading is None:
        return
    for part in decided.reading.parts:
        if part.text:
            yield from _fact_lines("read as", _part(part))
    yield from _fact_lines("it would", ", ".join(decided.reading.effects).replace("_", " "))
    if decided.reading.hidden:
        hidden = ", ".join(pointer.lstrip("/") or "all" for pointer in decided.reading.hidden)
        yield from _fact_lines("not kept", f"{hidden}: redacted or cut")


def _part(part: AtomRecord) -> str:
    where = f", which lies at {part.real}" if part.real else ""
    unread = f" (not read: {part.unread})" if part.unread else ""
    maybe = "" if part.declared else ", as it could be"
    return f"{part.kind}{maybe}: {_shown(part.text)}{where}{unread}"


def _headline(decided: Decided) -> str:
    waited = f" after {decided.waited:g} s" if decided.waited else ""
    if decided.allowed:
        by = f", answered by {visible(decided.approver)}{waited}" if decided.approver else ""
        return f"ALLOWED{by or ': nothing spoke against it'}"
    rule = f"{decided.gate} ({visible(decided.rule)}): {visible(decided.reason)}"
    if decided.code != "INPUT_REQUIRED":
        return f"DENIED by {rule}"
    who = {"nobody": "nobody was there to answer", "cancelled": "it was stopped before an answer came"}
    person, _, how = visible(decided.approver).partition("; ")
    by = f"{person} said no{f' ({how})' if how else ''}"
    return f"NOT RUN, {who.get(decided.approver, by)}{waited}: {rule}"


def _word(verdict: GateVerdict) -> Iterator[str]:
    words = {"allow": "no objection", "ask": "asks", "deny": "DENIES"}
    text = words.get(verdict.word, verdict.word)
    rule = "switched off" if verdict.rule == "off" else verdict.rule
    text += f" ({rule})" if rule else ""
    text += f": {verdict.reason}" if verdict.reason else ""
    yield from _fact_lines(verdict.gate, text)
    for name, value in verdict.facts:
        yield f"  {'':<{_GATE}}   {visible(name)}: {visible(value)}"
    if verdict.force:
        yield f"  {'':<{_GATE}}   only a person who is present can answer this"


def _block(title: str, lines: Iterable[str]) -> Iterator[str]:
    items = [f"  - {line}" for line in lines]
    if items:
        yield from ("", title, *items)


def _hop(decided: Decided) -> str:
    return f"{_headline(decided)}  {visible(_shown(decided.arguments))}"


def _ended(finished: Finished) -> Iterator[str]:
    if finished.status is Status.UNKNOWN:
        yield f"unknown: {visible(finished.detail)}; it may or may not have run, and is not repeated"
        return
    yield str(finished.status) + (f" ({finished.category})" if finished.category is not None else "")
    if finished.exit_code is not None:
        yield f"exit code {finished.exit_code}"
    yield f"{finished.size} bytes{' shown of more' if finished.truncated else ''}"
    if finished.overflow is not None:
        yield f"the whole is kept as {visible(finished.overflow)}"
    yield f"{finished.seconds:.3f} s"
    if finished.detail:
        yield visible(finished.detail)
