"""Turn the result of a trial or read-only run into an Action of its own, judged by the same gates.

What a trial run changed is one that keeps it: `keep`. No list of tools holds it, and no model can call it.
What a read-only run wanted to change is one that runs the same command line again, so that it can. Either
hangs on the call whose command line ran: it is a decision and an outcome more of that call, and counts for
no budget.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from .action import following_action
from .call import (
    AGAIN,
    Action,
    Again,
    Atom,
    Checked,
    Cleared,
    Proposal,
    Rerun,
    ToolExecutor,
    ToolResult,
    ToolSpec,
)
from .kinds import Effect, Json, Kind, Runs
from .lazy import dataclass
from .outcome import Output, PolicyBlocked
from .paths import Preview, ResolvedPath
from .policy import KEEP

__all__ = [
    "KeepExecutor",
    "Proposals",
    "again_action",
    "keep_action",
    "with_again",
    "with_kept",
    "without_names",
]

_SECONDS = 600.0
_SUFFIX = ".keep"


def keep_action(of: Action, proposal: Proposal, covered_by: str = "") -> Action:
    """Return what is judged of the changes of a run: each path and repository, as the run left it.

    `covered_by` names whose answer to the command lines is one to what they changed.
    """
    of = of.of or of
    arguments: dict[str, Json] = {
        "paths": list(proposal.paths),
        "repositories": list(proposal.repositories),
        "changes": proposal.digest,
    }
    paths = (
        Atom(Kind.PATH, f"/paths/{index}", path, ResolvedPath(path, path))
        for index, path in enumerate(proposal.paths)
    )
    repositories = (
        Atom(Kind.RESOURCE_ID, f"/repositories/{index}", name, name)
        for index, name in enumerate(proposal.repositories)
    )
    call_id = f"{of.call.id}{_SUFFIX}"
    keep = following_action(of, call_id, _spec(proposal), arguments, (*paths, *repositories))
    return replace(keep, is_cut=proposal.is_cut, covered_by=covered_by)


def _spec(proposal: Proposal) -> ToolSpec:
    def preview(_: Action) -> Preview:
        return Preview("changes", proposal.shown, ("command", "paths", "repositories", "changes"))

    description = "Keep what a command changed in its trial run."
    return ToolSpec(KEEP, description, {}, Checked, Effect.WRITE, timeout=_SECONDS, preview=preview)


@dataclass(slots=True)
class Proposals:
    """What one call proposes, from its `executor` to who judges it; what nobody takes is discarded.

    `wished` are the paths that its read-only run wanted to change, `rerun` is a second run that it offers.
    """

    executor: ToolExecutor
    wished: tuple[str, ...] = ()
    rerun: Rerun | None = field(default=None)
    _proposal: Proposal | Again | None = field(default=None)
    _is_over: bool = False

    def put(self, proposal: Proposal | Again | Rerun) -> None:
        """Take one in: one of each call, a second run besides, and none once the call is over.

        Raises:
            PolicyBlocked: there is one, or the call is over; it is discarded.
        """
        if isinstance(proposal, Rerun):
            self.rerun = None if self._is_over else proposal
            return
        if self._proposal is not None or self._is_over:
            proposal.close()
            raise PolicyBlocked("a call has one trial run, and only while it runs")
        self._proposal = proposal

    def wish(self, paths: Sequence[str]) -> None:
        """Take in what a read-only run wanted to change."""
        self.wished = () if self._is_over else tuple(paths)

    def again(self, of: Action, runs: Runs, covers: str) -> Action | None:
        """Return the call once more, where what came of it calls for that; `covers` as in `Judgement`.

        What is a second run for want of hosts is not made again for want of room.
        """
        if self.wished and runs is Runs.READ_ONLY:
            return again_action(of, self.wished)
        if isinstance(self._proposal, Again) and of.of is None:
            return again_action(of, again=replace(self._proposal, covers=covers))
        return None

    def take(self) -> Proposal | None:
        """Return what there is; the caller owns it."""
        self._is_over = True
        proposal, self._proposal = self._proposal, None
        return None if isinstance(proposal, Again) else proposal

    def close(self) -> None:
        """Discard what nobody took."""
        proposal = self.take()
        if proposal is not None:
            proposal.close()


@dataclass(frozen=True, slots=True)
class KeepExecutor:
    """Carries out a cleared `keep`, in the place of the executor that every other call goes to."""

    proposal: Proposal

    def specs(self) -> Sequence[ToolSpec]:
        """Return no tool: nobody can call it."""
        return ()

    async def execute(self, cleared: Cleared) -> Output:
        """Change the workspace as the trial run left it."""
        return await self.proposal.keep(cleared)


def with_kept(result: ToolResult, kept: ToolResult) -> ToolResult:
    """Return a command's result with the outcome of its changes; a refusal of these is no failure."""
    error = kept.error or {}
    is_whole = kept.error is None or _is_refusal(error)
    return replace(
        result,
        text=f"{result.text}\n{kept.text}",
        shown=f"{result.shown}\n{kept.shown}",
        error=None if is_whole else {**error, "output": result.shown},
        outcome=result.outcome if is_whole else replace(kept.outcome, exit_code=result.outcome.exit_code),
        warnings=(*result.warnings, *kept.warnings),
    )


def _is_refusal(error: Mapping[str, Json]) -> bool:
    """Whether the person, or autonomy readonly, did not want what a command led to: no failure of it."""
    return error.get("code") == "DECLINED" or error.get("rule") == "readonly"


def without_names(kept: ToolResult) -> ToolResult:
    """Return what came of changes without their names, which a program chose that was lent a secret."""
    result = "its changes were kept" if kept.error is None else "its changes were not kept"
    plain = ("code", "phase", "retryable", "gate", "rule", "category")
    named = {name: value for name, value in (kept.error or {}).items() if name in plain}
    error = None if kept.error is None else {**named, "message": result}
    return replace(kept, text=result, shown=result, error=error, warnings=())


def again_action(of: Action, wished: tuple[str, ...] = (), again: Again | None = None) -> Action:
    """Return what is judged of running a command line again.

    It ran read-only and wanted to change paths, or wrote more than could be held.
    """
    return replace(of, call=replace(of.call, id=f"{of.call.id}{AGAIN}"), wished=wished, again=again)


def with_again(result: ToolResult, again: ToolResult) -> ToolResult:
    """Return the result of a command that was run again; without leave to, that of its read-only run."""
    if again.outcome.gate is None:
        return replace(again, call=result.call, warnings=(*result.warnings, *again.warnings))
    error = again.error or {}
    is_whole = _is_refusal(error)
    return replace(
        result,
        text=f"{result.text}\n{again.text}",
        shown=f"{result.shown}\n{again.shown}",
        error=result.error if is_whole else {**error, "output": result.shown},
        outcome=result.outcome if is_whole else replace(again.outcome, exit_code=result.outcome.exit_code),
    )
