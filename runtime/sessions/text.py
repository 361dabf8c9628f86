"""Format sessions: as a list, a conversation, a Markdown document, or JSON. Pure.

What a page, a program or a model wrote is stripped of all that a terminal would obey, and loses the marks
that only models need. In the document it is put into code blocks, so that it cannot look like our own text
and no viewer of the document loads anything it names, such as a remote image.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from leeward.security.filters import Source, strip
from leeward.security.lazy import regex
from leeward.security.text import visible
from leeward.security.trust import Origin

if TYPE_CHECKING:
    from leeward.memory.sessions import Charge, Conversation, SearchHit, TranscriptEntry
    from leeward.security.kinds import Json

    from ..conversation import HistorySnapshot

__all__ = [
    "attached_of",
    "calls_of",
    "conversation_json",
    "entry_json",
    "export_lines",
    "found_json",
    "found_line",
    "head_lines",
    "last_lines",
    "session_line",
    "show_lines",
    "text_of",
]

_TITLE = 60
_LINE = 200
_EXCERPT = 120
_MARK = regex(r"«(?:UNTRUSTED:[0-9a-f]{32}:[^»]{0,64}|END:[0-9a-f]{32})»")
_WORD = regex(r"[^\W_]+")
_MODEL = Source("model", Origin.MODEL)


def session_line(one: Conversation, *, where: bool = True) -> str:
    """Return a session on one line; `where` tells its workspace, too."""
    fork = f"  (fork of {one.forked_from}, turn {one.forked_turn})" if one.forked_from else ""
    place = f"  {visible(one.workspace)}" if where else ""
    title = _cut(visible(one.title), _TITLE) or "(no words)"
    return f"{one.id}  {_at(one.used)}  {_turns(one):>9}  {title}{fork}{place}"


def _turns(one: Conversation) -> str:
    return f"{one.turns} turn{'' if one.turns == 1 else 's'}"


def last_lines(one: Conversation, taken: HistorySnapshot) -> Iterator[str]:
    """Yield where a session was left: its name, and its last message."""
    yield session_line(one, where=False)
    for message in _last(taken):
        words = message[1].strip()
        if words:
            yield f"  {message[0]} {_cut(_line(words), _LINE)}"


def _last(taken: HistorySnapshot) -> list[tuple[str, str]]:
    found: dict[str, str] = {}
    for message in reversed(taken.messages):
        if message.role == "user":
            found["›"] = message.own_words
            break
        if message.role == "assistant" and message.text:
            found.setdefault("‹", message.text)
    return sorted(found.items(), reverse=True)


def found_line(found: SearchHit, words: str) -> str:
    """Return where words were found, with the text around them."""
    one, entry = found.conversation, found.entry
    role, text = _said_in(entry, words)
    head = f"{one.id}  turn {entry.turn:<4} {role:<9}"
    return f"{head} {_excerpt(text, words)}  ({_cut(visible(one.title), _TITLE)})"


def _said_in(entry: TranscriptEntry, words: str) -> tuple[str, str]:
    """Return the text of an entry that holds most of the words, and its role: "attached" is nobody's word."""
    text, attached = text_of(entry), attached_of(entry)
    wanted = [word.casefold() for word in _WORD.findall(words)]
    own, other = (sum(word in whole.casefold() for word in wanted) for whole in (text, attached))
    return ("attached", attached) if attached and other > own else (entry.role, text)


def show_lines(
    one: Conversation, entries: Sequence[TranscriptEntry], charges: Sequence[Charge]
) -> Iterator[str]:
    """Yield a session for reading: every message, calls and results on one line each."""
    yield from head_lines(one, charges)
    turn = 0
    for entry in entries:
        if entry.turn != turn:
            turn = entry.turn
            yield ""
        yield from _shown(entry)


def _shown(entry: TranscriptEntry) -> Iterator[str]:
    text = text_of(entry)
    match entry.role:
        case "user":
            first, *rest = text.split("\n")
            yield f"{entry.turn:>3} › {first}"
            yield from (f"    · {line}" for line in rest)
            if attached := attached_of(entry).strip():
                yield f"    + along with it: {_first(attached)}"
        case "assistant":
            yield from (f"      {line}".rstrip() for line in text.strip("\n").split("\n") if text)
            yield from (
                f"    → {_cut(f'{name} {arguments}', _LINE)}" for _, name, arguments in calls_of(entry)
            )
        case "tool":
            yield f"    ← {entry.origin}: {_first(text)}"
        case "summary":
            yield f"    ≡ what came before is summarised for the model: {_cut(_line(text), _LINE)}"
        case "clear":
            yield "    ■ what came before is forgotten"


def _first(text: str) -> str:
    """Return the first line of a text, and how many there are."""
    lines = text.strip().split("\n")
    more = f" … ({len(lines)} lines)" if len(lines) > 1 else ""
    return f"{_cut(lines[0], _LINE)}{more}"


def export_lines(
    one: Conversation, entries: Sequence[TranscriptEntry], charges: Sequence[Charge]
) -> Iterator[str]:
    """Yield a session as a Markdown document; all messages are in blocks of code."""
    yield f"# {_escaped(visible(one.title)) or one.id}"
    yield ""
    yield from (f"- {_escaped(line.strip())}" for line in head_lines(one, charges))
    turn = 0
    for entry in entries:
        if entry.turn != turn:
            turn = entry.turn
            yield from ("", f"## Turn {turn}")
        yield from _document(entry)


def _document(entry: TranscriptEntry) -> Iterator[str]:
    text = text_of(entry)
    heading = {"user": "The person", "assistant": "The assistant", "summary": "Summary for the model"}
    if entry.role == "clear":
        yield from ("", "*What came before is forgotten.*")
        return
    if entry.role in heading and text:
        yield from ("", f"### {heading[entry.role]}", "", *_block(text))
    if attached := attached_of(entry):
        yield from ("", "### Along with it, and not the person's", "", *_block(attached))
    for _, name, arguments in calls_of(entry):
        yield from ("", f"### Call of {_escaped(name)}", "", *_block(arguments))
    if entry.role == "tool":
        yield from ("", f"### Result ({entry.origin})", "", *_block(text))


def _block(text: str) -> Iterator[str]:
    """Yield a block of code that nothing inside it can end."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    yield from (fence, *text.rstrip("\n").split("\n"), fence)


def head_lines(one: Conversation, charges: Sequence[Charge]) -> Iterator[str]:
    """Yield what is known of a session as such: each line a word, blanks, and what it is."""
    yield f"session    {one.id}"
    yield f"title      {visible(one.title)}"
    yield f"workspace  {visible(one.workspace)}"
    yield f"started    {_at(one.started)}, last used {_at(one.used)}, {_turns(one)}"
    if one.forked_from:
        yield f"fork of    {one.forked_from}, turn {one.forked_turn}"
    for charge in charges:
        cost = "cost unknown" if charge.cost is None else f"cost {charge.cost:.4f}"
        tokens = f"{charge.input_tokens} tokens in, {charge.output_tokens} out"
        yield f"model      {visible(charge.model)}: {tokens}, {cost}"


def conversation_json(one: Conversation) -> dict[str, Json]:
    """Return a session as it is listed, as an object."""
    return {
        "id": one.id,
        "title": one.title,
        "workspace": one.workspace,
        "started": one.started,
        "used": one.used,
        "turns": one.turns,
        "forked_from": one.forked_from,
        "forked_turn": one.forked_turn,
    }


def entry_json(entry: TranscriptEntry) -> dict[str, Json]:
    """Return an entry as it is stored, as an object."""
    charge = entry.charge
    return {
        "turn": entry.turn,
        "role": entry.role,
        "content": entry.content,
        "origin": entry.origin.value,
        "at": entry.at,
        "model": charge.model or None,
        "input_tokens": charge.input_tokens,
        "output_tokens": charge.output_tokens,
        "cache_read_tokens": charge.cache_read_tokens,
        "cost": charge.cost,
    }


def found_json(found: SearchHit, words: str) -> dict[str, Json]:
    """Return where words were found, as an object."""
    entry = found.entry
    role, text = _said_in(entry, words)
    return {
        "session": conversation_json(found.conversation),
        "turn": entry.turn,
        "role": role,
        "origin": entry.origin.value if role == entry.role else _brought(entry),
        "excerpt": _excerpt(text, words),
    }


def text_of(entry: TranscriptEntry) -> str:
    """Return what an entry says, stripped, and without marks; lines stay lines."""
    return _stored(entry, "text")


def attached_of(entry: TranscriptEntry) -> str:
    """Return what went along with the person's words, and is not theirs."""
    return _stored(entry, "attached")


def _brought(entry: TranscriptEntry) -> str | None:
    """Return whose words went along with the person's, where it is known."""
    origin = entry.content.get("brought") if isinstance(entry.content, Mapping) else None
    return origin if isinstance(origin, str) else None


def _stored(entry: TranscriptEntry, name: str) -> str:
    text = entry.content.get(name) if isinstance(entry.content, Mapping) else None
    return _stripped(_MARK.sub("", text)) if isinstance(text, str) else ""


def calls_of(entry: TranscriptEntry) -> Iterator[tuple[str, str, str]]:
    """Yield the id, the tool and the arguments of each call that an entry asks for."""
    calls = entry.content.get("calls") if isinstance(entry.content, Mapping) else None
    for call in calls if isinstance(calls, Sequence) else ():
        match call:
            case [str(name), str(tool), str(arguments)]:
                yield name, visible(tool), visible(arguments)


def _stripped(text: str) -> str:
    feeder = strip.start(_MODEL)
    return feeder.feed(text) + feeder.flush()


def _line(text: str) -> str:
    return " ".join(_stripped(_MARK.sub("", text)).split())


def _excerpt(text: str, words: str) -> str:
    """Return the text around the first of the words, on one line."""
    line = " ".join(text.split())
    folded = line.casefold()
    places = [folded.find(word) for word in _WORD.findall(words.casefold())]
    first = min((place for place in places if place >= 0), default=0)
    start = max(0, min(first - _EXCERPT // 3, len(line) - _EXCERPT))
    end = start + _EXCERPT
    return f"{'…' if start else ''}{line[start:end]}{'…' if end < len(line) else ''}"


def _escaped(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>#|])", r"\\\1", text)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _at(when: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(when))
