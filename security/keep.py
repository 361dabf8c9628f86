"""Makes what a trial run changed an Action of its own: `keep`, judged by the same gates as every call.

No list of tools holds `keep`, and no model can call it. It hangs on the call whose command line ran: it is a
decision and an outcome more of that call, and counts for no budget.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from .action import canonical_json
from .call import Action, Atom, Checked, Cleared, Proposal, ToolCall, ToolResult, ToolSpec
from .kinds import Effect, Json, Kind
from .outcome import Output, PolicyBlocked
from .paths import Preview, ResolvedPath
from .policy import KEEP
from .ports import Executor

__all__ = ["KeepExecutor", "Proposals", "keep_action", "with_kept"]

_SECONDS = 600.0
_SUFFIX = ".keep"


def keep_action(of: Action, proposal: Proposal) -> Action:
    """Return what is judged of the changes of a trial run: each path and repository, as the run left it."""
    lines = [atom.shown for atom in of.of_kind(Kind.COMMAND)]
    command: Json = lines[0] if len(lines) == 1 else lines
    arguments: dict[str, Json] = {
        "command": command,
        "paths": list(proposal.paths),
        "repositories": list(proposal.repositories),
        "changes": proposal.digest,
    }
    text = canonical_json(arguments)
    call = ToolCall(f"{of.call.id}{_SUFFIX}", KEEP, text, of.call.asker, of.call.model_id)
    paths = (
        Atom(Kind.PATH, f"/paths/{index}", path, ResolvedPath(path, path))
        for index, path in enumerate(proposal.paths)
    )
    repositories = (
        Atom(Kind.RESOURCE_ID, f"/repositories/{index}", name, name)
        for index, name in enumerate(proposal.repositories)
    )
    digest = hashlib.sha256(f"{KEEP}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()
    return Action(
        call=call,
        spec=_spec(proposal),
        arguments=MappingProxyType(arguments),
        digest=digest,
        problems=(),
        atoms=(*paths, *repositories),
        effects=Effect.WRITE,
        of=of,
        is_cut=proposal.is_cut,
    )


def _spec(proposal: Proposal) -> ToolSpec:
    def preview(_: Action) -> Preview:
        return Preview("changes", proposal.shown, ("command", "paths", "repositories", "changes"))

    def check(arguments: Mapping[str, Json]) -> Checked:
        return Checked(arguments)

    description = "Keep what a command changed in its trial run."
    return ToolSpec(KEEP, description, {}, check, Effect.WRITE, timeout=_SECONDS, preview=preview)


@dataclass(slots=True)
class Proposals:
    """What one call proposes, from its `executor` to who judges it; what nobody takes is discarded."""

    executor: Executor
    _proposal: Proposal | None = field(default=None)
    _is_over: bool = False

    def put(self, proposal: Proposal) -> None:
        """Take one in: one of each call, and none once the call is over.

        Raises:
            PolicyBlocked: there is one, or the call is over; it is discarded.
        """
        if self._proposal is not None or self._is_over:
            proposal.close()
            raise PolicyBlocked("a call has one trial run, while it runs")
        self._proposal = proposal

    def take(self) -> Proposal | None:
        """Return what there is; it is whoever's who takes it."""
        self._is_over = True
        proposal, self._proposal = self._proposal, None
        return proposal

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
    """Return the result of a command with what came of its changes; a no is told, and makes it no failure."""
    told = kept.error or {}
    is_whole = kept.error is None or told.get("code") == "DECLINED" or told.get("rule") == "readonly"
    return replace(
        result,
        text=f"{result.text}\n{kept.text}",
        shown=f"{result.shown}\n{kept.shown}",
        error=None if is_whole else {**told, "output": result.shown},
        outcome=result.outcome if is_whole else replace(kept.outcome, exit_code=result.outcome.exit_code),
        warnings=(*result.warnings, *kept.warnings),
    )
