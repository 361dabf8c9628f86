"""The state of a parse: the bytes of the line, a cursor over its tree, and the limits counted so far.

Nothing may be left out: between the tokens of the tree there are blanks, newlines and comments only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

import tree_sitter

from ...lazy import dataclass, regex
from .nodes import Node, Unread
from .words import Bodies, Effort

__all__ = ["SourceText", "must_be_token", "tokens_of"]

_GAP = regex(r"(?:[ \t\n]|\\\n)*")


@dataclass(slots=True)
class SourceText:
    """`src` is the line's bytes as Latin-1. The functions read a statement, several, and substitutions."""

    src: str
    statement: Callable[[SourceText, tree_sitter.Node, int], Node]
    sequence: Callable[[SourceText, list[tree_sitter.Node], int], Node]
    bodies: Callable[[SourceText, tree_sitter.Node, int], Bodies]
    effort: Effort
    constructs: set[str] = field(default_factory=set)


def tokens_of(text: SourceText, node: tree_sitter.Node, *, whole: bool = False) -> list[tree_sitter.Node]:
    """Return a node's children without comments; only blanks and newlines may be between them."""
    found: list[tree_sitter.Node] = []
    at = 0 if whole else node.start_byte
    for child in node.children:
        _must_be_gap(text, at, child.start_byte)
        must_be_token(text, child)
        if child.type == "comment":
            _must_be_comment(text, child)
        else:
            found.append(child)
        at = child.end_byte
    _must_be_gap(text, at, len(text.src) if whole else node.end_byte)
    return found


def must_be_token(text: SourceText, node: tree_sitter.Node) -> None:
    """The grammar lets a token swallow the characters in front of it (`-<<` passes for `<<`)."""
    text_of_node = text.src[node.start_byte : node.end_byte]
    if not node.is_named and text_of_node != node.type and (node.type != "\n" or text_of_node.strip("\n")):
        raise Unread("an operator is spelled in an unknown way")


def _must_be_gap(text: SourceText, start: int, end: int) -> None:
    if start != end and _GAP.fullmatch(text.src, start, end) is None:
        raise Unread("the grammar left out a part of the line")


def _must_be_comment(text: SourceText, node: tree_sitter.Node) -> None:
    start = node.start_byte
    comment = text.src[start : node.end_byte]
    if not comment.startswith("#") or "\n" in comment or (start and text.src[start - 1] not in " \t\n;&|("):
        raise Unread("a comment was found where there is none")
