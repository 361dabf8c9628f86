"""Rebuild a session's conversation from its stored lines, valid for any model. Pure.

Whatever a crash or a full disk left behind, each call comes back with exactly one result, and no result
without its call. Only calls of the very last reply may be open; the resuming session answers them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from leeward.security.call import ToolCall
from leeward.security.ports import RecordError
from leeward.security.trust import Origin

from ..conversation import BROKEN_OFF, HistorySnapshot, attached_to, with_summary
from ..providers.interface import Message

if TYPE_CHECKING:
    from leeward.memory.sessions import Recall, TranscriptEntry

__all__ = ["origins_of", "taken_up"]


def taken_up(recall: Recall) -> HistorySnapshot:
    """Return the conversation as it was left.

    Raises:
        RecordError: an entry is not one that Leeward writes.
    """
    found = [(entry.place, _message(entry)) for entry in recall.words]
    if recall.summary is not None:
        places = [place for place, _ in found] or [recall.summary.place]
        messages = with_summary([message for _, message in found], _text(recall.summary, "text"))
        found = list(zip(places, messages, strict=True))
    for entry in recall.rest:
        if entry.role in {"user", "assistant", "tool"} and entry.content != {"text": "", "calls": []}:
            found.append((entry.place, _message(entry)))
    whole = list(_answered(found))
    return HistorySnapshot(
        tuple(message for _, message in whole),
        tuple(place for place, _ in whole),
        recall.last_place,
        recall.last_turn,
    )


def origins_of(recall: Recall) -> frozenset[Origin]:
    """Return whose words come back that are neither the person's nor our own."""
    brought = [entry for entry in recall.rest if entry.role == "tool"]
    brought += [recall.summary] if recall.summary is not None else []
    found = {entry.origin for entry in brought}
    spoken = [entry for entry in recall.rest if entry.role == "user"]
    found |= {_brought(entry) for entry in spoken if "attached" in _content(entry)}
    return frozenset(found) - {Origin.PERSON, Origin.TOOL}


def _brought(entry: TranscriptEntry) -> Origin:
    """Return whose words went along with the person's; an older entry does not say."""
    origin = _text(entry, "brought", Origin.WEB.value)
    try:
        return Origin(origin)
    except ValueError as error:
        raise _broken(entry, f"{error}") from error


def _answered(found: Iterable[tuple[int, Message]]) -> Iterable[tuple[int, Message]]:
    """Yield the messages with a result for each call but those of the last reply, and none besides."""
    open_calls: dict[str, None] = {}
    seen: set[str] = set()
    for place, message in found:
        if message.role == "tool":
            if message.call_id in open_calls:
                del open_calls[message.call_id]
                yield place, message
            continue
        yield from ((place, Message("tool", BROKEN_OFF, call_id=call_id)) for call_id in open_calls)
        calls = tuple({call.id: call for call in message.calls if call.id not in seen}.values())
        open_calls = dict.fromkeys(call.id for call in calls)
        seen.update(open_calls)
        if message.text or calls or message.role == "user":
            yield place, replace(message, calls=calls)


def _message(entry: TranscriptEntry) -> Message:
    match entry.role:
        case "user":
            return attached_to(_text(entry, "text"), _text(entry, "attached", ""))
        case "assistant":
            return Message("assistant", _text(entry, "text"), tuple(_calls(entry)))
        case _:
            return Message("tool", _text(entry, "text"), call_id=_text(entry, "call_id"))


def _calls(entry: TranscriptEntry) -> Iterable[ToolCall]:
    calls = _content(entry).get("calls", ())
    if not isinstance(calls, Sequence):
        raise _broken(entry, "its calls are no list")
    for one in calls:
        match one:
            case [str(call_id), str(name), str(arguments)]:
                yield ToolCall(call_id, name, arguments)
            case _:
                raise _broken(entry, "a call in it is broken")


def _text(entry: TranscriptEntry, name: str, default: str | None = None) -> str:
    text = _content(entry).get(name, default)
    if not isinstance(text, str):
        raise _broken(entry, f"it has no {name}")
    return text


def _content(entry: TranscriptEntry) -> Mapping[str, object]:
    if not isinstance(entry.content, Mapping):
        raise _broken(entry, "it is no object")
    return entry.content


def _broken(entry: TranscriptEntry, why: str) -> RecordError:
    return RecordError(f"entry {entry.seq} of the conversation cannot be read: {why}")
