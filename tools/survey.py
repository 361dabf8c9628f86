"""Where does a path really lie? Looked up before judging, so that judging needs no disk."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence

import trio

__all__ = ["Surveyor", "resolved"]

_MISSING = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})


class Surveyor:
    """Follows links on the local disk; the `Surveyor` the pipeline is given."""

    async def resolve(self, paths: Sequence[str]) -> Mapping[str, str]:
        """Return for each absolute path the path with all links followed, in one hop to a thread.

        Parts that do not exist, or have a name no disk can hold, are kept as they are. A path that
        cannot be followed for another reason (a loop, a link that may not be read, a folder that may not
        be entered) has no entry: nobody can tell where it leads. `~name` stands for itself if there is no
        user of that name, and else for that user's home. Only links are read, nothing is opened,
        so a FIFO or a device does not block; a dead network mount can be cancelled.
        """
        wanted = tuple(dict.fromkeys(paths))
        if not wanted:
            return {}
        return await trio.to_thread.run_sync(resolved, wanted, abandon_on_cancel=True)


def resolved(paths: Sequence[str]) -> dict[str, str]:
    """Return what `Surveyor.resolve` does, looked up in this thread, which waits for the disk."""
    followed = ((path, _real(path)) for path in paths)
    return {path: real for path, real in followed if real is not None}


def _real(path: str) -> str | None:
    if path.startswith("~"):
        return os.path.expanduser(path)  # noqa: PTH111 — a text, not a place in the file system
    # What does not exist yet fails the strict way; only then may parts of the path be taken as they are.
    for is_strict in (True, False):
        try:
            return os.path.realpath(path, strict=is_strict)
        except OSError as error:
            if error.errno not in _MISSING:
                return None
        except (ValueError, RecursionError):
            return None
    return None
