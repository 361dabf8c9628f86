"""Read a command line: check its limits, parse it, and convert the tree to nodes.

Every limit is a count: of the parts of the line before it is parsed, and of the parser's own work
while it is. So the same line is read, or refused, on every machine, however slow.
"""

from __future__ import annotations

import re

import tree_sitter
import tree_sitter_bash

from ...kinds import CommandLine, Unreadable
from ...lazy import regex
from ...text import find_invisible
from ..syntax import Effort, Node, Sequence, Unread, read_tree
from .printing import print_line
from .unwrap import Nest
from .visit import actions_of, with_inner
from .wrappers import plain_forms

__all__ = ["MAX_BYTES", "MAX_OPERATORS", "parse_command"]

MAX_BYTES = 8192
"""The longest line that is parsed, in bytes."""

MAX_OPERATORS = 256
"""How many characters that may be operators are parsed: the time it takes grows with their square."""

_INNER_WORDS = 512
_PIECE = 64
_TOO_MUCH = "the parser needs too many steps for the line, as it does where one does not parse"
# The parser slows down in what a bracket opens and nothing closes. Two that close a condition close a
# subscript as well.
_WIDEST_BRACKETS = 1024
_BRACKETS = regex(r"\[\[|\]\]|(?<=[A-Za-z0-9_])\[|\]|\$\(\(|\)\)")
_CLOSES = {"]": ("[",), "]]": ("[[", "["), "))": ("$((",)}
_OPERATOR = regex(r"[|&;()<>`\n{$]")
_FOREIGN = regex(r"[^\x00-\x7f]")
# The grammar loses the dash of `cat - <<END`; a letter in its place stays.
_LOST = regex(r"(?<=[ \t])-(?=[ \t]+<<(?!<))")
_CONTROL = regex(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# The grammar takes what is continued for two words.
_CONTINUED = regex(r"(?<![ \t\n;&|(])\\\n(?![ \t\n;&|)])")
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
        text = print_line(root)
    except Unread as error:
        return Unreadable(str(error))
    actions = actions_of(root)
    forms = dict.fromkeys(form for argv in actions for form in plain_forms(argv))
    restated = frozenset(forms) - frozenset(actions)
    every = tuple(dict.fromkeys((*actions, *forms)))
    return CommandLine(every, line, root, text, constructs | nest.constructs, restated=restated)


def _parse_inner(line: str, nest: Nest) -> Node:
    """Read code inside a line, under the same limits."""
    problem = _problem(line)
    if problem is not None:
        raise Unread(problem.reason)
    root, constructs = _read(line, nest.effort)
    nest.constructs.update(constructs)
    return with_inner(root, nest)


def _problem(line: str) -> Unreadable | None:
    """Say why a line is not even parsed; the same for the same line, wherever it is read."""
    if not line.strip():
        return Unreadable("there is no command")
    try:
        size = len(line.encode())
    except UnicodeEncodeError:
        return Unreadable("the line contains a lone surrogate")
    if size > MAX_BYTES:
        return Unreadable(f"the line is longer than {MAX_BYTES} bytes")
    if len(_OPERATOR.findall(line)) > MAX_OPERATORS:
        return Unreadable(f"the line has more than {MAX_OPERATORS} operators")
    if _has_wide_brackets(line):
        return Unreadable(f"brackets in the line hold more than {_WIDEST_BRACKETS} characters")
    if _CONTINUED.search(line):
        return Unreadable("a line is continued in the middle of a word")
    if _CONTROL.search(line):
        return Unreadable("the line holds a control character", "control_character")
    if find_invisible(line) is not None:
        return Unreadable("the line holds a character that does not show", "invisible_character")
    return None


def _has_wide_brackets(line: str) -> bool:
    """Whether a condition, a subscript or arithmetic goes on for long, quoted or not, or does not end."""
    if len(line) <= _WIDEST_BRACKETS:
        return False
    opened: dict[str, int] = {}
    for found in _BRACKETS.finditer(line):
        closes = _CLOSES.get(found[0])
        if closes is None:
            opened.setdefault(found[0], found.start())
            continue
        starts = (opened.pop(mark, found.start()) for mark in closes)
        if any(found.start() - start > _WIDEST_BRACKETS for start in list(starts)):
            return True
    return any(len(line) - start > _WIDEST_BRACKETS for start in opened.values())


def _stand_in(found: re.Match[str]) -> str:
    """Return as many bytes for a character: to bash it is a part of a word and nothing else, as this is.

    The grammar looks characters up in a table of 256 without a check, and ends the process with some; it also
    takes letters of any script for those of a name, and their blanks for blanks.
    """
    size = len(found[0].encode())
    return "\N{MULTIPLICATION SIGN}" * (size // 2) + "a" * (size % 2)


class _Source:
    """A line as the parser asks for it, piece by piece, and whether its work becomes too much.

    Behind an error it goes over all that is left again and again, or follows many readings at once. So its
    reads are counted, and how often it asks whether to go on, which it does after every hundred steps: a
    line without an error needs at most about six reads for each piece, and asks once for every twelve bytes.
    """

    def __init__(self, line: str) -> None:
        self.text = _FOREIGN.sub(_stand_in, _LOST.sub("a", line)).encode()
        self.reads_left = 32 + 8 * len(self.text) // _PIECE
        self.checks_left = 64 + len(self.text) // 8

    def piece(self, offset: int, _point: object) -> bytes:
        """Return the same bytes each time: the parser does not survive a text that changes."""
        self.reads_left -= 1
        return self.text[offset : offset + _PIECE]

    @property
    def is_spent(self) -> bool:
        """Whether the parser did more than a line without an error needs."""
        return self.reads_left < 0 or self.checks_left < 0

    def must_stop(self, *_state: object) -> bool:
        """Count one question of the parser's, and answer it."""
        self.checks_left -= 1
        return self.is_spent


def _read(line: str, effort: Effort) -> tuple[Node, frozenset[str]]:
    source = _Source(line)
    # What stops the parser is only heeded where the text is read through a function.
    try:
        tree = tree_sitter.Parser(_LANGUAGE).parse(source.piece, progress_callback=source.must_stop)
    except ValueError:
        raise Unread(_TOO_MUCH) from None
    if source.is_spent:
        raise Unread(_TOO_MUCH)
    return read_tree(line.encode().decode("latin-1"), tree.root_node, effort)
