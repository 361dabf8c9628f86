"""`leeward doctor`: check everything on this machine that the protection depends on.

The sandbox is opened as a session would open it and escape attempts are made from inside; the database is
verified. A problem is a finding that needs the person; what is only worth knowing is reported as a note.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator

import trio

from leeward.security.kinds import Json
from leeward.security.lazy import dataclass
from leeward.security.sandbox import SandboxLevel
from leeward.tools.process import find_programs
from leeward.tools.sandbox import Probe, self_test

from ..clock import SystemClock
from ..console import Startup, look
from ..describe import limits_word, no_trials_word, sandbox_word
from ..dry_run import policy_of
from ..exits import CliError, Exit
from ..options import Options
from ..printer import Printer, plain
from ..sandbox import open_confinement
from ..storage import audit_of, open_storage
from ..version import VERSION

__all__ = ["doctor"]


@dataclass(frozen=True, slots=True)
class _Finding:
    """One thing that was looked at, and what there is to say; `is_well` is None for what is only a note."""

    name: str
    is_well: bool | None
    said: str

    def __str__(self) -> str:
        mark = {True: "ok", False: "PROBLEM", None: "note"}[self.is_well]
        return f"{mark:<8} {self.name:<10} {self.said}"


async def doctor(options: Options, printer: Printer) -> Exit:
    """Look at what the protection rests on, and say what is well and what is not.

    Raises:
        CliError: the configuration cannot be used.
        RecordError: the database cannot be opened.
    """
    start = look(options)
    found = [
        _Finding("leeward", True, f"{VERSION}, Python {platform.python_version()}, {platform.platform()}")
    ]
    found += _of_configuration(start)
    found += await _of_sandbox(start)
    found += await trio.to_thread.run_sync(_of_programs, start)
    found += await _of_storage(start)
    printer.answer("".join(f"{plain(str(finding))}\n" for finding in found))
    told: dict[str, Json] = {
        "findings": [{"name": one.name, "well": one.is_well, "said": one.said} for one in found]
    }
    printer.event({"schema": 1, "type": "doctor", **told})
    bad = [finding.name for finding in found if finding.is_well is False]
    if not bad:
        return printer.finish(Exit.SUCCESS, told)
    error = {"code": "PROBLEM_FOUND", "message": f"needs attention: {', '.join(dict.fromkeys(bad))}"}
    return printer.finish(Exit.GENERAL_ERROR, told, error)


def _of_configuration(start: Startup) -> Iterator[_Finding]:
    files = ", ".join(map(str, start.loaded.files)) or "no file; defaults apply"
    yield _Finding("config", True, files)
    if start.untrusted is not None:
        why = "is not read until you trust this workspace: leeward config trust"
        yield _Finding("config", None, f"{start.untrusted} {why}")
    if start.unusual is not None:
        yield _Finding("workspace", None, start.unusual)


async def _of_sandbox(start: Startup) -> list[_Finding]:
    """Say what keeps programs in, why it is nothing stronger, and what came of trying to leave it."""
    alerts: list[str] = []
    policy = policy_of(start)
    try:
        async with open_confinement(start.loaded.config, start.places, policy, alerts.append) as opened:
            sandbox, policy = opened
            is_kept_in = None if sandbox.level is SandboxLevel.NONE else True
            found = [_Finding("sandbox", is_kept_in, sandbox_word(policy))]
            found += (_Finding("sandbox", None, f"not {reason}") for reason in sandbox.weaker_because)
            if sandbox.trials.problem:
                found.append(_Finding("trials", None, no_trials_word(sandbox)))
            found += (_Finding("sandbox", False, alert) for alert in alerts)
            found.append(_Finding("limits", True, limits_word(sandbox)))
            return found + [_of_probe(probe) for probe in (await self_test(sandbox) if is_kept_in else ())]
    except CliError as error:
        return [_Finding("sandbox", False, error.message)]


def _of_programs(start: Startup) -> list[_Finding]:
    """Say what a command sees of the person's programs, and how it sees more."""
    programs = find_programs(os.environ, policy_of(start))
    found = [_Finding("programs", True, f"commands find them in {programs.path}")]
    if programs.readable:
        found.append(_Finding("programs", True, f"they can also read {', '.join(programs.readable)}"))
    found += (
        _Finding("programs", None, f"{entry} of PATH is left out: {why}") for entry, why in programs.left_out
    )
    more = (
        "[tools.sandbox] extra_read names what else commands may read; a program there is called by its path"
    )
    return [*found, _Finding("programs", None, more)]


def _of_probe(probe: Probe) -> _Finding:
    return _Finding("escape", True if probe.escaped is False else None, str(probe))


async def _of_storage(start: Startup) -> list[_Finding]:
    """Say whether the database and the audit in it are whole. Looking makes no database."""
    path = start.places.database
    if not path.exists():
        return [_Finding("database", None, f"there is none yet at {path}")]
    async with open_storage(path) as database:
        damage = await database.integrity()
        found = [_Finding("database", False, notice) for notice in database.take_notices()]
        found.append(_Finding("database", not damage, "; ".join(damage) or str(path)))
        audit = audit_of(database, SystemClock(), start.loaded, start.places)
        verified = await audit.verify(*await audit.heads_elsewhere())
        problem = verified.problem
        said = f"{verified.records} records" if problem is None else problem.message
        return [*found, _Finding("audit", problem is None, said)]
