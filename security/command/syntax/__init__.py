"""Parse the text of a command line into a tree of nodes."""

from .builtins import BUILTINS, builtin_notes, is_harmless, poison_notes
from .compounds import RESERVED
from .grammar import read_tree
from .nodes import (
    Assignment,
    Command,
    Compound,
    Node,
    Note,
    Part,
    PartKind,
    Piece,
    PipeNode,
    Redirection,
    Sequence,
    Unread,
    Word,
    literal,
    marked,
    success_is_of_all,
)
from .words import Effort, crude_words

__all__ = [
    "BUILTINS",
    "RESERVED",
    "Assignment",
    "Command",
    "Compound",
    "Effort",
    "Node",
    "Note",
    "Part",
    "PartKind",
    "Piece",
    "PipeNode",
    "Redirection",
    "Sequence",
    "Unread",
    "Word",
    "builtin_notes",
    "crude_words",
    "is_harmless",
    "literal",
    "marked",
    "poison_notes",
    "read_tree",
    "success_is_of_all",
]
