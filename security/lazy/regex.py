"""Regular expressions that are compiled when they are first used.

The patterns of a process are written where modules are loaded, and most starts use few of them: compiling all
takes as long as the rest of a start. What `regex` returns is used like a compiled pattern and costs as much
from its second use on. That each of them compiles is a test, not a matter of luck.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast

__all__ = ["LazyPattern", "regex"]

_METHODS = ("findall", "finditer", "fullmatch", "match", "search", "split", "sub", "subn")


class LazyPattern:
    """An expression in the place of its compiled pattern, which takes over at the first use."""

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        """Compile; from now on the methods of the pattern, and what was asked for, are found without this."""
        if name.startswith("__"):
            raise AttributeError(name)
        compiled = re.compile(self.pattern, self._flags)
        vars(self).update((method, getattr(compiled, method)) for method in _METHODS)
        found = vars(self)[name] = getattr(compiled, name)
        return found


def regex(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return what is used like `re.compile(pattern, flags)`; an invalid pattern raises at its first use."""
    return cast("re.Pattern[AnyStr]", LazyPattern(pattern, flags))
