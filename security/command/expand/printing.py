"""Print a parsed command line so that every shell reads it exactly as it was judged.

Every literal is quoted here; only globs, tildes, variables and substitutions that were read are left open.
"""

from __future__ import annotations

import re

from ...lazy import regex
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

_BARE = regex(r"[A-Za-z0-9_@%+=:,./-]+")
_BARE_NAME = regex(r"[A-Za-z0-9_@%+:./-]+")
_RUNS = regex(r"([A-Za-z0-9_@%+=:,./-]+)")
_SEPARATORS = {";": ";", "&": " &", "&&": " &&", "||": " ||"}


def print_line(node: Node) -> str:
    """Return the line that runs exactly these commands.

    Raises:
        Unread: a part of it is only known when it runs.
    """
    return _statement(node, ends=False)


def quoted(text: str, bare: re.Pattern[str] = _BARE) -> str:
    """Return a literal as a shell word; what is `bare` needs no quotes."""
    if bare.fullmatch(text) and text not in RESERVED:
        return text
    return "'" + text.replace("'", "'\\''") + "'"


def _statement(node: Node, *, ends: bool) -> str:
    """Print a statement; `ends` puts the separator behind it that a keyword needs in front."""
    match node:
        case Sequence(items=items, separators=separators):
            parts = [
                _statement(item, ends=False) + _SEPARATORS[separator]
                for item, separator in zip(items, separators, strict=True)
            ]
            text = " ".join(parts)
            return text if ends or not text.endswith(";") else text[:-1]
        case PipeNode(stages=stages, operators=operators):
            text = _statement(stages[0], ends=False)
            for operator, stage in zip(operators, stages[1:], strict=True):
                text += f" {operator} {_statement(stage, ends=False)}"
        case Compound():
            text = _compound(node)
        case Command():
            text = _command(node)
    return f"{text};" if ends else text


def _command(command: Command) -> str:
    parts = [_assignment(found) for found in command.assignments]
    parts += [_name(command.words[0]), *map(_word, command.words[1:])] if command.words else ()
    return " ".join([*parts, *map(_redirection, _in_order(command.redirections))])


def _name(word: Word) -> str:
    """Print the first word so that it is neither a keyword nor an assignment."""
    return quoted(word.text, _BARE_NAME) if word.is_literal else _word(word)


def _compound(node: Compound) -> str:
    parts = []
    loose = node.kind in {"negation", "time", "function"}
    for piece in node.pieces:
        match piece:
            case str():
                parts.append(piece)
            case Word():
                parts.append(_word(piece))
            case _:
                parts.append(_statement(piece, ends=not loose))
    return " ".join([*filter(None, parts), *map(_redirection, node.redirections)])


def _assignment(found: Assignment) -> str:
    value = _word(found.value) if found.value.text else ""
    return f"{found.name}{'+=' if found.appends else '='}{value}"


def _redirection(found: Redirection) -> str:
    gap = "" if found.duplicates else " "
    return f"{found.fd}{found.operator}{gap}{_word(found.target)}"


def _word(word: Word) -> str:
    if word.is_literal:
        return quoted(word.text)
    return "".join(map(_part, word.parts))


def _part(part: Part) -> str:
    match part.kind:
        case PartKind.LITERAL:
            # Piece by piece, because a slash behind a tilde must stay outside of quotes.
            runs = _RUNS.split(part.text)
            return "".join(run if index % 2 else quoted(run) if run else "" for index, run in enumerate(runs))
        case PartKind.GLOB | PartKind.TILDE:
            return part.text
        case PartKind.GIVEN:
            raise Unread("a word is only known when the line runs")
    if part.body is not None:
        mark = {PartKind.INPUT: "<", PartKind.OUTPUT: ">"}.get(part.kind, "$")
        text = f"{mark}( {_statement(part.body, ends=False)} )"
    else:
        text = f"${{{part.text}}}" if part.kind is PartKind.VARIABLE else part.text
    return f'"{text}"' if part.quoted else text


def _in_order(found: tuple[Redirection, ...]) -> list[Redirection]:
    """Put here-strings first, where not every reader sees them behind a file; unless the order counts."""
    feeds = [one for one in found if not one.writes]
    is_free = len(feeds) == 1 and feeds[0].target.is_literal
    return sorted(found, key=lambda one: one.operator != "<<<") if is_free else list(found)
