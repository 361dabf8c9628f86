"""Describe a trial run's changes to a repository in words, from git's report.

What git did not confirm is denied first: references that lead to nothing, packs that hold something else than
they say, history that would be lost. All names and subjects are escaped, and bounded in number and length.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial

from leeward.security.lazy import regex
from leeward.security.sandbox import IndexEntry, ref_kind
from leeward.security.text import visible

from .facts import GitFacts, Move, is_hash
from .report import GitReport, confirm, many, short
from .store import GitAnswer
from .view import TooMuch

__all__ = ["words_of"]

_MOST_LINES, _MOST_NAMES = 60, 12
_MOST_IN_DIFF, _MOST_STAGED = 100, 20_000
_MOST_COMPARED, _COMPARED_BYTES = 200, 1 << 20
_RAW = regex(r":[0-7]{6} ([0-7]{6}) [0-9a-f]+ ([0-9a-f]+) ([A-Z])[0-9]*\t(.+)")
_ESCAPE = regex(rb"\\([0-7]{3}|.)")
_CONTROLS = dict(zip(b"abtnvfr", b"\a\b\t\n\v\f\r", strict=True))
_DID = {"A": "new ", "M": "changed ", "D": "removed ", "T": "another kind of ", "U": "in conflict "}
_IN_PROGRESS = {
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "REBASE_HEAD": "rebase",
}
_LINK, _MODULE = 0o120000, 0o160000

Raw = tuple[str, int, str, bytes]
"""What was done to a path, its mode, its hash and its name."""


def words_of(facts: GitFacts, answer: GitAnswer | None) -> list[str]:
    """Return the lines that speak for the covered paths, and deny what git does not confirm.

    Without an answer there was nothing to ask. A path without a description by then is denied.
    """
    if facts.is_gone:
        return facts.notes
    report = GitReport(facts, answer or GitAnswer())
    confirm(facts, report)
    facts.deny_rest()
    words = _Words(facts, report)
    if facts.repository.is_new:
        return [words.of_new_repository()]
    lines = list(words.lines())
    if len(lines) > _MOST_LINES:
        facts.is_cut = True
        lines[_MOST_LINES:] = [f"and {len(lines) - _MOST_LINES:,} lines more"]
    return lines


class _Words:
    """The changes of a repository, in words, from git's report."""

    def __init__(self, facts: GitFacts, report: GitReport) -> None:
        self.facts, self.report, self.answer = facts, report, report.answer

    # -------------------------------------------------------------- repositories

    def of_new_repository(self) -> str:
        """Return the one line of a new repository."""
        repository, (_, head), (_, oid) = self.facts.repository, self.facts.head, self.facts.head_oid
        files = [one for one in repository.changes.values() if one.after and one.after.kind == "file"]
        what = "new bare repository" if repository.is_bare else "new repository"
        branch = visible(ref_kind(head)) if head and not is_hash(head) else "no branch"
        lines = [f"{what} on {branch}, {many(len(files), 'file')}"]
        if oid is not None:
            lines.append(f"{self.report.count('head')}, last {self.report.tip(oid)}")
        kinds = Counter(ref_kind(move.name).rpartition(" ")[0] for move in self.facts.moves)
        lines += [f"{kind}: {count:,}" for kind, count in sorted(kinds.items())]
        return "; ".join([*lines, *self.facts.notes, *self._staged()])

    def lines(self) -> Iterator[str]:
        """Yield the lines of a repository that was there before."""
        facts = self.facts
        if facts.head[0] != facts.head[1]:
            yield self._head()
        stash = [move for move in facts.moves if move.name == "refs/stash"]
        if facts.stash is not None:
            yield from self._stash(*facts.stash)
            stash.clear()
        others = [move for move in facts.moves if move.name != "refs/stash"]
        others.sort(key=lambda move: not move.name.startswith("refs/heads/"))
        yield from map(self._moved, others + stash)
        for name, oids in sorted(facts.pointers.items()):
            yield from self._pointed(name, oids)
        yield from facts.notes
        yield from self._staged()
        if facts.removed:
            files = many(facts.removed, "file")
            yield f"{files} of objects removed; all that references and the index lead to is still there"
        if facts.objects and not (facts.moves or facts.index or facts.pointers or facts.removed):
            yield f"{many(facts.objects, 'new file')} of objects, to which nothing new leads"

    # -------------------------------------------------------------- references

    def _head(self) -> str:
        (_, new), (old_oid, oid) = self.facts.head, self.facts.head_oid
        if new is None:
            return "HEAD leads nowhere"
        if not is_hash(new):
            return f"HEAD moves to {visible(ref_kind(new))}"
        return self._moved(Move("HEAD", old_oid, oid))

    def _moved(self, move: Move) -> str:
        kind = "HEAD, on no branch," if move.name == "HEAD" else short(ref_kind(move.name))
        if move.new is None:
            return f"{kind} is deleted (it was {self.report.tip(move.old)})"
        if not is_hash(move.new):
            return f"{kind} becomes another name of {short(ref_kind(move.new))}"
        if move.name.startswith("refs/tags/"):
            became = "is created at" if move.old is None else f"moves from {self.report.tip(move.old)} to"
            return f"{kind} {became} {self.report.tip(move.new)}"
        return f"{self._way(kind, move)}{self._diff(move.name)}"

    def _way(self, kind: str, move: Move) -> str:
        """Say which commits came to a reference, and which went."""
        came, went = f"{move.name}+", f"{move.name}-"
        to = self.report.tip(move.new)
        if not is_hash(move.old):
            more = (
                f", with {self.report.count(came)}: {self.report.commits(came)}"
                if self.report.number(came)
                else ""
            )
            return f"{kind} is created at {to}{more}"
        if self.report.number(came) is None or self.report.number(went) is None:
            return f"{kind} moves from {self.report.tip(move.old)} to {to}"
        if not self.report.number(went):
            return f"{self.report.count(came)} on {kind}: {self.report.commits(came)}"
        if not self.report.number(came):
            return f"{kind} moves back by {self.report.count(went)}, to {to}"
        new = f"{self.report.count(came)} ({self.report.commits(came)})"
        return f"{kind} is rewritten: {new} in the place of {self.report.commits(went)}"

    def _stash(self, added: list[str], removed: list[str]) -> Iterator[str]:
        if added:
            yield f"stashed: {_listed(map(short, added))}{self._diff('refs/stash')}"
        if removed:
            yield f"taken from the stash: {_listed(map(short, removed))}"

    def _pointed(self, name: str, oids: list[str]) -> Iterator[str]:
        tips = _listed(map(self.report.tip, oids))
        if name in _IN_PROGRESS:
            what = _IN_PROGRESS[name]
            yield f"a {what} of {tips} is in progress" if oids else f"the {what} in progress is over"
        elif name == "FETCH_HEAD":
            yield f"fetched: {tips or 'nothing'}"
        elif name != "AUTO_MERGE" and oids not in ([self.facts.head_oid[0]], []):
            yield f"{name} becomes {tips}"

    # -------------------------------------------------------------- paths

    def _diff(self, name: str) -> str:
        """Say which paths the commits of a move change, and which of them are not so in the folder."""
        if not self.answer.is_good("diff", name):
            self.facts.is_cut = True
            return "; the entries it changes are unknown"
        found = list(_raw(self.answer.of("diff", name)))
        if not found:
            return ""
        more = f" (more than {_MOST_IN_DIFF} paths)" if len(found) > _MOST_IN_DIFF else ""
        is_checked_out = name in {"HEAD", self.facts.head[1]}
        unlike = self._unlike("committed", found) if is_checked_out else ()
        return "; ".join(["", f"changes {_listed(map(_describe, found))}{more}", *unlike])

    def _staged(self) -> Iterator[str]:
        """Say what is staged by now that was not, and the other way round."""
        if self.facts.index is None:
            return
        old, new = (index.entries for index in self.facts.index)
        keys = sorted(key for key in {*old, *new} if old.get(key) != new.get(key))
        paths = list(dict.fromkeys(path for path, _ in keys))
        staged = self._against_head() if self.facts.store.heads else None
        if staged is None:
            entries = ((path, new.get((path, 0))) for path in paths)
            staged = {
                path: ("A", one.mode, one.oid, path) if one else ("D", 0, "", path) for path, one in entries
            }
        now = [staged[path] for path in paths if path in staged]
        if now:
            yield f"staged: {_listed(map(_describe, now))}"
            yield from self._unlike("staged", now)
        was = [path for path in paths if path not in staged]
        if was and self.facts.head_oid[0] == self.facts.head_oid[1]:
            yield f"no longer staged: {_listed(map(_path, was))}"
        yield from _flagged(old, new, keys)

    def _against_head(self) -> dict[bytes, Raw] | None:
        """Return what is staged compared with the last commit, None where that is not known."""
        raw = list(_raw(self.answer.of("staged")))
        if not self.answer.is_good("staged") or len(raw) > _MOST_STAGED:
            self.facts.is_cut = True
            return None
        return {one[3]: one for one in raw}

    def _unlike(self, word: str, found: list[Raw]) -> Iterator[str]:
        """Say what git has otherwise than it is in the folder, whose files are shown."""
        if self.facts.repository.is_bare:
            return
        try:
            unlike = [one[3] for one in found[:_MOST_COMPARED] if self._differs(one)]
        except TooMuch:
            yield "not all of it was compared with the folder"
            return
        if unlike:
            yield f"{word} otherwise than they are in the folder: {_listed(map(_path, unlike))}"
        if len(found) > _MOST_COMPARED:
            yield "not all of it was compared with the folder"

    def _differs(self, raw: Raw) -> bool:
        did, mode, oid, name = raw
        if did == "U" or mode == _MODULE:
            return False
        view = self.facts.view
        path = f"{self.facts.repository.top}/{name.decode('utf-8', 'surrogateescape')}".lstrip("/")
        kind = view.kind_after(path)
        if did == "D":
            return kind is not None
        if (kind == "link") != (mode == _LINK) or kind not in {"file", "link"}:
            return True
        content = view.link_after(path) if kind == "link" else view.after(path, _COMPARED_BYTES)
        if content is None:
            return True
        return oid not in {_blob(content, len(oid)), _blob(content.replace(b"\r\n", b"\n"), len(oid))}


def _flagged(
    old: dict[tuple[bytes, int], IndexEntry],
    new: dict[tuple[bytes, int], IndexEntry],
    keys: list[tuple[bytes, int]],
) -> Iterator[str]:
    """Name the entries that git is made to skip from now on, or to look at again."""

    def has(flag: str, entries: dict[tuple[bytes, int], IndexEntry], key: tuple[bytes, int]) -> bool:
        return key in entries and flag in entries[key].flags

    for flag in ("assume-unchanged", "skip-worktree", "intent-to-add"):
        was, now = partial(has, flag, old), partial(has, flag, new)
        for word, marked in (
            ("", [path for path, stage in keys if now((path, stage)) and not was((path, stage))]),
            ("no longer ", [path for path, stage in keys if was((path, stage)) and not now((path, stage))]),
        ):
            if marked:
                yield f"{word}marked as {flag}: {_listed(map(_path, marked))}"


def _raw(lines: Iterable[str]) -> Iterator[Raw]:
    for line in lines:
        found = _RAW.fullmatch(line)
        if found is not None:
            yield found[3], int(found[1], 8), found[2], _unquoted(found[4])


def _unquoted(name: str) -> bytes:
    """Return a path that git quotes where it is not plain."""
    if not name.startswith('"'):
        return name.encode()

    def byte(found: re.Match[bytes]) -> bytes:
        text = found[1]
        return bytes([int(text, 8) & 255 if len(text) == 3 else _CONTROLS.get(text[0], text[0])])

    return _ESCAPE.sub(byte, name[1:-1].encode())


def _describe(raw: Raw) -> str:
    did, mode, oid, name = raw
    return f"{_DID.get(did, '')}{_path(name)}{f' (a submodule at {oid[:8]})' if mode == _MODULE else ''}"


def _path(name: bytes) -> str:
    return short(name.decode("utf-8", "backslashreplace"))


def _blob(content: bytes, length: int) -> str:
    whole = b"blob %d\0" % len(content) + content
    return (hashlib.sha1(whole, usedforsecurity=False) if length == 40 else hashlib.sha256(whole)).hexdigest()


def _listed(names: Iterable[str], most: int = _MOST_NAMES) -> str:
    """Return names in a row, the first of many."""
    all_names = list(names)
    more = f" and {len(all_names) - most:,} more" if len(all_names) > most else ""
    return ", ".join(all_names[:most]) + more
