"""Count the steps of one call's lookups, and follow links within that count."""

from __future__ import annotations

import errno
import os

from leeward.security.lazy import dataclass

__all__ = ["CHARACTERS", "MOST_STEPS", "TooMuch", "Work", "followed"]

MOST_STEPS = 1_000_000
"""Steps for one call: an entry listed, a name held against a pattern, a part of a path followed."""

# Linux gives up behind so many links, so nobody gets further than this.
_MOST_LINKS = 40
CHARACTERS = 256
"""Characters of a path that are gone through in one step."""

_MISSING = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})


class TooMuch(Exception):
    """Too much was looked up for one call; what was asked for last is unknown."""


@dataclass(slots=True)
class Work:
    """What may still be looked at for one call."""

    left: int = MOST_STEPS

    def spend(self, steps: int = 1) -> None:
        """Count some steps.

        Raises:
            TooMuch: there are none left.
        """
        self.left -= steps
        if self.left < 0:
            raise TooMuch


def followed(path: str, work: Work, passed: list[str] | None = None) -> str | None:
    """Return an absolute path with all links followed; None where one cannot be, or too many are.

    Parts that do not exist are kept unchanged, and `..` behind them takes one away. The links that were
    followed are added to `passed`.

    Raises:
        TooMuch: the work for this call is done.
    """
    here, waiting, links = "/", path.split("/")[::-1], 0
    while waiting:
        # The path is written anew for each of its parts, so a long one costs more.
        work.spend(1 + len(here) // CHARACTERS)
        part = waiting.pop()
        if part == "..":
            here = here.rpartition("/")[0] or "/"
        elif part not in {"", "."}:
            try:
                target = os.readlink(f"{here.rstrip('/')}/{part}")  # noqa: PTH115 — texts, as they are judged
            except OSError as error:
                # EINVAL says that it is no link.
                if error.errno != errno.EINVAL and error.errno not in _MISSING:
                    return None
                here = f"{here.rstrip('/')}/{part}"
                continue
            except ValueError:
                return None
            links += 1
            if passed is not None:
                passed.append(f"{here.rstrip('/')}/{part}")
            if links > _MOST_LINKS:
                return None
            here = "/" if target.startswith("/") else here
            waiting += target.split("/")[::-1]
    return here
