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
from .grammar import read_tree
from .nouns import Command, CommandLine, Node, Unread
from .printing import printed
from .unwrap import unwrapped
from .actions import actions_of

__all__ = ["MAX_BYTES", "MAX_OPERATORS", "parse_command"]

MAX_BYTES = 8192
"""The longest line that is parsed, in bytes."""

MAX_OPERATORS = 256
"""How many characters that may be operators are parsed: the time it takes grows with their square."""

_DEADLINE = 0.25
_OPERATOR = re.compile(r"[|&;()<>`\n{$]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]")
_LANGUAGE = tree_sitter.Language(tree_sitter_bash.language())


def parse_command(line: str) -> CommandLine | Unreadable:
    """Read a shell line into what it runs, or say why it was not read."""
    problem = _problem(line)
    if problem is not None:
        return problem
    try:
        root, constructs = _read(line.encode())
        root = _with_inner(root, 0)
    except Unread as error:
        return Unreadable(str(error))
    text, why = printed(root)
    return CommandLine(line, root, actions_of(root), text, why, constructs)
