"""Look at the files that expectations name, by the rules of the file tools.

Programs and models write in a workspace, and others wrote what was cloned into it, so any name in it may be a
link. What a path leads to must lie in the workspace; elsewhere it must be what the script names, without a
link in it. A secret file is not read under any name, and what is opened is what was judged.
"""

from __future__ import annotations

import os
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from leeward.security.filters import Screened, Source, redact, strip
from leeward.security.kinds import Unreadable
from leeward.security.outcome import PermanentFailure, ToolError
from leeward.security.paths import is_inside, locate
from leeward.security.trust import Origin
from leeward.tools.files import DirHandle, Guard, failure, opened_parent
from leeward.tools.survey import resolved

from .expect import FoundFile

if TYPE_CHECKING:
    from leeward.security.policy import Policy

__all__ = ["found_file"]

_LARGEST = 16 * 1024 * 1024
# More than an expectation shows: a secret that is cut off would not be recognised.
_SCREENED = 64 * 1024


def found_file(name: str, policy: Policy, secrets: AbstractSet[str]) -> FoundFile | None:
    """Return what there is of a name in a script, None for nothing. This blocks.

    Nothing is raised for what lies on the disk: what cannot be looked at is `refused`, or `unread`.
    """
    place = locate(name, policy)
    if isinstance(place, Unreadable):
        return FoundFile(refused=place.reason)
    path = place.text
    real = resolved((path,)).get(path)
    if real is None:
        return FoundFile(refused="it cannot be followed to a file")
    if real != path and not is_inside(real, policy.workspace):
        return FoundFile(refused="a link in this path leads out of the workspace")
    try:
        found = _at(real, path, policy, secrets)
    except PermanentFailure:
        found = None  # a folder on the way to it is missing
    except (ToolError, OSError, ValueError) as error:
        return FoundFile(refused=f"it cannot be looked at: {getattr(error, 'strerror', None) or error}")
    if found is None and (real != path or os.path.lexists(path)):
        return FoundFile(refused="a link that leads to nothing")
    return found


def _at(real: str, path: str, policy: Policy, secrets: AbstractSet[str]) -> FoundFile | None:
    """Look at a path without links.

    Raises:
        ToolError, OSError, ValueError: as `opened_parent`.
    """
    if real == "/":
        return FoundFile(unread="it is a folder")
    guard = Guard(policy)
    with opened_parent(real) as (folder, entry):
        if folder.stat(entry) is None:
            return None
        why = guard.secret(path) or guard.secret(real)
        if why is not None:
            return FoundFile(unread=why)
        try:
            with failure("reading"):
                return _read(folder, entry, guard, secrets)
        except ToolError as error:
            return FoundFile(unread=str(error))


def _read(folder: DirHandle, entry: str, guard: Guard, secrets: AbstractSet[str]) -> FoundFile:
    with os.fdopen(folder.open_file(entry), "rb") as file:
        guard.must_be_no_link(os.fstat(file.fileno()))
        text = file.read(_LARGEST).decode("utf-8", "replace")
    source = Source("file", Origin.WORKSPACE, secrets=frozenset(secrets))
    shown = redact(strip(Screened(text.lstrip()[:_SCREENED]), source), source).text
    return FoundFile(text, shown)
