"""Classify the files of a git repository, and parse the small ones (references, logs) strictly.

A file that is not known here has no description, and so is never kept. A name that another file system
takes for a known one is not known either.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import TypeAlias

from ..lazy import regex

__all__ = [
    "REPOSITORY_PARTS",
    "Logged",
    "OddRefs",
    "Part",
    "denied_because",
    "is_ref_name",
    "is_stored",
    "logged",
    "packed_refs",
    "part_of",
    "ref_kind",
    "ref_value",
]


class Part(Enum):
    """What a path in a repository is to git.

    `CACHE` is what git makes anew from the rest, `LEFTOVER` what a git that was stopped left behind; neither
    is kept. `STEPS` says what git does next, programs to run among it, and may only go. `TEMPLATE` does
    nothing by itself, and belongs to a new repository.
    """

    FOLDER = auto()
    HEAD = auto()
    INDEX = auto()
    CONFIG = auto()
    PACKED_REFS = auto()
    REF = auto()
    POINTER = auto()
    FETCHED = auto()
    MESSAGE = auto()
    LOG = auto()
    LOOSE_OBJECT = auto()
    PACK = auto()
    CACHE = auto()
    MULTI_PACK_INDEX = auto()
    LEFTOVER = auto()
    STEPS = auto()
    TEMPLATE = auto()
    SHALLOW = auto()
    DENIED = auto()


_OID = r"(?:[0-9a-f]{40}|[0-9a-f]{64})"
_PARTS = (
    (Part.HEAD, r"HEAD"),
    (Part.INDEX, r"index"),
    (Part.CONFIG, r"config"),
    (Part.PACKED_REFS, r"packed-refs"),
    (Part.POINTER, r"(?:ORIG|MERGE|CHERRY_PICK|REVERT|REBASE)_HEAD|AUTO_MERGE|MERGE_AUTOSTASH"),
    (Part.FETCHED, r"FETCH_HEAD"),
    (Part.MESSAGE, r"(?:COMMIT_EDIT|MERGE_|SQUASH_|TAG_EDIT)MSG|MERGE_MODE"),
    (Part.LEFTOVER, r"(?:HEAD|index|config|packed-refs|ORIG_HEAD)\.lock|gc\.(?:pid|log)(?:\.lock)?"),
    (Part.LEFTOVER, r"(?:refs|logs)/(?:.+/)?[^/]+\.lock|objects/(?:.+/)?\.?tmp[-_][^/]*"),
    (Part.FOLDER, r"|objects|objects/[0-9a-f]{2}|objects/pack|objects/info|refs|logs|info"),
    (Part.LOOSE_OBJECT, r"objects/[0-9a-f]{2}/(?:[0-9a-f]{38}|[0-9a-f]{62})"),
    (Part.PACK, rf"objects/pack/pack-{_OID}\.(?:pack|idx)"),
    (Part.CACHE, rf"objects/pack/pack-{_OID}\.(?:rev|bitmap|mtimes)|objects/info/packs|info/refs"),
    (Part.CACHE, r"objects/info/commit-graph|objects/info/commit-graphs(?:/.*)?"),
    (Part.MULTI_PACK_INDEX, r"objects/pack/multi-pack-index[^/]*"),
    (Part.STEPS, r"(?:rebase-merge|rebase-apply|sequencer)(?:/.*)?|BISECT_[A-Z_]+"),
    (Part.TEMPLATE, r"description|branches|info/exclude|hooks|hooks/[\w-]+\.sample"),
    (Part.REF, r"refs/.+"),
    (Part.LOG, r"logs/.+"),
    (Part.SHALLOW, r"shallow"),
)
_NOT_STORED = frozenset({Part.DENIED, Part.LEFTOVER, Part.MULTI_PACK_INDEX})
_COMPILED = tuple((part, regex(pattern, re.DOTALL)) for part, pattern in _PARTS)

REPOSITORY_PARTS = frozenset(
    "head index config packed-refs orig_head merge_head fetch_head objects refs logs hooks info modules "
    "worktrees commondir gitdir config.worktree branches remotes description shallow rebase-merge "
    "rebase-apply sequencer rr-cache lfs annex".split()
)
"""What git looks for in a folder that it takes for a repository, whatever else lies there; in lower case."""

_REASONS = (
    (r"hooks(?:/.*)?", "git runs it"),
    (r"info(?:/.*)?|objects/info/.*", "git obeys it"),
    (r"config.*", "it holds settings that no trial run changes"),
    (r"modules(?:/.*)?", "it is the repository of a submodule"),
    (r"worktrees(?:/.*)?", "it is that of a further working tree"),
    (r"commondir|gitdir", "it leads git elsewhere"),
    (r"refs/replace(?:/.*)?", "it changes what objects mean"),
    (r"shallow(?:\.lock)?", "it cuts the history off"),
)
_DENYING = tuple((regex(pattern, re.DOTALL | re.IGNORECASE), why) for pattern, why in _REASONS)


def part_of(rest: str) -> Part:
    """Return what a path is, relative to the repository's own folder, "" for that itself."""
    if re.fullmatch(r"(?:logs/)?refs/replace(?:/.*)?", rest, re.DOTALL | re.IGNORECASE):
        return Part.DENIED
    return next((part for part, pattern in _COMPILED if pattern.fullmatch(rest)), Part.DENIED)


def denied_because(rest: str) -> str:
    """Say why a path in a repository is not kept."""
    found = (why for pattern, why in _DENYING if pattern.fullmatch(rest))
    return next(found, "it is nothing that git is known to write there")


Logged: TypeAlias = tuple[str, str, str]
"""A line of a log: what a reference held, what it held then, and the message."""


def is_stored(path: str) -> bool:
    """Whether a path is something that git keeps in a `.git`, and neither runs nor is led by."""
    _, mark, rest = f"{path}/".partition("/.git/")
    return bool(mark) and part_of(rest.rstrip("/")) not in _NOT_STORED


class OddRefs(ValueError):
    """What is read is no list of references, and no log, as git writes it; the message says what is odd."""


_VALUE = regex(rf"(?:({_OID})|ref: ([^\n]+))\n")
# What `git check-ref-format` refuses.
_ODD_NAME = regex(
    r"(?s).*(?:[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?:/|$)|\.$|/$)|(?!refs/.)|refs/$"
)
_PACKED = regex(rf"({_OID}) ([^\n]+)\n(?:\^({_OID})\n)?")
_TRAITS = regex(r"# pack-refs with:((?: [a-z-]+)*) ?\n")
_LOGGED = regex(rf"({_OID}) ({_OID}) [^\n<]*<[^\n>]*> [0-9]{{1,20}} [+-][0-9]{{4,5}}(?:\t([^\n]*))?\n")

_KINDS = {
    "heads": "branch {}",
    "tags": "tag {}",
    "remotes": "remote-tracking branch {}",
    "notes": "notes {}",
    "stash": "the stash",
}


def is_ref_name(name: str) -> bool:
    """Whether git takes a name for that of a reference."""
    return len(name) < 1_000 and _ODD_NAME.match(name) is None and name.isprintable()


def ref_kind(name: str) -> str:
    """Return the usual name of a reference."""
    folder, _, rest = name.removeprefix("refs/").partition("/")
    return _KINDS.get(folder, "ref {}").format(rest if folder in _KINDS else name)


def ref_value(content: bytes) -> str:
    """Return the hash that a reference holds, or the name (`refs/…`) of the one that it refers to.

    Raises:
        OddRefs: it holds something else.
    """
    found = _VALUE.fullmatch(_text(content))
    if found is None or (found[2] and not is_ref_name(found[2])):
        raise OddRefs("it holds no hash and no name of a reference")
    return found[1] or found[2]


def packed_refs(content: bytes) -> dict[str, tuple[str, str | None]]:
    """Return what each packed reference holds, and the object that a tag leads to by this file.

    Raises:
        OddRefs: git would read something else, or nothing.
    """
    text = _text(content)
    head = _TRAITS.match(text)
    at = head.end() if head else 0
    found: dict[str, tuple[str, str | None]] = {}
    while at < len(text):
        line = _PACKED.match(text, at)
        if line is None or not is_ref_name(line[2]) or line[2] in found:
            raise OddRefs("it holds a line that is no reference")
        found[line[2]] = (line[1], line[3])
        at = line.end()
    names = [name.encode("utf-8", "surrogateescape") for name in found]
    if head and "sorted" in head[1].split() and names != sorted(names):
        raise OddRefs("its references are not in order, so that git would not find some")
    return found


def logged(content: bytes) -> list[Logged]:
    """Return from what to what a reference was moved, and why, for each line of its log.

    Raises:
        OddRefs: a line is none that git writes.
    """
    text, at, found = content.decode("utf-8", "surrogateescape"), 0, []
    while at < len(text):
        line = _LOGGED.match(text, at)
        if line is None:
            raise OddRefs("it holds a line that git does not write")
        found.append((line[1], line[2], line[3] or ""))
        at = line.end()
    return found


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise OddRefs("it is not UTF-8") from error
