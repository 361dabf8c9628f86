"""The chat: read a message, run it as a slash command or a turn, and repeat until the person leaves.

Ctrl-C stops what is running and keeps the output so far; at the prompt it clears the line. Ctrl-D or /exit
leaves. However the chat ends, everything that is open is closed first. `live.py` and `plain.py` are the
terminals; `render.py` and `approve.py` lay out what is shown.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import field
from functools import partial
from typing import TypeAlias

import trio

from leeward.memory.database import AsyncioThread
from leeward.security.lazy import dataclass
from leeward.security.policy import Autonomy
from leeward.security.ports import RecordError
from leeward.security.session import AutonomySet
from leeward.security.text import visible

from ..app import Runtime
from ..config import brought_by, purpose_of, set_trusted
from ..console import Startup, look
from ..describe import gates_off, no_trials_word, sandbox_word
from ..exits import CliError, Exit
from ..options import Options
from ..sessions import last_lines
from ..version import VERSION
from .activity import Activity, facts
from .approver import TerminalApprover
from .complete import ChatCompleter
from .entry import Entrance
from .live import LiveTerminal
from .plain import PlainTerminal
from .render import Renderer
from .screen import Screen
from .terminal import Closed, Gone, Interrupt, Terminal, Typed, quiet

__all__ = ["Repl", "Stoppable", "banner", "run_repl"]

_HISTORY = "history"
_MOST_NAMED = 20
_NO_ANSWER = "  ✗ one of the keys in brackets, please"
LONG = 10.0
"""Seconds after which a person is taken to look elsewhere."""

_SIGNALS = {signal.SIGINT: Exit.SIGINT, signal.SIGTERM: Exit.SIGTERM, signal.SIGHUP: Exit.SIGTERM}

Work: TypeAlias = Callable[[], Awaitable[object]]


class Stoppable:
    """Runs one piece of work at a time, which `stop` ends without ending anything else."""

    def __init__(self) -> None:
        self._scope: trio.CancelScope | None = None
        self.chats = False
        """Whether the chat has begun: from then on an interrupt with nothing to stop does nothing."""

    def stop(self) -> None:
        """Cancel what is running, if anything is."""
        if self._scope is not None:
            self._scope.cancel()

    async def run(self, work: Work) -> bool:
        """Run something; return whether it was stopped."""
        with trio.CancelScope() as scope:
            self._scope = scope
            try:
                await work()
            finally:
                self._scope = None
        return scope.cancelled_caught


async def run_repl(options: Options) -> Exit:
    """Chat at this terminal until the person leaves or the process gets a signal to end.

    Raises:
        CliError: the configuration or the model cannot be used, or the folder is not meant.
        RecordError: the database cannot be opened.
    """
    chat = _Chat(options)
    with quiet():
        async with trio.open_nursery() as nursery:
            await nursery.start(chat.listen, nursery.cancel_scope)
            await chat.attempt()
            nursery.cancel_scope.cancel()
    if chat.failure is not None:
        raise chat.failure
    return chat.ended


@dataclass(slots=True)
class _Chat:
    """One chat from its start to its end; `failure` is what it could not go on for."""

    options: Options
    stoppable: Stoppable = field(default_factory=Stoppable)
    ended: Exit = Exit.SUCCESS
    failure: CliError | RecordError | None = None

    async def attempt(self) -> None:
        """Chat; what ends it on purpose is kept out of the nursery, which would wrap it."""
        try:
            async with AsyncioThread.open("terminal") as asyncio_thread:
                await self._chat(asyncio_thread)
        except (CliError, RecordError) as error:
            self.failure = error

    async def listen(
        self, scope: trio.CancelScope, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Take signals in, all the time: an impatient second Ctrl-C must not end what the first one stops."""
        with trio.open_signal_receiver(*_SIGNALS) as signals:
            task_status.started()
            async for number in signals:
                if number == signal.SIGINT and self.stoppable.chats:
                    self.stoppable.stop()
                else:
                    self.ended = _SIGNALS[signal.Signals(number)]
                    scope.cancel()

    async def _chat(self, asyncio_thread: AsyncioThread) -> None:
        start = look(self.options)
        live = None
        if os.environ.get("TERM", "dumb") not in {"", "dumb", "unknown"} and sys.stdout.isatty():
            vi = start.loaded.config.terminal.editing == "vi"
            live = LiveTerminal(asyncio_thread, start.places.data / _HISTORY, vi=vi)
        terminal: Terminal = live or PlainTerminal(asyncio_thread)
        activity = None if live is None else Activity()
        renderer = Renderer(
            Screen(terminal),
            activity,
            verbose=self.options.verbose,
            dark=_is_dark(start.loaded.config.terminal.theme),
        )
        async with terminal.open():
            start = await _settled(start, self.options, terminal, renderer)
            approver = TerminalApprover(terminal, renderer, self.stoppable.stop)
            opened = Runtime.open(start.loaded, approver=approver, places=start.places, listener=renderer)
            async with opened as runtime:
                repl = Repl(runtime, terminal, renderer, self.stoppable)
                approver.asks = repl.asks
                if live is not None:
                    live.attach(renderer.activity, ChatCompleter(runtime), repl)
                    renderer.changed = live.refresh
                await self._begun(runtime, renderer)
                self.ended = await repl.chat()

    async def _begun(self, runtime: Runtime, renderer: Renderer) -> None:
        for line in banner(runtime):
            renderer.screen.block(line, "dim")
        if self.options.resume is not None:
            left = await runtime.resume(self.options.resume)
            renderer.screen.block("\n".join(last_lines(left.conversation, left.taken)), "dim")
        self.stoppable.chats = True


def _is_dark(theme: str) -> bool:
    """Whether the terminal's background is dark: as configured, else as far as its environment says."""
    if theme != "auto":
        return theme == "dark"
    background = os.environ.get("COLORFGBG", "").rpartition(";")[2]
    return background not in {"7", "9", "10", "11", "12", "13", "14", "15"}


async def _settled(start: Startup, options: Options, terminal: Terminal, renderer: Renderer) -> Startup:
    """Ask the questions that come before anything is opened.

    Raises:
        CliError: this folder is not meant, or a question was left open.
    """
    if start.unusual is not None and not await _agreed(start.unusual, terminal, renderer):
        raise CliError(Exit.PRECONDITION, "DECLINED", "name another folder with --workspace, or start there")
    if not start.trust.unanswered:
        return start
    question = "\n".join(trust_lines(start))
    trusted = await _agreed(question, terminal, renderer)
    try:
        set_trusted(start.places.data, start.places.workspace, trusted)
    except OSError as error:
        text = f"! your answer cannot be kept, so nothing of that is read: {error.strerror}"
        renderer.screen.block(text, "yellow")
    return look(options)


def trust_lines(start: Startup) -> Iterator[str]:
    """Yield the question whether to trust a folder, with each file it brings and what that is for."""
    names = start.trust.unanswered
    if start.trust.changed:
        yield "Trust this folder still? Since you did, it has changed:"
    else:
        yield "Trust this folder? It brings:"
        inner = brought_by(start.places.workspace, nested=True)
        names = (*names, *(name for name in inner if name not in names and "/" in name))
    width = min(32, max(map(len, names)))
    yield from (f"  {visible(name):<{width}}  {purpose_of(name)}" for name in names[:_MOST_NAMED])
    if len(names) > _MOST_NAMED:
        yield f"  … and {len(names) - _MOST_NAMED} more"


async def _agreed(question: str, terminal: Terminal, renderer: Renderer) -> bool:
    """Ask until there is a yes or a no.

    Raises:
        CliError: the person left instead.
    """
    renderer.screen.block("\n".join(map(visible, question.split("\n"))), "yellow")
    while True:
        try:
            key = await terminal.key("  [y]es / [n]o? ")
        except (Interrupt, Closed):
            raise CliError(Exit.PRECONDITION, "INPUT_REQUIRED", "the question was left open") from None
        if key in {"y", "n"}:
            return key == "y"
        renderer.screen.line(_NO_ANSWER, "dim")


def banner(runtime: Runtime) -> Iterator[str]:
    """Yield the lines a chat begins with: what works here, and what of its protection is off."""
    config = runtime.config
    yield f"Leeward {VERSION} · {visible(runtime.provider.name)} · {config.permissions.autonomy}"
    yield f"workspace {visible(str(runtime.places.workspace))} · /help lists the commands, Ctrl-D leaves"
    if not config.llm.model:
        yield "no model is configured: the offline one follows plain words; leeward config init finds a model"
    yield f"sandbox {sandbox_word(runtime.pipeline.session.policy)}"
    yield from (f"  not {visible(reason)}" for reason in runtime.sandbox.weaker_because)
    if runtime.sandbox.trials.problem:
        yield f"  {visible(no_trials_word(runtime.sandbox))}"
    off = gates_off(runtime.pipeline.session)
    if off:
        yield f"switched off by configuration: {', '.join(off)}"


class Repl:
    """One chat at one terminal."""

    def __init__(
        self, runtime: Runtime, terminal: Terminal, renderer: Renderer, stoppable: Stoppable
    ) -> None:
        self._runtime = runtime
        self._terminal = terminal
        self._renderer = renderer
        self._stoppable = stoppable
        self._entrance = Entrance(runtime, terminal, renderer)
        self._trio = trio.lowlevel.current_trio_token()
        self._nursery: trio.Nursery | None = None
        renderer.settled = self._tell_facts

    def key_pressed(self, name: str) -> None:
        """Do what a key is for; called from the terminal's thread."""
        with suppress(trio.RunFinishedError):
            self._trio.run_sync_soon(self._do, name)

    def _do(self, name: str) -> None:
        if name == "stop":
            self._stoppable.stop()
        elif self._nursery is not None:
            self._nursery.start_soon(self._cycle if name == "cycle" else self._entrance.show)

    async def _cycle(self) -> None:
        """Switch to the next level of autonomy; full is for those who write it out."""
        session = self._runtime.pipeline.session
        levels = [level for level in Autonomy if level is not Autonomy.FULL]
        level = session.policy.autonomy
        place = levels.index(level) if level in levels else -1
        level = levels[(place + 1) % len(levels)]
        await self._runtime.pipeline.note(AutonomySet(session.now, level, "the person, by Shift-Tab"))
        self._tell_facts()
        self._terminal.refresh()

    def _tell_facts(self) -> None:
        activity, level = self._renderer.activity, self._runtime.pipeline.session.policy.autonomy
        activity.facts = [*facts(self._runtime)]
        activity.level = "" if level is Autonomy.SUPERVISED else str(level)

    async def chat(self) -> Exit:
        """Read and run messages until the person leaves, or is gone, and tell which."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            ended = await self._talk()
            nursery.cancel_scope.cancel()
        return ended

    async def _talk(self) -> Exit:
        while not self._entrance.leaves:
            self._tell_facts()
            try:
                typed = await self._terminal.message()
            except Gone:
                return Exit.SIGTERM
            except Closed:
                if await self._entrance.may_leave():
                    return Exit.SUCCESS
                continue
            if typed.text.strip():
                await self._run(typed)
        return Exit.SUCCESS

    async def _run(self, typed: Typed) -> None:
        """Run one message to its end."""
        self._renderer.begin()
        began = trio.current_time()
        try:
            if await self._stoppable.run(partial(self._entrance.run, typed)):
                self._renderer.stopped()
        except (CliError, RecordError) as error:
            # What could not be stored or read now may go well the next time; the person decides.
            self._renderer.screen.failed(str(error))
            if isinstance(error, CliError) and "suggestion" in error.detail:
                self._renderer.screen.block(f"  {visible(str(error.detail['suggestion']))}", "dim")
        finally:
            self._renderer.end()
        if trio.current_time() - began > LONG:
            self.notify("the turn has ended")

    def notify(self, text: str) -> None:
        """Tell a person who looks elsewhere, as they want it."""
        how = self._runtime.config.terminal.notify
        if how != "off":
            self._terminal.notify(how, f"Leeward: {text}")

    def asks(self) -> None:
        """A question is put: tell a person who has waited for long."""
        began = self._renderer.activity.began
        if began and time.monotonic() - began > LONG:
            self.notify("a question waits for you")
