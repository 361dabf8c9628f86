"""The line editor: prompt_toolkit in an island of its own, so that no key handler can stall the session.

It reads lines and answers; what they mean is `repl.py`'s business.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.patch_stdout import patch_stdout

from leeward.memory import Island

__all__ = ["Closed", "Interrupt", "Terminal", "Typed"]


class Interrupt(Exception):
    """Ctrl-C was pressed while a line was edited. Not a KeyboardInterrupt, which would end the loop."""


class Closed(Exception):
    """Ctrl-D was pressed on an empty line, or the terminal is gone."""


@dataclass(frozen=True, slots=True)
class Typed:
    """What the person entered; `pasted` tells that its beginning was pasted, so it is no slash command."""

    text: str
    pasted: bool = False


class SlashCompleter(Completer):
    """Completes the name of a slash command at the beginning of a line."""

    def __init__(self, commands: Iterable[tuple[str, str]]) -> None:
        self._commands = sorted(commands)

    def get_completions(self, document: Document, _event: CompleteEvent) -> Iterator[Completion]:
        """Yield the commands that begin with what stands before the cursor."""
        before = document.text_before_cursor
        if not before.startswith("/") or " " in before:
            return
        for name, summary in self._commands:
            if name.startswith(before):
                yield Completion(name, -len(before), display_meta=summary)


class Terminal:
    """One line editor with its history. Enter sends; Alt-Enter, or a backslash before Enter, begins a new line."""

    def __init__(self, island: Island, history: Path | None, commands: Iterable[tuple[str, str]]) -> None:
        self._island = island
        self._history = history
        self._commands = tuple(commands)
        self._pasted_first = False
        self._editor: PromptSession[str] | None = None
        self._asker: PromptSession[str] | None = None

    async def line(self, prompt: str) -> Typed:
        """Read one message.

        Raises:
            Interrupt: Ctrl-C was pressed.
            Closed: the input has ended.
        """
        self._pasted_first = False
        text = await self._island.run_cancellable(self._edit, prompt)
        return Typed(text, self._pasted_first)

    async def answer(self, prompt: str) -> str:
        """Read a short answer, which enters no history.

        Raises:
            Interrupt, Closed: as for `line`.
        """
        return await self._island.run_cancellable(self._ask, prompt)

    async def _edit(self, prompt: str) -> str:
        # Made inside the island: prompt_toolkit binds to the loop it is made in.
        if self._editor is None:
            self._editor = PromptSession(
                history=_history(self._history),
                completer=SlashCompleter(self._commands),
                complete_while_typing=True,
                multiline=True,
                key_bindings=self._bindings(),
                prompt_continuation="… ",
                interrupt_exception=Interrupt,
                eof_exception=Closed,
            )
        with patch_stdout():
            return await self._editor.prompt_async(prompt, handle_sigint=False)

    async def _ask(self, prompt: str) -> str:
        if self._asker is None:
            self._asker = PromptSession(interrupt_exception=Interrupt, eof_exception=Closed)
        with patch_stdout():
            return await self._asker.prompt_async(prompt, handle_sigint=False)

    def _bindings(self) -> KeyBindings:
        bindings = KeyBindings()

        @bindings.add("enter")
        def send(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            if buffer.document.text_before_cursor.endswith("\\"):
                buffer.delete_before_cursor()
                buffer.insert_text("\n")
            else:
                buffer.validate_and_handle()

        @bindings.add("escape", "enter")
        def new_line(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @bindings.add(Keys.BracketedPaste)
        def paste(event: KeyPressEvent) -> None:
            text = event.data.replace("\r\n", "\n").replace("\r", "\n")
            if event.current_buffer.cursor_position == 0 and text.strip():
                self._pasted_first = True
            event.current_buffer.insert_text(text)

        return bindings


def _history(path: Path | None) -> History:
    """Return the history, kept in a file that only the person may read."""
    if path is None:
        return InMemoryHistory()
    path.touch(mode=0o600, exist_ok=True)
    return FileHistory(str(path))
