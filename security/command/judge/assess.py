"""What speaks against a line on this machine, whatever the configuration says of commands?

Each part is worked out when it is first asked for: a survey of what must be looked up then asks for no more
than is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial

from ...policy import Policy
from ..expand import (
    Bound,
    Folders,
    Placed,
    git_places,
    leads_inside,
    loop_of,
    open_target,
    vectors,
    with_each_name,
    written,
)
from ..syntax import CommandFacts, CommandLine, crude_words
from .destructive import behind_unknown, destruction, may_destroy, unsure_destruction
from .later import changed_later
from .outline import Outline, outline_of
from .paths import Problem, Scene
from .programs import program_of
from .protected import named, touched
from .readonly import problem_of

__all__ = ["Weighed", "weighed"]

_NOTHING = CommandFacts()
_MOST_HIDDEN = 512


def weighed(line: CommandLine, facts: CommandFacts | None, policy: Policy) -> Weighed:
    """Return what speaks against a line; without facts, nothing counts as only reading."""
    return line.once.of(Weighed, outline_of(line, policy), policy, facts or _NOTHING)


@dataclass(frozen=True)
class Weighed:
    """A line held against what was looked up; not slotted, for the parts are kept in the object."""

    outline: Outline
    policy: Policy
    facts: CommandFacts

    @cached_property
    def destroyed(self) -> tuple[str, str] | None:
        """What the line would destroy, and why that is a no."""
        for at in (*self.outline.likely, *self.outline.removals):
            scene = self._at(at.folders)
            why = destruction(at, scene) or behind_unknown(at, scene)
            if why is not None:
                return why
        return None

    @cached_property
    def problems(self) -> tuple[tuple[Placed, Problem], ...]:
        """Why commands of the line do more than read what may be read."""
        return tuple((one.at, problem) for one, problem in self._each if problem is not None)

    @cached_property
    def secret(self) -> Problem | None:
        """What secret file it reads, or would read if its variables are what they are thought to be."""
        found = (problem for _, problem in (*self.problems, *self._thought))
        return next((problem for problem in found if problem.rule == "secret"), None)

    @cached_property
    def forced(self) -> tuple[Problem, ...]:
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
    def grounds(self) -> Mapping[tuple[str, ...], frozenset[str] | None]:
        """The folders that each action may start in, links resolved; None where they are not known."""
        found: dict[tuple[str, ...], frozenset[str] | None] = {}
        for one in self.outline.every:
            folders = self.folders_of(one.at)
            for argv in vectors(one.at.command):
                before = found.get(argv, frozenset())
                found[argv] = None if folders is None or before is None else before | folders
        return found

    @cached_property
    def _each(self) -> tuple[tuple[Bound, Problem | None], ...]:
        return tuple((one, problem_of(one, self._at(one.at.folders))) for one in self.outline.every)

    @cached_property
    def _thought(self) -> tuple[tuple[Placed, Problem], ...]:
        """The same for what commands are if their variables are what they are thought to be."""
        if not any(one.at.guesses or one.at.bindings for one in self.outline.every):
            return ()
        found = ((at, problem_of(Bound(at, (at,)), self._at(at.folders))) for at in self.outline.likely)
        return tuple((at, problem) for at, problem in found if problem is not None)

    def folders_of(self, at: Placed) -> frozenset[str] | None:
        """Return the folders a command may start in, links resolved; None where they are not known.

        An answer for a command holds where it was given: the same words run another program, or the same
        program on other files, in any other folder. Git works where `-C` sends it.
        """
        folders = git_places(at, self.policy) if at.command.program == "git" else at.folders
        workspace, real = self.policy.workspace, self.facts.real
        known = [folder if folder == workspace else real.get(folder, "") for folder in folders or ()]
        return frozenset(known) if known and all(known) else None

    def _only_reads(self, at: Placed) -> bool:
        """Whether a command only reads but for what it writes by redirections."""
        bare = replace(at, command=replace(at.command, redirections=()))
        return at.command.words != () and problem_of(Bound(bare, (bare,)), self._at(at.folders)) is None

    def _at(self, folders: Folders) -> Scene:
        return Scene(self.policy, self.facts, folders)

    def _written(self, at: Placed, target: str) -> Iterator[Problem]:
        """Look at each file a loop writes, where that can be told; any other could be a protected one."""
        name = loop_of(at)
        is_alone = all(f"for {name}" in other.context for other, _ in self.problems)
        each = with_each_name(at, name, self.facts, self.policy) if name is not None and is_alone else None
        told = [self._is_told(one) for one in each or ()]
        if each is None or not all(told):
            yield Problem("dynamic", "where it writes is only known when it runs", target)
            return
        for one in each:
            scene = self._at(one.folders)
            found = destruction(one, scene)
            if found is not None:
                yield Problem("protected", found[1], found[0])
            yield from changed_later(one, partial(named, scene=scene))
            yield from touched(one, Problem("writes", ""), scene)

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

    def _forced(self) -> Iterator[Problem]:
        hidden = self._hidden()
        for one in self.outline.every:
            for at in (one.at, *(each for each in one.each or () if each is not one.at)):
                for note in at.command.notes:
                    yield Problem(note.rule, note.reason, at.command.name)
            target = open_target(one.at, self.policy, self.outline.settled)
            if target is not None:
                yield from self._written(one.at, target)
            if id(one.at.command) in hidden:
                why = "a word of it destroys much if something runs it"
                yield Problem("code", why, hidden[id(one.at.command)])
        for at in (*(one.at for one in self.outline.every), *self.outline.removals):
            unsure = unsure_destruction(at)
            if unsure is not None:
                yield Problem("dynamic", unsure, at.command.name)
        for at in self.outline.likely if self.problems else ():
            yield from changed_later(at, partial(named, scene=self._at(at.folders)))
        for at, problem in (*self.problems, *self._thought):
            yield from touched(at, problem, self._at(at.folders))
