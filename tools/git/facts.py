"""Classify what a trial run changed in one repository, by strict parsing.

What can be decided without git is decided here; questions for git go to the `GitStore`. A path that is
neither covered, unchanged nor denied at the end is a mistake, and is denied.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, TypeGuard

from leeward.security.lazy import dataclass, regex
from leeward.security.sandbox import (
    Index,
    Logged,
    OddIndex,
    OddRefs,
    Part,
    denied_because,
    is_ref_name,
    logged,
    packed_refs,
    part_of,
    read_index,
    ref_value,
)
from leeward.security.text import visible

from .store import GitStore, verified_object

if TYPE_CHECKING:
    from ..sandbox import Change
    from .view import GitView, Repository

__all__ = ["LINK", "LONG", "MOST_DETAILED", "GitFacts", "Move", "is_hash", "judge_path"]

_SMALL, LONG, _HUGE = 1 << 18, 1 << 26, 1 << 28
_OID = regex(r"[0-9a-f]{40}|[0-9a-f]{64}")
_POINTERS = regex(rb"(?:(?:[0-9a-f]{40}|[0-9a-f]{64})\n?)+")
_FETCHED = regex(r"([0-9a-f]{40}|[0-9a-f]{64})\t(not-for-merge)?\t[^\n]*")
_SHALLOW = regex(rb"(?:(?:[0-9a-f]{40}|[0-9a-f]{64})\n)+")
_INERT = regex(rb"(?:[ \t]*(?:#[^\n]*)?\n)*")
_EMPTY_TREES = {
    20: "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    32: "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}
_BELIEVED = {b"UNTR": "which files are not there", b"FSMN": "which files did not change"}
_FOLDERS = {Part.FOLDER}
_EITHER = {Part.REF, Part.LOG, Part.STEPS, Part.CACHE, Part.TEMPLATE}
MOST_DETAILED = 30
LINK = "a link leads git elsewhere"


def is_hash(value: str | None) -> TypeGuard[str]:
    """Whether a reference leads to an object, and not to another reference or nowhere."""
    return value is not None and _OID.fullmatch(value) is not None


@dataclass(frozen=True, slots=True)
class Move:
    """From what to what a reference was moved: a hash, the name of another, or None for nothing."""

    name: str
    old: str | None
    new: str | None


@dataclass(slots=True)
class GitFacts:
    """What was found of one repository's changes."""

    view: GitView
    repository: Repository
    store: GitStore
    denied: dict[str, list[str]] = field(default_factory=dict)
    covered: set[str] = field(default_factory=set)
    unchanged: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    pointers: dict[str, list[str]] = field(default_factory=dict)
    head: tuple[str | None, str | None] = (None, None)
    head_oid: tuple[str | None, str | None] = (None, None)
    packed: tuple[dict[str, tuple[str, str | None]], dict[str, tuple[str, str | None]]] = ({}, {})
    peeled: dict[str, str] = field(default_factory=dict)
    index: tuple[Index, Index] | None = None
    logs: list[tuple[str, str, list[tuple[str, str]], bool]] = field(default_factory=list)
    stash: tuple[list[str], list[str]] | None = None
    settings: tuple[str, bool] | None = None
    objects: int = 0
    removed: int = 0
    is_cut: bool = False

    def deny(self, path: str, why: str) -> None:
        """Note why a path must not be kept."""
        self.denied.setdefault(path, []).append(why)

    def deny_rest(self) -> None:
        """Deny every path without a result."""
        for path in self.paths() - self.covered - self.unchanged - self.denied.keys():
            self.deny(path, "its meaning to git is unknown")

    def denials(self) -> list[tuple[str, str]]:
        """Return what must not be kept."""
        return [(path, "; ".join(dict.fromkeys(whys))) for path, whys in sorted(self.denied.items())]

    def paths(self) -> set[str]:
        """Return all paths that changed in it."""
        return {self.repository.path(rest) for rest in self.repository.changes}

    @property
    def needs_git(self) -> bool:
        """Whether there is anything that git is to tell."""
        store = self.store
        return bool(store.packs or store.wanted or store.connected or store.heads or store.ranges)

    @property
    def empty_tree(self) -> str:
        """The hash of a folder that holds nothing."""
        return _EMPTY_TREES[self.store.width]

    @property
    def is_gone(self) -> bool:
        """Whether the repository was removed with all it held."""
        own = self.repository.changes.get("")
        return own is not None and own.after is None

    def before(self, rest: str, most: int = _SMALL) -> bytes | None:
        """Return what a file of the repository held."""
        return self.view.before(self.repository.path(rest), most)

    def after(self, rest: str, most: int = _SMALL) -> bytes | None:
        """Return what a file of the repository holds."""
        return self.view.after(self.repository.path(rest), most)


def judge_path(facts: GitFacts, rest: str, change: Change) -> None:
    """Decide about one path, or note what has to be reported about it."""
    part, path = part_of(rest), change.path
    kinds = {entry.kind for entry in (change.before, change.after) if entry is not None}
    if "link" in kinds or "other" in kinds:
        facts.deny(path, LINK)
    elif part is Part.DENIED or (part is Part.TEMPLATE and not facts.repository.is_new):
        facts.deny(path, denied_because(rest))
    elif why := _odd_entry(part, change, kinds):
        facts.deny(path, why)
    elif kinds == {"folder"}:
        _folder(facts, rest, part, change)
    else:
        _FILES[part](facts, rest, change)


def _odd_entry(part: Part, change: Change, kinds: set[str]) -> str:
    """Say what is odd about kind and mode of a path, which git would not have made."""
    wanted = "folder" if part in _FOLDERS else "file"
    if part not in _EITHER and kinds != {wanted}:
        return f"git keeps a {wanted} there"
    before, after = change.before, change.after
    if after is not None and after.mode & 0o002 and not (before is not None and before.mode & 0o002):
        return "others could write it"
    is_same = before is not None and after is not None and before.kind == after.kind == "folder"
    return "only its mode changes, which git does not do" if is_same or change.is_mode_only else ""


def _folder(facts: GitFacts, rest: str, part: Part, change: Change) -> None:
    if part in {Part.REF, Part.LOG} and not is_ref_name(f"{rest.removeprefix('logs/')}/x"):
        facts.deny(change.path, "its name is not that of a reference")
    elif part is Part.STEPS:
        _steps(facts, rest, change)
    elif part is Part.CACHE and change.after is not None:
        facts.unchanged.add(change.path)
    else:
        facts.covered.add(change.path)


# ------------------------------------------------------------------ single files


def _covered(facts: GitFacts, rest: str, change: Change) -> None:  # noqa: ARG001 — as all of them
    facts.covered.add(change.path)


def _left_out(facts: GitFacts, rest: str, change: Change) -> None:  # noqa: ARG001 — as all of them
    (facts.covered if change.after is None else facts.unchanged).add(change.path)


def _multi_pack_index(facts: GitFacts, rest: str, change: Change) -> None:
    if change.before is not None and change.after is not None:
        facts.deny(change.path, "git believes it without looking, and it cannot be verified")
    else:
        _left_out(facts, rest, change)


def _steps(facts: GitFacts, rest: str, change: Change) -> None:
    if change.after is not None:
        facts.deny(change.path, "it says what git does next, and can name programs to run")
        return
    facts.covered.add(change.path)
    name = rest.partition("/")[0]
    what = "bisection" if name.startswith("BISECT") else "sequence" if name == "sequencer" else "rebase"
    note = f"the {what} in progress is over"
    if note not in facts.notes:
        facts.notes.append(note)


def _template(facts: GitFacts, rest: str, change: Change) -> None:
    content = facts.after(rest)
    if rest == "info/exclude" and content is not None and not _INERT.fullmatch(content):
        facts.deny(change.path, "it has git pass over files")
    else:
        facts.covered.add(change.path)


def _shallow(facts: GitFacts, rest: str, change: Change) -> None:
    content = facts.after(rest, LONG)
    if not facts.repository.is_new or content is None or not _SHALLOW.fullmatch(content):
        facts.deny(change.path, denied_because(rest))
        return
    facts.store.add("shallow", content)
    facts.notes.append("its history is cut off, as it was asked for")
    facts.covered.add(change.path)


def _message(facts: GitFacts, rest: str, change: Change) -> None:
    content = facts.after(rest)
    if rest == "MERGE_MODE" and content not in {None, b"", b"no-ff", b"no-ff\n"}:
        facts.deny(change.path, "it holds nothing that git writes there")
        return
    facts.covered.add(change.path)
    if content is not None and rest in {"MERGE_MSG", "SQUASH_MSG"}:
        first = next(iter(content.decode("utf-8", "replace").split("\n")))
        facts.notes.append(f"a message waits for the next commit: {visible(first)[:120]}")


def _pointer(facts: GitFacts, rest: str, change: Change) -> None:
    content = facts.after(rest)
    if content is not None and not _POINTERS.fullmatch(content):
        facts.deny(change.path, "it holds no hashes")
        return
    facts.covered.add(change.path)
    facts.pointers[rest] = content.decode("ascii").split() if content is not None else []


def _fetched(facts: GitFacts, rest: str, change: Change) -> None:
    content = facts.after(rest, LONG)
    text = (content or b"").decode("utf-8", "replace")
    lines = [_FETCHED.fullmatch(line) for line in text.split("\n") if line]
    oids = [line[1] for line in lines if line is not None]
    if len(oids) != len(lines):
        facts.deny(change.path, "it holds a line that git does not write")
        return
    facts.covered.add(change.path)
    facts.pointers[rest] = oids[:MOST_DETAILED]


def _config(facts: GitFacts, rest: str, change: Change) -> None:
    try:
        before, after = facts.before(rest), facts.after(rest)
        for content in (before, after):
            if content is not None:
                content.decode()
    except UnicodeDecodeError:
        facts.deny(change.path, "it is not UTF-8")
        return
    if after is None:
        facts.deny(change.path, "without its settings git would do otherwise")
        return
    facts.store.add("settings/after", after)
    if before is not None and not facts.repository.is_new:
        facts.store.add("settings/before", before)
    facts.settings = (change.path, before is not None and not facts.repository.is_new)


def _head(facts: GitFacts, rest: str, change: Change) -> None:
    facts.covered.add(change.path)
    try:
        value = ref_value(facts.after(rest) or b"")
    except OddRefs as error:
        facts.deny(change.path, str(error))
        return
    if not _OID.fullmatch(value) and not value.startswith("refs/heads/"):
        facts.deny(change.path, "it leads to no branch")


def _ref(facts: GitFacts, rest: str, change: Change) -> None:
    if not is_ref_name(rest):
        facts.deny(change.path, "its name is not that of a reference")
        return
    facts.covered.add(change.path)
    if change.after is not None and change.after.kind == "file":
        try:
            ref_value(facts.after(rest) or b"")
        except OddRefs as error:
            facts.deny(change.path, str(error))


def _packed(facts: GitFacts, rest: str, change: Change) -> None:
    try:
        new = packed_refs(facts.after(rest, LONG) or b"")
    except OddRefs as error:
        facts.deny(change.path, str(error))
        return
    old = facts.packed[0]
    if any(name.startswith("refs/replace/") and old.get(name) != held for name, held in new.items()):
        facts.deny(change.path, denied_because("refs/replace"))
    (facts.unchanged if old == new and change.before is not None else facts.covered).add(change.path)
    facts.packed = (old, new)
    facts.peeled = {
        oid: peeled
        for name, (oid, peeled) in new.items()
        if peeled is not None and old.get(name) != (oid, peeled)
    }


def _log(facts: GitFacts, rest: str, change: Change) -> None:
    name = rest.removeprefix("logs/")
    if name != "HEAD" and not is_ref_name(name):
        facts.deny(change.path, "its name is not that of a reference")
        return
    facts.covered.add(change.path)
    before, after = facts.before(rest, LONG) or b"", facts.after(rest, LONG)
    is_longer = after is not None and after.startswith(before)
    try:
        entries = logged((after or b"")[len(before) if is_longer else 0 :])
        if name == "refs/stash":
            facts.stash = _stashed(logged(before), logged(after or b""))
    except OddRefs as error:
        facts.deny(change.path, str(error))
        return
    if after is not None:
        moved = [(old, new) for old, new, _ in entries]
        facts.logs.append((name, change.path, moved, is_longer))


def _stashed(before: list[Logged], after: list[Logged]) -> tuple[list[str], list[str]]:
    """Return what was put into the stash and what was taken from it, by their messages."""
    old, new = ({oid for _, oid, _ in entries} for entries in (before, after))
    added = [message for _, oid, message in after if oid not in old]
    return added, [message for _, oid, message in before if oid not in new]


def _index(facts: GitFacts, rest: str, change: Change) -> None:
    width, content = facts.store.width, facts.after(rest, LONG)
    try:
        new = read_index(content, width) if content is not None else Index()
    except OddIndex as error:
        facts.deny(change.path, str(error))
        return
    try:
        before = facts.before(rest, LONG)
        old = read_index(before, width) if before is not None else Index()
    except OddIndex:
        old = Index()
    for name in sorted(new.extensions - old.extensions):
        if name in _BELIEVED:
            facts.deny(change.path, f"it tells git {_BELIEVED[name]}, which cannot be verified")
    if old.entries == new.entries and content is not None and before is not None:
        facts.unchanged.add(change.path)
        return
    facts.covered.add(change.path)
    facts.index = (old, new)
    if content is not None:
        facts.store.add("index", content)
    elif old.entries:
        facts.notes.append(f"the index is removed ({len(old.entries)} entries)")


def _loose_object(facts: GitFacts, rest: str, change: Change) -> None:
    if change.after is None:
        facts.removed += 1
        facts.covered.add(change.path)
        return
    content = facts.after(rest, _HUGE) or b""
    if not verified_object(content, rest[8:].replace("/", "")):
        facts.deny(change.path, "it does not hold the object by whose hash it is called")
        return
    facts.objects += 1
    facts.store.add(rest, content)
    facts.covered.add(change.path)


def _pack(facts: GitFacts, rest: str, change: Change) -> None:
    facts.covered.add(change.path)
    if change.after is None:
        facts.removed += 1
        return
    facts.objects += 1
    facts.store.add(rest, facts.after(rest, _HUGE) or b"")
    pack = rest.removeprefix("objects/pack/").rpartition(".")[0] + ".pack"
    if pack not in facts.store.packs:
        facts.store.packs.append(pack)


_FILES: dict[Part, Callable[[GitFacts, str, Change], None]] = {
    Part.FOLDER: _covered,
    Part.HEAD: _head,
    Part.INDEX: _index,
    Part.CONFIG: _config,
    Part.PACKED_REFS: _packed,
    Part.REF: _ref,
    Part.POINTER: _pointer,
    Part.FETCHED: _fetched,
    Part.MESSAGE: _message,
    Part.LOG: _log,
    Part.LOOSE_OBJECT: _loose_object,
    Part.PACK: _pack,
    Part.CACHE: _left_out,
    Part.MULTI_PACK_INDEX: _multi_pack_index,
    Part.LEFTOVER: _left_out,
    Part.STEPS: _steps,
    Part.TEMPLATE: _template,
    Part.SHALLOW: _shallow,
}
