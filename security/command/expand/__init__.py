"""Expand a command line to what it runs: wrappers and what they run, where, and the line as printed."""

from .parse import parse_command
from .paths import Candidate, Folders, Placed, git_places, placed, where
from .printing import print_line, quoted
from .visit import commands_of, is_sink, nodes, vectors
from .wrappers import added_by_wrapper, unversioned, wrapper_of

__all__ = [
    "Candidate",
    "Folders",
    "Placed",
    "added_by_wrapper",
    "commands_of",
    "git_places",
    "is_sink",
    "nodes",
    "parse_command",
    "placed",
    "print_line",
    "quoted",
    "unversioned",
    "vectors",
    "where",
    "wrapper_of",
]
