"""Reading a line: limits first, then the parse, then the nouns.

The limits are counted before anything is parsed, so that the same line is refused everywhere; the
deadline is a backstop for what nobody thought of.
"""

from __future__ import annotations

import re
import time
from dataclasses import replace

import tree_sitter
import tree_sitter_bash

from ..invisible import find_invisible
from ..unreadable import Unreadable
from .actions import actions_of
from .forms import plain_forms
from .grammar import read_tree
from .nouns import Command, CommandLine, Node, Note, Sequence, Unread, Word
from .printing import print_line
from .transform import with_inner
from .unwrap import Nest, unwrapped
from .words import Effort

__all__ = ["LATE", "MAX_BYTES", "MAX_OPERATORS", "again", "parse_command"]

MAX_BYTES = 8192
"""The longest line that is parsed, in bytes."""

MAX_OPERATORS = 256
"""How many characters that may be operators are parsed: the time it takes grows with their square."""

LATE = "the line took too long to parse"
"""Why a line was not read that may be read another time: what a record must tell apart."""

_INNER_WORDS = 512
_AGAIN_WORDS = 32
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
        root, constructs = _read(line, Effort())
        if root == Sequence((), ()):
            return Unreadable("there is no command")
        nest = Nest(_parse_inner, Effort(_INNER_WORDS))
        root = with_inner(root, nest)
    except Unread as error:
        return Unreadable(str(error))
    try:
        text, why = print_line(root), ""
    except Unread as error:
        text, why = None, str(error)
    actions = actions_of(root)
    forms = dict.fromkeys(form for argv in actions for form in plain_forms(argv))
    restated = frozenset(forms) - frozenset(actions)
    every = tuple(dict.fromkeys((*actions, *forms)))
    return CommandLine(every, line, root, text, why, constructs | nest.constructs, restated=restated)


def _parse_inner(line: str, nest: Nest) -> Node:
    """Read code that stands inside a line, under the same limits."""
    problem = _problem(line)
    if problem is not None:
        raise Unread(problem.reason)
    root, constructs = _read(line, nest.effort)
    nest.constructs.update(constructs)
    return with_inner(root, nest)


def again(command: Command, words: tuple[Word, ...]) -> Command:
    """Return a command with other words in place of its own, and with what it runs then."""
    other = replace(command, words=words, inner=(), notes=())
    try:
        return unwrapped(other, Nest(_parse_inner, Effort(_AGAIN_WORDS)))
    except Unread as error:
        return replace(other, notes=(Note("code", f"what {command.program} runs cannot be read: {error}"),))


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


def _read(line: str, effort: Effort) -> tuple[Node, frozenset[str]]:
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
        raise Unread(LATE) from None
    return read_tree(source.decode("latin-1"), tree.root_node, effort)
