"""Open the sandbox that commands run in, and make what it confines part of the policy.

`tools/sandbox/sandbox.py` finds out what works on this machine, `tools/sandbox/self_test.py` whether it
confines. Whether commands can be run on trial is found by a real run, and remembered for as long as what that
rests on stays as it was.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import trio

from leeward.security.kinds import Runs
from leeward.security.paths import secret_reason
from leeward.security.policy import Policy
from leeward.security.sandbox import SandboxLevel
from leeward.tools.git import Histories
from leeward.tools.process import Limits
from leeward.tools.sandbox import (
    KnownToolchains,
    Sandbox,
    SandboxSettings,
    SandboxUnavailable,
    open_sandbox,
    probe_grounds,
    self_test,
)

from .config import Config, Locations
from .exits import CliError, Exit
from .installation import installation
from .version import VERSION

__all__ = ["KnownRungs", "histories_of", "open_confinement", "rung_of"]

_ASIDE, _TOOLCHAINS = "aside", "toolchains"
_RUNGS = "rungs.json"
_MOST_REMEMBERED = 200


@dataclass(frozen=True, slots=True)
class KnownRungs:
    """What probes found on what grounds, in a file; one that cannot be read or written knows nothing.

    Only that trials can be had is remembered: where they cannot, they may the next time.
    """

    file: Path

    @classmethod
    def of(cls, places: Locations) -> KnownRungs:
        """Return what is remembered in the data folder."""
        return cls(places.data / _RUNGS)

    def has_trials(self, grounds: str) -> bool:
        """Whether a probe on these grounds found that commands can be run on trial."""
        return self._read().get(grounds) == Runs.TRIAL

    def remember(self, grounds: str) -> None:
        """Note that commands can be run on trial."""
        known = {**self._read(), grounds: str(Runs.TRIAL)}
        self._write(dict([*known.items()][-_MOST_REMEMBERED:]))

    def forget(self, grounds: str) -> None:
        """Have the next start probe again."""
        known = self._read()
        if known.pop(grounds, None) is not None:
            self._write(known)

    def _read(self) -> dict[str, str]:
        try:
            found = json.loads(self.file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _write(self, known: dict[str, str]) -> None:
        partial = self.file.with_name(f"{self.file.name}.{os.getpid()}")
        with suppress(OSError):
            partial.write_text(json.dumps(known), encoding="utf-8")
            partial.replace(self.file)


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
        known=KnownToolchains(places.data / _TOOLCHAINS, _rules_of(policy)),
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
            rung = await _rung(sandbox, config, places, policy)
            found = replace(policy.sandbox, level=str(sandbox.level), answers=answers, rung=rung)
            yield sandbox, replace(policy, sandbox=found)
    except SandboxUnavailable as error:
        raise CliError(
            Exit.PRECONDITION,
            "SANDBOX_REQUIRED",
            f"[tools.sandbox] required is on, and no sandbox works here: {error}",
            suggestion="install bubblewrap, or set required = false",
        ) from error


def _rules_of(policy: Policy) -> str:
    """Return all that decides which files outside of the workspace are secret."""
    patterns = (policy.deny_read, policy.allow_read)
    relative_to = policy.workspace if any(patterns) else ""
    return repr((VERSION, policy.home, policy.secret_paths, *patterns, relative_to))


def histories_of(sandbox: Sandbox, policy: Policy) -> Histories:
    """Return what knows which repositories of the workspace hold something secret."""

    def is_secret(path: str) -> bool:
        return secret_reason(path, policy) is not None

    return Histories(policy.workspace, is_secret, sandbox.look_through)


async def rung_of(config: Config, places: Locations, policy: Policy) -> Runs:
    """Return the strictest that a command can be run in, for a policy of which that is not known yet.

    Where nothing is remembered of it, a sandbox is opened and tried; nothing else is started.
    """
    if config.tools.shell.trial == "off":
        return Runs.REAL
    grounds = await trio.to_thread.run_sync(probe_grounds, policy.workspace, config.tools.sandbox.level)
    if KnownRungs.of(places).has_trials(grounds):
        return Runs.TRIAL
    try:
        async with open_confinement(config, places, policy, lambda _: None) as (_, found):
            return found.sandbox.rung
    except CliError:
        return Runs.REAL


async def _rung(sandbox: Sandbox, config: Config, places: Locations, policy: Policy) -> Runs:
    """Return the strictest that a command can be run in here."""
    if config.tools.shell.trial == "off":
        return Runs.REAL
    rungs = KnownRungs.of(places)
    grounds = await trio.to_thread.run_sync(probe_grounds, policy.workspace, config.tools.sandbox.level)
    if rungs.has_trials(grounds):
        sandbox.trials.assume(lambda: rungs.forget(grounds))
        return Runs.TRIAL
    if await sandbox.no_trial_because():
        return Runs.REAL
    rungs.remember(grounds)
    return Runs.TRIAL


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
