"""A model without a network, a key or a mind: it follows plain instructions and reports what came back.

Only the last words of the person steer it. What tools return is quoted and never read as an
instruction, and neither is anything fenced inside the person's message.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager

from .instructions import EXAMPLES, NotUnderstood, Step, read_instructions
from .interface import Message, ModelEvent, Request, Requested, new_call_id, one_line
from .replay import replay, reply

__all__ = ["NOTICE", "Offline"]

NOTICE = (
    "No model is configured: only plain instructions are understood (type: help).\n"
    "To plug one in: set OPENAI_API_KEY and start with --model openai:NAME; a server\n"
    "of your own is named by base_url under [[llm.providers]].\n"
)
_HELP = "I understand:\n" + "".join(f"  {example}\n" for example in EXAMPLES)
_JOINED = 'Several are joined with "and then" or stand on lines of their own.\n'
_LINES = 20
_WIDTH = 240
_OVERFLOW_ID = re.compile(r"\bof_[0-9a-f]{8,64}\b")
_FENCED = re.compile(r"«UNTRUSTED:(?P<nonce>[0-9a-f]+):[^»]*»(?P<text>.*?)«END:(?P=nonce)»", re.DOTALL)


class Offline:
    """The model that is always there. It keeps no state: the conversation says all it needs."""

    name = "offline"

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Answer the last words of the person, or report the results of the calls they led to."""
        return replay(_answer(request))


def _answer(request: Request) -> Sequence[ModelEvent]:
    asked, since = _last_words(request.messages)
    announced = any(m.role == "assistant" and NOTICE in m.text for m in request.messages)
    notice = "" if announced else NOTICE + "\n"
    if any(message.role == "tool" for message in since):
        return reply(notice + _report(since))
    steps = read_instructions(_FENCED.sub(" ", asked))
    if not steps or any(isinstance(step, NotUnderstood) for step in steps):
        return reply(notice + _help(steps))
    offered = {view.name for view in request.tools}
    calls, missing = [], []
    for step in (step for step in steps if isinstance(step, Step)):
        arguments = _with_latest_id(step, request.messages)
        if step.tool not in offered or arguments is None:
            missing.append(step.tool if step.tool not in offered else "")
        else:
            calls.append(Requested(new_call_id(), step.tool, arguments))
    return reply(notice + "".join(_missing(tool) for tool in missing), calls)


def _last_words(messages: Sequence[Message]) -> tuple[str, Sequence[Message]]:
    """Return what the person said last, and all that was said and done since."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role == "user":
            return messages[index].text, messages[index + 1 :]
    return "", ()


def _help(steps: Iterable[object]) -> str:
    unknown = [step.text for step in steps if isinstance(step, NotUnderstood)]
    if not unknown or all(text.strip("?!. ").lower() == "help" for text in unknown):
        return _HELP + _JOINED
    listed = "; ".join(f'"{one_line(text, 80)}"' for text in unknown[:5])
    return f"I do not understand {listed}, so nothing was done.\n{_HELP}{_JOINED}"


def _missing(tool: str) -> str:
    if not tool:
        return "Nothing was put aside yet, so there is no latest overflow to read.\n"
    return f"The tool {one_line(tool, 64)} is not offered here.\n"


def _with_latest_id(step: Step, messages: Sequence[Message]) -> str | None:
    """Return the arguments of a step; "the overflow" without an id means the latest, if there is one.

    Ids are taken from our own notices only, never from inside a fence.
    """
    if not step.wants_latest:
        return step.arguments
    told = (_OVERFLOW_ID.findall(_FENCED.sub(" ", m.text)) for m in reversed(messages) if m.role == "tool")
    latest = next((ids[-1] for ids in told if ids), None)
    return json.dumps({"id": latest, **json.loads(step.arguments)}) if latest else None


def _report(since: Sequence[Message]) -> str:
    calls = {call.id: call for message in since for call in message.calls}
    return "\n".join(_quoted(calls.get(m.call_id), m.text) for m in since if m.role == "tool")


def _quoted(call: Requested | None, result: str) -> str:
    """Return a result under the name of its call: shortened, and without the marks of its fence."""
    head = f"{call.name} {one_line(call.arguments, 120)}" if call else "A tool"
    parts = [""]
    position = 0
    for span in _FENCED.finditer(result):
        parts[-1] += result[position : span.start()]
        # A short value stands in the middle of a sentence of ours; a text is a part of its own.
        if parts[-1].endswith(" ") and "\n" not in span["text"]:
            parts[-1] += span["text"]
        else:
            parts += [span["text"], ""]
        position = span.end()
    parts[-1] += result[position:]
    lines = [line for part in parts if part.strip() for line in _shortened(part)]
    body = "".join(f"  {line}\n" for line in lines) or "  (nothing came back)\n"
    return f"{head}:\n{body}"


def _shortened(text: str) -> list[str]:
    """Return a text's first lines, and how many more there are."""
    lines = text.strip("\r\n").splitlines()
    shown = [line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…" for line in lines[:_LINES]]
    return shown if len(lines) <= _LINES else [*shown, f"… ({len(lines) - _LINES} more lines)"]
