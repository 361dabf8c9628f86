"""Remember what of a workspace the person trusts, by content, in one file of the data folder.

A yes holds for the files as they were; one that changed or was added is asked about again. A no holds for the
folder, whatever it brings later, until the person changes it. The file has mode 0600; one that others may
write to counts as empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from leeward.memory.private_file import read_private, write_private
from leeward.security.lazy import dataclass

from .brought import CONFIGURATION, brought_by, digest_of

if TYPE_CHECKING:
    from .places import Locations

__all__ = ["FILE", "Trust", "set_trusted", "trust_in", "trust_of", "trusted_now"]

FILE = "workspaces.json"
_LARGEST = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Trust:
    """How far a workspace is trusted.

    `answer` is the person's for the folder, None if they never gave one. `files` are the digests, by name, of
    what they trust and is still so. `unanswered` are the names of what they must be asked about, `changed`
    tells that they answered for something else before.
    """

    answer: bool | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    unanswered: tuple[str, ...] = ()
    changed: bool = False

    @property
    def reads_configuration(self) -> bool:
        """Whether the workspace's own configuration and output filters hold, all that there are."""
        return self.answer is True and not set(CONFIGURATION).intersection(self.unanswered)


def trust_in(places: Locations) -> Trust:
    """Return how far the workspace is trusted in this run: as it began with, or as the person answered."""
    return places.trust or trust_of(places.data, places.workspace)


def trust_of(data: Path, workspace: Path) -> Trust:
    """Return how far the person trusts a workspace (absolute, resolved) as it is now."""
    match read_private(data / FILE, _LARGEST).get(str(workspace)):
        case False | {"trusted": False}:
            return Trust(answer=False)
        case {"trusted": True, "files": dict(files)}:
            known = {str(name): digest for name, digest in files.items()}
        case True:
            # Answered before answers were bound to contents.
            known = {}
        case _:
            return Trust(unanswered=tuple(brought_by(workspace)))
    there = {name: digest_of(workspace, name) for name in known} | dict(brought_by(workspace))
    same = {name: digest for name, digest in there.items() if digest and known.get(name) == digest}
    others = tuple(name for name, digest in there.items() if digest and name not in same)
    return Trust(answer=True, files=same, unanswered=others, changed=bool(known and others))


def trusted_now(workspace: Path) -> Trust:
    """Return trust in all that a workspace brings as it is now."""
    return Trust(answer=True, files=brought_by(workspace, nested=True))


def set_trusted(data: Path, workspace: Path, trusted: bool) -> None:
    """Remember the person's answer; readers see the old file or the new one, never half of one.

    Raises:
        OSError: it cannot be written.
    """
    files = dict(brought_by(workspace, nested=True)) if trusted else {}
    answer = {"trusted": trusted, "files": files}
    known = {**read_private(data / FILE, _LARGEST), str(workspace): answer}
    write_private(data / FILE, dict(sorted(known.items())))
