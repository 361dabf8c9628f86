"""Which programs a shell line runs, for lines so plain that every shell reads them alike.

Read are words of ordinary characters, quoted words without expansions, and the operators
`&& || ; |` between simple commands. Whatever a shell could expand, redirect or assign is not
guessed at: the line is `Unreadable` and a person decides on the text itself.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from ..unreadable import Unreadable

__all__ = ["CommandLine", "parse_command"]

_TOKEN = re.compile(
    r"""(?P<blank>[ \t]+)
      | (?P<operator>&&|\|\||;(?!;)|\|(?![|&]))
      | (?P<word>(?:[A-Za-z0-9_./:,@%+=-]|'[^'\n\0]*'|"[A-Za-z0-9_./:,@%+= ;|&()<>?*#~\[\]{}'-]*")+)
    """,
    re.VERBOSE,
)

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")

# Words that change how a shell reads what follows, or make it run something else than the word says.
_SYNTAX = frozenset(
    "if then else elif fi for while until do done case esac in function select time coproc "
    "eval exec source . alias unalias export declare typeset local readonly trap set shopt".split()
)


@dataclass(frozen=True, slots=True)
class CommandLine:
    """The argument vectors a line runs, in order, after quote removal."""

    actions: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        return " ; ".join(shlex.join(argv) for argv in self.actions)


def parse_command(line: str) -> CommandLine | Unreadable:
    """Read a shell line into argument vectors, or say why it was not read."""
    actions: list[list[str]] = [[]]
    position, glued = 0, False
    while position < len(line):
        token = _TOKEN.match(line, position)
        if token is None:
            return Unreadable("the line uses shell syntax that is not read yet")
        position = token.end()
        if token.lastgroup == "operator":
            actions.append([])
        elif token.lastgroup == "word":
            if glued:
                return Unreadable("two words without a blank between them")
            actions[-1].append("".join(shlex.split(token[0])) if token[0] not in ("''", '""') else "")
        glued = token.lastgroup == "word"
    if actions[-1] == [] and len(actions) > 1 and line.rstrip().endswith(";"):
        actions.pop()
    return _commands(actions)


def _commands(actions: list[list[str]]) -> CommandLine | Unreadable:
    """Refuse what is a list of words but not a list of plain commands."""
    for argv in actions:
        if not argv:
            return Unreadable("there is no command where one is expected")
        if _ASSIGNMENT.match(argv[0]) or argv[0] in _SYNTAX:
            return Unreadable("the line assigns or uses a shell keyword")
    return CommandLine(tuple(tuple(argv) for argv in actions))
