"""Parse the index of a git repository strictly; anything git could read differently is an error.

An index holds more than entries: hashes of whole folders that git commits without looking again, and
offsets at which it reads the entries in parts. A forger of these has git commit something that no listing
shows, so all that git believes is held against the entries. What git itself does not write is refused.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import field

from ..lazy import dataclass, regex
from ..text import INVISIBLE

__all__ = ["Index", "IndexEntry", "OddIndex", "is_like_git", "read_index"]

_STATS = 40
_VALID, _EXTENDED, _STAGE, _LENGTH = 0x8000, 0x4000, 0x3000, 0x0FFF
_SKIPPED, _INTENDED = 0x4000, 0x2000
_FILE, _PROGRAM, _LINK, _MODULE, _TREE = 0o100644, 0o100755, 0o120000, 0o160000, 0o40000
_FLAGS = {_VALID: "assume-unchanged", _SKIPPED: "skip-worktree", _INTENDED: "intent-to-add"}
# Written at ease by git: what was in conflict, and what only says what has been looked at.
_ALLOWED = frozenset({b"TREE", b"REUC", b"EOIE", b"IEOT", b"UNTR", b"FSMN"})
_NODE = regex(rb"([^\0]*)\0(-?[0-9]{1,9}) ([0-9]{1,9})\n")
_DEEPEST, _MOST_BYTES = 128, 1 << 27
"""How deep a path lies at most, and how many bytes all paths have together: one may share with the last."""

_LIKE_GIT = regex(r"(?:\.git|git~[0-9])[ .]*(?::.*)?", re.DOTALL)


class OddIndex(ValueError):
    """What is read is no index as git writes it; the message says what is odd."""


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """What is staged for a path at a stage: mode, hash, and flags in git's words."""

    path: bytes
    stage: int
    mode: int
    oid: str
    flags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Index:
    """The entries by path and stage, and the names of what else it holds."""

    entries: dict[tuple[bytes, int], IndexEntry] = field(default_factory=dict)
    extensions: frozenset[bytes] = frozenset()


def is_like_git(name: str) -> bool:
    """Whether a name is `.git` itself, or some file system may take it for that."""
    plain = name if name.isascii() else unicodedata.normalize("NFKC", INVISIBLE.sub("", name))
    return _LIKE_GIT.fullmatch(plain.casefold()) is not None


def read_index(content: bytes, width: int = 20) -> Index:
    """Return what an index holds; `width` is the number of bytes of a hash.

    Raises:
        OddIndex: git does not write one like it.
    """
    reader = _Reader(content, width)
    try:
        entries = reader.entries()
        extensions = dict(reader.extensions())
    except (IndexError, UnicodeDecodeError) as error:
        raise OddIndex("it ends too early") from error
    by_key = {(entry.path, entry.stage): entry for entry in entries}
    if list(by_key) != sorted(by_key) or len(by_key) != len(entries):
        raise OddIndex("its entries are not in order")
    reader.hold_offsets(extensions)
    if b"TREE" in extensions:
        _hold_trees(extensions[b"TREE"], entries, width)
    return Index(by_key, frozenset(extensions))


def _digest(content: bytes, width: int) -> bytes:
    return (hashlib.sha1(content, usedforsecurity=False) if width == 20 else hashlib.sha256(content)).digest()


def _number(content: bytes) -> int:
    return int.from_bytes(content, "big")


class _Reader:
    """Reads one index from its beginning to its end; `starts` are the places at which entries begin."""

    def __init__(self, content: bytes, width: int) -> None:
        self.content, self.width = content, width
        self.end = len(content) - width
        self.version, self.count = _number(content[4:8]), _number(content[8:12])
        if content[:4] != b"DIRC" or self.version not in {2, 3, 4} or self.end < 12:
            raise OddIndex("it has no header of an index")
        if self.count > self.end // (_STATS + width):
            raise OddIndex("it is too short for its entries")
        if content[self.end :] not in {bytes(width), _digest(content[: self.end], width)}:
            raise OddIndex("its checksum is wrong")
        self.at = 12
        self.starts: list[int] = []
        self.kept: list[int] = [0]
        self.bytes = _MOST_BYTES

    def entries(self) -> list[IndexEntry]:
        found: list[IndexEntry] = []
        before = b""
        for _ in range(self.count):
            self.starts.append(self.at)
            found.append(self._entry(before))
            before = found[-1].path
        self.starts.append(self.at)
        return found

    def _entry(self, before: bytes) -> IndexEntry:
        start, fixed = self.at, self._taken(_STATS + self.width + 2)
        mode, flags = _number(fixed[24:28]), _number(fixed[-2:])
        more = 0
        if flags & _EXTENDED:
            more = _number(self._taken(2))
            if self.version == 2 or more & ~(_SKIPPED | _INTENDED):
                raise OddIndex("an entry has flags that git does not know")
        path = self._path(before, start, flags & _LENGTH)
        if mode not in {_FILE, _PROGRAM, _LINK, _MODULE}:
            raise OddIndex(f"an entry has the mode {mode:o}")
        words = (word for bit, word in _FLAGS.items() if (flags & _VALID if bit == _VALID else more & bit))
        oid = fixed[_STATS : _STATS + self.width].hex()
        return IndexEntry(path, (flags & _STAGE) >> 12, mode, oid, tuple(words))

    def _path(self, before: bytes, start: int, length: int) -> bytes:
        kept = b""
        if self.version == 4:
            stripped = self._varint()
            if stripped > len(before):
                raise OddIndex("a path takes more from the one before than it has")
            kept = before[: len(before) - stripped]
        self.kept.append(len(kept))
        nul = self.content.find(b"\0", self.at, self.end)
        if nul < 0:
            raise OddIndex("a path has no end")
        path = kept + self.content[self.at : nul]
        # Git goes by the length, and would read another name.
        if length != min(len(path), _LENGTH):
            raise OddIndex("a path is not as long as it says")
        self.at = nul + 1
        self.bytes -= len(path)
        if self.bytes < 0:
            raise OddIndex("its paths are too long to be looked at")
        if self.version < 4 and any(self._taken(-(self.at - start) % 8)):
            raise OddIndex("there is something between its entries")
        _must_be_path(path)
        return path

    def _varint(self) -> int:
        byte = self._taken(1)[0]
        value = byte & 127
        while byte & 128:
            byte = self._taken(1)[0]
            value = ((value + 1) << 7) | (byte & 127)
            if value >> 32:
                raise OddIndex("a number is too large")
        return value

    def _taken(self, count: int) -> bytes:
        if self.at + count > self.end:
            raise OddIndex("it ends too early")
        self.at += count
        return self.content[self.at - count : self.at]

    def extensions(self) -> Iterator[tuple[bytes, bytes]]:
        seen = set()
        while self.at < self.end:
            name = self._taken(4)
            if name not in _ALLOWED or name in seen:
                raise OddIndex(f"it holds {name.decode('ascii', 'backslashreplace')!r}, which is not read")
            seen.add(name)
            yield name, self._taken(_number(self._taken(4)))

    def hold_offsets(self, extensions: dict[bytes, bytes]) -> None:
        """Hold the places at which git reads against those at which the entries are.

        Raises:
            OddIndex: git would read something else.
        """
        end = extensions.get(b"EOIE")
        if end is not None and (len(end) != 4 + self.width or _number(end[:4]) != self.starts[-1]):
            raise OddIndex("it says that its entries end elsewhere")
        blocks = extensions.get(b"IEOT")
        if blocks is None:
            return
        if len(blocks) % 8 != 4 or _number(blocks[:4]) != 1:
            raise OddIndex("it says that its entries begin elsewhere")
        done = 0
        for at in range(4, len(blocks), 8):
            if done > self.count or self.starts[done] != _number(blocks[at : at + 4]):
                raise OddIndex("it says that its entries begin elsewhere")
            if self.version == 4 and done < self.count and self.kept[done + 1]:
                raise OddIndex("a path takes from one of another part")
            done += _number(blocks[at + 4 : at + 8])
        if done != self.count:
            raise OddIndex("it says that it has another number of entries")


def _must_be_path(path: bytes) -> None:
    """Raise for a path at which git would write into a repository, or out of the working tree.

    Raises:
        OddIndex: it is one.
    """
    parts = path.split(b"/")
    if len(parts) > _DEEPEST:
        raise OddIndex("an entry lies too deep to be looked at")
    for part in parts:
        if part in {b"", b".", b".."} or is_like_git(part.decode("utf-8", "replace")):
            raise OddIndex("an entry lies in no working tree")


# ------------------------------------------------------------------ hashes of whole folders


def _hold_trees(extension: bytes, entries: list[IndexEntry], width: int) -> None:
    """Hold the hashes of folders that an index tells against its entries.

    Raises:
        OddIndex: git would commit something else than what is staged.
    """
    trees = _trees(entries, width)
    at, waiting = 0, [b""]
    while waiting:
        above = waiting.pop()
        found = _NODE.match(extension, at)
        if found is None:
            raise OddIndex("what it tells of folders cannot be read")
        at, count = found.end(), int(found[2])
        path = above + found[1] + b"/" if found[1] else above
        waiting += [path] * int(found[3])
        if len(waiting) > len(extension):
            raise OddIndex("what it tells of folders cannot be read")
        if count >= 0:
            if trees.get(path) != (extension[at : at + width], count):
                raise OddIndex("it tells of a folder another hash than its entries have")
            at += width
    if at != len(extension):
        raise OddIndex("what it tells of folders cannot be read")


def _trees(entries: list[IndexEntry], width: int) -> dict[bytes, tuple[bytes, int] | None]:
    """Return hash and number of entries of every folder; None for one that cannot be committed as it is."""
    held: dict[bytes, list[tuple[bytes, int, bytes]]] = {b"": []}
    counts: dict[bytes, int] = {b"": 0}
    open_ones: set[bytes] = set()
    for entry in entries:
        parts = entry.path.split(b"/")
        folders = [b"/".join(parts[:at]) + b"/" if at else b"" for at in range(len(parts))]
        for folder in folders:
            held.setdefault(folder, [])
            counts[folder] = counts.get(folder, 0) + 1
        held[folders[-1]].append((parts[-1], entry.mode, bytes.fromhex(entry.oid)))
        if entry.stage or "intent-to-add" in entry.flags:
            open_ones.update(folders)
    found: dict[bytes, tuple[bytes, int] | None] = {}
    for folder in sorted(held, key=lambda one: -one.count(b"/")):
        # A folder is put together before the one that it lies in.
        lines = sorted(held[folder], key=lambda one: one[0] + (b"/" if one[1] == _TREE else b""))
        tree = b"".join(b"%o %s\0%s" % (mode, name, oid) for name, mode, oid in lines)
        oid = _digest(b"tree %d\0" % len(tree) + tree, width)
        found[folder] = None if folder in open_ones else (oid, counts[folder])
        if folder:
            above, _, name = folder[:-1].rpartition(b"/")
            held[above + b"/" if above else b""].append((name, _TREE, oid))
    return found
