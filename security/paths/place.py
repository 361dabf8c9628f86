"""Values that describe a path: its text, its resolved target, its state on disk, and a preview of changes.

Reading a call fills in the text, the surveyor the target and the state, a tool's own `preview` the
change it would make.
"""

from __future__ import annotations

from dataclasses import field

from ..lazy import dataclass

__all__ = ["FileState", "Preview", "ResolvedPath"]


@dataclass(frozen=True, slots=True)
class FileState:
    """The state of a path when a call was looked up; two are equal unless something that matters changed.

    `kind` is in words ("a file", "a folder"), "" where there was nothing. `mark` is the SHA-256 (hex) of
    a file's content, or of one that is too large for that what tells it from others. `identity` is its
    device, inode, size in bytes and time of change, `content` what it held if that is not too much.
    """

    kind: str = ""
    mark: str = ""
    identity: tuple[int, ...] = field(default=(), compare=False)
    content: bytes | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ResolvedPath:
    """A path as it was read and as it lies on disk, both absolute.

    `text` is normalised without looking; `real` has every link resolved. `escaped` tells that a
    relative spelling climbed out of the workspace. `state` is its state then, looked up only for
    tools that show what they would change: their verdict rests on it. As text, and to whatever opens a path,
    it is `real`: what was judged.
    """

    text: str
    real: str
    escaped: bool = False
    state: FileState | None = None

    def __str__(self) -> str:
        return self.real

    def __fspath__(self) -> str:
        return self.real


@dataclass(frozen=True, slots=True)
class Preview:
    """What a call would change, to show a person before they answer.

    `name` is the heading of the text; it must not be the name of an argument. The arguments in `instead_of`
    are not shown beside it.
    """

    name: str
    text: str
    instead_of: tuple[str, ...] = ()
