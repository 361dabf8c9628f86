"""Filter rules: read from TOML and validated down to each pattern.

    name       what the rule is called; a later file's rule of that name is laid over an earlier one
    match      exact, prefix or pattern over a command as parsed, or any = true
    on_exit    any, zero or nonzero
    strategy   one strategy, or several in their order
    enabled    false switches it off

Built-in rules are in `rules.toml`. Who reads the files of the person and of a workspace, and says on which
line something is wrong, is above (`runtime/filters.py`).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from leeward.security.kinds import CommandLine
from leeward.security.lazy import dataclass

from .reports import GitDiff, GitStatus, GroupByRule, TestSummary
from .strategies import (
    Dedup,
    KeepMatching,
    LinePattern,
    Parameters,
    StripAnnotated,
    StripNoise,
    Truncate,
    joined,
)

__all__ = ["Layer", "Match", "Rule", "RuleProblem", "RuleSet", "Strategy", "built_in_rules", "commands_of"]

Strategy: TypeAlias = Annotated[
    StripNoise
    | Truncate
    | KeepMatching
    | StripAnnotated
    | TestSummary
    | GroupByRule
    | GitStatus
    | GitDiff
    | Dedup,
    Field(discriminator="kind"),
]

# What may be asked of a workspace's own file: strategies that show every line, or one that says the same.
_FOLDING = (Dedup, GroupByRule)
_MOST_STRATEGIES = 10
# Options with which programs print an answer in place of their report.
_QUESTIONS = frozenset(
    "--help --version --list --list-tests --listTests --collect-only --co --markers --fixtures".split()
)


def commands_of(line: CommandLine) -> tuple[tuple[str, ...], ...]:
    """Return the commands of a line as words, each program by its name without its folder.

    One that is asked for its help, or to list its tests, prints an answer and no report: it is left out.
    """
    vectors = (argv for argv in line.actions if argv[0] not in {">", "<"} and not _is_asked(argv))
    return tuple(dict.fromkeys((argv[0].rpartition("/")[2], *argv[1:]) for argv in vectors))


def _is_asked(words: Sequence[str]) -> bool:
    return list(words[1:2]) == ["help"] or not _QUESTIONS.isdisjoint(words[1:])


def _begins_with(words: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether a command begins with some words, options and their values between them passed over."""
    if words[0] != wanted[0]:
        return False
    at = 1
    for word in wanted[1:]:
        while at < len(words) and words[at] != word:
            is_option = words[at][:1] in {"-", "+"}
            is_value = words[at - 1][:1] == "-" and at > 1
            if not (is_option or is_value):
                return False
            at += 1
        if at == len(words):
            return False
        at += 1
    return True


def _listed(value: object) -> object:
    return value if isinstance(value, list | tuple) else (value,)


Commands: TypeAlias = Annotated[
    tuple[Annotated[str, Field(pattern=r"\S", max_length=200)], ...],
    Field(strict=False, min_length=1),
    BeforeValidator(_listed),
]


class Match(Parameters):
    """Which commands a rule is about: all words, the first words, a pattern over the words, or any.

    Compared are the commands of a line as the parser lists them, what each starts in turn included:
    `env X=1 timeout 60 uv run pytest -q | tail` is `pytest -q`, too.
    """

    exact: Commands | None = None
    prefix: Commands | None = None
    pattern: LinePattern | None = None
    any: bool = False

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.exact is None and self.prefix is None and self.pattern is None and not self.any:
            raise PydanticCustomError("match", "expected exact, prefix, pattern or any")
        return self

    @property
    def words(self) -> tuple[str, ...]:
        """What it is about, for people."""
        pattern = () if self.pattern is None else (self.pattern,)
        return (*(self.exact or ()), *(self.prefix or ()), *pattern, *(("any",) if self.any else ()))

    def fits(self, commands: Sequence[Sequence[str]]) -> bool:
        """Whether any of the commands of a line is meant."""
        return self.any or any(self._fits(words) for words in commands)

    def _fits(self, words: Sequence[str]) -> bool:
        line = " ".join(words)
        return (
            (self.exact is not None and line in self.exact)
            or any(_begins_with(words, one.split()) for one in self.prefix or ())
            or (
                self.pattern is not None
                and joined((self.pattern,)).search(line.replace("\n", " ")) is not None
            )
        )


class Rule(Parameters):
    """One rule; `strategies` run one behind the other."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,39}$")]
    match: Match
    strategy: Annotated[
        tuple[Strategy, ...],
        Field(strict=False, min_length=1, max_length=_MOST_STRATEGIES),
        BeforeValidator(_listed),
    ]
    on_exit: Literal["any", "zero", "nonzero"] = "any"
    enabled: bool = True

    def runs(self, *, failed: bool) -> bool:
        """Whether it runs on the output of a program that failed, or did not."""
        return self.enabled and self.on_exit in {"any", "nonzero" if failed else "zero"}


Layer: TypeAlias = Literal["built in", "yours", "workspace"]
KeyPath: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class RuleProblem:
    """Something that is wrong in a file of rules: at which key, and what."""

    path: KeyPath
    message: str


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Rules by name, in the order in which they run, and whose each one is."""

    rules: Mapping[str, Rule] = field(default_factory=dict)
    layers: Mapping[str, Layer] = field(default_factory=dict)

    def of_layer(self, layer: Layer) -> tuple[str, ...]:
        """Return the names of the rules of a layer."""
        return tuple(name for name, own in self.layers.items() if own == layer)

    def with_file(self, tree: Mapping[str, Any], layer: Layer) -> tuple[RuleSet, list[RuleProblem]]:
        """Lay the rules of a file over these; a workspace's may add rules that fold, and nothing else."""
        problems = [
            RuleProblem((name,), "unknown key; a file of filters holds [[rules]]")
            for name in tree
            if name != "rules"
        ]
        entries = tree.get("rules", [])
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            return self, [*problems, RuleProblem(("rules",), "expected [[rules]], a table for each rule")]
        rules, layers = dict(self.rules), dict(self.layers)
        seen: set[str] = set()
        for index, entry in enumerate(entries):
            rule, found = self._read(index, entry, layer)
            problems += found
            if rule is None:
                continue
            if rule.name in seen:
                problems.append(
                    RuleProblem(("rules", index, "name"), f"there is another rule {rule.name} above")
                )
            seen.add(rule.name)
            rules[rule.name], layers[rule.name] = rule, layer
        return RuleSet(rules, layers), problems

    def _read(
        self, index: int, entry: Mapping[str, Any], layer: Layer
    ) -> tuple[Rule | None, list[RuleProblem]]:
        known = self.rules.get(str(entry.get("name")))
        if known is not None and layer == "workspace":
            message = f"a workspace may not change the rule {known.name}, which is {self.layers[known.name]}"
            return None, [RuleProblem(("rules", index, "name"), message)]
        given = {**known.model_dump(exclude_unset=True), **entry} if known is not None else entry
        try:
            rule = Rule.model_validate(given)
        except ValidationError as error:
            return None, [
                RuleProblem(("rules", index, *_place(one["loc"], entry)), _message(one))
                for one in error.errors()
            ]
        return rule, list(_widened(index, rule)) if layer == "workspace" else []


def _widened(index: int, rule: Rule) -> list[RuleProblem]:
    """Say what a workspace's rule would do beyond folding."""
    return [
        RuleProblem(
            ("rules", index, "strategy", number),
            f"a workspace's rule may only fold lines (dedup, group_by_rule); {strategy.kind} drops some",
        )
        for number, strategy in enumerate(rule.strategy)
        if not isinstance(strategy, _FOLDING)
    ]


def _place(loc: KeyPath, entry: Mapping[str, Any]) -> KeyPath:
    """Return where a complaint is in the file: without pydantic's names of the members of a union."""
    place: list[str | int] = []
    here: Any = entry
    for step in loc:
        inside = here.get(step) if isinstance(here, Mapping) else None
        if isinstance(here, list | tuple) and isinstance(step, int):
            inside = here[step] if step < len(here) else None
        if inside is not None or step == loc[-1]:
            place.append(step)
        here = here if inside is None else inside
    return tuple(place)


def _message(complaint: Mapping[str, Any]) -> str:
    """Put a complaint of pydantic into words, with what was found where that is short."""
    words = str(complaint["msg"]).removeprefix("Value error, ")
    known = {"missing": "nothing here, and it must be given", "extra_forbidden": "unknown key"}
    words = known.get(str(complaint["type"]), words)
    value = complaint["input"]
    shown = isinstance(value, str | int | float) and len(repr(value)) <= 60
    return f"found {value!r}: {words}" if shown and complaint["type"] != "extra_forbidden" else words


@cache
def built_in_rules() -> RuleSet:
    """Return the rules that come with the product.

    Raises:
        ValueError: one of them is none, which a test would have found.
    """
    tree = tomllib.loads(Path(__file__).with_name("rules.toml").read_text(encoding="utf-8"))
    rules, problems = RuleSet().with_file(tree, "built in")
    if problems:
        raise ValueError(str(problems[0]))
    return rules
