"""Open the sandbox for commands, and add its confinement to the policy.

`tools/sandbox/sandbox.py` finds out what works on this machine, `tools/sandbox/self_test.py` whether it
confines. Whether commands can be run on trial, or read-only, is found by a real run, and remembered for as
long as what that rests on stays as it was.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from leeward.security.kinds import Runs
from leeward.security.lazy import dataclass
from leeward.security.paths import is_inside, secret_reason
from leeward.security.sandbox import SandboxLevel
from leeward.tools import git
from leeward.tools.process import Limits, UpperBounds
from leeward.tools.sandbox import (
    KnownToolchains,
    Sandbox,
    SandboxSettings,
    SandboxUnavailable,
    no_reading_because,
    open_sandbox,
    probe_grounds,
    self_test,
)

from .exits import CliError, Exit
from .installation import installation
from .version import VERSION

if TYPE_CHECKING:
    from leeward.security.policy import Policy
    from leeward.tools.git import Histories

    from .config import Config, Locations

__all__ = ["KnownRungs", "histories_of", "named_files", "open_confinement", "rung_of"]

_ASIDE, _TOOLCHAINS, _ON_DISK = "aside", "toolchains", "runs"
_RUNGS = "rungs.json"
_MOST_REMEMBERED = 200


@dataclass(frozen=True, slots=True)
class KnownRungs:
    """What probes found on what grounds, in a file; one that cannot be read or written knows nothing.

    What can be had is remembered alone: what cannot, may the next time.
    """

    file: Path

    @classmethod
    def of(cls, places: Locations) -> KnownRungs:
        """Return what is remembered in the data folder."""
        return cls(places.data / _RUNGS)

    def found(self, grounds: str) -> Runs:
        """Return the strictest that a probe on these grounds found, `Runs.REAL` where none did."""
        found = self._read().get(grounds)
        return Runs(found) if isinstance(found, str) and found in {*Runs} else Runs.REAL

    def remember(self, grounds: str, rung: Runs) -> None:
        """Note what commands can be run in."""
        known = {**self._read(), grounds: str(rung)}
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
    wanted, shell = config.tools.sandbox, config.tools.shell
    rungs = KnownRungs.of(places)
    grounds = await trio.to_thread.run_sync(probe_grounds, policy.workspace, wanted.level)
    settings = SandboxSettings(
        policy,
        known=KnownToolchains(places.data / _TOOLCHAINS, _rules_of(policy)),
        aside=str(places.data / _ASIDE),
        on_disk=str(places.data / _ON_DISK),
        level=wanted.level,
        required=wanted.required,
        prefixes=(*installation(), *readable),
        alert=alert,
        limits=Limits.of(shell.memory, shell.processes),
        upper=UpperBounds.of(shell.trial_bytes),
        works=rungs.found(grounds) is Runs.TRIAL,
        broken=lambda: rungs.forget(grounds),
    )
    try:
        async with open_sandbox(settings) as sandbox:
            answers = wanted.auto_allow and await _holds(sandbox, alert)
            rung = Runs.REAL if shell.trial == "off" else await _rung(sandbox, rungs, grounds)
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

    return git.Histories(policy.workspace, is_secret, sandbox.look_through)


async def rung_of(config: Config, places: Locations, policy: Policy) -> Runs:
    """Return the strictest that a command can be run in, for a policy of which that is not known yet.

    Where nothing is remembered of it, a sandbox is opened and tried; nothing else is started.
    """
    if config.tools.shell.trial == "off":
        return Runs.REAL
    grounds = await trio.to_thread.run_sync(probe_grounds, policy.workspace, config.tools.sandbox.level)
    if KnownRungs.of(places).found(grounds) is Runs.TRIAL:
        return Runs.TRIAL
    try:
        async with open_confinement(config, places, policy, lambda _: None) as (_, found):
            return found.sandbox.rung
    except CliError:
        return Runs.REAL


async def _rung(sandbox: Sandbox, rungs: KnownRungs, grounds: str) -> Runs:
    """Return the strictest that a command can be run in here; `grounds` are what a probe rests on."""
    known = rungs.found(grounds)
    if known is Runs.TRIAL:
        sandbox.trials.assume(lambda: rungs.forget(grounds))
        return known
    if not await sandbox.no_trial_because():
        rungs.remember(grounds, Runs.TRIAL)
        return Runs.TRIAL
    if known is Runs.READ_ONLY:
        sandbox.reading.assume(lambda: rungs.forget(grounds))
        return known
    if await no_reading_because(sandbox):
        return Runs.REAL
    rungs.remember(grounds, Runs.READ_ONLY)
    return Runs.READ_ONLY


async def _holds(sandbox: Sandbox, alert: Callable[[str], None]) -> bool:
    """Whether a sandbox may answer questions about commands; if not, a warning says why."""
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


def named_files(command: Sequence[str], home: str) -> Iterator[str]:
    """Yield what of the person's own command line a program must be able to read to be what it names."""
    for word in command:
        if not word.startswith("/") or not os.path.lexists(word):
            continue
        yield os.path.realpath(word)
        folder = os.path.realpath(Path(word).parent)
        if Path(word).is_symlink() and not is_inside(home, folder):
            yield folder
        environment_of = os.path.dirname(folder)  # noqa: PTH120 — a text, as it is mounted
        if word == command[0] and Path(environment_of, "pyvenv.cfg").is_file():
            yield environment_of
