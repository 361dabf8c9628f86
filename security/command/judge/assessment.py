"""Assess a line on this machine, whatever the configuration says of commands.

Each part of the assessment is worked out when it is first asked for, so that a survey looks up no more than
is needed. Bombs, functions that start themselves without
end, are recognised here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

from ...kinds import CommandFacts, CommandLine
from ...policy import Policy
from ..expand import Folders, Placed, commands_of, git_places, nodes, placed, vectors
from ..syntax import Compound, Node, PipeNode, Sequence
from .destructive import destruction
from .paths import Objection, Scene
from .readonly import why_not_readonly
from .touched import touched

__all__ = ["Assessment", "assess", "folders_of"]

_NOTHING = CommandFacts()


def _is_bomb(function: Compound) -> bool:
    """Whether a function starts itself, and goes on beside what it started."""
    beside = (part for node in nodes(function) for part in _run_beside_others(node))
    return any(command.name == function.name for part in beside for command in commands_of(part))


def _run_beside_others(node: Node) -> tuple[Node, ...]:
    match node:
        case PipeNode(stages=stages):
            return stages
        case Sequence(items=items, separators=separators):
            return tuple(item for item, mark in zip(items, separators, strict=True) if mark == "&")
    return ()


def assess(line: CommandLine, facts: CommandFacts | None, policy: Policy) -> Assessment:
    """Return what speaks against a line; without facts, nothing counts as only reading."""
    every = line.once.of(placed, line.root, policy)
    return line.once.of(Assessment, line.root, every, policy, facts or _NOTHING)


@dataclass(frozen=True)
class Assessment:
    """A line held against what was looked up: its tree, and every command of it with where it runs.

    It is not slotted, for the parts are kept in the object.
    """

    root: Node
    every: tuple[Placed, ...]
    policy: Policy
    facts: CommandFacts

    @cached_property
    def functions(self) -> tuple[Compound, ...]:
        """The functions that the line defines."""
        found = (node for node in nodes(self.root) if isinstance(node, Compound))
        return tuple(node for node in found if node.kind == "function")

    @property
    def is_bomb(self) -> bool:
        """Whether one of these starts itself without end."""
        return any(map(_is_bomb, self.functions))

    @cached_property
    def destroyed(self) -> tuple[str, str] | None:
        """What the line would destroy, and why that is a no."""
        found = (destruction(at, self._at(at.folders)) for at in self.every)
        return next(filter(None, found), None)

    @cached_property
    def problems(self) -> tuple[tuple[Placed, Objection], ...]:
        """Why commands of the line do more than read what may be read."""
        return tuple((at, problem) for at, problem in self._each if problem is not None)

    @cached_property
    def forced(self) -> tuple[Objection, ...]:
        """What only a person present may allow."""
        notes = ((at, note) for at in self.every for note in at.command.notes)
        unread = (Objection(note.rule, note.reason, at.command.name) for at, note in notes)
        touching = (touched(at, problem, self._at(at.folders)) for at, problem in self.problems)
        return (*unread, *chain.from_iterable(touching))

    @cached_property
    def quiet(self) -> frozenset[tuple[str, ...]]:
        """The actions of commands that only read, anywhere in the line; in one with a function none does."""
        if self.functions:
            return frozenset()
        open_ones: set[tuple[str, ...]] = set()
        quiet: set[tuple[str, ...]] = set()
        for at, problem in self._each:
            done = set(vectors(at.command))
            if problem is not None and problem.rule == "writes" and self._only_reads(at):
                # What it writes is an action of its own.
                read = {tuple(word.text for word in at.command.words)}
                quiet |= read
                done -= read
            (quiet if problem is None else open_ones).update(done)
        return frozenset(quiet - open_ones)

    @cached_property
    def grounds(self) -> Mapping[tuple[str, ...], frozenset[str] | None]:
        """The folders that each action may start in, links resolved; None where they are not known."""
        found: dict[tuple[str, ...], frozenset[str] | None] = {}
        for at in self.every:
            folders = folders_of(at, self.policy, self.facts)
            for argv in vectors(at.command):
                before = found.get(argv, frozenset())
                found[argv] = None if folders is None or before is None else before | folders
        return found

    @cached_property
    def _each(self) -> tuple[tuple[Placed, Objection | None], ...]:
        return tuple((at, why_not_readonly(at, self._at(at.folders))) for at in self.every)

    def _only_reads(self, at: Placed) -> bool:
        """Whether a command only reads but for what it writes by redirections."""
        bare = replace(at, command=replace(at.command, redirections=()))
        return at.command.words != () and why_not_readonly(bare, self._at(at.folders)) is None

    def _at(self, folders: Folders) -> Scene:
        return Scene(self.policy, self.facts, folders)


def folders_of(at: Placed, policy: Policy, facts: CommandFacts) -> frozenset[str] | None:
    """Return the folders a command may start in, links resolved; None where they are not known.

    An answer for a command holds where it was given: the same words run another program, or the same
    program on other files, in any other folder. Git works where `-C` sends it.
    """
    folders = git_places(at, policy) if at.command.program == "git" else at.folders
    workspace, real = policy.workspace, facts.real
    known = [folder if folder == workspace else real.get(folder, "") for folder in folders or ()]
    return frozenset(known) if known and all(known) else None
