"""Parse git's report on a changed repository, and deny what it does not confirm.

References that lead to nothing, packs that hold something else than they say, and history that would be lost
are not kept. All names and subjects are escaped, and bounded in length.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeward.security.sandbox import ref_kind
from leeward.security.text import visible

from .facts import GitFacts, is_hash

if TYPE_CHECKING:
    from .store import GitAnswer

__all__ = ["GitReport", "confirm", "many", "short"]

_LONGEST = 100
_MOST_COMMITS = 10_000


def many(count: int, what: str) -> str:
    """Return a number of things in words."""
    return f"1 {what}" if count == 1 else f"{count:,} {what}s"


def short(text: str) -> str:
    """Return a text escaped, and no longer than is shown."""
    seen = visible(text)
    return seen if len(seen) <= _LONGEST else f"{seen[:_LONGEST]}…"


class GitReport:
    """Git's report on a repository: kinds and peeled hashes by hash, subjects by commit."""

    def __init__(self, facts: GitFacts, answer: GitAnswer) -> None:
        self.answer = answer
        types = [line.split(" ") for line in answer.of("types")]
        asked = facts.store.wanted
        self.kinds: dict[str, tuple[str, str]] = {}
        if len(types) == len(asked):
            named = zip(asked, types, strict=True)
            self.kinds = {
                name: (line[0], line[1]) for name, line in named if line[1:] not in ([], ["missing"])
            }
        tips = (line.partition(" ") for line in answer.of("tips"))
        self.subjects: dict[str, str] = {oid: short(subject.strip()) for oid, _, subject in tips}

    def tip(self, oid: str | None) -> str:
        """Return a hash as it is shown, with the subject of its commit."""
        if not is_hash(oid):
            return "nothing" if oid is None else short(ref_kind(oid))
        kind, peeled = self.kinds.get(f"{oid}^{{}}", ("", oid))
        subject = self.subjects.get(peeled, "" if kind in {"", "commit"} else f"({kind})")
        return f"{oid[:8]} {subject}".strip()

    def number(self, name: str) -> int | None:
        """Return how many commits a range has, None where that is not known."""
        lines = self.answer.of("count", name)
        return int(lines[0]) if lines and lines[0].isdigit() else None

    def count(self, name: str) -> str:
        """Say how many commits a range has."""
        number = self.number(name)
        if number is None:
            return "commits"
        return f"more than {_MOST_COMMITS:,} commits" if number > _MOST_COMMITS else many(number, "commit")

    def commits(self, name: str) -> str:
        """Name the first commits of a range, and say how many more there are."""
        lines = self.answer.of("log", name)
        shown = [f"{line[:8]} {short(line.partition(' ')[2].strip())}".strip() for line in lines]
        more = (self.number(name) or 0) - len(lines)
        return "; ".join([*shown, f"and {more:,} more"] if more > 0 else shown)


def confirm(facts: GitFacts, report: GitReport) -> None:
    """Deny what git does not confirm."""
    path = facts.repository.path
    for pack in facts.store.packs:
        if not report.answer.is_good("pack", pack):
            for rest in facts.repository.changes:
                if rest.rpartition(".")[0] == f"objects/pack/{pack.removesuffix('.pack')}":
                    facts.deny(path(rest), "it does not hold what git wrote there")
    led = [(_place(facts, move.name), move.name, move.new) for move in facts.moves]
    if facts.head[0] != facts.head[1]:
        led.append((path("HEAD"), "HEAD", facts.head_oid[1]))
    led += [(path(name), name, oid) for name, oids in facts.pointers.items() for oid in oids]
    for place, name, oid in led:
        _confirm_reference(facts, report, place, name, oid)
    for oid, peeled in facts.peeled.items():
        if report.kinds.get(f"{oid}^{{}}", ("", ""))[1] != peeled:
            facts.deny(path("packed-refs"), "it says that a tag leads elsewhere than it does")
    if facts.store.connected and not report.answer.is_good("connected"):
        _deny_disconnected(facts, [place for place, _, oid in led if oid is not None])


def _confirm_reference(facts: GitFacts, report: GitReport, place: str, name: str, oid: str | None) -> None:
    if not is_hash(oid):
        return
    is_of_commits = name == "HEAD" or name.startswith(("refs/heads/", "refs/remotes/", "refs/stash"))
    if oid not in report.kinds:
        facts.deny(place, "it leads to what is not there")
    elif is_of_commits and report.kinds[oid][0] != "commit":
        facts.deny(place, "it leads to no commit")


def _deny_disconnected(facts: GitFacts, places: list[str]) -> None:
    for place in places:
        facts.deny(place, "not all that it leads to is there")
    for rest, one in facts.repository.changes.items():
        if facts.removed and one.after is None and rest.startswith("objects/"):
            facts.deny(one.path, "something that references or the index lead to would be lost")


def _place(facts: GitFacts, name: str) -> str:
    """Return the path by which a reference became another."""
    at = name if name in facts.repository.changes else "packed-refs"
    return facts.repository.path(at)
