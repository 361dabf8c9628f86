"""Which files does a command change that something executes or obeys later, without anybody naming them?

Only what a command is known to change by its words is told: redirections, and programs that write, copy
or move what they name. What a script does inside is not known here.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator

from ..runs_later import runs_later_reason
from .nouns import Word
from .paths import Problem
from .places import Placed

__all__ = ["changed_later"]

_WRITERS = frozenset("tee sed touch truncate dd sponge mkdir patch ed ex".split())
_COPIERS = frozenset("cp mv install ln rsync scp".split())
_MOST_WORDS = 64


def changed_later(at: Placed, named: Callable[[Word], Iterable[str]]) -> Iterator[Problem]:
    """Yield the first of these files; `named` are the paths that a word may mean."""
    for path in _changed(at, named):
        why = runs_later_reason(path)
        if why is not None:
            yield Problem("runs_later", f"it changes what acts later without being named: {why}", path)
            return


def _changed(at: Placed, named: Callable[[Word], Iterable[str]]) -> Iterator[str]:
    for redirection in at.command.redirections:
        if redirection.writes:
            yield from named(redirection.target)
    words = at.command.words[1:_MOST_WORDS]
    if at.command.program in _WRITERS:
        for word in words:
            yield from named(word)
    operands = [word for word in words if not word.text.startswith("-")]
    if at.command.program in _COPIERS and len(operands) > 1:
        *sources, target = operands
        names = [posixpath.basename(source.text.rstrip("/")) for source in sources]
        for path in named(target):
            yield path
            # Where the target is a folder, each source gets its own name in it; a file is called `x.txt`.
            if not posixpath.splitext(target.text)[1]:
                yield from (f"{path}/{name}" for name in names)
