"""The tools `read` and `list_directory`.

Whether a path may be opened was judged before (`security/gates/paths.py`); `handles.py` ensures that what is
opened is what was judged. Blocking work runs in a thread, in pieces that can be cancelled in between.
"""

from __future__ import annotations

import mimetypes
import os
import stat
from collections.abc import Iterator
from dataclasses import field
from itertools import chain, islice
from typing import Annotated

import trio
from pydantic import Field

from leeward.security.call import ToolExecutor
from leeward.security.kinds import Effect
from leeward.security.lazy import dataclass
from leeward.security.outcome import Output, Picture
from leeward.security.paths import ResolvedPath

from ..declare import WorkspacePath, tool
from .encoding import encoding_of, is_binary, picture_type
from .freshness import FileVersions, content_mark
from .guard import Guard, file_identity
from .handles import failure, open_folder, opened_parent, shown_name
from .lines import Window, blocks, in_window

__all__ = ["Files"]

_SNIFFED = 8192
_LARGEST_PICTURE = 3_750_000  # bytes; in base64 the 5 MB that services take
_TOO_LARGE = "over 3.75 MB, a picture cannot be attached to a message"
_ENTRIES = 2_000
_ENTRIES_SEEN = 100_000

# As `ls -F` marks them.
_MARKS = {stat.S_IFDIR: "/", stat.S_IFLNK: "@", stat.S_IFIFO: "|", stat.S_IFSOCK: "="}


@dataclass(frozen=True, slots=True)
class Files:
    """What may not be read under any name, what was read so far, and how much is read at once (bytes)."""

    guard: Guard
    seen: FileVersions = field(default_factory=FileVersions)
    max_read: int = 1024 * 1024

    def tools(self) -> list[ToolExecutor]:
        """Return the two tools."""
        return [
            tool(effects=Effect.READ, idempotent=True)(self.read),
            tool(effects=Effect.READ, idempotent=True)(self.list_directory),
        ]

    async def read(
        self,
        path: WorkspacePath,
        offset: Annotated[int, Field(ge=0, description="first line to return, counted from 1")] = 1,
        limit: Annotated[int, Field(ge=1, le=1_000_000, description="how many lines to return")] = 2000,
        line_numbers: Annotated[bool, Field(description="put its number before each line")] = False,
    ) -> Output:
        """Read a text file of the workspace, by lines.

        Returns the text as it is; numbers before the lines are no part of it. Binary files are not
        returned; their type and size are given instead.
        """
        window = Window(max(offset, 1), limit, self.max_read, line_numbers)
        return await trio.to_thread.run_sync(self._read, path, window)

    async def list_directory(self, path: Annotated[WorkspacePath, Field(default=".")]) -> Output:
        """List a folder, a name per line: folders end in /, links in @."""
        return await trio.to_thread.run_sync(_list, path)

    def _read(self, place: ResolvedPath, window: Window) -> Output:
        with failure("reading the file"), opened_parent(place.real) as (folder, name):
            descriptor = folder.open_file(name)
            try:
                found = os.fstat(descriptor)
                self.guard.must_be_no_link(found)
                output = _text_of(descriptor, name, found.st_size, window)
            finally:
                os.close(descriptor)
        is_whole = output.text and window.first == 1 and not output.notices and not window.numbered
        mark = content_mark(output.text.encode()) if is_whole else ""
        self.seen.note(place.real, file_identity(found), mark)
        return output


def _text_of(descriptor: int, name: str, size: int, window: Window) -> Output:
    parts = blocks(descriptor)
    first = next(parts, b"")
    head = first[:_SNIFFED]
    if is_binary(head):
        return _binary(chain((first,), parts), picture_type(head), name, size)
    encoding = encoding_of(head)
    # The mark of UTF-8 is an ordinary character of the text; another encoding is put into that first.
    start = first if encoding.name == "utf-8" else first[len(encoding.mark) :]
    return in_window(chain((start,) if start else (), parts), encoding, window)


def _binary(parts: Iterator[bytes], picture: str | None, name: str, size: int) -> Output:
    """Return what a file is that is no text, and a picture that a model can take."""
    guess = picture or mimetypes.guess_type(name, strict=False)[0] or "type unknown"
    told = f"[binary file: {guess}, {size} bytes]"
    if picture is None:
        return Output(told)
    data = bytearray()
    for part in parts:
        data += part
        if len(data) > _LARGEST_PICTURE:
            return Output(told, notices=(_TOO_LARGE,))
    return Output(told, picture=Picture(picture, bytes(data)))


def _list(place: ResolvedPath) -> Output:
    with failure("listing the folder"), open_folder(place.real) as folder, folder.entries() as entries:
        names = [shown_name(entry.name) + _mark(entry) for entry in islice(entries, _ENTRIES_SEEN)]
    names.sort()
    notices: tuple[str, ...] = ()
    if len(names) > _ENTRIES:
        notices = (f"the first {_ENTRIES} of {len(names)} names; find_path finds the others",)
    elif not names:
        notices = ("the folder is empty",)
    return Output("\n".join(names[:_ENTRIES]), notices=notices)


def _mark(entry: os.DirEntry[str]) -> str:
    try:
        return _MARKS.get(stat.S_IFMT(entry.stat(follow_symlinks=False).st_mode), "")
    except OSError:
        # It went away meanwhile, or only its name may be known.
        return ""
