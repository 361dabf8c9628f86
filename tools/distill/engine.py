"""Choose the rules that fit a command: the `Distiller` of the pipeline.

    CommandLine ─► rules that fit ─► Distillation: feed … feed, finish ─► Distilled

The rules and what runs them (`distillation.py`) are loaded with the first output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeward.security import command

from .. import distill

if TYPE_CHECKING:
    from leeward.security.kinds import CommandLine

    from .distillation import Distillation
    from .rules import Rule, RuleSet

__all__ = ["Engine"]


class Engine:
    """Filters outputs by rules: those that come with the product unless others are given.

    These are read when the first command prints something, for most starts need none.
    """

    def __init__(self, rules: RuleSet | None = None) -> None:
        self._given = rules

    @property
    def rules(self) -> RuleSet:
        """All rules, in the order in which they run."""
        return distill.built_in_rules() if self._given is None else self._given

    def begin(self, line: CommandLine | None) -> Distillation:
        """Begin with the output of a command line, None where nobody could read it."""
        return distill.Distillation(
            self.fitting(line), self.rules, line is not None and command.success_is_of_all(line)
        )

    def fitting(self, line: CommandLine | None) -> tuple[Rule, ...]:
        """Return the rules for a line, those for any output last but for a workspace's."""
        commands = () if line is None else distill.commands_of(line)
        fitting = [rule for rule in self.rules.rules.values() if rule.enabled and rule.match.fits(commands)]
        workspace = self.rules.of_layer("workspace")
        return tuple(sorted(fitting, key=lambda rule: (rule.name in workspace, rule.match.any)))
