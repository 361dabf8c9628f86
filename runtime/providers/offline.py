"""The offline model: follows plain instructions by a small grammar and reports the results.

One table states what is understood; a text that fits no form is returned as `NotUnderstood`. Only the last
words of the person steer it. What tools return is quoted and never read as an instruction, and neither is
anything fenced inside the person's message.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

from leeward.security.call import ToolCall
from leeward.security.lazy import dataclass, regex

from .interface import Message, ModelEvent, Request, new_call_id, one_line
from .scripted import replay, reply

__all__ = [
    "EXAMPLES",
    "NOTICE",
    "Instruction",
    "NotUnderstood",
    "Offline",
    "OfflineCall",
    "read_instructions",
]


@dataclass(frozen=True, slots=True)
class OfflineCall:
    """One tool call; `arguments` is JSON text, as any model would send it.

    `wants_latest`: the argument `id` is still missing; meant is the latest overflow there is.
    """

    tool: str
    arguments: str
    wants_latest: bool = False


@dataclass(frozen=True, slots=True)
class NotUnderstood:
    """A piece of the person's words that fits no form."""

    text: str


Instruction: TypeAlias = OfflineCall | NotUnderstood

EXAMPLES = (
    "read README.md   (also: offset 100 limit 20)",
    "list src",
    "find *.py in src",
    "search TODO in src",
    "write notes.txt: anything up to the end",
    "edit notes.txt: replace 'old words' with 'new words'",
    "run git status",
    "fetch https://…",
    "overflow ID   (offset 100 limit 20 matching PATTERN; without ID: the latest)",
    "guess the website of NAME   (makes an address up, as models do)",
    'call TOOL {"argument": "value"}',
)

_MOST = 64  # instructions taken from one message
_LONG = 4096  # characters up to which a text is searched for forms and joints
_QUOTED = r""""[^"\n]*"|'[^'\n]*'"""
_NAME = rf"(?P<path>{_QUOTED}|[^\s:]+)"
_PLACE = rf"\s+(?:in|under)\s+(?P<path>{_QUOTED}|\S+)"
_WHERE = rf"(?:{_PLACE})?"
_PAGE = r"(?:,?\s+(?:from|offset)\s+(?P<offset>\d+))?(?:,?\s+limit\s+(?P<limit>\d+))?"
_SWAP = rf"replace\s+(?P<old_string>{_QUOTED}|.+?)\s+(?:with|by)\s+(?P<new_string>{_QUOTED}|.+)"
_FILE = r"(?:the\s+)?(?:file\s+|contents?\s+of\s+)?"

# The first form that fits is taken; groups are the tool's arguments.
_FORMS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (tool, regex(form, re.IGNORECASE | re.DOTALL))
    for tool, form in (
        ("write", rf"(?:write|create|save)\s+{_FILE}{_NAME}\s*:[ \t]*\n?(?P<content>.*)"),
        ("write", rf"(?:write|save)\s+(?P<phrase>.+)\s+(?:to|into)\s+{_FILE}{_NAME}"),
        ("edit", rf"(?:edit|change)\s+{_FILE}{_NAME}\s*[:,]?\s+{_SWAP}"),
        ("edit", rf"{_SWAP}\s+in\s+{_FILE}{_NAME}"),
        (
            "shell",
            r"(?:run|execute)(?:\s*:\s*|\s+(?:the\s+)?(?:(?:shell\s+)?command\s*:?\s+)?)(?P<command>\S.*)",
        ),
        (
            "read_overflow",
            (
                r"(?:(?:read|show)\s+(?:the\s+)?)?(?:read_)?overflow"
                rf"(?:\s+(?!(?:from|offset|limit|matching)\s)(?P<id>\S+))?{_PAGE}(?:,?\s+matching\s+(?P<pattern>.+))?"
            ),
        ),
        ("fetch", r"fetch\s+(?:the\s+)?(?:page\s+|url\s+)?(?P<url>\S+)"),
        ("fetch", r"(?:open|read|show|show\s+me|get|visit|browse|download)\s+(?P<url>https?://\S+)"),
        ("guess", r"(?:guess|visit|open)\s+the\s+(?:website|site|home\s?page|page)\s+of\s+(?P<name>.+)"),
        (
            "list_directory",
            rf"(?:list|ls)(?:\s+(?:all\s+)?(?:the\s+)?(?:files|contents?|folder|directory))?{_WHERE}\.?",
        ),
        (
            "list_directory",
            rf"(?:list|ls|what(?:'s|\s+is)\s+in)\s+(?:the\s+)?(?:folder\s+|directory\s+)?{_NAME}",
        ),
        ("grep", r"search\s+(?P<path>\S+)\s+for\s+(?P<pattern>.+)"),
        ("grep", rf"(?:search|grep)\s+(?:for\s+)?(?P<pattern>.+){_PLACE}"),
        ("grep", r"(?:search|grep)\s+(?:for\s+)?(?P<pattern>.+)"),
        (
            "find_path",
            (
                r"find\s+(?:all\s+)?(?:the\s+)?(?:files\s+)?(?:(?:named|called|matching|like)\s+)?"
                rf"(?P<pattern>{_QUOTED}|\S+){_WHERE}"
            ),
        ),
        ("read", rf"(?:read|show|show\s+me|open|cat|print|display|view)\s+{_FILE}{_NAME}{_PAGE}"),
    )
)
_CALL = regex(r"call\s+(?P<tool>\S+)\s*(?P<arguments>.*)", re.IGNORECASE | re.DOTALL)
_COURTESY = regex(r"(?:(?:please|now|then)[\s,]+|(?:can|could|would|will)\s+you\s+)+", re.IGNORECASE)
# What follows these is the person's text up to the end, blanks, signs and all.
_VERBATIM = regex(r"(?:write|create|save|run|execute|call|edit|change|replace)\b", re.IGNORECASE)
_COMMAND = regex(r"(?:run|execute)\b", re.IGNORECASE)
_AND_THEN = regex(r"(?<!\s)\s++(?:and\s++)?then\s", re.IGNORECASE)
# What is quoted holds no joint; an apostrophe within a word opens no quotation.
_NEXT = regex(rf"(?>(?<!\w)(?:{_QUOTED})|.)*?(?P<next>;|\n|,?\s++(?:and\s++)?then\s)", re.IGNORECASE)
_NUMBERS = frozenset({"offset", "limit"})
_AS_TYPED = frozenset({"content", "command"})
_IN_SENTENCE = frozenset({"path", "url", "id"})
_TYPED_OUT = frozenset({"write", "shell", "edit"})


def read_instructions(text: str) -> Sequence[Instruction]:
    """Return what a message asks for, in order; several are joined by "and then", ";" or a line's end."""
    found: list[Instruction] = []
    rest = _stripped(text)
    while rest and len(found) < _MOST:
        head, rest = _cut(rest)
        if head:
            found.append(_understood(head))
    return found


def _stripped(text: str) -> str:
    text = text.strip()
    courtesy = _COURTESY.match(text)
    return text[courtesy.end() :] if courtesy else text


def _cut(text: str) -> tuple[str, str]:
    """Split the first instruction off the rest."""
    if _VERBATIM.match(text):
        return _cut_verbatim(text)
    end = _NEXT.match(text[:_LONG])
    if end is None:
        return text, ""
    return text[: end.start("next")].rstrip(), _stripped(text[end.end("next") :])


def _cut_verbatim(text: str) -> tuple[str, str]:
    """Split where "and then" is followed by something that is an instruction itself, else not at all.

    A command ends with its line, for the next line is another instruction.
    """
    end = text.find("\n") if _COMMAND.match(text) else -1
    end = len(text) if end < 0 else end
    for joint in _AND_THEN.finditer(text, 0, end) if end <= _LONG else ():
        following = _stripped(text[joint.end() :])
        if _understands(following if _VERBATIM.match(following) else _cut(following)[0]):
            head = text[: joint.start()]
            return head[:-1] if head.endswith((",", ";")) else head, following
    return text[:end].rstrip(), _stripped(text[end:])


def _understands(text: str) -> bool:
    return isinstance(_understood(text), OfflineCall)


def _understood(text: str) -> Instruction:
    if call := _CALL.fullmatch(text):
        return OfflineCall(call["tool"], call["arguments"].strip() or "{}")
    for tool, form in _FORMS if len(text) <= _LONG else _FORMS[:1]:
        if fit := form.fullmatch(text if tool in _TYPED_OUT else text.rstrip("?!").rstrip()):
            return _step(tool, fit.groupdict())
    return NotUnderstood(text)


def _step(tool: str, groups: dict[str, str | None]) -> OfflineCall:
    if tool == "guess":
        slug = re.sub(r"[^a-z0-9]+", "-", _unquoted(groups["name"] or "").lower()).strip("-") or "example"
        return OfflineCall("fetch", json.dumps({"url": f"https://www.{slug}.example/"}))
    if phrase := groups.pop("phrase", None):
        groups["content"] = _unquoted(phrase)
    wants_latest = tool == "read_overflow" and groups["id"] in (None, "latest", "last")
    if wants_latest:
        groups = {**groups, "id": None}
    if tool in ("list_directory", "find_path", "grep"):
        groups = {**groups, "path": groups.get("path") or "."}
    arguments = {key: _value(key, value) for key, value in groups.items() if value is not None}
    return OfflineCall(tool, json.dumps(arguments, ensure_ascii=False), wants_latest)


def _value(key: str, raw: str) -> str | int:
    if key in _NUMBERS:
        return int(raw[:18])
    if key == "command" and re.fullmatch(r"`[^`]+`", raw):
        return raw[1:-1]
    if key in _AS_TYPED:
        return raw
    word = _unquoted(raw)
    return _without_stop(word) if key in _IN_SENTENCE and word == raw.strip() else word


def _unquoted(text: str) -> str:
    text = text.strip()
    if re.fullmatch(r"(?s)([\"'`]).*\1", text):
        return text[1:-1]
    if text.startswith("<") and text.endswith(">") and "://" in text:
        return text[1:-1]
    return text


def _without_stop(word: str) -> str:
    """Return a word without the full stop of the sentence it ends; "." and ".." are names."""
    return re.sub(r"(?<=\w)[.,]+$", "", word)


NOTICE = (
    "No model is configured: only plain instructions are understood (type: help).\n"
    "To plug one in: set OPENAI_API_KEY and start with --model openai:NAME; a server\n"
    "of your own is named by base_url under [[llm.providers]].\n"
)
_HELP = "I understand:\n" + "".join(f"  {example}\n" for example in EXAMPLES)
_JOINED = 'Several are joined with "and then" or are on lines of their own.\n'
_LINES = 20
_WIDTH = 240
_OVERFLOW_ID = regex(r"\bof_[0-9a-f]{8,64}\b")
_FENCED = regex(r"«UNTRUSTED:(?P<nonce>[0-9a-f]+):[^»]*»(?P<text>.*?)«END:(?P=nonce)»", re.DOTALL)


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
    for step in (step for step in steps if isinstance(step, OfflineCall)):
        arguments = _with_latest_id(step, request.messages)
        if step.tool not in offered or arguments is None:
            missing.append(step.tool if step.tool not in offered else "")
        else:
            calls.append(ToolCall(new_call_id(), step.tool, arguments))
    return reply(notice + "".join(_missing(tool) for tool in missing), calls)


def _last_words(messages: Sequence[Message]) -> tuple[str, Sequence[Message]]:
    """Return what the person wrote last, without what is attached to it, and everything after it."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message.role == "user":
            return message.own_words, messages[index + 1 :]
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


def _with_latest_id(step: OfflineCall, messages: Sequence[Message]) -> str | None:
    """Return the arguments of a step; "the overflow" without an id means the latest, if there is one.

    Ids are taken from our own notices only, never from inside a fence.
    """
    if not step.wants_latest:
        return step.arguments
    found = (_OVERFLOW_ID.findall(_FENCED.sub(" ", m.text)) for m in reversed(messages) if m.role == "tool")
    latest = next((ids[-1] for ids in found if ids), None)
    return json.dumps({"id": latest, **json.loads(step.arguments)}) if latest else None


def _report(since: Sequence[Message]) -> str:
    calls = {call.id: call for message in since for call in message.calls}
    return "\n".join(_quoted(calls.get(m.call_id), m.text) for m in since if m.role == "tool")


def _quoted(call: ToolCall | None, result: str) -> str:
    """Return a result under the name of its call: shortened, and without the marks of its fence."""
    head = f"{call.tool} {one_line(call.arguments, 120)}" if call else "A tool"
    parts = [""]
    position = 0
    for span in _FENCED.finditer(result):
        parts[-1] += result[position : span.start()]
        text = span["text"].replace(f"{span['nonce'][:4]}¦ ", "")
        # A short value is put into a sentence of ours; a text is a part of its own.
        if parts[-1].endswith(" ") and "\n" not in text:
            parts[-1] += text
        else:
            parts += [text, ""]
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
