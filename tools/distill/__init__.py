"""Output filters: show what matters of a program's output, by rules in TOML."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeward.security.lazy import Loads, lazy_names

if TYPE_CHECKING:
    from .distillation import Distillation
    from .engine import Engine
    from .rules import Layer, Rule, RuleProblem, RuleSet, built_in_rules, commands_of

__all__ = [
    "Distillation",
    "Engine",
    "Layer",
    "Rule",
    "RuleProblem",
    "RuleSet",
    "built_in_rules",
    "commands_of",
]

_HOMES = {
    "Distillation": ".distillation",
    "Engine": ".engine",
    "Layer": ".rules",
    "Rule": ".rules",
    "RuleProblem": ".rules",
    "RuleSet": ".rules",
    "built_in_rules": ".rules",
    "commands_of": ".rules",
}

__getattr__: Loads = lazy_names(__name__, _HOMES)
