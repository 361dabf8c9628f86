"""Describe what a trial run changed below `.git`, and deny what must never be kept.

Commits made, references moved, paths staged and settings changed take the place of the files by which git
remembers them. What git runs, obeys or is led by is denied, and so is all that is not known to be harmless.
Each description was verified against the files it replaces.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import TYPE_CHECKING

import trio

from leeward.security.lazy import dataclass
from leeward.security.outcome import ToolError
from leeward.security.sandbox import judge_settings, settings_listed
from leeward.security.text import visible

from ..sandbox import Changes, UpperTree
from .gather import gathered
from .store import GitStore, Look
from .view import GitView, Repository, TooMuch, repositories_in
from .words import words_of

if TYPE_CHECKING:
    from ..files import DirHandle
    from .facts import GitFacts

__all__ = ["GitChanges", "GitLimits", "git_changes_of"]


@dataclass(frozen=True, slots=True)
class GitLimits:
    """How many bytes are read of repositories, how many entries looked at, and how many repositories."""

    max_bytes: int = 256 << 20
    max_entries: int = 200_000
    max_repositories: int = 50


@dataclass(frozen=True, slots=True)
class GitChanges:
    """What the changes of a run mean to git. All paths are relative to the workspace.

    `lines` speak for the paths that are `covered`, in the repositories of the folders `tops`. `asks` are
    settings that became others. `denied` are paths that must not be kept, each with the reason. `unchanged`
    are files that were written anew with the same meaning, or that git makes anew from others: they count as
    nothing, and must be left out of what is kept. With `is_cut` there was more than is looked at, or git
    could not tell.
    """

    lines: tuple[str, ...] = ()
    tops: tuple[str, ...] = ()
    covered: frozenset[str] = frozenset()
    denied: tuple[tuple[str, str], ...] = ()
    asks: tuple[str, ...] = ()
    unchanged: frozenset[str] = frozenset()
    is_cut: bool = False


async def git_changes_of(
    upper: int,
    lower: DirHandle,
    changes: Changes,
    workspace: str,
    look: Look,
    limits: GitLimits | None = None,
) -> GitChanges:
    """Return what the changes of a run mean to git.

    Args:
        upper: a handle on the upper's root; it stays open.
        lower: the workspace's root, opened before the run.
        changes: what was found in the upper.
        workspace: where the workspace lies.
        look: runs git, confined, on a folder of ours.
        limits: how much work may be done.

    Raises:
        OSError: the upper or the workspace could not be read.
    """
    bounds = limits or GitLimits()
    with UpperTree.of(upper) as tree:
        view = GitView.of(tree, lower, changes, (bounds.max_bytes, bounds.max_entries))
        report = _Report()
        try:
            found, refused = await trio.to_thread.run_sync(repositories_in, view)
        except TooMuch as error:
            return GitChanges(denied=((".", f"git: {error}"),), is_cut=True)
        report.denied += refused
        for repository in found[: bounds.max_repositories]:
            await _tell(report, view, repository, workspace, look)
        for repository in found[bounds.max_repositories :]:
            report.refuse(repository, "it is one of more repositories than are looked at")
        return report.whole()


@dataclass(slots=True)
class _Report:
    """The results for all repositories so far."""

    lines: list[str] = field(default_factory=list)
    tops: list[str] = field(default_factory=list)
    covered: set[str] = field(default_factory=set)
    denied: list[tuple[str, str]] = field(default_factory=list)
    asks: list[str] = field(default_factory=list)
    unchanged: set[str] = field(default_factory=set)
    is_cut: bool = False

    def refuse(self, repository: Repository, why: str) -> None:
        """Refuse everything in a repository that cannot be read."""
        self.denied.append((repository.root or ".", why))
        self.is_cut = True

    def whole(self) -> GitChanges:
        denied = {path for path, _ in self.denied}
        return GitChanges(
            tuple(self.lines),
            tuple(self.tops),
            frozenset(self.covered - denied),
            tuple(dict.fromkeys(self.denied)),
            tuple(self.asks),
            frozenset(self.unchanged - denied - self.covered),
            self.is_cut,
        )


async def _tell(report: _Report, view: GitView, repository: Repository, workspace: str, look: Look) -> None:
    """Say what one repository's changes mean."""
    store = await trio.to_thread.run_sync(GitStore.made)
    try:
        facts = await trio.to_thread.run_sync(gathered, view, repository, store, workspace)
        asks = await _settings(facts, look)
        answer = await store.answer(look) if facts.needs_git else None
        if answer is not None and answer.why_not:
            report.refuse(repository, f"the meaning of its changes is unknown: {answer.why_not}")
            report.denied += facts.denials()
            return
        lines = await trio.to_thread.run_sync(words_of, facts, answer)
    except TooMuch as error:
        report.refuse(repository, f"the meaning of its changes is unknown: {error}")
        return
    except (OSError, ToolError) as error:
        report.refuse(repository, f"what its changes mean cannot be read: {visible(str(error))}")
        return
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(store.drop)
    report.is_cut = report.is_cut or facts.is_cut
    report.denied += facts.denials()
    report.covered |= facts.covered
    if facts.covered:
        report.tops.append(repository.top)
    report.unchanged |= facts.unchanged
    report.lines += _placed(repository, lines)
    report.asks += _placed(repository, asks)


async def _settings(facts: GitFacts, look: Look) -> list[str]:
    """Judge the settings that changed, and return what to ask about."""
    if facts.settings is None:
        return []
    path, has_before = facts.settings
    await trio.to_thread.run_sync(facts.store.write)
    after = await facts.store.settings(look, "after")
    before = await facts.store.settings(look, "before") if has_before else ""
    if after is None or before is None:
        facts.deny(path, "git cannot read it")
        return []
    old, new = settings_listed(before), settings_listed(after)
    judged = judge_settings(old, new, is_new=facts.repository.is_new)
    for why in judged.denied:
        facts.deny(path, why)
    if judged.denied:
        return []
    (facts.unchanged if old == new and not facts.repository.is_new else facts.covered).add(path)
    return list(judged.asks)


def _placed(repository: Repository, lines: Iterable[str]) -> list[str]:
    """Return lines with where they hold, unless that is the workspace itself."""
    place = visible(repository.top)
    return [f"in {place}/: {line}" if place else line for line in lines]
