"""Read Markdown as it streams in, and lay out each finished block as lines of styled text.

Only the parser decides what a finished block is, and a block is laid out once, when nothing that follows can
change it. A block that does not end is cut after a number of characters. The parser runs again only when a
good deal more has arrived, so the work stays proportional to the length, whatever a model writes. Nothing is
left out: HTML is shown as text, a link as its text and its address, long words in a table are folded, and
what is too wide for the screen or nested too deeply is shown as it was written.

The Markdown library and the highlighter take a tenth of a second to load, so this file is imported with the
first answer.
"""

from __future__ import annotations

import copy
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich import box
from rich.color import Color
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, ListItem, Markdown, TableElement
from rich.padding import Padding
from rich.segment import Segment
from rich.style import Style
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from leeward.security.lazy import dataclass
from leeward.security.text import visible

from .screen import Line

__all__ = ["Block", "MarkdownStream", "lines_of"]

_LONGEST_BLOCK = 16_384  # characters after which a block that goes on is cut
_LONGEST_OPENING = 200  # characters of the line that opens a block of code which goes on behind a cut
_DEEPEST = 16  # levels within levels, a list being two, beyond which a block is shown as it was written
_GROWTH = 1.25  # how much longer a text gets before it is parsed again after a parse that finished no block
_NARROWEST_CELL = 4  # columns, with what separates one cell from the next
_SPACE = " \t"
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_ENDS_AT_ONCE = frozenset({"heading_close", "hr"})
_ENDS_WITH_BLANK_LINE = frozenset({"paragraph_close", "table_close", "heading_close", "hr"})
_THEME = Theme(
    {
        "markdown.h1": "bold underline",
        "markdown.h2": "bold",
        "markdown.h3": "bold",
        "markdown.h4": "bold italic",
        "markdown.h5": "italic",
        "markdown.h6": "italic",
        "markdown.code": "cyan",
        "markdown.code_block": "none",
        "markdown.block_quote": "italic",
        "markdown.item.bullet": "bold",
        "markdown.item.number": "bold",
        "markdown.table.header": "bold",
        "markdown.table.border": "dim",
    }
)
_ATTRIBUTES = ("bold", "dim", "italic", "underline", "reverse", "strike")
_ANSI = tuple(
    prefix + color
    for prefix in ("", "bright_")
    for color in ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
)


@dataclass(frozen=True, slots=True)
class Block:
    """One block that is finished: what the parser made of it, and the text it was made of."""

    tokens: tuple[Token, ...]
    source: str


class MarkdownStream:
    """Takes a text in pieces, and hands out each block once, when it is finished.

    `pending` is what is not handed out yet.
    """

    def __init__(self) -> None:
        self.pending: str = ""
        self._read_to = 0
        self._ask_at = 0
        self._fence = ""
        self._parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
        # Definitions of links hold for all blocks behind them.
        self._known: dict[str, object] = {}

    def feed(self, text: str) -> list[Block]:
        """Take a piece in; return the blocks that end with it."""
        self.pending += text
        if len(self.pending) > _LONGEST_BLOCK:
            return self._finished() + self._cut()
        return self._finished() if self._may_end() else []

    def flush(self) -> list[Block]:
        """Return what is left as finished, and begin another text."""
        blocks = [*self._blocks(self.pending)]
        self.__init__()  # type: ignore[misc]  # the state of a new one is what is wanted
        return blocks

    def _may_end(self) -> bool:
        """Whether one of the lines that are complete by now may end a block, judged by its look."""
        end = self.pending.rfind("\n") + 1
        if end <= self._read_to:
            return False
        lines = self.pending[self._read_to : end].split("\n")[:-1]
        self._read_to = end
        ends = False
        for line in lines:
            ends |= self._ends_block(line)
        return ends and len(self.pending) >= self._ask_at

    def _ends_block(self, line: str) -> bool:
        found = _FENCE.match(line)
        if self._fence:
            is_end = (
                found is not None and found[1].startswith(self._fence) and not line[found.end() :].strip()
            )
            self._fence = "" if is_end else self._fence
            return is_end
        if found is not None:
            self._fence = found[1]
            return True
        return not line.strip(_SPACE) or line.lstrip(_SPACE).startswith("#")

    def _finished(self) -> list[Block]:
        """Return the blocks that nothing can change any more, and keep the rest."""
        # Of an unfinished line nobody knows what it will be.
        end = self.pending.rfind("\n") + 1
        blocks = [*self._blocks(self.pending[:end])]
        if blocks and not self._is_whole(blocks[-1]):
            blocks.pop()
        if not blocks:
            self._ask_at = int(len(self.pending) * _GROWTH)
            return []
        self._keep(self.pending[sum(len(block.source) for block in blocks) :])
        return blocks

    def _keep(self, rest: str) -> None:
        self.pending, self._ask_at, self._read_to, self._fence = rest, 0, 0, ""
        self._may_end()

    def _is_whole(self, block: Block) -> bool:
        last, body = block.tokens[-1], block.source.rstrip("\n")
        if last.type in _ENDS_AT_ONCE and block.tokens[0].markup not in {"=", "-"}:
            return True
        if last.type == "fence":
            lines = body.split("\n")
            return len(lines) > 1 and lines[-1].strip().startswith(last.markup)
        return last.type in _ENDS_WITH_BLANK_LINE and block.source.endswith("\n\n")

    def _cut(self) -> list[Block]:
        """Cut a block that got too long: what there is of it is finished; code goes on as code."""
        cut: list[Block] = []
        while len(self.pending) > _LONGEST_BLOCK:
            end = self.pending.rfind("\n", 0, _LONGEST_BLOCK) + 1 or _LONGEST_BLOCK
            blocks = [*self._blocks(self.pending[:end])]
            again = ""
            if blocks and blocks[-1].tokens[-1].type == "fence" and not self._is_whole(blocks[-1]):
                fence = blocks[-1].tokens[-1]
                again = f"{fence.markup}{fence.info}\n"
            # What opens the code is short, or the rest would get no shorter.
            self._keep((again if len(again) <= _LONGEST_OPENING else "") + self.pending[end:])
            cut += blocks
        return cut

    def _blocks(self, text: str) -> Iterator[Block]:
        """Yield the blocks of a text, each with all of the text up to the next."""
        lines = text.splitlines(keepends=True) if "\r" not in text else [text]
        group: list[Token] = []
        groups: list[list[Token]] = []
        for token in self._parser.parse(text, self._known):
            group.append(token)
            if token.level == 0 and token.nesting <= 0:
                groups.append(group)
                group = []
        starts = [0, *((of[0].map or [0])[0] for of in groups[1:]), len(lines)]
        for number, of in enumerate(groups):
            yield Block(tuple(of), "".join(lines[starts[number] : starts[number + 1]]))


def lines_of(block: Block, width: int, *, dark: bool) -> list[Line]:
    """Lay a block out in so many columns, for a dark or a light background; each line with its styles."""
    tokens = [*_plain(block.tokens)]
    if _most_cells(tokens) * _NARROWEST_CELL > width or max(token.level for token in tokens) >= _DEEPEST:
        return [
            [(piece, "")] for line in block.source.rstrip("\n").split("\n") for piece in _chopped(line, width)
        ]
    console, document = _console(width), copy.copy(_document(dark=dark))
    document.parsed = tokens
    segments = console.render(document, console.options.update(width=width))
    return _without_blank_ends([_trimmed(line) for line in Segment.split_lines(segments)])


def _without_blank_ends(lines: list[Line]) -> list[Line]:
    while lines and not lines[-1]:
        lines.pop()
    first = next((number for number, line in enumerate(lines) if line), 0)
    return lines[first:]


def _most_cells(tokens: Iterable[Token]) -> int:
    """Return how many cells the longest row of a table has."""
    most = cells = 0
    for token in tokens:
        cells = 0 if token.type == "tr_open" else cells + (token.type in {"td_open", "th_open"})
        most = max(most, cells)
    return most


def _chopped(line: str, width: int) -> Iterator[str]:
    text = visible(line)
    yield from (piece.plain for piece in Text(text).wrap(Console(width=width), width)) if text else ("",)


def _plain(tokens: Iterable[Token]) -> Iterator[Token]:
    """Yield the tokens with every text of theirs visible, links and images as text with their address."""
    for token in tokens:
        token.content = "\n".join(map(visible, token.content.split("\n")))
        token.info = visible(token.info)
        if token.children:
            token.children = [*_inline(token.children)]
        yield token


def _inline(tokens: Iterable[Token]) -> Iterator[Token]:
    address, shown = "", ""
    for token in map(_simple, _plain(tokens)):
        match token.type:
            case "link_open":
                address, shown = visible(str(token.attrs.get("href", ""))), ""
                continue
            case "link_close":
                if address.removeprefix("mailto:") != shown:
                    yield _text(f" ({address})")
                continue
        shown += token.content
        yield token


def _simple(token: Token) -> Token:
    """Return the token to show for one; a line that the model ended is one, as in a chat."""
    if token.type == "softbreak":
        return Token("hardbreak", "br", 0)
    if token.type == "image":
        return _text(f"[image: {token.content}] ({visible(str(token.attrs.get('src', '')))})")
    return token


def _text(content: str) -> Token:
    return Token("text", "", 0, content=content)


def _trimmed(segments: Sequence[Segment]) -> Line:
    """Return a line without the blanks that fill it up, which would fold where a window gets narrower."""
    line = [(segment.text, _words(segment.style)) for segment in segments if not segment.control]
    while line and not line[-1][0].strip():
        line.pop()
    if line:
        line[-1] = (line[-1][0].rstrip(), line[-1][1])
    return line


def _words(style: Style | None) -> str:
    """Return a style in the words of `Screen`; backgrounds are the terminal's own."""
    if style is None:
        return ""
    words = [name for name in _ATTRIBUTES if getattr(style, name)]
    return " ".join([*words, *_color(style.color)])


def _color(color: Color | None) -> Iterator[str]:
    if color is not None and color.number is not None and color.number < len(_ANSI):
        yield _ANSI[color.number]


class _Heading(Heading):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the heading at the left."""
        yield self.text


class _Code(CodeBlock):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the code with its colours, two columns in."""
        code = str(self.text).rstrip("\n")
        syntax = Syntax(code, self.lexer_name, theme=self.theme, word_wrap=True, background_color="default")
        yield Padding(syntax, (0, 0, 0, 2))


class _Table(TableElement):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table; long words in a cell are folded, not cut."""
        table = Table(
            box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, border_style="markdown.table.border"
        )
        for column in (
            self.header.row.cells if self.header is not None and self.header.row is not None else ()
        ):
            heading = column.content.copy()
            heading.stylize("markdown.table.header")
            table.add_column(heading, overflow="fold")
        for row in self.body.rows if self.body is not None else ():
            table.add_row(*(cell.content for cell in row.cells))
        yield table


class _Document(Markdown):
    """Blocks that were parsed elsewhere."""

    elements = {  # noqa: RUF012 - declared by the class it overrides
        **Markdown.elements,
        "heading_open": _Heading,
        "fence": _Code,
        "code_block": _Code,
        "table_open": _Table,
        "list_item_open": ListItem,
    }


@lru_cache(maxsize=2)
def _document(*, dark: bool) -> _Document:
    """Return an empty document, to be copied: making one makes a parser, too."""
    return _Document("", code_theme="ansi_dark" if dark else "ansi_light", hyperlinks=False)


@lru_cache(maxsize=8)
def _console(width: int) -> Console:
    return Console(file=io.StringIO(), width=width, theme=_THEME, color_system="standard", highlight=False)
