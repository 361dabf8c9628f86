"""Turn a second run of a command into an Action of its own: `network`, about the hosts the first run lacked.

The hosts come from the proxy's own record of what it refused, never from what a program printed. The gates
judge them like those that a line names, the person is asked once, and a yes runs the line again, on trial.
Like `keep`, it hangs on the call whose line ran, no list of tools holds it, and it counts for no budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

from .action import following_action
from .call import Action, Asker, Atom, Checked, Cleared, Rerun, ToolResult, ToolSpec
from .keep import Proposals
from .kinds import Effect, Kind
from .lazy import dataclass
from .outcome import Output
from .paths import Preview
from .policy import NETWORK

__all__ = ["RerunExecutor", "rerun_action", "rerun_of", "with_rerun"]

_SUFFIX = f".{NETWORK}"
_MOST = 5
"""Runs that one line gets for want of hosts: rules may answer each time, and a program try others."""

_EFFECTS = Effect.EXECUTE | Effect.SEND | Effect.BRING_IN


def rerun_action(of: Action, rerun: Rerun) -> Action:
    """Return what is judged of a second run: the hosts it is to reach. Nobody typed these."""
    first = of.of or of
    first = replace(first, call=replace(first.call, asker=Asker.MODEL))
    atoms = (Atom(Kind.HOST, f"/hosts/{index}", host, host) for index, host in enumerate(rerun.hosts))
    call_id = f"{of.call.id}{_SUFFIX}"
    return following_action(first, call_id, _spec(first), {"hosts": list(rerun.hosts)}, atoms)


def _spec(first: Action) -> ToolSpec:
    def preview(action: Action) -> Preview:
        hosts = (atom.shown for atom in action.of_kind(Kind.HOST))
        return Preview("would reach", "\n".join(hosts), ("command", "hosts"))

    timeout = 0.0 if first.spec is None else first.spec.timeout
    what = "Run a command again, with hosts that it may reach."
    return ToolSpec(NETWORK, what, {}, Checked, _EFFECTS, timeout=timeout, preview=preview)


@dataclass(slots=True)
class RerunExecutor:
    """Carries out a second run, once its `action` is cleared, in the place of the executor of other calls."""

    action: Action
    rerun: Rerun
    has_run: bool = field(default=False, init=False)

    def specs(self) -> Sequence[ToolSpec]:
        """Return no tool: nobody can call it."""
        return ()

    async def execute(self, cleared: Cleared) -> Output:
        """Run the line again."""
        cleared.take()
        self.has_run = True
        return await self.rerun.run(cleared)


def rerun_of(ran: Action, proposals: Proposals) -> RerunExecutor | None:
    """Return the second run that a call offers, None where it does not."""
    if proposals.rerun is None or ran.call.id.count(_SUFFIX) >= _MOST:
        return None
    return RerunExecutor(rerun_action(ran, proposals.rerun), proposals.rerun)


def with_rerun(
    result: ToolResult, again: ToolResult, rerun: RerunExecutor, proposals: Proposals
) -> ToolResult:
    """Return the result of a command with what came of its second run.

    If there was one, it is what counts, and what the first one proposes is discarded: also where what the
    second one changed is refused.
    """
    if not rerun.has_run:
        return replace(result, text=f"{result.text}\n{again.text}", shown=f"{result.shown}\n{again.shown}")
    proposals.close()
    return replace(again, call=result.call, warnings=(*result.warnings, *again.warnings))
