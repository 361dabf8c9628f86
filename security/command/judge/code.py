"""Find the files of the workspace that a line executes by name, as far as its words and the tables show.

They are the program where it is named by its path, the script of an interpreter or a shell, the module behind
`-m`, and what `programs/code.toml` knows a program to read for what to run. What these run in turn is not
followed. More may be named than is run: an answer that lasts is bound to what all of them held.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from ...kinds import CommandFacts
from ...lazy import dataclass
from ...paths import is_inside
from ...policy import Policy
from ..expand import Placed, unversioned, where, wrapper_of
from ..programs import lines_of
from ..syntax import Word, literal
from .assessment import Assessment

__all__ = ["ANYWHERE", "code_of"]

ANYWHERE = "/**/"
"""The mark between a folder and a name that is looked for in it and in all folders below."""

_MOST_FILES = 256
_MOST_FOLDERS = 8
_MOST_WORDS = 64
_SOURCES = frozenset({".", "source"})
_MODULES = frozenset({"python", "pypy", "ipython", "bpython"})
# Behind any other option the word may be its value, and the script comes after it.
_FLAGS = frozenset("-u -B -O -OO -E -I -s -S -v -q -b -bb -d -x -i -P -e -ex -eu -eux -l -n -w --".split())


@dataclass(frozen=True, slots=True)
class _Reads:
    """A line of `code.toml`, with its defaults."""

    files: tuple[str, ...] = ()
    above: bool = False
    below: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    folder: tuple[str, ...] = ()
    operands: bool = False
    scripts: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    bins: tuple[str, ...] = ()


@lru_cache(maxsize=1)
def _table() -> dict[str, _Reads]:
    found = {}
    for name, line in lines_of("code.toml").items():
        values: dict[str, Any] = {
            key: tuple(value.split()) if isinstance(value, str) else value for key, value in line.items()
        }
        found[name] = _Reads(**values)
    return found


def code_of(found: Assessment) -> tuple[str, ...]:
    """Return the absolute paths of what a line may run by name, each once.

    `FOLDER/**/NAME` is any of them, and a name alone the program that is found by it. Whether they exist, and
    where they lead, is not asked here.
    """
    readers = (_Reader(at, found.facts, found.policy) for at in found.every if at.command.words)
    paths = dict.fromkeys(path for reader in readers for path in reader.paths())
    return tuple(paths)[:_MOST_FILES]


@dataclass(frozen=True, slots=True)
class _Reader:
    """One command, and where its words may lead."""

    at: Placed
    facts: CommandFacts
    policy: Policy

    def paths(self) -> Iterator[str]:
        """Yield what it may run by name."""
        words = self.at.command.words[:_MOST_WORDS]
        program = self.at.command.program
        if "/" in words[0].text:
            yield from self._of_word(words[0])
        elif words[0].is_literal:
            yield program
        yield from self._scripts(program, words)
        yield from self._read(program, words)

    def _scripts(self, program: str, words: tuple[Word, ...]) -> Iterator[str]:
        """Yield the script of a shell or an interpreter, and a module with what it reads in turn."""
        found = wrapper_of(program, words)
        if program not in _SOURCES and (found is None or found.runs not in {"shell", "script"}):
            return
        module = _module(words) if unversioned(program) in _MODULES else None
        if module is not None:
            yield from self._of_module(module[0].text)
            yield from self._read(module[0].text, module)
            return
        before = None
        for word in words[1:]:
            if not word.text.startswith("-"):
                yield from self._of_word(word)
                if before is None or before in _FLAGS:
                    return
            before = word.text if word.text.startswith("-") else None

    def _read(self, program: str, words: tuple[Word, ...]) -> Iterator[str]:
        """Yield what the table knows a program to read."""
        reads = _table().get(program) or _table().get(unversioned(program))
        if reads is None:
            return
        folders = list(self.at.folders or ())
        for value in _values(words, reads.folder):
            folders += self._of_word(value)
        operands = [word for word in words[1:] if not word.text.startswith("-")]
        for word in operands:
            if reads.operands:
                folders += self._of_word(word)
            if word.text.endswith(reads.scripts or ("\0",)):
                yield from self._of_word(word)
        for value in _values(words, reads.given):
            yield from self._of_word(value)
        for value in _values(words, reads.modules):
            yield from self._of_module(value.text)
        for folder in dict.fromkeys(map(posixpath.normpath, folders[:_MOST_FOLDERS])):
            yield from self._in_folder(folder, reads)
            for name in (word.text for word in operands if reads.bins and "/" not in word.text):
                yield from (f"{place}/{one}/{name}" for place in self._above(folder) for one in reads.bins)

    def _in_folder(self, folder: str, reads: _Reads) -> Iterator[str]:
        for place in self._above(folder) if reads.above else (folder,):
            yield from (f"{place}/{name}" for name in reads.files)
        yield from (f"{folder}{ANYWHERE}{name}" for name in reads.below)

    def _above(self, folder: str) -> Iterator[str]:
        """Yield a folder and those above it, up to the workspace."""
        yield folder
        while folder != self.policy.workspace and is_inside(folder, self.policy.workspace):
            folder = posixpath.dirname(folder)
            yield folder

    def _of_module(self, name: str) -> Iterator[str]:
        """Yield where the code of a module would lie, if it were one of the project's own."""
        path = name.replace(".", "/")
        parents = [path.rpartition("/")[0]] if "/" in path else []
        for folder in sorted(self.at.folders or ()):
            yield from (f"{folder}/{path}{end}" for end in (".py", "/__main__.py", "/__init__.py"))
            yield from (f"{folder}/{parent}/__init__.py" for parent in parents)

    def _of_word(self, word: Word) -> Iterator[str]:
        for one in where(word, self.at.folders, self.policy) or ():
            if one.is_glob:
                yield from self.facts.matches.get(one.path) or ()
            else:
                yield one.path


def _module(words: tuple[Word, ...]) -> tuple[Word, ...] | None:
    """Return the module that an interpreter runs, with the words behind it; None where it runs none."""
    for at, word in enumerate(words[1:], 1):
        if word.text == "-m" and at + 1 < len(words):
            return words[at + 1 :]
        if word.text.startswith("-m") and len(word.text) > 2:
            return literal(word.text[2:]), *words[at + 1 :]
        if not word.text.startswith("-") and (at == 1 or words[at - 1].text in _FLAGS):
            return None
    return None


def _values(words: tuple[Word, ...], options: tuple[str, ...]) -> Iterator[Word]:
    """Yield the values of options, behind them, behind `=`, or right behind a letter."""
    for at, word in enumerate(words[1:], 1):
        for option in options:
            if word.text == option and at + 1 < len(words):
                yield words[at + 1]
            elif word.text.startswith(f"{option}=") and word.is_literal:
                yield literal(word.text[len(option) + 1 :])
            elif len(option) == 2 and word.text.startswith(option) and word.is_literal:
                yield literal(word.text[2:])
