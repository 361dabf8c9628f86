"""Why did a call run, or why not? From its records to words: every gate's answer, and what came of it.

Pure. What a model, a page or a program wrote is spelled visibly wherever it stands.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from leeward.memory.audit import Record, body_of, event_of
from leeward.security.call import Status
from leeward.security.kinds import Json
from leeward.security.session import Asked, Configured, Decided, Finished, Part, Said
from leeward.security.text import visible

from .remedies import remedies

__all__ = ["Explanation", "explained", "sources_at"]

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
        yield from _told("asked for", _asker(decided))
        yield from _told("arguments", _shown(decided.arguments))
        yield from _read_as(decided)
        yield ""
        yield f"{_headline(decided)}"
        yield ""
        for said in decided.words:
            yield from _word(said)
        yield from _block("what would have allowed it", remedies(decided, self.sources))
        yield from _block("where it was led on to", (_hop(hop) for hop in self.hops))
        yield ""
        yield f"what became of it: {self._outcome()}"

    def as_json(self) -> dict[str, Json]:
        """Return the explanation as `--output json` says it."""
        decided = self.decided
        told: dict[str, Json] = {
            "call": self.call,
            "session": self.session,
            "decision": _as_json(decided),
            "headline": _headline(decided) if decided is not None else self._open(),
            "would_allow": list(remedies(decided, self.sources)) if decided is not None else [],
            "hops": [_as_json(hop) for hop in self.hops],
            "outcome": _as_json(self.finished),
            "became": self._outcome(),
        }
        return told

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
    told: Json = None if event is None else json.loads(body_of(event))
    return told


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


def _told(name: str, text: str) -> Iterator[str]:
    if text:
        yield f"  {name:<{_GATE}} {visible(text)}"


def _shown(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _asker(decided: Decided) -> str:
    model = f" ({decided.model})" if decided.model else ""
    trust = f"; {decided.tool} was {decided.trust} ({decided.trust_from})" if decided.trust else ""
    seen = f"; read by then: {', '.join(decided.labels)}" if decided.labels else ""
    return f"by the {decided.asker}{model}{trust}{seen}" if decided.asker else ""


def _read_as(decided: Decided) -> Iterator[str]:
    if decided.reading is None:
        return
    for part in decided.reading.parts:
        if part.text:
            yield from _told("read as", _part(part))
    yield from _told("it would", ", ".join(decided.reading.effects).replace("_", " "))
    if decided.reading.hidden:
        hidden = ", ".join(pointer.lstrip("/") or "all" for pointer in decided.reading.hidden)
        yield from _told("not kept", f"{hidden}: redacted or cut")


def _part(part: Part) -> str:
    where = f", which lies at {part.real}" if part.real else ""
    unread = f" (not read: {part.unread})" if part.unread else ""
    maybe = "" if part.declared else ", as it could be"
    return f"{part.kind}{maybe}: {_shown(part.text)}{where}{unread}"


def _headline(decided: Decided) -> str:
    waited = f" after {decided.waited:g} s" if decided.waited else ""
    if decided.allowed:
        by = f", answered by {visible(decided.approver)}{waited}" if decided.approver else ""
        return f"ALLOWED{by or ': nothing spoke against it'}"
    said = f"{decided.gate} ({visible(decided.rule)}): {visible(decided.reason)}"
    if decided.code != "INPUT_REQUIRED":
        return f"DENIED by {said}"
    who = {"nobody": "nobody was there to answer", "cancelled": "it was stopped before an answer came"}
    return f"NOT RUN, {who.get(decided.approver, f'{visible(decided.approver)} said no')}{waited}: {said}"


def _word(said: Said) -> Iterator[str]:
    words = {"allow": "no objection", "ask": "asks", "deny": "DENIES"}
    text = words.get(said.word, said.word)
    rule = "switched off" if said.rule == "off" else said.rule
    text += f" ({rule})" if rule else ""
    text += f": {said.reason}" if said.reason else ""
    yield from _told(said.gate, text)
    for name, value in said.facts:
        yield f"  {'':<{_GATE}}   {visible(name)}: {visible(value)}"
    if said.force:
        yield f"  {'':<{_GATE}}   only somebody present can answer this"


def _block(title: str, lines: Iterable[str]) -> Iterator[str]:
    told = [f"  - {line}" for line in lines]
    if told:
        yield from ("", title, *told)


def _hop(decided: Decided) -> str:
    return f"{_headline(decided)}  {visible(_shown(decided.arguments))}"


def _ended(finished: Finished) -> Iterator[str]:
    if finished.status is Status.UNKNOWN:
        yield f"nobody knows: {visible(finished.detail)}; it may have been done or not, and is not run again"
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
