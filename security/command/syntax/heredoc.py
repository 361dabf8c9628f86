"""Read here-documents; one whose end the grammar places elsewhere is `Unread`.

The end is found independently of the grammar and compared with its answer. A here-document becomes a
here-string, which a shell feeds to the command in the same way, newline at the end included, so it can
be printed at any place of a line.
"""

from __future__ import annotations

import re

import tree_sitter

from ...lazy import regex
from .nodes import Redirection, Unread, Word
from .words import Bodies, read_here_document, read_word

__all__ = ["here_document"]

_OPERATOR = regex(r"<<-?(?!<)")


def here_document(src: str, node: tree_sitter.Node, bodies: Bodies) -> Redirection:
    """Return the here-document of a node as a redirection.

    Raises:
        Unread: it has no end, or the grammar sees its end elsewhere.
    """
    kinds = {child.type: child for child in node.children}
    start, end = kinds.get("heredoc_start"), kinds.get("heredoc_end")
    if start is None or end is None:
        raise Unread("a here-document has no end")
    _must_be_only_one(src, node.start_byte, start.end_byte)
    raw = src[start.start_byte : start.end_byte]
    delimiter = read_word(src, start.start_byte, start.end_byte, Bodies(bodies.effort))
    is_quoted = any(mark in raw for mark in "'\"\\")
    if not delimiter.is_literal or not re.fullmatch(r"[\w.!-]+", delimiter.text):
        raise Unread("the end of a here-document is marked in an unknown way")
    strips = "<<-" in kinds
    first = src.find("\n", start.end_byte) + 1
    body, last = _measured(src, first, delimiter.text, strips=strips)
    if not first or last != end.start_byte or end.end_byte != last + len(delimiter.text):
        raise Unread("a here-document ends elsewhere than it seems")
    fd = (
        src[node.start_byte : node.children[0].end_byte] if node.children[0].type == "file_descriptor" else ""
    )
    return Redirection("<<<", _body(src, first, body, bodies, is_quoted=is_quoted, strips=strips), fd)


def _must_be_only_one(src: str, start: int, end: int) -> None:
    line = src[src.rfind("\n", 0, start) + 1 : src.find("\n", end) % (len(src) + 1)]
    if len(_OPERATOR.findall(line.replace("<<<", ""))) != 1:
        raise Unread("two here-documents begin on one line")


def _measured(src: str, first: int, delimiter: str, *, strips: bool) -> tuple[int, int]:
    """Return where the body ends and where the delimiter begins."""
    at = first
    while at < len(src):
        stop = src.find("\n", at)
        stop = len(src) if stop < 0 else stop
        line = src[at:stop]
        bare = line.lstrip("\t") if strips else line
        if bare == delimiter:
            return at, stop - len(delimiter)
        at = stop + 1
    raise Unread("a here-document has no end")


def _body(src: str, first: int, end: int, bodies: Bodies, *, is_quoted: bool, strips: bool) -> Word:
    raw = src[first:end]
    if strips:
        raw = re.sub(r"(?m)^\t+", "", raw)
    if not raw:
        raise Unread("a here-document is empty")
    if is_quoted:
        try:
            return Word(raw[:-1].encode("latin-1").decode())
        except UnicodeDecodeError:
            raise Unread("a here-document is no text") from None
    if re.search(r"\\\n", raw) or (strips and "$" in raw):
        raise Unread("a line of a here-document is continued, or indented and expanded")
    if "`" in raw:
        raise Unread("a here-document holds backticks")
    if strips:
        return read_here_document(raw, 0, len(raw) - 1, Bodies(bodies.effort))
    return read_here_document(src, first, end - 1, bodies)
