"""Draw a session as one page of HTML that needs nothing beside it: no script, no other file, no network.

Whatever a person, a model, a page or a program wrote is text on it: stripped of what a terminal would obey,
without the marks that models need, and escaped. Its policy forbids scripts, frames, forms and every outside
resource, should a browser find one all the same. Secrets were masked before any of it was stored.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, Any

from leeward.security.lazy import dataclass
from leeward.security.text import visible

from .differences import differences
from .text import attached_of, calls_of, head_lines, text_of

if TYPE_CHECKING:
    from leeward.memory.audit import Record
    from leeward.memory.sessions import Charge, Conversation, TranscriptEntry

    from .store import SessionStore

__all__ = ["SessionRecord", "page_lines", "session_record"]

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_STYLE = """
:root { color-scheme: light dark; --line: #8886; --soft: #8882; --good: #1a7f37; --bad: #cf222e;
  --ask: #9a6700; }
@media (prefers-color-scheme: dark) { :root { --good: #57ab5a; --bad: #f47067; --ask: #c69026; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem;
  overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; }
h2 { font-size: 1.1rem; border-top: 1px solid var(--line); padding-top: .8rem; }
h2 time { font-weight: normal; opacity: .7; float: right; }
pre { font: 13px/1.45 ui-monospace, monospace; white-space: pre-wrap; margin: .3rem 0; padding: .5rem .7rem;
  background: var(--soft); border-radius: 6px; max-height: 40rem; overflow: auto; }
.person pre { border-left: 3px solid #0969da; }
.words { white-space: pre-wrap; margin: .6rem 0; }
details { margin: .4rem 0; border: 1px solid var(--line); border-radius: 6px; padding: .2rem .6rem; }
summary { cursor: pointer; }
summary code { font-weight: 600; }
.state { float: right; padding-left: 1rem; }
.ok, .add { color: var(--good); } .no, .del { color: var(--bad); } .ask { color: var(--ask); }
table { border-collapse: collapse; font-size: 13px; }
td { padding: .1rem .8rem .1rem 0; vertical-align: top; }
td:first-child { white-space: nowrap; }
section { content-visibility: auto; contain-intrinsic-size: auto 20rem; }
svg { width: 100%; height: auto; max-height: 9rem; }
svg text { font: 11px system-ui, sans-serif; fill: currentColor; }
@media print { details { break-inside: avoid; } pre { max-height: none; } }
""".strip()
_WIDTH, _HEIGHT, _MOST_BARS = 640, 96, 120
_MOST_RECORDS = 1_000_000


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """All that is kept of a session; `differences` are the lines of what each call changed."""

    conversation: Conversation
    entries: Sequence[TranscriptEntry]
    charges: Sequence[Charge]
    records: Sequence[Record]
    differences: Mapping[str, Sequence[str]]


async def session_record(kept: SessionStore, one: Conversation) -> SessionRecord:
    """Return all that is kept of a session.

    Raises:
        RecordError: it cannot be read.
    """
    return SessionRecord(
        one,
        await kept.transcript.entries(one.id),
        await kept.transcript.charges(one.id),
        await kept.audit.list_records(one.id, _MOST_RECORDS, kinds=("decision", "outcome")),
        await differences(kept.states, one.id, one.workspace),
    )


def page_lines(kept: SessionRecord) -> Iterator[str]:
    """Yield the lines of the page."""
    title = _text(kept.conversation.title) or _text(kept.conversation.id)
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{title}</title><style>{_STYLE}</style></head><body>"
    yield f"<h1>{title}</h1>"
    yield from _table(line.split(None, 1) for line in head_lines(kept.conversation, kept.charges))
    yield from _chart(kept.entries)
    calls = _Calls(kept)
    for turn, entries in groupby(kept.entries, key=lambda entry: entry.turn):
        yield from _turn(turn, list(entries), calls)
    yield "</body></html>"


def _turn(turn: int, entries: Sequence[TranscriptEntry], calls: _Calls) -> Iterator[str]:
    began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entries[0].at))
    yield f'<section id="turn-{turn}"><h2>Turn {turn} <time>{began}</time></h2>'
    results = {call: entry for entry in entries if (call := _answered(entry))}
    shown: set[str] = set()
    for entry in entries:
        text = text_of(entry)
        match entry.role:
            case "user":
                yield f'<div class="person">{_pre(text)}</div>'
                if attached := attached_of(entry):
                    yield from _folded("attached, and not the person's words", attached)
            case "assistant":
                yield f'<div class="words">{_text(text)}</div>' if text.strip() else ""
                for call, name, arguments in calls_of(entry):
                    shown.add(call)
                    yield from calls.lines(entry.at, name, arguments, results.get(call))
            case "tool" if _answered(entry) not in shown:
                yield from _folded(f"result ({entry.origin})", text)
            case "summary":
                yield from _folded("what came before, summed up for the model", text)
            case "clear":
                yield "<p><em>What came before is forgotten.</em></p>"
            case _:
                pass
    yield "</section>"


def _answered(entry: TranscriptEntry) -> str:
    """Return the id, as the model gave it, of the call that an entry is the result of; "" for no result."""
    call = (
        entry.content.get("call_id") if entry.role == "tool" and isinstance(entry.content, Mapping) else None
    )
    return call if isinstance(call, str) else ""


class _Calls:
    """What is on record about each call: its decisions, its outcome, and what it changed."""

    def __init__(self, kept: SessionRecord) -> None:
        self._decided: dict[str, list[Mapping[str, Any]]] = {}
        self._ended: dict[str, Mapping[str, Any]] = {}
        self._about: dict[str, list[str]] = {}
        self._differences = kept.differences
        for record in kept.records:
            if record.call is not None and record.kind == "decision":
                self._decided.setdefault(record.call, []).append(record.body)
                if of := str(record.body.get("of") or ""):
                    self._about.setdefault(of, []).append(record.call)
            elif record.call is not None:
                self._ended[record.call] = record.body
        self._waiting = [call for call, decided in self._decided.items() if not decided[0].get("of")]

    def lines(
        self, asked_at: float, name: str, arguments: str, result: TranscriptEntry | None
    ) -> Iterator[str]:
        """Yield a call with what was decided, what came back and what it changed; folded but for one line."""
        tries = self._taken(asked_at, name, arguments, result.at if result is not None else math.inf)
        state, word = self._state(tries[-1]) if tries else ("no", "not on record")
        yield (
            f'<details class="call" id="{escape(tries[-1]) if tries else ""}"><summary>'
            f'<span class="state {state}">{_text(word)}</span>'
            f"<code>{_text(name)}</code> {_text(_cut(arguments))}</summary>"
        )
        yield _pre(arguments)
        for call in tries:
            yield from self._recorded(call)
        if result is not None:
            yield from _folded(f"result ({result.origin})", text_of(result), is_open=True)
        yield "</details>"

    def _taken(self, asked_at: float, name: str, arguments: str, until: float) -> list[str]:
        """Take the recorded calls that are one of the model's: one for each time it was tried.

        The record has ids of its own. It is of the same tool and time, and has all arguments that the model
        gave; of several that do, the first is taken, with what repeats it.
        """
        wanted = _object(arguments)
        found: list[str] = []
        for call in self._waiting:
            decided = self._decided[call][0]
            is_then = asked_at - 1 <= float(decided.get("at") or 0.0) <= until + 1
            if not is_then or decided.get("tool") != name:
                continue
            if found and decided.get("digest") != self._decided[found[0]][0].get("digest"):
                continue
            if wanted.items() <= _object(str(decided.get("arguments") or "")).items() or not wanted:
                if found and self._ended.get(found[-1], {}).get("status") == "ok":
                    break
                found.append(call)
        self._waiting = [call for call in self._waiting if call not in found]
        return found

    def _recorded(self, call: str) -> Iterator[str]:
        for decided in self._decided.get(call, ()):
            yield from _decision(decided)
        for asked in self._about.get(call, ()):
            state, word = self._state(asked)
            yield f'<p class="{state}">keep what it changed: {_text(word)}</p>'
            for decided in self._decided.get(asked, ()):
                yield from _decision(decided)
        for changed in (call, *self._about.get(call, ())):
            if lines := self._differences.get(changed):
                yield from _difference(lines)

    def _state(self, call: str) -> tuple[str, str]:
        """Return how a call ended, as a class of the style and in words."""
        decided, ended = self._decided.get(call, []), self._ended.get(call, {})
        if any(not one.get("allowed") for one in decided):
            refused = next(one for one in decided if not one.get("allowed"))
            return "no", f"refused by {refused.get('gate') or 'nobody'}"
        status = str(ended.get("status") or ("not on record" if not decided else "no outcome"))
        seconds = ended.get("seconds")
        took = f" · {seconds:.1f} s" if isinstance(seconds, (int, float)) else ""
        asked = " · asked" if any(_asks(one) for one in decided) else ""
        exit_code = ended.get("exit_code")
        failed = f" · exit {exit_code}" if exit_code else ""
        state = "ok" if status == "ok" and not failed else "no"
        return ("ask" if asked and state == "ok" else state), f"{status}{failed}{asked}{took}"


def _object(arguments: str) -> dict[str, str]:
    """Return the arguments of a call, each as JSON; none where they are no object."""
    try:
        value = json.loads(arguments)
    except ValueError:
        return {}
    return (
        {name: json.dumps(one, sort_keys=True) for name, one in value.items()}
        if isinstance(value, dict)
        else {}
    )


def _asks(decided: Mapping[str, Any]) -> bool:
    return any(word.get("word") == "ask" for word in _words(decided))


def _words(decided: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the answers of the gates that objected or asked; in an older record an answer is a list."""
    for word in decided.get("words") or ():
        if isinstance(word, Mapping) and word.get("word") != "allow":
            yield word


def _decision(decided: Mapping[str, Any]) -> Iterator[str]:
    rows = [(str(word.get("gate")), _word(word)) for word in _words(decided)]
    if approver := decided.get("approver"):
        waited = decided.get("waited")
        after = f", after {waited:.0f} s" if isinstance(waited, (int, float)) and waited >= 1 else ""
        rows.append(("answered by", f"{approver}{after}"))
    if labels := decided.get("labels"):
        rows.append(("read before", ", ".join(map(str, labels))))
    yield from _table(rows)


def _word(word: Mapping[str, Any]) -> str:
    rule = f" ({word['rule']})" if word.get("rule") else ""
    facts = "; ".join(f"{fact[0]}: {fact[1]}" for fact in word.get("facts") or () if len(fact) == 2)
    return ". ".join(
        filter(None, (f"{word.get('word')}{rule}: {word.get('reason') or ''}".rstrip(": "), facts))
    )


def _difference(lines: Sequence[str]) -> Iterator[str]:
    yield "<details open><summary>what it changed</summary><pre>"
    for line in lines:
        mark = line.strip()[:1]
        kind = {"+": "add", "-": "del"}.get(mark, "")
        yield f'<span class="{kind}">{_text(line)}</span>' if kind else _text(line)
    yield "</pre></details>"


def _folded(title: str, text: str, *, is_open: bool = False) -> Iterator[str]:
    lines = text.count("\n") + 1
    more = f" · {lines} lines" if lines > 1 else ""
    state = " open" if is_open and lines <= 12 else ""
    yield f"<details{state}><summary>{_text(title)}{more}</summary>{_pre(text)}</details>"


def _chart(entries: Sequence[TranscriptEntry]) -> Iterator[str]:
    """Yield a bar for each turn: tokens in and out, with its cost and time as its title."""
    turns = [(turn, list(some)) for turn, some in groupby(entries, key=lambda entry: entry.turn)]
    used = [(turn, *_used(some)) for turn, some in turns][-_MOST_BARS:]
    most = max((tokens for _, tokens, _, _ in used), default=0)
    if not most:
        return
    step = _WIDTH / len(used)
    yield f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT + 16}" role="img" aria-label="tokens of each turn">'
    for place, (turn, tokens, cost, seconds) in enumerate(used):
        height = max(1.0, tokens / most * _HEIGHT)
        yield (
            f'<a href="#turn-{turn}"><rect x="{place * step:.1f}" y="{_HEIGHT - height:.1f}"'
            f' width="{max(1.0, step - 2):.1f}" height="{height:.1f}" fill="#0969da" opacity=".75">'
            f"<title>turn {turn}: {tokens} tokens, {cost}, {seconds:.0f} s</title></rect></a>"
        )
    yield f'<text x="0" y="{_HEIGHT + 13}">tokens of each turn, at most {most}</text></svg>'


def _used(entries: Iterable[TranscriptEntry]) -> tuple[int, str, float]:
    """Return the tokens, the cost and the seconds of a turn."""
    some = list(entries)
    tokens = sum(entry.charge.input_tokens + entry.charge.output_tokens for entry in some)
    costs = [entry.charge.cost for entry in some if entry.charge.cost is not None]
    return tokens, f"cost {sum(costs):.4f}" if costs else "cost unknown", some[-1].at - some[0].at


def _table(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    cells = ["".join(f"<td>{_text(str(cell))}</td>" for cell in row) for row in rows]
    if cells:
        yield f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


def _pre(text: str) -> str:
    return f"<pre>{_text(text)}</pre>"


def _text(text: str) -> str:
    """Return a text of anybody as text of the page; what draws nothing is spelled out."""
    return escape("\n".join(map(visible, text.split("\n"))))


def _cut(text: str, length: int = 120) -> str:
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[: length - 1]}…"
