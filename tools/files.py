"""The tools `read`, `write`, `edit` and `list_directory`: one file or folder at a time.

Whether a path may be opened was judged (`gates/paths.py`); `beneath.py` sees to it that it is the one
opened, and `replace.py` that a file is never half written. Blocking work happens in a thread, in
pieces that can be cancelled between.
"""

from __future__ import annotations

import codecs
import mimetypes
import os
import stat
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, BinaryIO

import trio
from pydantic import Field

from leeward.security import (
    Cleared,
    Effect,
    InvalidParameters,
    Origin,
    Output,
    Place,
    ToolExecutor,
)

from .beneath import failure, open_folder, opened_parent, shown_name
from .declare import tool
from .kinds import Text, WorkspacePath
from .replace import edit_file, write_file

__all__ = ["Files", "is_binary"]

_BLOCK = 1024 * 1024
_SNIFFED = 8192
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_ENTRIES = 2_000
_ENTRIES_SEEN = 100_000

# As `ls -F` marks them.
_MARKS = {stat.S_IFDIR: "/", stat.S_IFLNK: "@", stat.S_IFIFO: "|", stat.S_IFSOCK: "="}


@dataclass(frozen=True, slots=True)
class Files:
    """Where files are written freely, and how much of one is read or edited at once (bytes)."""

    workspace: str
    max_read: int = 1024 * 1024
    max_edit: int = 16 * 1024 * 1024

    def tools(self) -> list[ToolExecutor]:
        """Return the four tools."""
        return [
            tool(effects=Effect.READ, idempotent=True)(self.read),
            tool(effects=Effect.WRITE)(self.write),
            tool(effects=Effect.READ | Effect.WRITE)(self.edit),
            tool(effects=Effect.READ, idempotent=True)(self.list_directory),
        ]

    async def read(
        self,
        path: WorkspacePath,  # noqa: ARG002 — opened as it was judged
        cleared: Cleared,
        offset: Annotated[int, Field(ge=0, description="first line to return, counted from 1")] = 1,
        limit: Annotated[int, Field(ge=1, le=1_000_000, description="how many lines to return")] = 2000,
    ) -> Output:
        """Read a text file of the workspace, by lines.

        Returns the text as it is, without line numbers. Binary files are not returned; their type and
        size are told instead.
        """
        place = cleared.place("/path")
        window = _Window(max(offset, 1), limit, self.max_read)
        return await trio.to_thread.run_sync(_read, place, window)

    async def write(
        self,
        path: WorkspacePath,  # noqa: ARG002 — opened as it was judged
        content: Text,
        cleared: Cleared,
    ) -> Output:
        """Write a file: create it, with the folders missing above it, or replace all it holds."""
        place = cleared.place("/path")
        data = _encoded(content, "content")
        await trio.to_thread.run_sync(write_file, place.real, data, self.workspace)
        return Output(f"wrote {len(data)} bytes to {shown_name(place.text)}", Origin.TOOL)

    async def edit(
        self,
        path: WorkspacePath,  # noqa: ARG002 — opened as it was judged
        old_string: Text,
        new_string: Text,
        cleared: Cleared,
    ) -> Output:
        """Replace one passage of a file.

        `old_string` must be the exact text of the file, white space included, and occur in it exactly
        once; add lines around it until it does.
        """
        place = cleared.place("/path")
        old, new = _encoded(old_string, "old_string"), _encoded(new_string, "new_string")
        if not old:
            raise InvalidParameters("old_string is empty; use write to fill a file")
        if old == new:
            raise InvalidParameters("old_string and new_string are the same, so nothing would change")
        line = await trio.to_thread.run_sync(edit_file, place.real, old, new, self.max_edit)
        return Output(f"edited {shown_name(place.text)} at line {line}", Origin.TOOL)

    async def list_directory(
        self,
        cleared: Cleared,
        path: WorkspacePath = ".",  # noqa: ARG002 — opened as it was judged
    ) -> Output:
        """List a folder, a name per line: folders end in /, links in @."""
        return await trio.to_thread.run_sync(_list, cleared.place("/path"))


@dataclass(frozen=True, slots=True)
class _Window:
    """Which lines are wanted (`first` counts from 1) and how many bytes at most."""

    first: int
    lines: int
    size: int


def is_binary(head: bytes) -> bool:
    """Whether a file that begins so is no text: text has no NUL in it."""
    return b"\0" in head


def _read(place: Place, window: _Window) -> Output:
    with (
        failure("reading the file"),
        opened_parent(place.real) as (folder, name),
        os.fdopen(folder.open_file(name), "rb") as file,
    ):
        size = os.fstat(file.fileno()).st_size
        head = file.peek(_SNIFFED)[:_SNIFFED]
        if head.startswith(_UTF16):
            return Output(f"[text in UTF-16, {size} bytes; convert it to UTF-8 to read it]")
        if is_binary(head):
            guess = mimetypes.guess_type(name, strict=False)[0] or "type unknown"
            return Output(f"[binary file: {guess}, {size} bytes]")
        return _text(file, window)


def _text(file: BinaryIO, window: _Window) -> Output:
    if not _skip(file, window.first - 1):
        return Output("", notices=(f"line {window.first} is past the end of the file",))
    data, lines = _take(file, window)
    if not data and window.first == 1:
        return Output("", notices=("the file is empty",))
    if not data:
        return Output("", notices=(f"line {window.first} is past the end of the file",))
    notices = []
    more = bool(file.read(1))
    if more and not data.endswith(b"\n"):
        whole = data.rfind(b"\n") + 1
        if whole:
            data = data[:whole]
        else:
            notices.append(f"line {window.first} is longer than {window.size} bytes; its rest is left out")
            lines = 1
    if more:
        last = window.first + lines - 1
        notices.append(f"lines {window.first} to {last}; more follows, go on with offset={last + 1}")
    text, lost = _decoded(data, whole=not more)
    if lost:
        notices.append(f"not UTF-8: what stands at {lost} places is shown as U+FFFD")
    return Output(text, notices=tuple(notices))


def _skip(file: BinaryIO, lines: int) -> bool:
    """Move behind so many lines, a block at a time; False where the file has fewer."""
    while lines:
        trio.from_thread.check_cancelled()
        block = file.read(_BLOCK)
        if not block:
            return False
        found = block.count(b"\n")
        if found < lines:
            lines -= found
            continue
        position = -1
        for _ in range(lines):
            position = block.index(b"\n", position + 1)
        file.seek(position + 1 - len(block), os.SEEK_CUR)
        return True
    return True


def _take(file: BinaryIO, window: _Window) -> tuple[bytes, int]:
    """Read the wanted lines as far as they fit; returns them and how many of them are whole."""
    parts: list[bytes] = []
    room, lines = window.size, 0
    while lines < window.lines and room:
        line = file.readline(room)
        if not line:
            break
        parts.append(line)
        room -= len(line)
        lines += line.endswith(b"\n")
    return b"".join(parts), lines


def _decoded(data: bytes, *, whole: bool) -> tuple[str, int]:
    """Return the text and at how many places it was no UTF-8; a last character may be cut unless `whole`."""
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(data, final=whole)
    return text, text.count("\N{REPLACEMENT CHARACTER}") - data.count("\N{REPLACEMENT CHARACTER}".encode())


def _encoded(text: str, name: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidParameters(f"{name} holds half of a surrogate pair, which no file can hold") from None


def _list(place: Place) -> Output:
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
