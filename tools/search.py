"""The tools `find_path` and `grep`: which files of a folder have such a name, or such a line?

Patterns come from a model, so they run in linear time (RE2). How a folder is walked stands in
`walk.py`. What nobody may search, and what a rule holds back, is told by predicates that are handed in.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import trio

from leeward.memory import BadPattern, linear_pattern
from leeward.security import (
    Cleared,
    Effect,
    InvalidParameters,
    Output,
    Place,
    ToolError,
    ToolExecutor,
)

from .beneath import failure, shown_name
from .declare import tool
from .files import is_binary
from .glob import glob_pattern
from .kinds import Text, WorkspacePath
from .walk import Entry, Tree

__all__ = ["Search", "line_pattern"]

_BLOCK = 1024 * 1024
_LONGEST_LINE = 4 * _BLOCK
_SNIFFED = 8192
_SHOWN = 400


@dataclass(frozen=True, slots=True)
class Search:
    """What nobody may search, and how many matches are returned.

    `is_secret` says of an absolute path whether it is read by no tool; `is_held_back` of a tool's name,
    the folder it was called for and a path below it, whether a rule of the person's holds for that path.
    """

    is_secret: Callable[[str], bool]
    is_held_back: Callable[[str, Place, Place], bool]
    max_results: int = 1_000

    def tools(self) -> list[ToolExecutor]:
        """Return the two tools."""
        return [
            tool(effects=Effect.READ, idempotent=True)(self.find_path),
            tool(effects=Effect.READ, idempotent=True)(self.grep),
        ]

    async def find_path(
        self,
        pattern: Text,
        cleared: Cleared,
        path: WorkspacePath = ".",  # noqa: ARG002 — opened as it was judged
    ) -> Output:
        """Find files and folders below a folder by a glob pattern.

        `*` and `?` stay within a name, `**` crosses folders, `{a,b}` is either. A pattern without a
        slash matches names at any depth. What is in .git, node_modules and the like is left out.
        """
        found = _Found.below(cleared, self)
        await trio.to_thread.run_sync(found.names, glob_pattern(pattern))
        return found.output("path")

    async def grep(
        self,
        pattern: Text,
        cleared: Cleared,
        path: WorkspacePath = ".",  # noqa: ARG002 — opened as it was judged
    ) -> Output:
        """Find lines that match a regular expression (RE2 syntax), in a file or all files of a folder.

        Returns `file:line: text`. Begin the pattern with (?i) to ignore case. Binary files and what is
        in .git, node_modules and the like are left out.
        """
        found = _Found.below(cleared, self)
        await trio.to_thread.run_sync(found.lines, line_pattern(pattern))
        return found.output("line")


def line_pattern(pattern: str) -> Any:
    """Return a compiled expression that matches within single lines of bytes.

    Raises:
        InvalidParameters: RE2 does not understand it; the message says why.
    """
    try:
        return linear_pattern(f"(?m){pattern}", within_lines=True)
    except BadPattern as error:
        raise InvalidParameters(str(error)) from error


@dataclass(slots=True)
class _Found:
    """What a search has found by now; blocking, meant for a thread."""

    tool: str
    place: Place
    tree: Tree
    search: Search
    results: list[str] = field(default_factory=list)
    secret: int = 0
    held_back: int = 0
    unread: int = 0

    @classmethod
    def below(cls, cleared: Cleared, search: Search) -> _Found:
        place = cleared.place("/path")
        return cls(cleared.action.call.tool, place, Tree(place.real), search)

    def names(self, wanted: Any) -> None:
        with failure("searching the folder"), closing(self.tree.entries()) as entries:
            for entry in entries:
                shown = shown_name(entry.relative)
                if wanted.fullmatch(shown) and not self._is_held_back(entry):
                    self.results.append(shown + ("/" if entry.is_folder else ""))
                if self.full:
                    return

    def lines(self, wanted: Any) -> None:
        with failure("searching the files"), closing(self.tree.entries()) as entries:
            for entry in entries:
                if entry.is_file and not self._is_held_back(entry):
                    self._file(entry, wanted)
                if self.full:
                    return

    def _is_held_back(self, entry: Entry) -> bool:
        is_root = entry.path == self.place.real
        text = self.place.text if is_root else f"{self.place.text.rstrip('/')}/{entry.relative}"
        is_held_back = self.search.is_held_back(self.tool, self.place, Place(text, entry.path))
        self.held_back += is_held_back
        return is_held_back

    def _file(self, entry: Entry, wanted: Any) -> None:
        if self.search.is_secret(entry.path):
            self.secret += 1
            return
        try:
            with os.fdopen(entry.folder.open_file(entry.name), "rb") as file:
                for number, line in _matches(file, wanted):
                    self.results.append(f"{shown_name(entry.relative)}:{number}: {_shown(line)}")
                    if self.full:
                        return
        except (OSError, ToolError):
            # It went away, became something else, or may not be read.
            self.unread += 1

    @property
    def full(self) -> bool:
        return len(self.results) > self.search.max_results

    def output(self, unit: str) -> Output:
        notices = []
        if self.full:
            notices.append(f"stopped after {self.search.max_results} matches; narrow the pattern or the path")
        if not self.results:
            notices.append(f"no {unit} matches, among {self.tree.seen} names")
        if self.secret:
            notices.append(f"{self.secret} files were left out because they hold secrets")
        if self.held_back:
            notices.append(f"{self.held_back} names were left out by a permission rule")
        if self.unread or self.tree.unread:
            notices.append(f"{self.unread} files and {self.tree.unread} folders could not be opened")
        return Output("\n".join(self.results[: self.search.max_results]), notices=tuple(notices))


def _matches(file: BinaryIO, wanted: Any) -> Iterator[tuple[int, bytes]]:
    """Yield number (from 1) and text of each line that matches; of a binary file, none."""
    number = 1
    for lines in _blocks(file):
        yield from _in_block(lines, wanted, number)
        number += lines.count(b"\n")


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    """Yield the file in blocks of whole lines; only a line beyond all measure is cut."""
    rest = b""
    while block := file.read(_BLOCK):
        trio.from_thread.check_cancelled()
        if not rest and file.tell() == len(block) and is_binary(block[:_SNIFFED]):
            return
        rest += block
        end = rest.rfind(b"\n") + 1
        if not end and len(rest) >= _LONGEST_LINE:
            end = len(rest)
        yield rest[:end].replace(b"\r\n", b"\n")
        rest = rest[end:]
    yield rest


def _in_block(block: bytes, wanted: Any, number: int) -> Iterator[tuple[int, bytes]]:
    position = 0
    while position < len(block) and (match := wanted.search(block, position)):
        start = block.rfind(b"\n", position, match.start()) + 1 or position
        if start == len(block):
            return
        end = block.find(b"\n", match.start())
        end = end if end >= 0 else len(block)
        number += block.count(b"\n", position, start)
        yield number, block[start:end]
        number += 1
        position = end + 1


def _shown(line: bytes) -> str:
    text = line[: 4 * _SHOWN].decode("utf-8", "replace")
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
