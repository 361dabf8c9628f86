"""Has a file changed since the model saw it? What it saw is remembered for the session, as marks of files."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

__all__ = ["Seen"]

_MOST = 4_096


class Seen:
    """What was read or written of which file. `session` tells the id of the session that is going on."""

    def __init__(self, session: Callable[[], str] = str) -> None:
        self._session = session
        self._files: OrderedDict[tuple[str, str], tuple[tuple[int, ...], str]] = OrderedDict()

    def note(self, path: str, identity: tuple[int, ...], mark: str = "") -> None:
        """Remember a file as it is seen now; `mark` is that of its content, "" if it was not seen whole."""
        key = (self._session(), path)
        self._files[key] = (identity, mark)
        self._files.move_to_end(key)
        if len(self._files) > _MOST:
            self._files.popitem(last=False)

    def is_stale(self, path: str, identity: tuple[int, ...], mark: str) -> bool:
        """Whether a file was seen, and is neither that file untouched by now nor one with the same text."""
        seen = self._files.get((self._session(), path))
        return seen is not None and seen[0] != identity and (not mark or seen[1] != mark)
