"""The chat: read a message, run it as a slash command or a turn, and repeat until the person leaves.

Ctrl-C stops what is running and keeps what was said; at the prompt it clears the line. Ctrl-D or /exit
leaves. However the chat ends, what is open is closed first. `terminal.py` reads lines; `render.py` and
`approve.py` lay out what is shown.
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import trio
from rich.console import Console

from leeward.memory.database import AsyncioThread
from leeward.security.ports import Answer, Question, RecordError, Reply
from leeward.security.text import visible

from ..app import Runtime
from ..config import set_trusted
from ..console import Startup, look
from ..describe import gates_off, sandbox_word
from ..exits import CliError, Exit
from ..options import Options
from ..sessions import last_lines
from ..slash import COMMANDS, SlashCommand, dispatch, parse
from ..version import VERSION
from .approve import CHOICES, choice, choose_always, is_cut, offer, question_lines
from .render import Renderer
from .screen import Screen
from .terminal import Closed, Gone, Interrupt, Terminal, Typed, quiet

__all__ = ["Repl", "Stoppable", "TerminalApprover", "banner", "run_repl"]

_PROMPT = "› "
_HISTORY = "history"
_SHOW = frozenset({"s", "show"})
_WIDER = frozenset({"w", "wider"})
_LOWEST_PAGE = 5  # lines
_NOT_YET = "  ✗ no yes before all of it was shown: [s]how all, or [n]o"
_NO_ANSWER = "  ✗ one of the letters in brackets, please"
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
    """Chat at this terminal until the person leaves or the process is told to end.

    Raises:
        CliError: the configuration or the model cannot be used, or the folder is not meant.
        RecordError: the database cannot be opened.
    """
    chat = _Chat(options, Renderer(Screen(Console(highlight=False)), verbose=options.verbose))
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
    renderer: Renderer
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
        commands = [(f"/{command.name}", command.summary) for command in COMMANDS]
        terminal = Terminal(asyncio_thread, start.places.data / _HISTORY, commands)
        start = await _settled(start, self.options, terminal, self.renderer)
        approver = TerminalApprover(terminal, self.renderer, self.stoppable.stop)
        opened = Runtime.open(start.loaded, approver=approver, places=start.places, listener=self.renderer)
        async with opened as runtime:
            for line in banner(runtime):
                self.renderer.screen.block(line, "dim")
            if self.options.resume is not None:
                left = await runtime.resume(self.options.resume)
                self.renderer.screen.block("\n".join(last_lines(left.conversation, left.taken)), "dim")
            self.stoppable.chats = True
            self.ended = await Repl(runtime, terminal, self.renderer, self.stoppable).chat()


async def _settled(start: Startup, options: Options, terminal: Terminal, renderer: Renderer) -> Startup:
    """Ask what must be said before anything is opened.

    Raises:
        CliError: this folder is not meant, or a question was left open.
    """
    if start.unusual is not None and not await _agreed(start.unusual, terminal, renderer):
        raise CliError(Exit.PRECONDITION, "DECLINED", "name another folder with --workspace, or start there")
    if start.untrusted is None:
        return start
    question = f"{start.untrusted} can only tighten what is allowed here. Read it?"
    trusted = await _agreed(question, terminal, renderer)
    try:
        set_trusted(start.places.data, start.places.workspace, trusted)
    except OSError as error:
        told = f"! your answer cannot be kept, so that file is not read: {error.strerror}"
        renderer.screen.block(told, "yellow")
    return look(options)


async def _agreed(question: str, terminal: Terminal, renderer: Renderer) -> bool:
    """Ask until there is a yes or a no.

    Raises:
        CliError: the person left instead.
    """
    renderer.screen.block(visible(question), "yellow")
    while True:
        try:
            answer = CHOICES.get((await terminal.answer("  [y]es / [n]o? ")).strip().lower())
        except (Interrupt, Closed):
            raise CliError(Exit.PRECONDITION, "INPUT_REQUIRED", "the question was left open") from None
        if answer in {Answer.YES, Answer.NO}:
            return answer is Answer.YES
        renderer.screen.line(_NO_ANSWER, "dim")


def banner(runtime: Runtime) -> Iterator[str]:
    """Yield the lines a chat begins with: what works here, and what of its protection is off."""
    config = runtime.config
    yield f"Leeward {VERSION} · {visible(runtime.provider.name)} · {config.permissions.autonomy}"
    yield f"workspace {visible(str(runtime.places.workspace))} · /help lists the commands, Ctrl-D leaves"
    if not config.llm.model:
        yield "no model is configured: the offline one answers and follows plain instructions"
    yield f"sandbox {sandbox_word(runtime.pipeline.session.policy)}"
    yield from (f"  not {visible(reason)}" for reason in runtime.sandbox.weaker_because)
    if runtime.sandbox.trials.problem:
        yield f"  no trial runs: {visible(runtime.sandbox.trials.problem)}"
    off = gates_off(runtime.pipeline.session)
    if off:
        yield f"switched off by configuration: {', '.join(off)}"


class TerminalApprover:
    """Asks at the terminal, one question at a time; Ctrl-C at a question is a no, and calls `stop`."""

    def __init__(self, terminal: Terminal, renderer: Renderer, stop: Callable[[], None]) -> None:
        self._terminal = terminal
        self._renderer = renderer
        self._stop = stop
        self._turn = trio.Lock()

    async def ask(self, question: Question) -> Reply:
        """Show a question and return the answer; what is none is asked for again."""
        async with self._turn:
            try:
                return await self._asked(question)
            except (Interrupt, Closed):
                self._stop()
                return Answer.NO

    async def _asked(self, question: Question) -> Reply:
        in_full = not is_cut(question)
        if not await self._show(question, in_full=in_full):
            return Answer.NO
        while True:
            typed = (await self._terminal.answer(offer(question, in_full=in_full))).strip().lower()
            answer = choice(typed, question)
            if not in_full and answer is not Answer.NO:
                if typed not in _SHOW:
                    self._renderer.screen.line(_NOT_YET, "dim")
                    continue
                in_full = True
                if not await self._show(question, in_full=True):
                    return Answer.NO
            elif answer is Answer.ALWAYS or (typed in _WIDER and question.wider is not None):
                rules = question.wider if typed in _WIDER else question.always
                always = await choose_always(question, rules or (), self._terminal, self._renderer.screen)
                if always is not None:
                    return always
            elif answer is not None:
                return answer
            else:
                self._renderer.screen.line(_NO_ANSWER, "dim")

    async def _show(self, question: Question, *, in_full: bool = False) -> bool:
        """Show a question, page by page where it is higher than the screen; a no may come before its end."""
        screen = self._renderer.screen
        lines = tuple(question_lines(question, screen.width, in_full=in_full))
        room = max(screen.height - 2, _LOWEST_PAGE)
        for start in range(0, len(lines), room):
            if start:
                prompt = f"  {start} of {len(lines)} lines; Enter goes on, [n]o refuses "
                typed = await self._terminal.answer(prompt)
                if CHOICES.get(typed.strip().lower()) is Answer.NO:
                    return False
            for line in lines[start : start + room]:
                screen.line(line, "yellow")
        return True


class Repl:
    """One chat at one terminal."""

    def __init__(
        self, runtime: Runtime, terminal: Terminal, renderer: Renderer, stoppable: Stoppable
    ) -> None:
        self._runtime = runtime
        self._terminal = terminal
        self._renderer = renderer
        self._stoppable = stoppable
        self._leaves = False

    async def chat(self) -> Exit:
        """Read and run messages until the person leaves, or is gone, and tell which."""
        while not self._leaves:
            try:
                typed = await self._terminal.line(_PROMPT)
            except Interrupt:
                self._renderer.screen.line("(Ctrl-D or /exit leaves)", "dim")
                continue
            except Gone:
                return Exit.SIGTERM
            except Closed:
                return Exit.SUCCESS
            if typed.text.strip():
                await self._enter(typed)
        return Exit.SUCCESS

    async def _enter(self, typed: Typed) -> None:
        """Run one message to its end; only a slash in the first column that was typed makes a command."""
        command = parse(typed.text) if typed.text.startswith("/") else None
        if typed.is_pasted:
            self._renderer.screen.line("(what is pasted is no command: these are your words)", "dim")
        text = typed.text.strip()
        work = partial(self._command, command) if command is not None else partial(self._runtime.turn, text)
        try:
            if await self._stoppable.run(work):
                self._renderer.stopped()
        except (CliError, RecordError) as error:
            # What could not be stored or read now may go well the next time; the person decides.
            self._renderer.screen.failed(str(error))

    async def _command(self, command: SlashCommand) -> None:
        result = await dispatch(self._runtime, command)
        self._leaves = result.exit
        if result.came_in:
            if not result.failed:
                self._renderer.screen.page(result.text)
        elif result.text:
            self._renderer.screen.block(result.text, "red" if result.failed else "")
        if result.turn is not None:
            await self._runtime.turn(*result.turn)
