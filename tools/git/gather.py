"""Collect what a trial run changed in one repository, and what git is to be asked about it.

Each path is judged for what it is to git (`facts.py`); what references, logs and the index lead to by then
goes to the `GitStore`, for git to look at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from leeward.security.lazy import regex
from leeward.security.sandbox import (
    OddIndex,
    OddRefs,
    Part,
    is_ref_name,
    packed_refs,
    part_of,
    read_index,
    ref_kind,
    ref_value,
)

from .facts import LINK, LONG, MOST_DETAILED, GitFacts, Move, is_hash, judge_path

if TYPE_CHECKING:
    from .store import GitStore
    from .view import GitView, Repository

__all__ = ["gathered"]


def gathered(view: GitView, repository: Repository, store: GitStore, workspace: str) -> GitFacts:
    """Return what changed in a repository, and put into the store what git is to look at.

    Raises:
        TooMuch: there is more than is looked at.
        OSError: it could not be read.
    """
    facts = GitFacts(view, repository, store)
    own = repository.changes.get("")
    if facts.is_gone and repository.root == _OWN:
        facts.deny(_OWN, "the workspace's own repository would be gone with its history")
        return facts
    if facts.is_gone:
        facts.covered |= {path for path in facts.paths() if view.kind_after(path) is None}
        facts.notes.append(
            f"the repository is removed with its history ({len(facts.covered)} files and folders)"
        )
        return facts
    if own is not None and own.after is not None and own.after.kind != "folder":
        facts.deny(repository.root, "it leads git elsewhere" if own.after.kind == "file" else LINK)
        return facts
    if repository.is_new and _holds_something(view, repository):
        facts.deny(repository.root or ".", "what lay there before would become a repository's own")
    _prepare(facts, workspace)
    for rest, change in sorted(repository.changes.items()):
        judge_path(facts, rest, change)
    _see_references(facts)
    _ask_of_references(facts)
    _ask_of_index(facts)
    return facts


def _holds_something(view: GitView, repository: Repository) -> bool:
    """Whether a folder that becomes a repository held anything before that is left in it."""
    if repository.is_bare:
        return any(
            part_of(name) is not Part.DENIED or name.lower() in _OBEYED
            for name in view.names_before(repository.root)
        )
    return bool(view.names_before(repository.root) & view.names_after(repository.root))


_SHA256 = regex(rb"(?i)objectformat\s*=\s*\"?sha256")
_OWN = ".git"
_OBEYED = frozenset("config config.worktree commondir hooks info modules worktrees gitdir".split())


def _prepare(facts: GitFacts, workspace: str) -> None:
    """Hand in what git needs of what is as it was."""
    repository, store = facts.repository, facts.store
    config = facts.after("config") or b""
    store.width = 32 if _SHA256.search(config) else 20
    changed = [rest.removeprefix("objects/") for rest in repository.changes if rest.startswith("objects/")]
    objects = repository.path("objects")
    store.link(facts.view, f"{workspace}/{objects}", objects, changed)
    shallow = facts.before("shallow", LONG)
    if shallow is not None:
        store.add("shallow", shallow)
    with_packed = facts.before("packed-refs", LONG)
    try:
        old = packed_refs(with_packed or b"")
    except OddRefs:
        old = {}
    facts.packed = (old, old)


# ------------------------------------------------------------------ what references lead to


def _see_references(facts: GitFacts) -> None:
    """Find which references lead elsewhere than before, loose or packed."""
    old, new = facts.packed
    changed = facts.repository.changes
    names = {rest for rest in changed if part_of(rest) is Part.REF and is_ref_name(rest)}
    names |= {name for name in {*old, *new} if old.get(name, ("",))[0] != new.get(name, ("",))[0]}
    for name in sorted(names):
        was, became = _held(facts, name, is_before=True), _held(facts, name, is_before=False)
        if was != became:
            facts.moves.append(Move(name, was, became))
    facts.head = (_value(facts.before("HEAD")), _value(facts.after("HEAD")))
    facts.head_oid = (
        _led_to(facts, facts.head[0], is_before=True),
        _led_to(facts, facts.head[1], is_before=False),
    )
    _see_logs(facts)


def _held(facts: GitFacts, name: str, *, is_before: bool) -> str | None:
    """Return what a reference holds, loose or packed."""
    read = facts.before if is_before else facts.after
    packed = facts.packed[0 if is_before else 1].get(name)
    return _value(read(name)) or (packed[0] if packed is not None else None)


def _value(content: bytes | None) -> str | None:
    try:
        return ref_value(content) if content is not None else None
    except OddRefs:
        return None


def _led_to(facts: GitFacts, value: str | None, *, is_before: bool) -> str | None:
    """Return the hash that a value leads to; names that lead in a circle lead nowhere."""
    for _ in range(5):
        if value is None or is_hash(value):
            return value
        value = _held(facts, value, is_before=is_before)
    return None


def _see_logs(facts: GitFacts) -> None:
    """Say what logs tell that the references themselves do not."""
    moved = {move.name: (move.old, move.new) for move in facts.moves} | {"HEAD": facts.head_oid}
    nothing = "0" * facts.store.width * 2
    for name, _, entries, is_longer in facts.logs:
        what = "HEAD" if name == "HEAD" else ref_kind(name)
        old, new = moved.get(name, (None, None))
        if name == "refs/stash" or (is_longer and entries == [(old or nothing, new)]):
            continue
        if is_longer and entries:
            facts.notes.append(f"{len(entries)} entries more in the log of {what}")
        elif not is_longer:
            facts.notes.append(f"the log of {what} is rewritten, with {len(entries)} entries")


def _ask_of_references(facts: GitFacts) -> None:
    """Have git look at what references lead to by now."""
    store = facts.store
    olds = [move.old for move in facts.moves] + [facts.head_oid[0]]
    known = [f"^{oid}" for oid in dict.fromkeys(olds) if is_hash(oid)]
    targets = {move.new for move in facts.moves} | {facts.head_oid[1] if _head_moved(facts) else None}
    new = sorted(oid for oid in targets if is_hash(oid))
    new += [oid for oids in facts.pointers.values() for oid in oids]
    for oid in dict.fromkeys([*new, *facts.peeled]):
        store.wanted += [oid, f"{oid}^{{}}"]
    store.tips = [*dict.fromkeys([*new, *(one[1:] for one in known)])]
    store.connected = [*new, *known] if new else []
    if facts.removed:
        store.connected = [*dict.fromkeys([*_all_tips(facts), *new])]
    if facts.repository.is_new:
        _range(facts, "head", [facts.head_oid[1]])
        return
    for move in [one for one in facts.moves if _is_shown(one)][:MOST_DETAILED]:
        _ask_of_move(facts, move, known)
    old, now = facts.head_oid
    if _head_moved(facts) and now is not None and is_hash(facts.head[1]):
        _ask_of_move(facts, Move("HEAD", old, now), known)


def _head_moved(facts: GitFacts) -> bool:
    return facts.head[0] != facts.head[1]


def _is_shown(move: Move) -> bool:
    return is_hash(move.new)


def _ask_of_move(facts: GitFacts, move: Move, known: list[str]) -> None:
    old = move.old if is_hash(move.old) else None
    _range(facts, f"{move.name}+", [move.new, *([f"^{old}"] if old else known)])
    if old:
        _range(facts, f"{move.name}-", [old, f"^{move.new}"])
    if not move.name.startswith("refs/tags/"):
        base = old or facts.head_oid[0] or facts.empty_tree
        facts.store.diffs.append(f"{move.name} {base} {move.new}")


def _range(facts: GitFacts, name: str, lines: list[str | None]) -> None:
    if lines[0] is not None:
        facts.store.ranges[name] = [line for line in lines if line is not None]


def _all_tips(facts: GitFacts) -> Iterator[str]:
    """Yield all that references, HEAD and the index lead to: git must be able to find all of it."""
    root, waiting = facts.repository, ["refs"]
    names = set(facts.packed[1])
    while waiting:
        folder = waiting.pop()
        for name in facts.view.names_after(root.path(folder)):
            rest = f"{folder}/{name}"
            is_folder = facts.view.kind_after(root.path(rest)) == "folder"
            (waiting.append if is_folder else names.add)(rest)
    held = (_held(facts, name, is_before=False) for name in sorted(names))
    yield from (oid for oid in (*held, facts.head_oid[1]) if is_hash(oid))
    content = facts.after("index", LONG)
    if content is not None:
        yield from _staged(facts, content)


def _staged(facts: GitFacts, content: bytes) -> Iterator[str]:
    try:
        entries = read_index(content, facts.store.width).entries
    except OddIndex:
        return
    for entry in entries.values():
        if entry.mode != 0o160000 and "intent-to-add" not in entry.flags:
            yield entry.oid


def _ask_of_index(facts: GitFacts) -> None:
    """Have git compare what is staged with the last commit."""
    if facts.index is not None and facts.head_oid[1] is not None:
        facts.store.heads = [facts.head_oid[1]]
