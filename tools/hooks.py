"""Run the person's hooks: one program per event, JSON on its standard input, in the sandbox it names.

    before_call, before_turn     a JSON object on standard output: {"decision": "deny" | "ask", "reason": …,
                                 "notice": …}, each of them optional; {} is no objection
    every other event            standard output is not read

A hook that cannot be started, fails, takes too long, prints too much or prints anything else has failed,
which is a no wherever it was asked something. Nothing it started is left when it is over.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

import trio

from leeward.security.hooks import AFTER_CALL, BEFORE_CALL, HOOK_SCHEMA
from leeward.security.kinds import HookAnswer, Json
from leeward.security.lazy import dataclass
from leeward.security.outcome import PermanentFailure, ToolError
from leeward.security.text import visible

from .process import Child, Dialogue
from .sandbox import Sandbox, Service, open_service

__all__ = ["HookEvent", "HookRunner", "HookSandbox", "HookSettings", "answer_of"]

_MOST_PRINTED = 64 * 1024
_LONGEST_TEXT = 2000
_LONGEST_COMPLAINT = 200

# How long output is still read once the program has ended but something it started holds the pipe open.
_LINGER = 0.3

# How long hooks may take to hear of what is being cancelled.
_PARTING = 2.0


class HookEvent(StrEnum):
    """When a hook is run."""

    BEFORE_CALL = BEFORE_CALL
    AFTER_CALL = AFTER_CALL
    BEFORE_TURN = "before_turn"
    AFTER_TURN = "after_turn"
    SESSION_START = "session_start"
    SESSION_END = "session_end"


class HookSandbox(StrEnum):
    """What a hook runs in: it changes nothing, or the workspace alone, or has the rights of the person."""

    READ_ONLY = "read_only"
    WORKSPACE = "workspace"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class HookSettings:
    """One hook: `command` is a program with its arguments, `tools` are globs, `timeout` is in seconds.

    `readable` are absolute paths that it reads beside the workspace.
    """

    name: str
    event: HookEvent
    command: tuple[str, ...]
    tools: tuple[str, ...] = ("*",)
    sandbox: HookSandbox = HookSandbox.READ_ONLY
    timeout: float = 10.0
    readable: tuple[str, ...] = ()


class _Failed(Exception):
    """A hook gave no answer that counts; the message says why, in our words."""


@dataclass(frozen=True, slots=True)
class HookRunner:
    """Runs the hooks of a session in its sandbox.

    `env` is the whole environment of those that something keeps in, `own_env` that of the others.
    """

    hooks: Sequence[HookSettings]
    sandbox: Sandbox
    env: Mapping[str, str]
    own_env: Mapping[str, str]
    alert: Callable[[str], None]

    async def before(self, payload: Mapping[str, Json]) -> tuple[HookAnswer, ...]:
        """Return what each hook on a call answers, in order; all are asked, whatever one says."""
        return tuple([await self._asked(hook, payload) for hook in self._on(HookEvent.BEFORE_CALL, payload)])

    async def after(self, payload: Mapping[str, Json]) -> None:
        """Show hooks how a call ended."""
        await self.show(HookEvent.AFTER_CALL, payload)

    async def turn(self, payload: Mapping[str, Json]) -> tuple[HookAnswer, ...]:
        """Return what each hook answers about a turn that is to begin; nobody can be asked about one."""
        answers = []
        for hook in self._on(HookEvent.BEFORE_TURN):
            answer = await self._asked(hook, payload)
            if answer.word == "ask":
                why = 'there is nothing to ask before a turn: answer "deny", or nothing'
                answer = HookAnswer(hook.name, reason=why, failed=True)
            answers.append(answer)
        return tuple(answers)

    async def show(self, event: HookEvent, payload: Mapping[str, Json]) -> None:
        """Run the hooks that only hear of an event, one after the other; a failure is an alert.

        Where what they hear of is being cancelled, they have a moment for it.
        """
        is_cancelled = trio.current_effective_deadline() == -math.inf
        with trio.CancelScope(shield=is_cancelled) as scope:
            if is_cancelled:
                scope.deadline = trio.current_time() + _PARTING
            for hook in self._on(event, payload):
                try:
                    await self._run(hook, payload)
                except _Failed as error:
                    self.alert(f"hook {hook.name} failed: {error}")

    def _on(self, event: HookEvent, payload: Mapping[str, Json] | None = None) -> Iterator[HookSettings]:
        tool = str((payload or {}).get("tool", ""))
        for hook in self.hooks:
            if hook.event is event and (not tool or any(fnmatchcase(tool, glob) for glob in hook.tools)):
                yield hook

    async def _asked(self, hook: HookSettings, payload: Mapping[str, Json]) -> HookAnswer:
        try:
            return answer_of(hook.name, await self._run(hook, payload))
        except _Failed as error:
            return HookAnswer(hook.name, reason=str(error), failed=True)

    async def _run(self, hook: HookSettings, payload: Mapping[str, Json]) -> bytes:
        """Return what a hook prints.

        Raises:
            _Failed: it did not come to a good end.
        """
        text = json.dumps({"schema": HOOK_SCHEMA, "event": str(hook.event), **payload}, ensure_ascii=False)
        writes, confined = hook.sandbox is HookSandbox.WORKSPACE, hook.sandbox is not HookSandbox.NONE
        env = self.env if confined else self.own_env
        service = Service(hook.command, env, writes, hook.readable, confined=confined)
        try:
            with trio.move_on_after(hook.timeout) as scope:
                async with open_service(self.sandbox, service) as dialogue:
                    return await _talked(dialogue, text.encode("utf-8", "replace"))
        except (ToolError, OSError) as error:
            raise _Failed(str(error)) from error
        assert scope.cancelled_caught
        raise _Failed(f"it was not done within {hook.timeout:g} s, and was ended")


async def _talked(dialogue: Dialogue, text: bytes) -> bytes:
    """Give a hook its input and return its output once it has ended well.

    Raises:
        _Failed: it did not.
    """
    out, err = _Bounded(dialogue.out), _Bounded(dialogue.err)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_given, dialogue.into, text)
        nursery.start_soon(out.read)
        nursery.start_soon(err.read)
        problem = await _problem_of(dialogue.child)
        with trio.move_on_after(_LINGER):
            await out.closed.wait()
        nursery.cancel_scope.cancel()
    if problem:
        complaint = visible(bytes(err.data).decode("utf-8", "replace").strip()[:_LONGEST_COMPLAINT])
        raise _Failed(f"{problem}{f': {complaint}' if complaint else ''}")
    if out.is_cut:
        raise _Failed(f"it printed more than {_MOST_PRINTED} bytes")
    return bytes(out.data)


async def _problem_of(child: Child) -> str:
    """Wait for the end of a program, and return what was wrong with it, "" where nothing was."""
    try:
        code = await child.ended()
    except PermanentFailure as error:
        return str(error)
    if child.exceeded is not None:
        return str(child.exceeded)
    if code < 0:
        return f"it was ended by signal {-code}"
    return f"it ended with exit code {code}" if code else ""


async def _given(into: trio.lowlevel.FdStream, text: bytes) -> None:
    """Write the input; a hook need not read it."""
    try:
        await into.send_all(text)
        await into.aclose()
    except trio.BrokenResourceError:
        return


@dataclass(slots=True)
class _Bounded:
    """The beginning of what comes out of a pipe; the rest is dropped, so that nobody waits for a reader."""

    stream: trio.lowlevel.FdStream
    data: bytearray = field(default_factory=bytearray)
    is_cut: bool = False
    closed: trio.Event = field(default_factory=trio.Event)

    async def read(self) -> None:
        """Read to the end."""
        async for chunk in self.stream:
            left = _MOST_PRINTED - len(self.data)
            self.data += chunk[:left]
            self.is_cut = self.is_cut or len(chunk) > left
        self.closed.set()


def answer_of(hook: str, printed: bytes) -> HookAnswer:
    """Return what a hook answered; anything but an object of the three known keys is a failure."""
    try:
        answer = json.loads(printed, object_pairs_hook=_object)
    except (ValueError, RecursionError):
        return HookAnswer(hook, reason="it printed no JSON object", failed=True)
    if not isinstance(answer, dict) or answer.keys() - {"decision", "reason", "notice"}:
        why = "it printed something else than an object of decision, reason and notice"
        return HookAnswer(hook, reason=why, failed=True)
    decision, reason, notice = (answer.get(key) for key in ("decision", "reason", "notice"))
    if decision not in (None, "deny", "ask"):
        why = 'its decision is neither "deny" nor "ask"; a hook cannot allow, and {} is no objection'
        return HookAnswer(hook, reason=why, failed=True)
    if not all(text is None or isinstance(text, str) for text in (reason, notice)):
        return HookAnswer(hook, reason="its reason or notice is no text", failed=True)
    texts = [(text or "").encode("utf-8", "replace").decode()[:_LONGEST_TEXT] for text in (reason, notice)]
    return HookAnswer(hook, decision or "", texts[0], texts[1])


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key twice")
    return found
