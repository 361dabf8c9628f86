"""Open the sandbox that commands run in, and make what it confines part of the policy.

`tools/sandbox/sandbox.py` finds out what works on this machine, `tools/sandbox/self_test.py` whether it
confines.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace

from leeward.security.policy import Policy
from leeward.security.sandbox import SandboxLevel
from leeward.tools.process import Limits
from leeward.tools.sandbox import Sandbox, SandboxSettings, SandboxUnavailable, open_sandbox, self_test

from .config import Config, Locations
from .exits import CliError, Exit
from .installation import installation

__all__ = ["open_confinement"]

_ASIDE = "aside"


@asynccontextmanager
async def open_confinement(
    config: Config,
    places: Locations,
    policy: Policy,
    alert: Callable[[str], None],
    readable: Iterable[str] = (),
) -> AsyncGenerator[tuple[Sandbox, Policy], None]:
    """Yield what keeps programs in, and the policy as it holds with it; `readable` is what they need besides.

    Raises:
        CliError: a sandbox is required, and none works here.
    """
    wanted = config.tools.sandbox
    settings = SandboxSettings(
        policy,
        aside=str(places.data / _ASIDE),
        level=wanted.level,
        required=wanted.required,
        prefixes=(*installation(), *readable),
        alert=alert,
        limits=Limits.of(config.tools.shell.memory),
    )
    try:
        async with open_sandbox(settings) as sandbox:
            answers = wanted.auto_allow and await _holds(sandbox, alert)
            yield (
                sandbox,
                replace(policy, sandbox=replace(policy.sandbox, level=str(sandbox.level), answers=answers)),
            )
    except SandboxUnavailable as error:
        raise CliError(
            Exit.PRECONDITION,
            "SANDBOX_REQUIRED",
            f"[tools.sandbox] required is on, and no sandbox works here: {error}",
            suggestion="install bubblewrap, or set required = false",
        ) from error


async def _holds(sandbox: Sandbox, alert: Callable[[str], None]) -> bool:
    """Whether a sandbox may answer questions about commands; why not is told."""
    reason = ""
    if sandbox.level is SandboxLevel.NONE:
        reason = "no sandbox works here"
    elif sandbox.confinement.network:
        reason = "[tools.sandbox] network is on"
    elif not sandbox.confinement.changes_workspace_only:
        reason = "more than the workspace can be changed (extra_write, allowed_paths)"
    else:
        reason = "; ".join(str(probe) for probe in await self_test(sandbox) if probe.escaped is not False)
    if reason:
        alert(f"[tools.sandbox] auto_allow is off for this session: {reason}")
    return not reason
