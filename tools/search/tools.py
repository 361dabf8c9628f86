"""The tools `find_path` and `grep`.

Patterns come from a model, so they run in linear time (RE2). `walk.py` walks a folder, `grep.py` searches a
file, and the guard says what may not be searched.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import closing
from dataclasses import field
from typing import Annotated

import trio
from pydantic import Field

from leeward.memory.patterns import LinearPattern
from leeward.security.call import Cleared, ToolExecutor
from leeward.security.kinds import Effect
from leeward.security.lazy import dataclass
from leeward.security.outcome import Output, ToolError
from leeward.security.paths import ResolvedPath

from ..declare import Text, WorkspacePath, tool
from ..files import Guard, HardLinks, failure, shown_name
from .glob import glob_pattern
from .grep import LinePattern
from .walk import Listing, Tree, WalkEntry

__all__ = ["Search"]

_SHOWN = 400

Folder = Annotated[WorkspacePath, Field(default=".")]
"""Where to search: the workspace, if a call does not say."""


@dataclass(frozen=True, slots=True)
class Search:
    """What may not be searched, and how many matches are returned."""

    guard: Guard
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
        path: Folder,
    ) -> Output:
        """Find files and folders below a folder by a glob pattern.

        `*` and `?` stay within a name, `**` crosses folders, `{a,b}` is either. A pattern without a
        slash matches names at any depth. What is in .git, node_modules and the like is left out.
        """
        found = _Found(cleared.action.call.tool, path, Tree(path.real), self)
        await trio.to_thread.run_sync(found.names, glob_pattern(pattern))
        return found.output("path")

    async def grep(
        self,
        pattern: Text,
        cleared: Cleared,
        path: Folder,
        include_ignored: Annotated[bool, Field(description="search what .gitignore leaves out, too")] = False,
    ) -> Output:
        """Find lines that match a regular expression (RE2 syntax), in a file or all files of a folder.

        Returns `file:line: text`. Begin the pattern with (?i) to ignore case. Binary files, what
        .gitignore names, and what is in .git, node_modules and the like are left out.
        """
        tree = Tree(path.real, ignoring=None if include_ignored else self.guard.policy.workspace)
        found = _Found(cleared.action.call.tool, path, tree, self)
        await trio.to_thread.run_sync(found.lines, LinePattern.of(pattern))
        return found.output("line")


@dataclass(slots=True)
class _Found:
    """What a search has found by now; blocking, meant for a thread."""

    tool: str
    place: ResolvedPath
    tree: Tree
    search: Search
    results: list[str] = field(default_factory=list)
    secret: int = 0
    held_back: int = 0
    unread: int = 0

    def names(self, wanted: LinearPattern) -> None:
        with failure("searching the folder"), closing(self._entries()) as entries:
            for listing, entry in entries:
                shown = shown_name(listing.relative + entry.name)
                is_meant = wanted.fullmatch(shown) and not self._is_held_back(listing, entry)
                if is_meant and self.search.guard.secret(listing.path.rstrip("/")) is not None:
                    # What `list_directory` does not list is found by nobody else either.
                    self.secret += 1
                elif is_meant:
                    self.results.append(shown + ("/" if entry.is_folder else ""))
                if self.full:
                    return

    def lines(self, wanted: LinePattern) -> None:
        links = HardLinks(self.search.guard)
        with failure("searching the files"), closing(self._entries()) as entries:
            for listing, entry in entries:
                if entry.is_file and not self._is_held_back(listing, entry):
                    self._file(listing, entry, wanted, links)
                if self.full:
                    return

    def _entries(self) -> Generator[tuple[Listing, WalkEntry]]:
        with closing(self.tree.listings()) as listings:
            for listing in listings:
                for entry in listing.entries:
                    yield listing, entry

    def _is_held_back(self, listing: Listing, entry: WalkEntry) -> bool:
        guard = self.search.guard
        if not guard.has_rules:
            return False
        path = listing.path + entry.name
        is_root = path == self.place.real
        text = self.place.text if is_root else f"{self.place.text.rstrip('/')}/{listing.relative}{entry.name}"
        is_held_back = guard.is_held_back(self.tool, self.place, ResolvedPath(text, path))
        self.held_back += is_held_back
        return is_held_back

    def _file(self, listing: Listing, entry: WalkEntry, wanted: LinePattern, links: HardLinks) -> None:
        if self.search.guard.secret(listing.path + entry.name) is not None:
            self.secret += 1
            return
        try:
            descriptor = listing.folder.open_known_file(entry.name)
        except (OSError, ToolError):
            # It went away, became something else, or may not be read.
            self.unread += 1
            return
        try:
            if links.is_secret(os.fstat(descriptor)):
                self.secret += 1
                return
            for number, line in wanted.lines_of(descriptor):
                self.results.append(f"{shown_name(listing.relative + entry.name)}:{number}: {_shown(line)}")
                if self.full:
                    return
        except OSError:
            self.unread += 1
        finally:
            os.close(descriptor)

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
        if self.tree.ignored:
            notices.append(
                f"{self.tree.ignored} names were left out by .gitignore; include_ignored searches them"
            )
        if self.unread or self.tree.unread:
            notices.append(f"{self.unread} files and {self.tree.unread} folders could not be opened")
        return Output("\n".join(self.results[: self.search.max_results]), notices=tuple(notices))


def _shown(line: bytes) -> str:
    text = line[: 4 * _SHOWN].decode("utf-8", "replace")
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
