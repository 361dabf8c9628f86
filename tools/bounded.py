"""Look at the disk in counted steps, so that nothing that lies there keeps a verdict waiting.

A name is held against a pattern in at most as many comparisons as the two are long multiplied, links are
followed no further than the kernel follows them, and all that is looked up for one call draws on one `Work`.
"""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass
from fnmatch import translate

__all__ = ["NamePattern", "TooMuch", "Work", "followed"]

MOST_STEPS = 1_000_000
"""Steps for one call: an entry listed, a name held against a pattern, a part of a path followed."""

# Linux gives up behind so many links, so nobody gets further than this.
_MOST_LINKS = 40
# As many comparisons of two characters take about as long as one look at the disk.
_COMPARISONS = 64
_CHARACTERS = 256

_MISSING = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})

# A bracket that nothing closes is found out first, and a named kind within one is short: so a text of
# brackets alone is gone through in a few passes.
_PIECE = re.compile(
    r"\[[*?\[]\]|\*+|\?|\\.|\[(?=[!^]?\]?[^\]]*+\])[!^]?\]?(?:\[[:.=].{0,32}?[:.=]\]|[^\]])*\]|.", re.DOTALL
)


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


class NamePattern:
    """A part of a shell's pattern: what it matches, or more.

    A set of characters stands for any character, for what is in it depends on the language. `literal` is
    the one name it can only be, or None.
    """

    def __init__(self, part: str) -> None:
        tokens = _PIECE.findall(part)
        self.literal = None if any(map(_is_open, tokens)) else "".join(map(_plain, tokens))
        # The library's expression stays with the first match of what stands behind a star, so it never
        # goes back further than to that.
        self._expression = re.compile(translate("".join(map(_glob, tokens))))
        self._takes_hidden = tokens[:1] == ["."]
        self._length = len(tokens)

    def matches(self, name: str, work: Work) -> bool:
        """Whether a name fits.

        Raises:
            TooMuch: the work for this call is done.
        """
        work.spend(1 + len(name) * self._length // _COMPARISONS)
        is_shown = self._takes_hidden or not name.startswith(".")
        return is_shown and self._expression.match(name) is not None


def _is_open(token: str) -> bool:
    """Whether a token stands for more than one character; `[*]` is a star, and a lone `[` itself."""
    return token[0] in "*?" or (token[0] == "[" and len(token) > 1 and token[1:-1] not in set("*?["))


def _glob(token: str) -> str:
    if not _is_open(token):
        return re.sub(r"([*?\[])", r"[\1]", _plain(token))
    return "*" if token[0] == "*" else "?"


def _plain(token: str) -> str:
    return token[1] if len(token) > 1 else token


def followed(path: str, work: Work) -> str | None:
    """Return an absolute path with all links followed; None where one cannot be, or too many are.

    Parts that do not exist are kept as they stand, and `..` behind them takes one away.

    Raises:
        TooMuch: the work for this call is done.
    """
    here, waiting, links = "/", path.split("/")[::-1], 0
    while waiting:
        # The path is written anew for each of its parts, so a long one costs more.
        work.spend(1 + len(here) // _CHARACTERS)
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
            if links > _MOST_LINKS:
                return None
            here = "/" if target.startswith("/") else here
            waiting += target.split("/")[::-1]
    return here
