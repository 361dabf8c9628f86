"""The layout of the last lines of the terminal: what is running, a message or a question, the status."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition, has_completions
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import (
    BufferControl,
    CompletionsMenu,
    ConditionalContainer,
    Dimension,
    Float,
    FloatContainer,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.layout.processors import HighlightIncrementalSearchProcessor
from prompt_toolkit.widgets import SearchToolbar

from leeward.security.lazy import dataclass
from leeward.security.text import visible

from .activity import fitted
from .desk import Desk
from .screen import Line, choices_within, pt_style
from .terminal import View

__all__ = ["Looks", "Windows", "layout_of"]

_MENU_LINES = 8
_EDITOR_LINES = 12


class Looks:
    """The text of the lines that live; `size` is in columns and lines."""

    def __init__(self, desk: Desk, size: Callable[[], tuple[int, int]]) -> None:
        self.desk = desk
        self._size = size
        self.view: View | None = None

    def lines(self) -> list[Line]:
        """Return the lines above the prompt."""
        columns, rows = self._size()
        lines = [*self.view.live(columns, rows)] if self.view is not None else []
        lines += [
            [(fitted(f"  queued: {visible(typed.text)}", columns - 1), "dim")] for typed in self.desk.queued
        ]
        return [*lines, [(fitted(self.desk.hint, columns - 1), "dim")]] if self.desk.hint else lines

    def live(self) -> StyleAndTextTuples:
        """Return them as prompt_toolkit wants them."""
        return _fragments(self.lines())

    def status(self) -> StyleAndTextTuples:
        """Return the line below the prompt."""
        return _fragments([self.view.status(self._size()[0] - 1)]) if self.view is not None else []

    def prefix(self, number: int, wrap: int) -> StyleAndTextTuples:
        """Return the text before a line of the message."""
        if number or wrap:
            return [("", "… " if not wrap else "  ")]
        words = self.view.prompt() if self.view is not None else ""
        return [("dim", words), ("bold", "» " if self.desk.is_busy else "› ")]

    def line_prefix(self, number: int, wrap: int) -> str:
        """Return the text before a line that answers."""
        question = self.desk.question
        return question.prompt if question is not None and not number and not wrap else "  "

    def key_prompt(self) -> StyleAndTextTuples:
        """Return the keys that answer."""
        question = self.desk.question
        if question is None:
            return []
        waits = " (you are typing: a pause, and keys answer)" if question.ignores_until_pause else ""
        # Room for the mark that ends a line, and for the cursor.
        prompt = choices_within(self._size()[0] - 3, question.prompt)
        return [("bold", prompt), ("reverse", " "), ("dim", waits)]


@dataclass(frozen=True, slots=True)
class Windows:
    """Where keys can go."""

    editor: Window
    line: Window
    keys: Window


def layout_of(looks: Looks, editor: Buffer, keys: KeyBindings, line: Buffer) -> tuple[Layout, Windows]:
    """Return the layout of the lines that live; `keys` are those of the editor."""
    search = SearchToolbar()
    asks_key = Condition(lambda: looks.desk.question is not None and looks.desk.question.text is None)
    asks_line = Condition(lambda: looks.desk.question is not None and looks.desk.question.text is not None)
    windows = _windows(looks, editor, keys, line, search)
    live = Window(FormattedTextControl(looks.live), dont_extend_height=True)
    status = Window(FormattedTextControl(looks.status), height=1)
    body = HSplit(
        [
            ConditionalContainer(live, Condition(lambda: bool(looks.lines()))),
            ConditionalContainer(windows.editor, ~asks_key & ~asks_line),
            ConditionalContainer(windows.line, asks_line),
            ConditionalContainer(windows.keys, asks_key),
            search,
            ConditionalContainer(Window(height=_MENU_LINES), has_completions & ~asks_key & ~asks_line),
            ConditionalContainer(status, Condition(lambda: looks.view is not None)),
        ]
    )
    menu = Float(CompletionsMenu(max_height=_MENU_LINES, scroll_offset=1), xcursor=True, ycursor=True)
    return Layout(FloatContainer(body, floats=[menu]), focused_element=windows.editor), windows


def _windows(looks: Looks, editor: Buffer, keys: KeyBindings, line: Buffer, search: SearchToolbar) -> Windows:
    edits = BufferControl(
        editor,
        search_buffer_control=search.control,
        input_processors=[HighlightIncrementalSearchProcessor()],
        preview_search=True,
        key_bindings=keys,
    )
    return Windows(
        editor=Window(
            edits,
            wrap_lines=True,
            dont_extend_height=True,
            get_line_prefix=looks.prefix,
            height=Dimension(min=1, max=_EDITOR_LINES),
        ),
        line=Window(
            BufferControl(line), wrap_lines=True, dont_extend_height=True, get_line_prefix=looks.line_prefix
        ),
        keys=Window(
            FormattedTextControl(looks.key_prompt, focusable=True),
            wrap_lines=True,
            dont_extend_height=True,
            always_hide_cursor=True,
        ),
    )


def _fragments(lines: Iterable[Line]) -> StyleAndTextTuples:
    fragments: StyleAndTextTuples = []
    for number, line in enumerate(lines):
        if number:
            fragments.append(("", "\n"))
        fragments += [(pt_style(style), visible(text)) for text, style in line]
    return fragments
