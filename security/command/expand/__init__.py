"""What a command line runs in the end: wrappers, loops, variables, and the line as printed."""

from .loops import Bound, bound, guessed, leads_inside, loop_of, with_each_name
from .parse import parse_command
from .paths import Candidate, Folders, Ground, Placed, git_places, placed, where
from .printing import print_line, quoted
from .targets import COPIERS, copied, open_target, outputs, settled, written
from .variables import set_by_builtins
from .visit import is_sink, nodes, vectors, visits
from .wrappers import added_by_wrapper, is_transparent

__all__ = [
    "COPIERS",
    "Bound",
    "Candidate",
    "Folders",
    "Ground",
    "Placed",
    "added_by_wrapper",
    "bound",
    "copied",
    "git_places",
    "guessed",
    "is_sink",
    "is_transparent",
    "leads_inside",
    "loop_of",
    "nodes",
    "open_target",
    "outputs",
    "parse_command",
    "placed",
    "print_line",
    "quoted",
    "set_by_builtins",
    "settled",
    "vectors",
    "visits",
    "where",
    "with_each_name",
    "written",
]
