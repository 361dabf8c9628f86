"""What is there to judge in a line, before anything of the machine is known?

Every command with where it runs and what it is for each value of a loop. Nothing is judged here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...policy import Policy
from ..expand import Bound, Placed, bound, guessed, nodes, placed, set_by_builtins, settled
from ..syntax import Command, CommandLine, Compound, Node, Word
from .bombs import bomb, functions
from .destructive import piped_removals

__all__ = ["Outline", "outline_of"]


@dataclass(frozen=True, slots=True)
class Outline:
    """A line taken apart.

    `every` holds its commands, `likely` what they are if variables hold what they are thought to hold,
    `removals` searches whose finds something else removes, as if they did it themselves, `settled` the values
    of variables that nothing else sets.
    """

    every: tuple[Bound, ...]
    likely: tuple[Placed, ...]
    removals: tuple[Placed, ...]
    settled: Mapping[str, tuple[Word, ...]]
    is_bomb: bool
    has_functions: bool


def outline_of(line: CommandLine, policy: Policy) -> Outline:
    """Return a line taken apart, as it would run in the policy's workspace."""
    return line.once.of(_taken_apart, line.root, policy)


def _taken_apart(root: Node, policy: Policy) -> Outline:
    every = bound(placed(root, policy))
    folders = {id(one.at.command): one.at.folders for one in every}
    parts = nodes(root)
    return Outline(
        every=every,
        likely=tuple(guessed(every, policy, _taken(parts))),
        removals=tuple(
            Placed(command, (), folders.get(id(before))) for before, command in piped_removals(parts)
        ),
        settled=settled(every[0].at.guesses if every else {}, parts),
        is_bomb=bomb(parts),
        has_functions=next(functions(parts), None) is not None,
    )


def _taken(parts: list[Node]) -> frozenset[str] | None:
    """Return the names of the variables that something in a line sets; None where that could be any."""
    commands = [part for part in parts if isinstance(part, Command)]
    if any(command.name in {".", "source"} for command in commands):
        return None
    assigned = (one.name for command in commands for one in command.assignments)
    loops = (part.name for part in parts if isinstance(part, Compound))
    return frozenset((*assigned, *loops, *set_by_builtins(commands)))
