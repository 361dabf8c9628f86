"""Which files does a command change that something executes or obeys later, without anybody naming them?

Only what a command is known to change by its words is told: redirections, and programs that write, copy
or move what they name. What a script does inside is not known here.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator

from ...paths import runs_later_reason
from ..expand import COPIERS, Placed, copied, outputs
from ..syntax import Word
from .paths import Problem

__all__ = ["changed_later"]

_WRITERS = frozenset("tee sed touch truncate dd sponge mkdir patch ed ex".split())
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
    for word in words if at.command.program in _WRITERS else outputs(words):
        yield from named(word)
    if at.command.program in COPIERS:
        sources, targets = copied(words, at.command.program)
        for target in targets:
            yield from _placed_in(target, sources, named)


def _placed_in(
    target: Word, sources: tuple[Word, ...], named: Callable[[Word], Iterable[str]]
) -> Iterator[str]:
    """Yield what may be written; where the target is a folder, each source gets its own name in it."""
    # The folder of a source may be known only when it runs; its name is what is written all the same.
    paths = (path for source in sources for path in (source.text.rstrip("/"), *named(source)))
    names = dict.fromkeys(map(posixpath.basename, paths))
    for path in named(target):
        yield path
        # A file is called `x.txt`, a folder is not.
        if not posixpath.splitext(target.text.rstrip("/"))[1] or target.text.endswith("/"):
            yield from (posixpath.join(path, name) for name in names)
