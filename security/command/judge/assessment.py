"""Assess a line on this machine, whatever the configuration says of commands.

The outline is every command with where it runs and its form for each value of a loop. Each part of the
assessment is worked out when it is first asked for, so that a survey looks up no more than is needed. Bombs,
lines that start something without end, are recognised here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial

from ...policy import Policy
from ..expand import (
    Bound,
    Folders,
    Placed,
    bound,
    git_places,
    guessed,
    leads_inside,
    loop_of,
    nodes,
    open_target,
    placed,
    set_by_builtins,
    settled,
    vectors,
    visits,
    with_each_name,
    written,
)
from ..syntax import Command, CommandFacts, CommandLine, Compound, Node, Word, crude_words
from .destructive import destroyed_by_unknown, destruction, may_destroy, piped_removals, unsure_destruction
from .paths import Objection, Scene
from .protected import changed_later, named, touched
from .readonly import is_pinned, program_of, why_not_readonly

__all__ = [
    "Assessment",
    "Outline",
    "assess",
    "bomb",
    "folders_of",
    "functions",
    "looks_like_bomb",
    "outline_of",
]


_SPREADS = frozenset({"pipeline", "start of a pipeline", "background"})
_ENDLESS = {"while": frozenset({"true", ":"}), "until": frozenset({"false"})}
_SLOWS = frozenset("sleep wait break exit return read".split())
_NAME = r"[^\s(){};|&<>$'\"`]"
_TEXT = re.compile(
    rf"(?<!{_NAME})(?P<name>{_NAME}{{1,64}})\s{{0,8}}(?:\(\s{{0,8}}\)\s{{0,8}})?[{{(]\s{{0,8}}(?P=name)\s{{0,8}}(?:\|&?|&)"
    rf"\s{{0,8}}(?P=name)(?!{_NAME})"
)


def bomb(parts: list[Node]) -> bool:
    """Whether functions among these nodes call each other without end, or an endless loop starts more."""
    calls = {
        function.name: {
            (visit.command.name, not _SPREADS.isdisjoint(visit.context)) for visit in visits(function)
        }
        for function in functions(parts)
    }
    return any(_spreads_to_itself(name, calls) for name in calls) or any(map(_floods, parts))


def functions(parts: list[Node]) -> Iterator[Compound]:
    """Yield the functions among the nodes of a line."""
    return (node for node in parts if isinstance(node, Compound) and node.kind == "function")


def looks_like_bomb(text: str) -> bool:
    """Whether a text that was not read defines a function that calls itself twice."""
    return _TEXT.search(text) is not None


def _spreads_to_itself(start: str, calls: dict[str, set[tuple[str, bool]]]) -> bool:
    """Whether a function comes back to itself by calls of which one goes on beside the others."""
    waiting, seen = [(start, False)], set[tuple[str, bool]]()
    while waiting:
        name, spread = waiting.pop()
        for called, spreads in calls[name]:
            reached = (called, spread or spreads)
            if reached == (start, True):
                return True
            if called in calls and reached not in seen:
                seen.add(reached)
                waiting.append(reached)
    return False


def _floods(node: Node) -> bool:
    """Whether a loop without end puts something into the background and never waits."""
    if not isinstance(node, Compound) or node.kind != "while":
        return False
    parts = [piece for piece in node.pieces if not isinstance(piece, (str, Word))]
    head = [visit.command for visit in visits(parts[0])] if parts else []
    body = [visit for part in parts[1:] for visit in visits(part)]
    is_endless = all(command.name in _ENDLESS.get(str(node.pieces[0]), ()) for command in head)
    starts = any("background" in visit.context for visit in body)
    return is_endless and starts and not _SLOWS & {visit.command.name for visit in body}


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


_NOTHING = CommandFacts()
_MOST_HIDDEN = 512


def assess(line: CommandLine, facts: CommandFacts | None, policy: Policy) -> Assessment:
    """Return what speaks against a line; without facts, nothing counts as only reading."""
    return line.once.of(Assessment, outline_of(line, policy), policy, facts or _NOTHING)


@dataclass(frozen=True)
class Assessment:
    """A line held against what was looked up; not slotted, for the parts are kept in the object."""

    outline: Outline
    policy: Policy
    facts: CommandFacts

    @cached_property
    def destroyed(self) -> tuple[str, str] | None:
        """What the line would destroy, and why that is a no."""
        for at in (*self.outline.likely, *self.outline.removals):
            scene = self._at(at.folders)
            why = destruction(at, scene) or destroyed_by_unknown(at, scene)
            if why is not None:
                return why
        return None

    @cached_property
    def problems(self) -> tuple[tuple[Placed, Objection], ...]:
        """Why commands of the line do more than read what may be read."""
        return tuple((one.at, problem) for one, problem in self._each if problem is not None)

    @cached_property
    def secret(self) -> Objection | None:
        """What secret file it reads, or would read if its variables are what they are thought to be."""
        found = (problem for _, problem in (*self.problems, *self._thought))
        return next((problem for problem in found if problem.rule == "secret"), None)

    @cached_property
    def forced(self) -> tuple[Objection, ...]:
        """What only a person present may allow."""
        return tuple(self._forced())

    @cached_property
    def quiet(self) -> frozenset[tuple[str, ...]]:
        """The actions of commands that only read, wherever in the line they stand."""
        open_ones: set[tuple[str, ...]] = set()
        quiet: set[tuple[str, ...]] = set()
        for one, problem in self._each:
            done = set(vectors(one.at.command))
            if problem is not None and problem.rule == "writes" and self._only_reads(one.at):
                # What it writes is an action of its own.
                read = {tuple(word.text for word in one.at.command.words)}
                quiet |= read
                done -= read
            (quiet if problem is None else open_ones).update(done)
        return frozenset(quiet - open_ones)

    @cached_property
    def pinned(self) -> frozenset[int]:
        """The identities of git commands that are held to the plain repository at the workspace's root."""
        return frozenset(
            id(one.at.command)
            for one in self.outline.every
            if one.at.command.program == "git" and is_pinned(one.at, self._at(one.at.folders))
        )

    @cached_property
    def grounds(self) -> Mapping[tuple[str, ...], frozenset[str] | None]:
        """The folders that each action may start in, links resolved; None where they are not known."""
        found: dict[tuple[str, ...], frozenset[str] | None] = {}
        for one in self.outline.every:
            folders = folders_of(one.at, self.policy, self.facts)
            for argv in vectors(one.at.command):
                before = found.get(argv, frozenset())
                found[argv] = None if folders is None or before is None else before | folders
        return found

    @cached_property
    def _each(self) -> tuple[tuple[Bound, Objection | None], ...]:
        return tuple((one, why_not_readonly(one, self._at(one.at.folders))) for one in self.outline.every)

    @cached_property
    def _thought(self) -> tuple[tuple[Placed, Objection], ...]:
        """The same for what commands are if their variables are what they are thought to be."""
        if not any(one.at.guesses or one.at.bindings for one in self.outline.every):
            return ()
        found = ((at, why_not_readonly(Bound(at, (at,)), self._at(at.folders))) for at in self.outline.likely)
        return tuple((at, problem) for at, problem in found if problem is not None)

    def _only_reads(self, at: Placed) -> bool:
        """Whether a command only reads but for what it writes by redirections."""
        bare = replace(at, command=replace(at.command, redirections=()))
        return at.command.words != () and why_not_readonly(Bound(bare, (bare,)), self._at(at.folders)) is None

    def _at(self, folders: Folders) -> Scene:
        return Scene(self.policy, self.facts, folders)

    def _written(self, at: Placed, target: str) -> Iterator[Objection]:
        """Look at each file a loop writes, where that can be told; any other could be a protected one."""
        name = loop_of(at)
        is_alone = all(f"for {name}" in other.context for other, _ in self.problems)
        each = with_each_name(at, name, self.facts, self.policy) if name is not None and is_alone else None
        told = [self._is_told(one) for one in each or ()]
        if each is None or not all(told):
            yield Objection("dynamic", "where it writes is only known when it runs", target)
            return
        for one in each:
            scene = self._at(one.folders)
            found = destruction(one, scene)
            if found is not None:
                yield Objection("protected", found[1], found[0])
            yield from changed_later(one, partial(named, scene=scene))
            yield from touched(one, Objection("writes", ""), scene)

    def _is_told(self, at: Placed) -> bool:
        targets = (leads_inside(word, at, self.facts, self.policy) for word in written(at))
        # All are looked at, so that a survey asks for all.
        return all([*targets, open_target(at, self.policy, self.outline.settled) is None])

    def _hidden(self) -> dict[int, str]:
        """Return, by its command, a word that would destroy much if a program nobody knows ran it as a line.

        One that holds more to look at than is looked at in a line could do so, too.
        """
        found: dict[int, str] = {}
        left = _MOST_HIDDEN
        for at in (one.at for one in self.outline.every):
            if program_of(at.command.program) is not None or at.command.program == "git":
                continue
            scene = self._at(at.folders)
            for word in (word.text for word in at.command.words[1:] if " " in word.text):
                for command in crude_words(word.replace("=", " "), self.policy.home):
                    left -= len(command.words) if may_destroy(command.program) else 0
                    if left < 0 or destruction(Placed(command, (), at.folders), scene) is not None:
                        found[id(at.command)] = word
                        break
                if id(at.command) in found:
                    break
        return found

    def _forced(self) -> Iterator[Objection]:
        hidden = self._hidden()
        for one in self.outline.every:
            for at in (one.at, *(each for each in one.each or () if each is not one.at)):
                for note in at.command.notes:
                    yield Objection(note.rule, note.reason, at.command.name)
            target = open_target(one.at, self.policy, self.outline.settled)
            if target is not None:
                yield from self._written(one.at, target)
            if id(one.at.command) in hidden:
                why = "a word of it destroys much if something runs it"
                yield Objection("code", why, hidden[id(one.at.command)])
        for at in (*(one.at for one in self.outline.every), *self.outline.removals):
            unsure = unsure_destruction(at)
            if unsure is not None:
                yield Objection("dynamic", unsure, at.command.name)
        for at in self.outline.likely if self.problems else ():
            yield from changed_later(at, partial(named, scene=self._at(at.folders)))
        for at, problem in (*self.problems, *self._thought):
            yield from touched(at, problem, self._at(at.folders))


def folders_of(at: Placed, policy: Policy, facts: CommandFacts) -> frozenset[str] | None:
    """Return the folders a command may start in, links resolved; None where they are not known.

    An answer for a command holds where it was given: the same words run another program, or the same
    program on other files, in any other folder. Git works where `-C` sends it.
    """
    folders = git_places(at, policy) if at.command.program == "git" else at.folders
    workspace, real = policy.workspace, facts.real
    known = [folder if folder == workspace else real.get(folder, "") for folder in folders or ()]
    return frozenset(known) if known and all(known) else None
