"""Reading a line: limits first, then the parse, then the nouns.

The limits are counted before anything is parsed, so that the same line is refused everywhere; the
deadline is a backstop for what nobody thought of.
"""

from __future__ import annotations

import re
import time

import tree_sitter
import tree_sitter_bash

from ..invisible import find_invisible
from ..unreadable import Unreadable
from .actions import actions_of
from .grammar import read_tree
from .nouns import CommandLine, Node, Sequence, Unread
from .printing import print_line
from .transform import with_inner
from .unwrap import Nest

__all__ = ["MAX_BYTES", "MAX_OPERATORS", "parse_command"]

MAX_BYTES = 8192
"""The longest line that is parsed, in bytes."""

MAX_OPERATORS = 256
"""How many characters that may be operators are parsed: the time it takes grows with their square."""

_DEADLINE = 0.25
_PIECE = 4096
_OPERATOR = re.compile(r"[|&;()<>`\n{$]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# The grammar takes what is continued for two words.
_CONTINUED = re.compile(r"(?<![ \t\n;&|(])\\\n(?![ \t\n;&|)])")
_LANGUAGE = tree_sitter.Language(tree_sitter_bash.language())


def parse_command(line: str) -> CommandLine | Unreadable:
    """Read a shell line into what it runs, or say why it was not read."""
    problem = _problem(line)
    if problem is not None:
        return problem
    try:
        root, constructs = _read(line)
        if root == Sequence((), ()):
            return Unreadable("there is no command")
        root = with_inner(root, Nest(_parse_inner))
    except Unread as error:
        return Unreadable(str(error))
    try:
        text, why = print_line(root), ""
    except Unread as error:
        text, why = None, str(error)
    return CommandLine(actions_of(root), line, root, text, why, constructs)


def _parse_inner(line: str, nest: Nest) -> Node:
    """Read code that stands inside a line, under the same limits."""
    problem = _problem(line)
    if problem is not None:
        raise Unread(problem.reason)
    # A line is text before it is code: what it says of itself is bounded by how long it is.
    root, _ = _read(line)
    return with_inner(root, nest)


def _problem(line: str) -> Unreadable | None:
    """Say why a line is not even parsed; the same for the same line, wherever it is read."""
    if not line.strip():
        return Unreadable("there is no command")
    try:
        size = len(line.encode())
    except UnicodeEncodeError:
        return Unreadable("the line contains half of a surrogate pair")
    if size > MAX_BYTES:
        return Unreadable(f"the line is longer than {MAX_BYTES} bytes")
    if len(_OPERATOR.findall(line)) > MAX_OPERATORS:
        return Unreadable(f"the line has more than {MAX_OPERATORS} operators")
    if _CONTINUED.search(line):
        return Unreadable("a line is continued in the middle of a word")
    if _CONTROL.search(line):
        return Unreadable("the line holds a control character", "control_character")
    if find_invisible(line) is not None:
        return Unreadable("the line holds a character that does not show", "invisible_character")
    return None


def _read(line: str) -> tuple[Node, frozenset[str]]:
    source = line.encode()
    late = time.monotonic() + _DEADLINE

    def piece(offset: int, _point: object) -> bytes:
        return source[offset : offset + _PIECE]

    def is_late(*_state: object) -> bool:
        return time.monotonic() > late

    # The deadline is only heeded where the text is read through a function.
    try:
        tree = tree_sitter.Parser(_LANGUAGE).parse(piece, progress_callback=is_late)
    except ValueError:
        raise Unread("the line took too long to parse") from None
    return read_tree(source.decode("latin-1"), tree.root_node)
