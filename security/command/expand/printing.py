"""Writing what was read back as a shell line, so that no reader can take it for anything else.

Every literal is quoted here; only globs, tildes, variables and substitutions that were read are left
open. Plain forms of git run neutralised, in the repository that was looked at (`command/programs/git.py`).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from ..programs import as_run
from ..syntax import (
    RESERVED,
    Assignment,
    Command,
    Compound,
    Node,
    Part,
    PartKind,
    PipeNode,
    Redirection,
    Sequence,
    Unread,
    Word,
)

__all__ = ["print_line", "quoted"]

_BARE = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")
_BARE_NAME = re.compile(r"[A-Za-z0-9_@%+:./-]+")
_RUNS = re.compile(r"([A-Za-z0-9_@%+=:,./-]+)")
_SEPARATORS = {";": ";", "&": " &", "&&": " &&", "||": " ||"}


def print_line(node: Node, workspace: str = "", pinned: Collection[int] = ()) -> str:
    """Return the line that runs exactly these commands.

    `pinned` are the identities of plain git commands known to run in the root of the workspace.

    Raises:
        Unread: a part of it is only known when it runs.
    """
    return _Printer(workspace, pinned).statement(node, ends=False)


def quoted(text: str) -> str:
    """Return a literal as a shell word."""
    if _BARE.fullmatch(text) and text not in RESERVED:
        return text
    return "'" + text.replace("'", "'\\''") + "'"


@dataclass(frozen=True, slots=True)
class _Printer:
    """Prints the nodes of one line."""

    workspace: str
    pinned: Collection[int]

    def statement(self, node: Node, *, ends: bool) -> str:
        """Print a statement; `ends` puts the separator behind it that a keyword needs in front."""
        match node:
            case Sequence(items=items, separators=separators):
                parts = [
                    self.statement(item, ends=False) + _SEPARATORS[separator]
                    for item, separator in zip(items, separators, strict=True)
                ]
                text = " ".join(parts)
                return text if ends or not text.endswith(";") else text[:-1]
            case PipeNode(stages=stages, operators=operators):
                text = self.statement(stages[0], ends=False)
                for operator, stage in zip(operators, stages[1:], strict=True):
                    text += f" {operator} {self.statement(stage, ends=False)}"
            case Compound():
                text = self._compound(node)
            case Command():
                text = self._command(node)
        return f"{text};" if ends else text

    def _command(self, command: Command) -> str:
        words = self._as_run(command)
        parts = [self._assignment(found) for found in command.assignments]
        if words:
            parts.append(self._name(words[0]))
            parts += map(self._word, words[1:])
        return " ".join([*parts, *map(self._redirection, _in_order(command.redirections))])

    def _as_run(self, command: Command) -> tuple[Word, ...]:
        """Return the words as they are run: plain git neutralised, also where a wrapper runs it."""
        words = as_run(command.words, self.workspace if id(command) in self.pinned else "")
        for inner in command.inner:
            again = self._as_run(inner) if isinstance(inner, Command) else ()
            if isinstance(inner, Command) and again != inner.words:
                count = len(inner.words)
                at = next((at for at in range(1, len(words)) if words[at : at + count] == inner.words), None)
                if at is not None:
                    words = (*words[:at], *again, *words[at + count :])
        return words

    def _name(self, word: Word) -> str:
        """Print the first word so that it is neither a keyword nor an assignment."""
        if not word.is_literal:
            return self._word(word)
        if _BARE_NAME.fullmatch(word.text) and word.text not in RESERVED:
            return word.text
        return "'" + word.text.replace("'", "'\\''") + "'"

    def _compound(self, node: Compound) -> str:
        parts = []
        loose = node.kind in {"negation", "time", "function"}
        for piece in node.pieces:
            match piece:
                case str():
                    parts.append(piece)
                case Word():
                    parts.append(self._word(piece))
                case _:
                    parts.append(self.statement(piece, ends=not loose))
        return " ".join([*filter(None, parts), *map(self._redirection, node.redirections)])

    def _assignment(self, found: Assignment) -> str:
        value = self._word(found.value) if found.value.text else ""
        return f"{found.name}{'+=' if found.appends else '='}{value}"

    def _redirection(self, found: Redirection) -> str:
        gap = "" if found.duplicates else " "
        return f"{found.fd}{found.operator}{gap}{self._word(found.target)}"

    def _word(self, word: Word) -> str:
        if word.is_literal:
            return quoted(word.text)
        return "".join(map(self._part, word.parts))

    def _part(self, part: Part) -> str:
        match part.kind:
            case PartKind.LITERAL:
                # Piece by piece, because a slash behind a tilde must stay outside of quotes.
                runs = _RUNS.split(part.text)
                return "".join(
                    run if index % 2 else quoted(run) if run else "" for index, run in enumerate(runs)
                )
            case PartKind.GLOB | PartKind.TILDE:
                return part.text
            case PartKind.GIVEN:
                raise Unread("a word is only known when the line runs")
        if part.body is not None:
            mark = {PartKind.INPUT: "<", PartKind.OUTPUT: ">"}.get(part.kind, "$")
            text = f"{mark}( {self.statement(part.body, ends=False)} )"
        else:
            text = f"${{{part.text}}}" if part.kind is PartKind.VARIABLE else part.text
        return f'"{text}"' if part.quoted else text


def _in_order(found: tuple[Redirection, ...]) -> list[Redirection]:
    """Put here-strings first, where not every reader sees them behind a file; unless the order counts."""
    feeds = [one for one in found if not one.writes]
    is_free = len(feeds) == 1 and feeds[0].target.is_literal
    return sorted(found, key=lambda one: one.operator != "<<<") if is_free else list(found)
