"""Detect changes a program made to files that git or Leeward would execute, and choose those to undo.

Git runs hooks and whatever its settings name; Leeward reads `.leeward`. A sandbox cannot mask a path
that does not exist yet, so the tree is compared before and after. Pure: `tools/sandbox/scan.py` reads
the tree and undoes. An ordinary `git init`, `git clone` or `git worktree add` is not undone.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from enum import Enum, auto

from ..lazy import dataclass, regex
from ..paths import is_inside
from .git_settings import ODD_SETTING, PLAIN_SETTINGS, setting_names, settings_in

__all__ = [
    "HOOK_NAMES",
    "Mark",
    "MarkChange",
    "MarkKind",
    "Role",
    "changes_to_undo",
    "harmful_settings",
    "places_named",
]

# What everyday use writes down beside the plain settings names no program and no other folder, either.
_HARMLESS = regex(
    PLAIN_SETTINGS + r"|core\.(?:abbrev|longpaths|compression|untrackedcache|preloadindex|whitespace"
    r"|sharedrepository|sparsecheckout|sparsecheckoutcone|multipackindex|commitgraph)"
    r"|remote\..*\.(?:push|mirror)|extensions\.(?:objectformat|compatobjectformat|refstorage)"
    r"|submodule\..*\.(?:url|active|branch|path)|submodule\.active|merge\.(?:conflictstyle|ff)"
    r"|fetch\.parallel|receive\.denycurrentbranch|(?:gc|pack|index|feature|color|advice)\.[a-z.]+"
)
_BRINGS_IN = regex(r"include(?:if\..*)?\.path")
_GITFILE = regex(r"gitdir: ([^\0\r\n]+)\n?")
_KEPT_IN_GIT = ("modules", "worktrees")


HOOK_NAMES = tuple(
    "applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg commit-msg "
    "post-commit pre-rebase post-checkout post-merge pre-push pre-receive update proc-receive post-receive "
    "post-update reference-transaction push-to-checkout pre-auto-gc post-rewrite sendemail-validate "
    "fsmonitor-watchman p4-changelist p4-prepare-changelist p4-post-changelist p4-pre-submit "
    "post-index-change".split()
)
"""What git runs of a folder of hooks; anything else that lies there is nobody's business."""


class MarkKind(Enum):
    """The entry at a path."""

    FILE = auto()
    LINK = auto()
    FOLDER = auto()
    OTHER = auto()


class Role(Enum):
    """Who obeys it, and as what."""

    REPOSITORY = auto()
    SETTINGS = auto()
    HOOK = auto()
    COMMON_FOLDER = auto()
    OURS = auto()
    PROTECTED = auto()


@dataclass(frozen=True, slots=True)
class Mark:
    """The entry at a path at one time.

    `digest` tells contents (or a link's target) apart, `content` is them where they are small. `owner` is
    the repository it belongs to, "" for none; `is_inner` tells that a folder above it has a mark like it.
    """

    role: Role
    kind: MarkKind
    digest: str = ""
    mode: int = 0
    content: bytes | None = None
    owner: str = ""
    is_inner: bool = False


@dataclass(frozen=True, slots=True)
class MarkChange:
    """Something to undo: `before` is None where nothing was, `after` None where nothing is left."""

    path: str
    before: Mark | None
    after: Mark | None


def changes_to_undo(before: Mapping[str, Mark], after: Mapping[str, Mark]) -> tuple[MarkChange, ...]:
    """Return what must not stay as it is, a folder before what it holds."""
    changes = []
    for path in sorted({*before, *after}):
        old, new = before.get(path), after.get(path)
        is_new = old is None and new is not None and not _may_appear(path, new, after)
        is_lost = old is not None and new is None and _is_missed(old, after)
        if is_new or is_lost or (old is not None and new is not None and _differs(old, new)):
            changes.append(MarkChange(path, old, new))
    return tuple(changes)


def harmful_settings(config: bytes) -> tuple[str, ...]:
    """Return the settings of a repository that may make git run something or work elsewhere, by name."""
    names = dict.fromkeys(setting_names(config.decode("utf-8", "replace")))
    return tuple(name for name in names if name is ODD_SETTING or not _HARMLESS.fullmatch(name))


def places_named(config: bytes) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the folders of hooks and the files with further settings that a repository's settings name."""
    settings = tuple(settings_in(config.decode("utf-8", "surrogateescape")))
    hooks = (value for name, value in settings if name == "core.hookspath")
    files = (value for name, value in settings if _BRINGS_IN.fullmatch(name))
    return tuple(filter(None, hooks)), tuple(filter(None, files))


def _may_appear(path: str, mark: Mark, after: Mapping[str, Mark]) -> bool:
    content = mark.content
    match mark.role, mark.kind:
        case (Role.REPOSITORY | Role.HOOK, MarkKind.FOLDER):
            return True
        case Role.REPOSITORY, MarkKind.FILE:
            return content is not None and _leads_into_repository(path, content, after)
        case Role.SETTINGS, MarkKind.FILE:
            return content is not None and not harmful_settings(content)
        case Role.COMMON_FOLDER, MarkKind.FILE:
            shared = posixpath.dirname(posixpath.dirname(mark.owner))
            return content is not None and content.strip() == b"../.." and shared in _repositories(after)
    return False


def _repositories(marks: Mapping[str, Mark]) -> tuple[str, ...]:
    """Return the folders that git takes for repositories; what it obeys of these is marked as well."""
    found = ((path, mark) for path, mark in marks.items() if mark.role is Role.REPOSITORY)
    return tuple(path for path, mark in found if mark.kind is MarkKind.FOLDER)


def _leads_into_repository(path: str, content: bytes, after: Mapping[str, Mark]) -> bool:
    """Whether a file in the place of a `.git` leads to a repository that another one keeps for its parts.

    That one must have been looked at. A path as git writes it climbs first of all, so behind no link.
    """
    found = _GITFILE.fullmatch(content.decode("utf-8", "surrogateescape"))
    if found is None or posixpath.normpath(found[1]) != found[1]:
        return False
    target = posixpath.normpath(posixpath.join(posixpath.dirname(path), found[1]))
    known = _repositories(after)
    kept = (f"{one}/{name}" for one in known for name in _KEPT_IN_GIT)
    return target in known and is_inside(target, *kept)


def _is_missed(mark: Mark, after: Mapping[str, Mark]) -> bool:
    """Whether something is gone from what is still there; a repository may be deleted as a whole."""
    return mark.role is not Role.REPOSITORY and (not mark.owner or mark.owner in after)


def _differs(old: Mark, new: Mark) -> bool:
    if old.kind is MarkKind.FOLDER and new.kind is MarkKind.FOLDER:
        return False
    return (old.kind, old.digest, old.mode) != (new.kind, new.digest, new.mode)
