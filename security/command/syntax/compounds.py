"""Convert loops, conditions, functions and groups, and the expressions inside `[[ … ]]`.

What `[[` compares as numbers it evaluates, and an evaluated text may run a command, so numbers must
be digits there. Regular expressions are not read: quoting them, as a print must, changes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import tree_sitter

from ...lazy import regex
from .builtins import decides_what_runs
from .nodes import Compound, Node, Piece, Unread, Word
from .source import SourceText, tokens_of
from .words import Bodies, next_word, read_pattern, read_words

__all__ = ["COMPOUNDS", "RESERVED", "test_pieces"]


RESERVED = frozenset(
    (
        "if then else elif fi for while until do done case esac in function select coproc time { } ! [[ ]]"
    ).split()
)
"""Words that are syntax where a command begins, unless they are quoted."""

_FUNCTION_NAME = regex(r"[A-Za-z_:.][A-Za-z0-9_:.-]*")
_KEYWORDS = frozenset("if then elif else fi while until do done { } ( )".split())
_KINDS = {
    "if_statement": "if",
    "while_statement": "while",
    "compound_statement": "group",
    "subshell": "subshell",
}


def _negated(text: SourceText, node: tree_sitter.Node, depth: int) -> Node:
    children = tokens_of(text, node)
    if len(children) != 2 or children[0].end_byte == children[1].start_byte:
        raise Unread("a negation is not followed by a command")
    return Compound("negation", ("!", text.statement(text, children[1], depth + 1)))


def _block(text: SourceText, node: tree_sitter.Node, depth: int) -> Node:
    return Compound(_KINDS[node.type], tuple(_pieces(text, node, depth)))


def _pieces(text: SourceText, node: tree_sitter.Node, depth: int) -> Iterator[Piece]:
    """Yield the keywords of a compound command and the statements between them."""
    waiting: list[tree_sitter.Node] = []
    for child in tokens_of(text, node):
        is_clause = child.type in {"do_group", "elif_clause", "else_clause"}
        if child.type not in _KEYWORDS and not is_clause:
            waiting.append(child)
            continue
        if waiting:
            yield text.sequence(text, waiting, depth + 1)
            waiting = []
        if is_clause:
            yield from _pieces(text, child, depth + 1)
        else:
            yield child.type
    if waiting:
        yield text.sequence(text, waiting, depth + 1)


def _for(text: SourceText, node: tree_sitter.Node, depth: int) -> Node:
    children = tokens_of(text, node)
    if children[0].type != "for" or children[1].type != "variable_name" or children[-1].type != "do_group":
        raise Unread("a loop is written in an unknown way")
    name = text.src[children[1].start_byte : children[1].end_byte]
    if decides_what_runs(name):
        raise Unread("a loop sets a variable that decides what runs")
    head: list[Piece] = [f"for {name}"]
    if children[2].type == "in":
        inside = [child for child in children[3:-1] if child.type not in {";", "\n"}]
        end = inside[-1].end_byte if inside else children[2].end_byte
        words = read_words(
            text.src,
            children[2].end_byte,
            end,
            text.bodies(text, node, depth) if inside else Bodies(text.effort),
        )
        head += ["in", *words]
    return Compound("for", (*head, ";", *_pieces(text, children[-1], depth)), name=name)


def _case(text: SourceText, node: tree_sitter.Node, depth: int) -> Node:
    children = tokens_of(text, node)
    position = next((index for index, child in enumerate(children) if child.type == "in"), 0)
    if position < 2 or children[0].type != "case" or children[-1].type != "esac":
        raise Unread("a case is written in an unknown way")
    bodies = text.bodies(text, node, depth)
    word = read_pattern(text.src, children[0].end_byte, children[position].start_byte, bodies)
    pieces: list[Piece] = ["case", word, "in"]
    for item in children[position + 1 : -1]:
        if item.type not in {"case_item", "\n", ";"}:
            raise Unread("a case is written in an unknown way")
        if item.type == "case_item":
            pieces += _case_item(text, item, bodies, depth)
    return Compound("case", (*pieces, "esac"))


def _case_item(text: SourceText, node: tree_sitter.Node, bodies: Bodies, depth: int) -> list[Piece]:
    children = tokens_of(text, node)
    close = next((index for index, child in enumerate(children) if child.type == ")"), 0)
    ending = children[-1].type if children[-1].type in {";;", ";&", ";;&"} else ";;"
    rest = [child for child in children[close + 1 :] if child.type not in {";;", ";&", ";;&"}]
    at = children[0].end_byte if children[0].type == "(" else node.start_byte
    pieces: list[Piece] = []
    for child in children[: close + 1]:
        if child.type in {"|", ")"}:
            pieces += [read_pattern(text.src, at, child.start_byte, bodies), child.type]
            at = child.end_byte
    if not close:
        raise Unread("a case is written in an unknown way")
    return [*pieces, text.sequence(text, rest, depth + 1), ending]


def _function(text: SourceText, node: tree_sitter.Node, depth: int) -> Node:
    children = [child for child in tokens_of(text, node) if child.type not in {"function", "(", ")"}]
    if len(children) != 2:
        raise Unread("a function is written in an unknown way")
    name = text.src[children[0].start_byte : children[0].end_byte]
    body = text.statement(text, children[1], depth + 1)
    if not _FUNCTION_NAME.fullmatch(name) or name in RESERVED or not isinstance(body, Compound):
        raise Unread("a function is written in an unknown way")
    return Compound("function", (f"{name} ()", body), name=name)


COMPOUNDS: dict[str, Callable[[SourceText, tree_sitter.Node, int], Node]] = {
    "negated_command": _negated,
    "for_statement": _for,
    "case_statement": _case,
    "function_definition": _function,
    **dict.fromkeys(_KINDS, _block),
}
"""What reads which node of the tree."""


_OPERATORS = frozenset("&& || ! ( ) < > = == != -nt -ot -ef ]]".split())
_NUMERIC = frozenset("-eq -ne -lt -le -gt -ge".split())
_UNREAD = frozenset("=~ -v -R".split())
_TOKEN = regex(r"[^ \t\n]+")


def test_pieces(src: str, start: int, end: int, bodies: Bodies) -> tuple[Piece, ...]:
    """Return the pieces of a conditional expression between two positions, its brackets included."""
    pieces: list[Piece] = ["[["]
    at = start + 2
    while at < end:
        found = _TOKEN.match(src, at, end)
        if found is None:
            at += 1
            continue
        piece, at = _piece(src, found, end, bodies)
        pieces.append(piece)
    if pieces[-1] != "]]" or _compares_text(pieces):
        raise Unread("a condition compares as numbers what is no number")
    return tuple(pieces)


def _piece(src: str, found: re.Match[str], end: int, bodies: Bodies) -> tuple[Piece, int]:
    token = found[0]
    if token in _UNREAD:
        raise Unread("a condition uses an operator that is not read")
    if token in _OPERATORS or token in _NUMERIC or re.fullmatch(r"-[a-zA-Z]", token):
        return token, found.end()
    return next_word(src, found.start(), end, bodies)


def _compares_text(pieces: list[Piece]) -> bool:
    """Whether an operand of a numeric operator could be anything but digits."""
    for index, piece in enumerate(pieces):
        if isinstance(piece, str) and piece in _NUMERIC:
            for operand in pieces[index - 1 : index + 2 : 2]:
                if not isinstance(operand, Word) or not re.fullmatch(r"-?\d+|⟨\$[#?]⟩", operand.text):
                    return True
    return False
