"""Collect the lookups that judging a line needs of the machine.

The judgement itself is run once with facts that only record which keys are read, so the list holds
everything that is needed and nothing else. The lookups are made outside `security/`, by the surveyor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...policy import Policy, ShellRules
from ..expand import print_line
from ..syntax import CommandFacts, CommandLine
from .assessment import assess
from .suggest import alternatives
from .verdict import ruled

__all__ = ["Wanted", "surveyed", "together", "wanted"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to look up; the fields are the keys of `CommandFacts`.

    For every path a glob matches, and each of `exists` that there is, `real` must hold where it leads, too;
    and where `trees` names a glob, what lies below each of its matches.
    """

    real: tuple[str, ...] = ()
    matches: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    trees: tuple[str, ...] = ()
    repositories: tuple[str, ...] = ()
    exists: tuple[str, ...] = ()
    history: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in _ANSWERS)


@dataclass(slots=True)
class _Asked(Mapping[str, Any]):
    """Knows an answer to everything, and what it was asked."""

    answer: Callable[[str], object]
    keys_asked: dict[str, None] = field(default_factory=dict)

    def __getitem__(self, key: str) -> object:
        self.keys_asked[key] = None
        return self.answer(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys_asked)

    def __len__(self) -> int:
        return len(self.keys_asked)


def wanted(line: CommandLine, policy: Policy, rules: ShellRules) -> Wanted:
    """Return what judging a line will ask for."""
    asked = {name: _Asked(answer) for name, answer in _ANSWERS.items()}
    facts = CommandFacts(**asked)
    ruled(line, facts, policy, rules)
    # An answer given in advance holds in the folders that the commands start in.
    assess(line, facts, policy).grounds  # noqa: B018 — asking is what is written down
    for _, instead in alternatives(line):
        if isinstance(instead, CommandLine):
            ruled(instead, facts, policy, rules)
    return Wanted(**{name: tuple(found.keys_asked) for name, found in asked.items()})


# A pattern stands for all it matches: what is asked of it is wanted of each.
_ANSWERS: Mapping[str, Callable[[str], object]] = {
    "real": lambda path: path,
    "matches": lambda pattern: (pattern,),
    "programs": lambda name: f"/usr/bin/{name}",
    "trees": lambda _: (),
    "repositories": lambda _: (),
    "exists": lambda _: False,
    "history": lambda _: "",
}


def together(several: Iterable[Wanted]) -> Wanted:
    """Return what several lines ask for as one."""
    found: dict[str, dict[str, None]] = {name: {} for name in _ANSWERS}
    for one in several:
        for name, keys in found.items():
            keys.update(dict.fromkeys(getattr(one, name)))
    return Wanted(**{name: tuple(keys) for name, keys in found.items()})


def surveyed(line: CommandLine, facts: CommandFacts, policy: Policy) -> CommandLine:
    """Return a line with what was looked up for it, which of its actions only read, and how it is run."""
    found = assess(line, facts, policy)
    printed = line.printed
    if printed is not None and found.pinned:
        printed = print_line(line.root, policy.workspace, found.pinned)
    return replace(line, facts=facts, quiet=found.quiet, printed=printed)
