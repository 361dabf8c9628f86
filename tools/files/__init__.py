"""Open files beneath a directory handle, and the tools that read and change them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeward.security.lazy import Loads, lazy_names

if TYPE_CHECKING:
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

_HOMES = {
    "DirHandle": ".handles",
    "FileVersions": ".freshness",
    "Files": ".read_tools",
    "Guard": ".guard",
    "HardLinks": ".guard",
    "Trees": ".tree_tools",
    "WriteTools": ".write_tools",
    "as_utf8": ".encoding",
    "blocks": ".lines",
    "encoding_of": ".encoding",
    "failure": ".handles",
    "open_folder": ".handles",
    "opened_parent": ".handles",
    "shown_name": ".handles",
    "states": ".freshness",
    "unified": ".diff",
}

__getattr__: Loads = lazy_names(__name__, _HOMES)
