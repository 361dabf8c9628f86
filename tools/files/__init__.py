"""Files, opened beneath a directory handle, and the tools that read and change them."""

from .diff import unified
from .encoding import as_utf8, encoding_of
from .freshness import FileVersions, states
from .guard import Guard, HardLinks
from .handles import DirHandle, failure, open_folder, opened_parent, shown_name
from .lines import blocks
from .read_tools import Files
from .tree_tools import Trees
from .write_tools import WriteTools

__all__ = [
    "DirHandle",
    "FileVersions",
    "Files",
    "Guard",
    "HardLinks",
    "Trees",
    "WriteTools",
    "as_utf8",
    "blocks",
    "encoding_of",
    "failure",
    "open_folder",
    "opened_parent",
    "shown_name",
    "states",
    "unified",
]
