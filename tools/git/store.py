"""Have git inspect a changed repository, in a folder of ours and confined like a trial.

Git gets a repository that we put together: settings of ours, the objects as the run left them, the index, and
hashes to look at. It obeys nothing of the real one, starts nothing, changes nothing and reaches nobody.
Objects are verified first, for git itself believes the name of a file.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import zlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path

from leeward.security.lazy import dataclass, regex
from leeward.security.outcome import ToolError

from ..process import SEARCH_PATH, ProcessExit
from .view import GitView, TooMuch

__all__ = ["OURS", "GitAnswer", "GitStore", "Look", "environment_of", "verified_object"]

Look = Callable[[str, Sequence[str], dict[str, str], Sequence[str]], Awaitable[ProcessExit]]
"""Runs a program that reads a folder of ours, with an environment, and some further folders; no more."""

OURS = (
    "[core]\n\trepositoryformatversion = {}\n\tbare = true\n\tcommitGraph = false\n\tmultiPackIndex = false\n"
)
_SHA256 = "[extensions]\n\tobjectFormat = sha256\n"
_LARGEST = 256 << 20
_MOST_ALTERNATES = 8
_PIECE = 1 << 20
_HEADER = regex(rb"(?:blob|commit|tag|tree) (0|[1-9][0-9]{0,18})\0")

# Every output ends with a line that says of what it was, so a part that fails does not pass for another.
_SCRIPT = """
cd "$GIT_DIR" || exit 9
while read -r pack; do
  git index-pack --verify "objects/pack/$pack" >/dev/null; echo "= pack $? $pack"
done <packs
git cat-file --batch-check='%(objecttype) %(objectname)' <wanted; echo "= types $?"
git log --no-walk=unsorted --ignore-missing --format="$FORM" --stdin <tips; echo "= tips $?"
git rev-list --objects --quiet --stdin <connected; echo "= connected $?"
while read -r n; do
  git rev-list --ignore-missing --count --max-count=10001 --stdin <"range.$n"; echo "= count $? $n"
  git log --ignore-missing --max-count=5 --format="$FORM" --stdin <"range.$n"; echo "= log $? $n"
done <ranges
while read -r n old new; do
  { git diff-tree -r --no-renames "$old" "$new" || echo !; } | head -n 101; echo "= diff $? $n"
done <diffs
while read -r head; do
  { git diff-index --cached --no-renames "$head" || echo !; } | head -n 20001; echo "= staged $?"
done <heads
"""
_FORM = "%H %<(120,trunc)%s"


@dataclass(frozen=True, slots=True)
class GitAnswer:
    """Git's output: lines by question, and how each ended. Without `why_not` it is complete."""

    lines: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    codes: dict[tuple[str, str], int] = field(default_factory=dict)
    why_not: str = ""

    def of(self, what: str, about: str = "") -> list[str]:
        """Return the lines of one answer, none where it failed."""
        return self.lines.get((what, about), []) if self.is_good(what, about) else []

    def is_good(self, what: str, about: str = "") -> bool:
        """Whether git could answer."""
        return self.codes.get((what, about)) == 0


@dataclass(slots=True)
class GitStore:
    """A repository of ours in a folder: what git is to look at in it, and what it may read beside."""

    folder: Path
    readable: list[str] = field(default_factory=list)
    width: int = 20
    packs: list[str] = field(default_factory=list)
    wanted: list[str] = field(default_factory=list)
    tips: list[str] = field(default_factory=list)
    connected: list[str] = field(default_factory=list)
    ranges: dict[str, list[str]] = field(default_factory=dict)
    diffs: list[str] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)

    @classmethod
    def made(cls) -> GitStore:
        """Make an empty one; the caller drops it."""
        folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="leeward-git-")))
        for name in ("objects/pack", "objects/info", "refs", "settings"):
            (folder / name).mkdir(parents=True)
        (folder / "HEAD").write_text("ref: refs/heads/none\n", encoding="ascii")
        return cls(folder)

    def drop(self) -> None:
        """Remove it."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def add(self, rest: str, content: bytes) -> None:
        """Add a file."""
        path = self.folder / rest
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_bytes(content)

    def link(self, view: GitView, objects: str, root: str, changed: Iterable[str]) -> None:
        """Lead to the objects that the run left as they are.

        Args:
            view: the workspace.
            objects: where the real ones lie.
            root: the same, relative to the workspace.
            changed: paths among them that the run changed, relative to them.
        """
        real = Path(os.path.realpath(objects))
        if not real.is_dir():
            return
        self.readable.append(str(real))
        left_alone = {path.partition("/")[0] for path in changed}
        for name in sorted(view.names_before(root)):
            if not re.fullmatch(r"[0-9a-f]{2}|pack", name):
                continue
            ours, theirs = self.folder / "objects" / name, real / name
            if name not in left_alone and name != "pack":
                ours.symlink_to(theirs)
                continue
            ours.mkdir(exist_ok=True)
            for one in view.names_before(f"{root}/{name}"):
                is_pack = name != "pack" or re.fullmatch(r"pack-[0-9a-f]+\.(?:pack|idx)", one)
                if is_pack and f"{root}/{name}/{one}" not in view.by_path:
                    (ours / one).symlink_to(theirs / one)
        self.readable += _alternates(real)

    async def answer(self, look: Look) -> GitAnswer:
        """Ask git all of it."""
        self.write()
        env = _environment(self)
        try:
            done = await look(str(self.folder), ["/bin/sh", "-c", _SCRIPT], env, self.readable)
        except ToolError as error:
            return GitAnswer(why_not=str(error))
        if why := _failed(done):
            return GitAnswer(why_not=why)
        return _read(done.stdout, list(self.ranges))

    async def settings(self, look: Look, name: str) -> str | None:
        """Return what `git config --list -z` prints of a file in the folder of settings; None on failure."""
        words = ["git", "config", "--file", f"settings/{name}", "--no-includes", "--list", "-z"]
        try:
            done = await look(str(self.folder), words, _environment(self), ())
        except ToolError:
            return None
        return None if _failed(done) else done.stdout

    def write(self) -> None:
        """Write down what git is asked about."""
        settings = OURS.format(int(self.width == 32)) + (_SHA256 if self.width == 32 else "")
        self.add("config", settings.encode())
        asked = {f"range.{n}": lines for n, lines in enumerate(self.ranges.values())}
        asked["ranges"] = [str(n) for n in range(len(self.ranges))]
        for name in ("packs", "wanted", "tips", "connected", "diffs", "heads"):
            asked[name] = getattr(self, name)
        for name, lines in asked.items():
            self.add(name, "".join(f"{line}\n" for line in lines).encode())


def _environment(store: GitStore) -> dict[str, str]:
    alternates = [path for path in store.readable if ":" not in path and not path.startswith('"')][1:]
    return {**environment_of(str(store.folder), alternates), "FORM": _FORM}


def environment_of(folder: str, alternates: Sequence[str]) -> dict[str, str]:
    """Return what git is given that looks at a repository of ours, and obeys nobody else."""
    return {
        "PATH": SEARCH_PATH,
        "HOME": "/nonexistent",
        "LC_ALL": "C.UTF-8",
        "GIT_DIR": folder,
        "GIT_INDEX_FILE": f"{folder}/index",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": ":".join(alternates),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_ALLOW_PROTOCOL": "",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_PAGER": "cat",
    }


def _failed(done: ProcessExit) -> str:
    if done.timed_out:
        return "git did not look through it in time"
    if done.dropped or done.exceeded is not None:
        return "there is more of it than is looked at"
    return "" if done.exit_code == 0 else "git cannot read it"


def _read(text: str, ranges: list[str]) -> GitAnswer:
    answer = GitAnswer()
    lines: list[str] = []
    for line in text.split("\n"):
        if not line.startswith("= "):
            lines.append(line)
            continue
        _, what, code, *about = line.split(" ", 3)
        subject = about[0] if about else ""
        key = (what, ranges[int(subject)] if what in {"count", "log"} else subject)
        answer.lines[key], answer.codes[key] = [one for one in lines if one], int("!" in lines or code)
        lines = []
    return answer


def _alternates(objects: Path) -> list[str]:
    """Return the further folders in which the person has git look for objects."""
    found: list[str] = []
    waiting = [objects]
    while waiting and len(found) < _MOST_ALTERNATES:
        one = waiting.pop()
        with suppress(OSError, UnicodeDecodeError):
            for line in (one / "info" / "alternates").read_text(encoding="utf-8").splitlines():
                path = Path(os.path.realpath(one / line))
                if line and not line.startswith("#") and path.is_dir() and str(path) not in found:
                    found.append(str(path))
                    waiting.append(path)
    return found


def verified_object(content: bytes, oid: str) -> bool:
    """Whether a file holds the object by whose hash it is called, and nothing else.

    Raises:
        TooMuch: it becomes too long.
    """
    unpacking = zlib.decompressobj()
    whole = hashlib.sha1(usedforsecurity=False) if len(oid) == 40 else hashlib.sha256()
    begin, size, piece = b"", 0, content
    try:
        while not unpacking.eof:
            part = unpacking.decompress(piece, _PIECE)
            if not part and not unpacking.eof:
                return False
            piece = unpacking.unconsumed_tail
            begin += part[: max(0, 64 - len(begin))]
            size += len(part)
            whole.update(part)
            if size > _LARGEST:
                raise TooMuch("an object of it is too long to be looked at")
    except zlib.error:
        return False
    header = _HEADER.match(begin)
    if header is None or unpacking.unused_data:
        return False
    return header.end() + int(header[1]) == size and whole.hexdigest() == oid
