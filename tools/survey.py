"""Where does a path really lie? Looked up before judging, so that judging needs no disk."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence

import trio

__all__ = ["Surveyor", "resolved"]


class Surveyor:
    """Follows links on the local disk; the `Surveyor` the pipeline is given."""

    async def resolve(self, paths: Sequence[str]) -> Mapping[str, str]:
        """Return for each absolute path the path with all links followed, in one hop to a thread.

        Parts that do not exist are kept as they are; a path that cannot be followed (a loop, a name
        no disk can hold) stands for itself, and opening it fails. Only links are read, nothing is
        opened, so a FIFO or a device does not block; a dead network mount can be cancelled.
        """
        wanted = tuple(dict.fromkeys(paths))
        if not wanted:
            return {}
        return await trio.to_thread.run_sync(resolved, wanted, abandon_on_cancel=True)


def resolved(paths: Sequence[str]) -> dict[str, str]:
    """Return what `Surveyor.resolve` does, looked up in this thread, which waits for the disk."""
    return {path: _real(path) for path in paths}


def _real(path: str) -> str:
    try:
        return os.path.realpath(path, strict=True)
    except OSError as error:
        return path if error.errno == errno.ELOOP else os.path.realpath(path)
    except ValueError:
        return path
