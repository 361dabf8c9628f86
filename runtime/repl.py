"""The chat: read a line, run it as a slash command or a turn, show what happens, until the person leaves.

Ctrl-C stops the turn and keeps what was said; the session stays usable. At the prompt it clears the
line; Ctrl-D or /exit leaves.
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable

import trio
from rich.console import Console

from leeward.memory import Island
from leeward.security import Answer, Question

from .app import Runtime
from .approve import choice, question_lines
from .exits import Exit
from .render import Renderer
from .slash import COMMANDS, dispatch, parse
from .terminal import Closed, Interrupt, Terminal

__all__ = ["Repl", "TerminalApprover"]

_PROMPT = "› "


class TerminalApprover:
    """Asks at the terminal, one question at a time; Ctrl-C at a question is a no and stops the turn."""

    def __init__(self, terminal: Terminal, renderer: Renderer) -> None:
        self._terminal = terminal
        self._renderer = renderer
        self._turn = trio.Lock()
        self.stop: Callable[[], None] = lambda: None

    async def ask(self, question: Question) -> Answer:
        """Show a question and return the answer; an answer that means nothing is asked for again."""
        async with self._turn:
            for line in question_lines(question):
                self._renderer.line(line, "yellow")
            offered = "[y]es / [n]o" + (" / [a]lways in this session" if question.always else "")
            while True:
                try:
                    answer = choice(await self._terminal.answer(f"  {offered}? "), question)
                except (Interrupt, Closed):
                    self.stop()
                    return Answer.NO
                if answer is not None:
                    return answer


class Repl:
    """One chat at one terminal."""

    def __init__(self, runtime: Runtime, terminal: Terminal, renderer: Renderer, approver: TerminalApprover) -> None:
        self._runtime = runtime
        self._terminal = terminal
        self._renderer = renderer
        self._approver = approver

    async def chat(self) -> None:
        """Read and run lines until the person leaves."""
        while True:
            try:
                typed = await self._terminal.line(_PROMPT)
            except Interrupt:
                self._renderer.line("(Ctrl-D or /exit leaves)", "dim")
                continue
            except Closed:
                return
            if typed.text.strip() and await self._enter(typed.text.strip(), typed.pasted):
                return

    async def _enter(self, text: str, pasted: bool) -> bool:
        """Run one entry; return whether the person wants to leave."""
        command = None if pasted else parse(text)
        if command is None:
            await self._interruptible(lambda: self._runtime.turn(text))
            return False
        leave = False

        async def run() -> None:
            nonlocal leave
            result = await dispatch(self._runtime, command)
            leave = result.exit
            if result.text:
                self._renderer.line(result.text)
            if result.turn is not None:
                await self._runtime.turn(*result.turn)

        await self._interruptible(run)
        return leave

    async def _interruptible(self, work: Callable[[], Awaitable[object]]) -> None:
        """Run something that Ctrl-C stops without ending the session."""
        finished = False
        async with trio.open_nursery() as nursery:
            self._approver.stop = nursery.cancel_scope.cancel
            await nursery.start(_cancel_on_interrupt, nursery.cancel_scope)
            await work()
            finished = True
            nursery.cancel_scope.cancel()
        if not finished:
            self._renderer.stopped()


async def _cancel_on_interrupt(
    scope: trio.CancelScope, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    with trio.open_signal_receiver(signal.SIGINT) as signals:
        task_status.started()
        async for _ in signals:
            scope.cancel()
