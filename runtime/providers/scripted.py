"""A model that replies from a file, for tests, demos and attacks by a lost model.

The file is TOML. Each `[[reply]]` answers one request; the first that was not used yet and fits is
taken, and after the last the model says "(script ended)":

    [[reply]]
    text = "I will look."                               # optional
    calls = [
      { tool = "fetch", args = { url = "https://example.com/" } },
      { tool = "fetch", arguments = "{broken" },        # the raw text instead of args
      { tool = "read", id = "same", args = { path = "a" } },
      { tool = "read_overflow", args_from = { id = "of_[0-9a-f]+" }, args = { limit = 10 } },
    ]

    [[reply]]
    when = "weather"                                    # only if the person's last words hold this
    text = "Sunny."

`args_from` gives each argument the last match of a regular expression in the latest tool result:
its first group, or all of it where it has none.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import field
from pathlib import Path
from typing import Any

import trio

from leeward.security.call import ToolCall
from leeward.security.lazy import dataclass

from .interface import (
    CallRequested,
    ErrorKind,
    Message,
    ModelError,
    ModelEvent,
    Request,
    ScriptError,
    Stopped,
    StopReason,
    TextDelta,
    new_call_id,
    one_line,
)

__all__ = ["ENDED", "Scripted", "load_script", "replay", "reply"]


def reply(text: str, calls: Sequence[ToolCall] = ()) -> tuple[ModelEvent, ...]:
    """Return the events of a whole reply; the text comes line by line, as in a stream."""
    reason = StopReason.TOOL_CALLS if calls else StopReason.STOP
    return (
        *(TextDelta(line) for line in text.splitlines(keepends=True)),
        *(CallRequested(requested) for requested in calls),
        Stopped(reason),
    )


@asynccontextmanager
async def replay(events: Sequence[ModelEvent]) -> AsyncGenerator[AsyncIterator[ModelEvent], None]:
    """Hand out events; each is a point where the reader can be cancelled."""
    async with aclosing(_each(events)) as reading:
        yield reading


async def _each(events: Sequence[ModelEvent]) -> AsyncGenerator[ModelEvent, None]:
    for event in events:
        await trio.lowlevel.checkpoint()
        yield event


ENDED = "(script ended)"
_UNFIT = "(no reply of the script fits)"
_CALL_KEYS = ("tool", "args", "arguments", "args_from", "id")


@dataclass(frozen=True, slots=True)
class _Call:
    tool: str
    arguments: str
    taken: Mapping[str, re.Pattern[str]]
    id: str


@dataclass(frozen=True, slots=True)
class _Reply:
    text: str
    calls: tuple[_Call, ...]
    when: str | None


@dataclass(slots=True)
class Scripted:
    """A script being played; each reply is used once."""

    file: str
    _left: list[_Reply] = field(repr=False)

    @property
    def name(self) -> str:
        """The name under which the person chose it."""
        return f"scripted:{self.file}"

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Use the next reply that fits.

        Raises:
            ModelError: `args_from` matches nothing in the latest tool result.
        """
        if not self._left:
            return replay(reply(ENDED))
        prompt = next((m.text for m in reversed(request.messages) if m.role == "user"), "")
        chosen = next((r for r in self._left if r.when is None or r.when in prompt), None)
        if chosen is None:
            return replay(reply(_UNFIT))
        self._left.remove(chosen)
        calls = [self._requested(call, request.messages) for call in chosen.calls]
        return replay(reply(chosen.text, calls))

    def _requested(self, call: _Call, messages: Sequence[Message]) -> ToolCall:
        arguments = call.arguments
        if call.taken:
            result = next((m.text for m in reversed(messages) if m.role == "tool"), "")
            taken = {name: self._last_match(pattern, result) for name, pattern in call.taken.items()}
            arguments = json.dumps({**json.loads(arguments), **taken}, ensure_ascii=False)
        return ToolCall(call.id or new_call_id(), call.tool, arguments)

    def _last_match(self, pattern: re.Pattern[str], result: str) -> str:
        matches = list(pattern.finditer(result))
        if not matches:
            words = f"{self.file}: nothing in the latest tool result matches {one_line(pattern.pattern, 100)}"
            raise ModelError(words, ErrorKind.BAD_REQUEST)
        return (matches[-1][1] or "") if pattern.groups else matches[-1][0]


def load_script(file: str) -> Scripted:
    """Read a script.

    Raises:
        ScriptError: it cannot be read, or something in it is not as described above.
    """
    try:
        document = tomllib.loads(Path(file).read_text(encoding="utf-8"))
        _known_keys(document, ("reply",), "the file")
        replies = [
            _reply(table, f"reply {n}") for n, table in enumerate(_tables(document, "reply", "the file"), 1)
        ]
    except OSError as error:
        raise ScriptError(f"{file}: cannot be read: {error.strerror}") from error
    except (ValueError, TypeError) as error:
        raise ScriptError(f"{file}: {error}") from error
    return Scripted(file, replies)


def _reply(table: Mapping[str, object], where: str) -> _Reply:
    _known_keys(table, ("text", "calls", "when"), where)
    calls = tuple(
        _call(call, f"{where}, call {n}") for n, call in enumerate(_tables(table, "calls", where), 1)
    )
    when = _typed(table, "when", str, where)
    return _Reply(_typed(table, "text", str, where) or "", calls, when)


def _call(table: Mapping[str, object], where: str) -> _Call:
    _known_keys(table, _CALL_KEYS, where)
    tool = _typed(table, "tool", str, where)
    if tool is None:
        raise ValueError(f'{where}: say which tool, as in tool = "read"')
    raw = _typed(table, "arguments", str, where)
    if raw is not None and ("args" in table or "args_from" in table):
        raise ValueError(f"{where}: give either args or arguments, not both")
    if raw is None:
        raw = _json(_typed(table, "args", dict, where) or {}, where)
    patterns = _typed(table, "args_from", dict, where) or {}
    taken = {name: _pattern(value, f"{where}, args_from.{name}") for name, value in patterns.items()}
    return _Call(tool, raw, taken, _typed(table, "id", str, where) or "")


def _json(value: object, where: str) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: args cannot be JSON ({error}); write arguments = '…' instead") from error


def _pattern(value: object, where: str) -> re.Pattern[str]:
    if not isinstance(value, str):
        raise TypeError(f"{where}: expected a regular expression, found {type(value).__name__}")
    try:
        return re.compile(value)
    except re.error as error:
        raise ValueError(f"{where}: not a regular expression: {error}") from error


def _known_keys(table: Mapping[str, object], known: Collection[str], where: str) -> None:
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
            raise ValueError(f"{where}: unknown key {one_line(key, 60)}; {hint}")


def _tables(table: Mapping[str, object], key: str, where: str) -> list[Mapping[str, object]]:
    value = _typed(table, key, list, where) or []
    if not all(isinstance(item, dict) for item in value):
        raise TypeError(f"{where}: {key} must be a list of tables")
    return value


def _typed(table: Mapping[str, object], key: str, wanted: type, where: str) -> Any:
    value = table.get(key)
    if value is not None and not isinstance(value, wanted):
        raise TypeError(f"{where}: {key} must be a {wanted.__name__}, found {type(value).__name__}")
    return value
