"""The tools `write`, `edit` and `multi_edit`.

What a change makes of a file is computed in `edits.py`; `atomic.py` gets it onto the disk. A person who is
asked is shown the diff, made from the content that the verdict rests on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial
from typing import Annotated, Any, ClassVar

import trio
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from leeward.security.call import Action, ToolExecutor
from leeward.security.kinds import Effect
from leeward.security.lazy import dataclass
from leeward.security.outcome import Output, PermanentFailure, ToolError
from leeward.security.paths import Preview, ResolvedPath
from leeward.security.text import mark_in
from leeward.security.trust import Origin

from ..declare import Text, WorkspacePath, tool
from .atomic import Change, Replaced, ReplaceTarget, replace_file
from .diff import unified
from .edits import Edit, edited, written
from .encoding import is_utf8
from .freshness import FileVersions, content_mark
from .guard import Guard, file_identity
from .handles import failure, shown_name

__all__ = ["WriteTools"]

_STALE = "the file was changed since it was read in this session; read it again before it is written over"
_MOST_EDITS = 100


def _unmarked(text: str) -> str:
    why = mark_in(text)
    if why is not None:
        raise PydanticCustomError("mark", "{why}; leave that passage of the file as it is", {"why": why})
    return text


Content = Annotated[Text, AfterValidator(_unmarked)]
"""Text for a file: without masks and fences, which would overwrite what they hide."""

_All = Annotated[bool, Field(description="replace every occurrence, not the only one")]


class Replacement(BaseModel):
    """One passage and its replacement."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    old_string: Content
    new_string: Content
    replace_all: _All = False

    @property
    def edit(self) -> Edit:
        """Return it as `edits.py` takes it."""
        return Edit(self.old_string, self.new_string, self.replace_all)


@dataclass(frozen=True, slots=True)
class WriteTools:
    """What may be touched, what was seen of files, and how much of one is edited at once (bytes)."""

    guard: Guard
    seen: FileVersions = field(default_factory=FileVersions)
    max_edit: int = 16 * 1024 * 1024

    def tools(self) -> list[ToolExecutor]:
        """Return the three tools."""
        both = Effect.READ | Effect.WRITE
        return [
            tool(effects=Effect.WRITE, preview=self._preview_write)(self.write),
            tool(effects=both, preview=partial(self._preview_edits, _single))(self.edit),
            tool(effects=both, preview=partial(self._preview_edits, _several))(self.multi_edit),
        ]

    async def write(self, path: WorkspacePath, content: Content) -> Output:
        """Write a file: create it, with the folders missing above it, or replace all it holds.

        Line ends and encoding of a file that is replaced are kept.
        """

        def change(found: ReplaceTarget | None) -> bytes:
            if found is not None and self.seen.is_stale(path.real, file_identity(found.status), found.mark):
                raise PermanentFailure(_STALE)
            return written(None if found is None else found.content, content)

        made = await self._replaced("writing the file", path, change, self.guard.policy.workspace)
        return Output(f"wrote {len(made.content)} bytes to {shown_name(path.text)}", Origin.TOOL)

    async def edit(
        self,
        path: WorkspacePath,
        old_string: Content,
        new_string: Content,
        replace_all: _All = False,
    ) -> Output:
        """Replace one passage of a file.

        `old_string` must be the exact text of the file, white space included, and occur in it exactly
        once; add lines around it until it does, or set `replace_all`.
        """
        return await self._edit(path, [Edit(old_string, new_string, replace_all)])

    async def multi_edit(
        self,
        path: WorkspacePath,
        edits: Annotated[list[Replacement], Field(min_length=1, max_length=_MOST_EDITS)],
    ) -> Output:
        """Replace several passages of a file, one after the other: all of them, or none if one fails.

        Each `old_string` is looked for in what the edits before it left, as `edit` does.
        """
        return await self._edit(path, [one.edit for one in edits])

    async def _edit(self, path: ResolvedPath, edits: Sequence[Edit]) -> Output:
        notes: list[str] = []

        def change(found: ReplaceTarget | None) -> bytes:
            result = edited(self._whole(found), edits)
            notes.extend(map(_place, result.lines, result.counts))
            return result.data

        await self._replaced("editing the file", path, change)
        return Output(f"edited {shown_name(path.text)} {', '.join(notes)}", Origin.TOOL)

    def _whole(self, found: ReplaceTarget | None) -> bytes:
        if found is None:
            raise PermanentFailure("there is no such file; use write to create it")
        self.guard.must_be_no_link(found.status)
        if found.status.st_size > self.max_edit:
            raise PermanentFailure(
                f"the file has {found.status.st_size} bytes; edit takes up to {self.max_edit}"
            )
        return found.content

    async def _replaced(
        self, doing: str, place: ResolvedPath, change: Change, below: str | None = None
    ) -> Replaced:
        def run() -> Replaced:
            with failure(doing):
                return replace_file(place, change, self.max_edit, below)

        made = await trio.to_thread.run_sync(run)
        self.seen.note(place.real, made.identity, content_mark(made.content))
        return made

    def _preview_write(self, action: Action) -> Preview | None:
        content = action.arguments["content"]
        return self._shown(action, ("content",), lambda before: written(before, str(content)))

    def _preview_edits(self, read: Callable[[object], list[Edit]], action: Action) -> Preview | None:
        edits = read(action.arguments)
        names = tuple(name for name in action.arguments if name != "path")

        def change(before: bytes | None) -> bytes:
            if before is None:
                raise PermanentFailure("there is no such file")
            return edited(before, edits).data

        return self._shown(action, names, change)

    def _shown(
        self, action: Action, names: tuple[str, ...], change: Callable[[bytes | None], bytes]
    ) -> Preview | None:
        """Return the difference a change makes to what was looked up, or why it would fail."""
        place = next(iter(action.places), None)
        if place is None or place.state is None or (place.state.kind and place.state.content is None):
            return None
        state = place.state
        if self.seen.is_stale(place.real, state.identity, state.mark):
            return Preview("would fail", _STALE)
        try:
            after = change(state.content)
        except ToolError as error:
            return Preview("would fail", str(error))
        name = "what changes" if state.content is None or is_utf8(state.content) else "what changes, roughly"
        return Preview(name, unified(state.content, after), names)


def _single(arguments: Any) -> list[Edit]:
    return [Edit(arguments["old_string"], arguments["new_string"], arguments["replace_all"])]


def _several(arguments: Any) -> list[Edit]:
    return [Edit(one["old_string"], one["new_string"], one["replace_all"]) for one in arguments["edits"]]


def _place(line: int, count: int) -> str:
    return f"at line {line}" if count == 1 else f"at {count} places from line {line}"
