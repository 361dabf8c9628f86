"""A pager for texts of any length, with a search and jumps from section to section.

Only the visible lines are laid out. The text passes the terminal filter like everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Point
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import FormattedTextControl, HSplit, Layout, UIContent, UIControl, Window
from prompt_toolkit.output import ColorDepth, Output

from leeward.security.text import visible

from .differences import folded
from .screen import Line, plain_text, pt_style
from .terminal import Section

__all__ = ["Pager"]

_LONGEST_LINE = 200  # characters; the narrowest screen that is meant has room for them


class _Lines(UIControl):
    """The lines from `top` on, each folded to the width there is."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self.lines = lines
        self.top = 0
        self.width, self.height = 80, 1
        self.seen: set[int] = set()

    def create_content(self, width: int, height: int) -> UIContent:
        """Lay out as many lines as are seen."""
        self.width, self.height = width, height
        rows: list[StyleAndTextTuples] = []
        for number, line in enumerate(self.lines[self.top :], self.top):
            rows += _rows(line, width)
            if len(rows) > height:
                break
            self.seen.add(number)
        rows = rows[:height] or [[]]
        return UIContent(rows.__getitem__, len(rows), Point(0, 0), show_cursor=False)

    @property
    def end(self) -> int:
        """The first line of the last screen, which a folded line takes more of."""
        rows = 0
        for number in range(len(self.lines) - 1, -1, -1):
            rows += len(_rows(self.lines[number], self.width))
            if rows > self.height:
                return min(number + 1, len(self.lines) - 1)
        return 0

    def is_focusable(self) -> bool:
        """Whether keys go here: they do."""
        return True


def _chopped(line: Line) -> Iterator[Line]:
    """Yield a line in pieces that fit on a screen; one is scrolled by, never within."""
    text = plain_text(line)
    if len(text) <= _LONGEST_LINE:
        yield line
        return
    style = line[0][1]
    for start in range(0, len(text), _LONGEST_LINE):
        yield [(text[start : start + _LONGEST_LINE], style)]


def _rows(line: Line, width: int) -> list[StyleAndTextTuples]:
    shown = [(visible(text.expandtabs()), style) for text, style in line]
    return [[(pt_style(style), text) for text, style in piece] for piece in folded(shown, width, "", "")]


class Pager:
    """Shows sections until the person has seen enough."""

    def __init__(
        self, sections: Sequence[Section], source: Input, output: Output, color_depth: ColorDepth
    ) -> None:
        self._titles = [section.title for section in sections]
        self._starts: list[int] = []
        lines: list[Line] = []
        for section in sections:
            self._starts.append(len(lines))
            lines += [
                [(section.title, "bold")],
                *(piece for line in section.lines for piece in _chopped(line)),
                [],
            ]
        self._control = _Lines(lines)
        self._wanted = ""
        self._typing: str | None = None
        layout = Layout(
            HSplit(
                [Window(self._control), Window(FormattedTextControl(self._status), height=1, style="reverse")]
            )
        )
        self._app: Application[None] = Application(
            layout=layout,
            key_bindings=self._keys(),
            full_screen=True,
            input=source,
            output=output,
            color_depth=color_depth,
        )

    @property
    def saw_end(self) -> bool:
        """Whether the last line was on the screen."""
        return len(self._control.lines) - 1 in self._control.seen

    async def run(self) -> None:
        """Show until a key ends it."""
        await self._app.run_async(set_exception_handler=False, handle_sigint=False)

    def _status(self) -> str:
        if self._typing is not None:
            return f"/{visible(self._typing)}"
        control = self._control
        number = sum(start <= control.top for start in self._starts)
        sections = f" · ] next, [ before: {number} of {len(self._titles)}" if len(self._titles) > 1 else ""
        # A narrow screen cuts the end, so how to leave comes first.
        return f" line {control.top + 1} of {len(control.lines)} · q leaves · / search{sections} "

    def _go(self, line: int) -> None:
        last = max(len(self._control.lines) - 1, 0)
        self._control.top = min(max(line, 0), last)

    def _scroll(self, line: int) -> None:
        """Go to a line, but not beyond the last screen, unless a search or a section went there."""
        self._go(min(line, max(self._control.end, self._control.top)))

    def _find(self, after: int) -> None:
        wanted = self._wanted.lower()
        for number in range(after, len(self._control.lines)):
            if wanted and wanted in plain_text(self._control.lines[number]).lower():
                self._go(number)
                return

    def _section(self, step: int) -> None:
        here = self._control.top
        others = [start for start in self._starts if (start > here if step > 0 else start < here)]
        if others:
            self._go(others[0] if step > 0 else others[-1])

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        moves: dict[str, Callable[[_Lines], int]] = {
            "down": lambda of: of.top + 1,
            "j": lambda of: of.top + 1,
            "enter": lambda of: of.top + 1,
            "up": lambda of: of.top - 1,
            "k": lambda of: of.top - 1,
            "pagedown": lambda of: of.top + max(of.height - 1, 1),
            " ": lambda of: of.top + max(of.height - 1, 1),
            "pageup": lambda of: of.top - max(of.height - 1, 1),
            "b": lambda of: of.top - max(of.height - 1, 1),
            "home": lambda _: 0,
            "g": lambda _: 0,
            "end": lambda of: of.end,
            "G": lambda of: of.end,
        }

        @keys.add("<any>")
        def press(event: KeyPressEvent) -> None:
            key = str(getattr(event.key_sequence[0].key, "value", event.key_sequence[0].key))
            key = {"c-m": "enter"}.get(key, key)
            if self._typing is not None:
                self._search_key(key, event.data)
            elif key in moves:
                self._scroll(moves[key](self._control))
            elif key in {"q", "Q"}:
                event.app.exit()
            elif key == "/":
                self._typing = ""
            elif key == "n":
                self._find(self._control.top + 1)
            elif key in {"]", "["}:
                self._section(1 if key == "]" else -1)

        @keys.add("c-c")
        @keys.add("c-d")
        @keys.add("escape")
        def leave(event: KeyPressEvent) -> None:
            event.app.exit()

        return keys

    def _search_key(self, key: str, data: str) -> None:
        if key == "enter":
            self._wanted, self._typing = self._typing or "", None
            self._find(self._control.top)
        elif key in {"backspace", "c-h"}:
            self._typing = (self._typing or "")[:-1]
        elif len(key) == 1:
            self._typing = (self._typing or "") + data
