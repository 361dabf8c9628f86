"""The chat: read a line, run it as a slash command or a turn, show what happens, until the person leaves.

Ctrl-C stops the turn and keeps what was said; the session stays usable. At the prompt it clears the
line; Ctrl-D or /exit leaves.
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Iterator, Sequence

import trio
from rich.console import Console

from leeward import __version__
from leeward.memory import Island
from leeward.security import Answer, Question, visible

from .app import Runtime
from .approve import CHOICES, choice, question_lines
from .describe import gates_off
from .exits import CliError, Exit
from .options import Options
from .render import Renderer
from .slash import COMMANDS, dispatch, parse
from .startup import Start, look
from .terminal import Closed, Interrupt, Terminal
from .trusted import set_trusted

__all__ = ["Repl", "TerminalApprover", "run_repl"]

_PROMPT = "› "
_HISTORY = "history"


async def run_repl(options: Options) -> Exit:
    """Chat at this terminal until the person leaves or the process is told to end.

    Raises:
        ConfigError, CliError: the configuration or the model cannot be used, or the folder is not meant.
        RecordError: the database cannot be opened.
    """
    renderer = Renderer(Console(highlight=False), verbose=options.verbose)
    ended = Exit.SIGTERM
    async with trio.open_nursery() as nursery:
        await nursery.start(_cancel_on, (signal.SIGTERM, signal.SIGHUP), nursery.cancel_scope)
        async with Island.open("terminal") as island:
            ended = await _session(options, renderer, island)
        nursery.cancel_scope.cancel()
    return ended


async def _session(options: Options, renderer: Renderer, island: Island) -> Exit:
    start = look(options)
    start.places.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    commands = [(f"/{command.name}", command.summary) for command in COMMANDS]
    terminal = Terminal(island, start.places.data / _HISTORY, commands)
    start = await _settled(start, options, terminal, renderer)
    approver = TerminalApprover(terminal, renderer)
    async with Runtime.open(
        start.loaded, approver=approver, places=start.places, listener=renderer
    ) as runtime:
        for line in banner(runtime):
            renderer.line(line, "dim")
        await Repl(runtime, terminal, renderer, approver).chat()
    return Exit.SUCCESS


async def _settled(start: Start, options: Options, terminal: Terminal, renderer: Renderer) -> Start:
    """Ask what must be said before anything is opened."""
    if start.unusual is not None and not await _agreed(start.unusual, terminal, renderer):
        raise CliError(Exit.PRECONDITION, "DECLINED", "name another folder with --workspace, or start there")
    if start.untrusted is None:
        return start
    question = f"{start.untrusted} can only tighten what is allowed here. Read it?"
    trusted = await _agreed(question, terminal, renderer)
    set_trusted(start.places.data, start.places.workspace, trusted)
    return look(options)


async def _agreed(question: str, terminal: Terminal, renderer: Renderer) -> bool:
    renderer.line(visible(question), "yellow")
    try:
        return CHOICES.get((await terminal.answer("  [y]es / [n]o? ")).strip().lower()) is Answer.YES
    except (Interrupt, Closed):
        return False


def banner(runtime: Runtime) -> Iterator[str]:
    """Yield the lines a chat begins with: what works here, and what of its protection is off."""
    config = runtime.config
    yield f"Leeward {__version__} · {runtime.provider.name} · {config.permissions.autonomy}"
    yield f"workspace {visible(str(runtime.places.workspace))} · /help lists the commands, Ctrl-D leaves"
    if not config.llm.model:
        yield "no model is configured: the offline one answers and follows plain instructions"
    off = gates_off(runtime.pipeline.session)
    if off:
        yield f"switched off by configuration: {', '.join(off)}"


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
            await nursery.start(_cancel_on, (signal.SIGINT,), nursery.cancel_scope)
            await work()
            finished = True
            nursery.cancel_scope.cancel()
        if not finished:
            self._renderer.stopped()


async def _cancel_on(
    numbers: Sequence[signal.Signals],
    scope: trio.CancelScope,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    with trio.open_signal_receiver(*numbers) as signals:
        task_status.started()
        async for _ in signals:
            scope.cancel()
