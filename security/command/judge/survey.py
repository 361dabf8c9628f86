"""Collect the lookups that judging a line needs of the machine.

The judgement itself is run once with facts that only record which keys are read, so the list holds
everything that is needed and nothing else. The lookups are made outside `security/`, by the surveyor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from typing import Any

from ...kinds import CommandFacts, CommandLine, Wanted
from ...lazy import dataclass
from ...policy import Policy, ShellRules
from .assessment import assess
from .code import code_of
from .suggest import alternative
from .verdict import ruled

__all__ = ["surveyed", "wanted"]


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
    _, instead = alternative(line)
    if isinstance(instead, CommandLine):
        ruled(instead, facts, policy, rules)
    code = code_of(assess(line, facts, policy))
    return Wanted(**{**{name: tuple(found.keys_asked) for name, found in asked.items()}, "code": code})


# A pattern represents all it matches: what is asked of it is wanted of each.
_ANSWERS: Mapping[str, Callable[[str], object]] = {
    "real": lambda path: path,
    "matches": lambda pattern: (pattern,),
    "programs": lambda name: f"/usr/bin/{name}",
    "exists": lambda _: False,
    "history": lambda _: "",
    "code": lambda _: "",
}


def surveyed(line: CommandLine, facts: CommandFacts, policy: Policy) -> CommandLine:
    """Return a line with what was looked up for it, and which of its actions only read."""
    return replace(line, facts=facts, quiet=assess(line, facts, policy).quiet)
