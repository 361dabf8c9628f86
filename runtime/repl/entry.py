"""What a message does: it is a command (`/`), a line for the shell (`!`), a note (`#`), or a turn.

Only a character typed in the first column makes it one of the first three. A `!` line is a call of the
person: it passes the pipeline and runs for real. Its output is sent with the next message, fenced.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from leeward.security.call import Asker
from leeward.security.ports import RecordError

from ..app import Runtime
from ..exits import CliError
from ..sessions import session_line
from ..slash import SlashLine, SlashResult, dispatch, is_number, parse
from .attach import attachments
from .render import Renderer
from .results import Entry, sections
from .terminal import Closed, Interrupt, Terminal, Typed

__all__ = ["Entrance"]

_MOST_PICKED = 9


class Entrance:
    """Carries messages out; `leaves` tells that one of them ends the chat."""

    def __init__(self, runtime: Runtime, terminal: Terminal, renderer: Renderer) -> None:
        self._runtime = runtime
        self._terminal = terminal
        self._renderer = renderer
        self._brought: list[str] = []
        self.leaves: bool = False

    async def run(self, typed: Typed) -> None:
        """Carry a message out.

        Raises:
            CliError, RecordError: it could not be.
        """
        sign = "" if typed.is_pasted else typed.text[:1]
        if typed.is_pasted:
            self._renderer.screen.line("(what is pasted is no command: these are your words)", "dim")
        rest = typed.text[1:].strip()
        command = parse(typed.text) if sign == "/" else None
        if command is not None:
            await self._command(command)
        elif sign == "!" and rest:
            await self._shell(rest)
        elif sign == "#" and rest and not rest.startswith("#"):
            await self._runtime.call("memory_save", {"text": rest}, Asker.PERSON)
        else:
            texts, pictures = await attachments(typed, self._runtime)
            brought, self._brought = self._brought, []
            await self._runtime.turn(typed.text.strip(), "\n\n".join((*brought, *texts)), pictures)

    async def _shell(self, line: str) -> None:
        result = await self._runtime.call("shell", {"command": line}, Asker.PERSON)
        self._brought.append(f"The person ran: {line}\n{result.text}")

    async def _command(self, command: SlashLine) -> None:
        chosen = await self._with_session(command)
        if chosen is None:
            return
        result = await dispatch(self._runtime, self._with_call(chosen))
        if result.copies is not None or result.edits:
            self._hand_over(result)
            return
        if result.opens is not None:
            await self.show(int(result.opens) if result.opens else None)
            return
        self.leaves = result.exit and await self.may_leave()
        # What a call brought is shown by the listener of its event.
        if result.text and not result.came_in:
            self._renderer.screen.block(result.text, "red" if result.failed else "")
        if result.turn is not None:
            await self._runtime.turn(*result.turn)

    async def _with_session(self, command: SlashLine) -> SlashLine | None:
        """Have the person pick where several sessions are and none is named; None where they go back."""
        if command.command is None or command.command.name != "resume" or command.argument:
            return command
        runtime, screen = self._runtime, self._renderer.screen
        found = await runtime.kept.catalog.sessions(
            _MOST_PICKED + 1, runtime.pipeline.session.policy.workspace
        )
        others = [one for one in found if one.id != runtime.session_id][:_MOST_PICKED]
        if not others:
            screen.failed("this workspace has no other session")
            return None
        if len(others) == 1:
            return replace(command, argument=others[0].id)
        for number, one in enumerate(others, 1):
            screen.line(f"{number:>2}  {session_line(one, where=False)}")
        self._renderer.asks()
        try:
            typed = (await self._terminal.answer("  which? [1] ")).strip() or "1"
        except (Interrupt, Closed):
            return None
        finally:
            self._renderer.answered()
        if typed.isascii() and typed.isdigit() and 0 < int(typed) <= len(others):
            return replace(command, argument=others[int(typed) - 1].id)
        return replace(command, argument=typed)

    def _with_call(self, command: SlashLine) -> SlashLine:
        """Name the call that has a number on the screen, where its reasons are asked for."""
        if command.command is None or command.command.name != "why" or not is_number(command.argument):
            return command
        entry = self._renderer.results.find(int(command.argument))
        return command if entry is None or not entry.call else replace(command, argument=entry.call)

    def _hand_over(self, result: SlashResult) -> None:
        """Give a text to the clipboard, or have the next message written in an editor."""
        if result.edits and not self._terminal.edit():
            self._renderer.screen.failed("this terminal opens no editor")
        if result.copies is not None:
            is_copied = self._terminal.copy(result.copies)
            message = f"{len(result.copies)} characters were handed to the terminal's clipboard"
            if is_copied:
                self._renderer.screen.line(message, "dim")
            else:
                self._renderer.screen.failed("this terminal takes no such text for its clipboard")

    async def show(self, number: int | None = None) -> None:
        """Open a result in the pager, by default the latest."""
        entry = self._renderer.results.find(number)
        if entry is None:
            what = "there is nothing to show yet" if number is None else f"nothing is kept under {number}"
            self._renderer.screen.failed(what)
            return
        await self._terminal.page([*sections(entry.title, await self._whole(entry))])

    async def _whole(self, entry: Entry) -> str:
        if entry.overflow_id is None:
            return entry.text
        try:
            session, limit = self._runtime.session_id, sys.maxsize
            return (await self._runtime.overflow.get(session, entry.overflow_id, limit=limit)).text
        except (CliError, RecordError, LookupError) as error:
            return f"{entry.text}\n[the rest could not be read: {error}]"

    async def may_leave(self) -> bool:
        """Whether the person means to leave, where commands still run in the background."""
        running = sum(not job.over.is_set() for job in self._runtime.jobs.all())
        if not running:
            return True
        many = f"{running} commands still run" if running > 1 else "a command still runs"
        self._renderer.screen.line(f"{many} in the background; leaving ends them", "bold yellow")
        self._renderer.asks()
        try:
            return await self._terminal.key("  leave? [y]es / [n]o ") == "y"
        except (Interrupt, Closed):
            return False
        finally:
            self._renderer.answered()
