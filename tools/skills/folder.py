"""Find skills in a folder, and read one whole: what is used is what its digest was taken of.

A skill is a folder with a `SKILL.md`. Links and special files have no place in one: what they lead to could
change without the digest. A file is opened below the folder that was listed, through no link.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from leeward.security.lazy import dataclass

from .document import SKILL_FILE, SkillDocument, SkillError, read_document

__all__ = ["Skill", "digest_of", "document_in", "read_skill", "skill_folders"]

_LARGEST_DOCUMENT = 256 << 10
_SEAL = 20  # hexadecimal digits
_MOST_FILES, _LARGEST = 500, 8 << 20
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill as it lies in `folder`; `files` are its other files, with their content, by their path in it.

    `runs` are those that may be executed, `written` is the content of its `SKILL.md`.
    """

    folder: Path
    document: SkillDocument
    digest: str
    files: dict[str, bytes]
    runs: frozenset[str]
    written: bytes

    @property
    def seal(self) -> str:
        """The beginning of the digest, by which a person says what they read."""
        return self.digest[:_SEAL]

    def contents(self) -> dict[str, bytes]:
        """Return every file with its content, the `SKILL.md` among them."""
        return {SKILL_FILE: self.written, **self.files}


def skill_folders(parent: Path) -> list[Path]:
    """Return the folders that are skills, by name; links are none. There may be no such parent."""
    try:
        entries = sorted(os.scandir(parent), key=lambda entry: entry.name)
    except OSError:
        return []
    return [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]


def document_in(folder: Path) -> SkillDocument:
    """Read a skill's `SKILL.md` alone.

    Raises:
        SkillError: it cannot be used.
    """
    file = folder / SKILL_FILE
    try:
        handle = os.open(file, _FLAGS)
    except OSError as error:
        raise SkillError(f"{file}: {error.strerror}") from error
    return _document(folder, _content(handle, file, _LARGEST_DOCUMENT))


def read_skill(folder: Path) -> Skill:
    """Read all of a skill.

    Raises:
        SkillError: it is none, or holds what has no place in one.
    """
    found = _checked(folder)
    files = {path: content for path, _, content in found}
    runs = frozenset(path for path, mode, _ in found if mode == "x")
    if SKILL_FILE not in files:
        raise SkillError(f"{folder}: it has no {SKILL_FILE}")
    content = files.pop(SKILL_FILE)
    if len(content) > _LARGEST_DOCUMENT:
        raise _too_large(folder / SKILL_FILE, _LARGEST_DOCUMENT)
    document = _document(folder, content)
    return Skill(folder, document, _digest(found), files, runs, content)


def digest_of(folder: Path) -> str:
    """Return the digest of a skill's bytes, names and rights to run, also where its `SKILL.md` is of no use.

    Raises:
        SkillError: it holds what has no place in a skill.
    """
    return _digest(_checked(folder))


def _checked(folder: Path) -> list[tuple[str, str, bytes]]:
    """Return `_contents` in order.

    Raises:
        SkillError: there is too much of it, or what has no place in a skill.
    """
    found: list[tuple[str, str, bytes]] = []
    size = 0
    for one in _contents(folder):
        size += len(one[2])
        if len(found) >= _MOST_FILES or size > _LARGEST:
            raise SkillError(f"{folder}: it has more than {_MOST_FILES} files, or {_LARGEST >> 20} MiB")
        found.append(one)
    return sorted(found)


def _digest(found: list[tuple[str, str, bytes]]) -> str:
    taken = hashlib.sha256()
    for path, mode, content in found:
        head = f"{len(path)} {path} {mode} {len(content)} "
        taken.update(head.encode("utf-8", "surrogatepass") + content)
    return taken.hexdigest()


def _contents(folder: Path) -> Iterator[tuple[str, str, bytes]]:
    """Yield the path of each file below a folder, "x" or "-" for its right to run, and its content."""
    found, root = 0, os.fspath(folder)

    def failed(error: OSError) -> None:
        raise SkillError(f"{folder}: {error.strerror}") from error

    for parent, folders, names, handle in os.fwalk(root, onerror=failed, follow_symlinks=False):
        relative = os.path.relpath(parent, root)
        for name in (*folders, *names):
            path = os.path.normpath(os.path.join(relative, name))  # noqa: PTH118 — texts, as they were listed
            found += 1
            if found > 2 * _MOST_FILES:
                raise SkillError(f"{folder}: it has more than {_MOST_FILES} files")
            if name in folders:
                if stat.S_ISLNK(os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode):
                    raise SkillError(f"{folder}: {path} is a link, which has no place in a skill")
                continue
            try:
                opened = os.open(name, _FLAGS, dir_fd=handle)
            except OSError as error:
                raise SkillError(f"{folder}: {path} is a link, or cannot be read") from error
            mode = "x" if os.fstat(opened).st_mode & 0o111 else "-"
            yield path, mode, _content(opened, folder / path, _LARGEST)


def _content(handle: int, file: Path, largest: int) -> bytes:
    with os.fdopen(handle, "rb") as opened:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise SkillError(f"{file}: it is no ordinary file")
        content = opened.read(largest + 1)
    if len(content) > largest:
        raise _too_large(file, largest)
    return content


def _too_large(file: Path, largest: int) -> SkillError:
    return SkillError(f"{file}: it is larger than {largest >> 10} KiB")


def _document(folder: Path, content: bytes) -> SkillDocument:
    file = str(folder / SKILL_FILE)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise SkillError(f"{file}:{line}: it is not UTF-8") from error
    return read_document(text, file, folder.name)
