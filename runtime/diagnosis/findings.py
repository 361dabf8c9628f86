"""Check what the protection depends on, and say what a command and a model will see.

The sandbox is opened as a session would open it and escape attempts are made from inside; the database is
verified. A problem is a finding that needs the person; what is only worth knowing is reported as a note. Both
come with what to do about them, where there is something to do. No model is asked.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import trio

from leeward.security.lazy import dataclass
from leeward.security.sandbox import SandboxLevel
from leeward.tools.process import find_programs, git_settings
from leeward.tools.sandbox import Probe, self_test

from ..clock import SystemClock
from ..console import Startup
from ..conversation import system_prompt
from ..describe import limits_word, no_trials_word, sandbox_word
from ..dry_run import policy_of, specs_of
from ..exits import CliError
from ..model import open_model
from ..sandbox import open_confinement
from ..storage import audit_of, open_storage
from ..version import VERSION

__all__ = ["Finding", "findings_of"]

_USUAL = ("git", "make", "python3", "node", "npm", "cargo", "go", "java", "gcc", "rg")
_ENVIRONMENTS = (".venv", "venv", "env")
_RELEASED = datetime(2026, 1, 1, tzinfo=UTC)
"""Before this there was no Leeward, so a clock that says so is wrong."""
_INSTALL = "install bubblewrap (Debian: apt install bubblewrap) for a sandbox with trial runs"
_FIND = "leeward config init finds one"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at, and what was found; `is_well` is None for what is only a note.

    `remedy` is what to do about it, "" where there is nothing to do.
    """

    name: str
    is_well: bool | None
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        mark = {True: "ok", False: "PROBLEM", None: "note"}[self.is_well]
        remedy = f"\n{'':<19} -> {self.remedy}" if self.remedy else ""
        return f"{mark:<8} {self.name:<10} {self.text}{remedy}"


async def findings_of(start: Startup) -> list[Finding]:
    """Look at what the protection rests on, and return what is well and what is not.

    Raises:
        CliError: the configuration cannot be used.
        RecordError: the database cannot be opened.
    """
    found = [
        Finding("leeward", True, f"{VERSION}, Python {platform.python_version()}, {platform.platform()}")
    ]
    found += _of_configuration(start)
    found += await _of_sandbox(start)
    found += await trio.to_thread.run_sync(_of_programs, start)
    found += await trio.to_thread.run_sync(_of_git, start)
    found += await trio.to_thread.run_sync(_of_keys, start)
    found += await _of_model(start)
    found += await _of_storage(start)
    found += _of_terminal()
    return found


def _of_configuration(start: Startup) -> Iterator[Finding]:
    files = ", ".join(map(str, start.loaded.files)) or "no file; defaults apply"
    yield Finding("config", True, files)
    if start.untrusted is not None:
        why = "is not read until you trust this workspace"
        yield Finding("config", None, f"{start.untrusted} {why}", "leeward config trust")
    if start.unusual is not None:
        yield Finding("workspace", None, start.unusual)


async def _of_sandbox(start: Startup) -> list[Finding]:
    """Say what keeps programs in, why it is nothing stronger, and what came of trying to leave it."""
    alerts: list[str] = []
    policy = policy_of(start)
    try:
        async with open_confinement(start.loaded.config, start.places, policy, alerts.append) as opened:
            sandbox, policy = opened
            is_kept_in = None if sandbox.level is SandboxLevel.NONE else True
            found = [Finding("sandbox", is_kept_in, sandbox_word(policy))]
            found += (Finding("sandbox", None, f"not {reason}") for reason in sandbox.weaker_because)
            if sandbox.level is not SandboxLevel.BUBBLEWRAP:
                found[0] = replace(found[0], remedy=_INSTALL)
            if sandbox.trials.problem:
                found.append(Finding("trials", None, no_trials_word(sandbox)))
            found += (Finding("sandbox", False, alert) for alert in alerts)
            found.append(Finding("limits", True, limits_word(sandbox)))
            return found + [_of_probe(probe) for probe in (await self_test(sandbox) if is_kept_in else ())]
    except CliError as error:
        return [Finding("sandbox", False, error.message)]


def _of_programs(start: Startup) -> list[Finding]:
    """Say what a command sees of the person's programs, and how it sees more."""
    programs = find_programs(os.environ, policy_of(start))
    found = [Finding("programs", True, f"commands find them in {programs.path}")]
    if programs.readable:
        found.append(Finding("programs", True, f"they can also read {', '.join(programs.readable)}"))
    found += (
        Finding("programs", None, f"{entry} of PATH is left out: {why}") for entry, why in programs.left_out
    )
    there = [name for name in _USUAL if shutil.which(name, path=programs.path)]
    found.append(Finding("programs", True, f"among them {', '.join(there) or 'no usual one'}"))
    environment = next((name for name in _ENVIRONMENTS if (start.places.workspace / name).is_dir()), None)
    if environment is not None:
        found.append(Finding("python", True, f"python and pip are those of {environment} in the workspace"))
    more = (
        "name what else commands may read: [tools.sandbox] extra_read; a program there is called by its path"
    )
    return [*found, Finding("programs", None, "programs elsewhere are not seen", more)]


def _of_git(start: Startup) -> list[Finding]:
    """Say as whom commands commit."""
    text = "\n".join(git_settings(os.environ, str(start.places.home)).values())
    if all(re.search(rf"(?im)^\s*{name}\s*=", text) for name in ("name", "email")):
        return [Finding("git", True, "commands commit as you: user.name and user.email are set")]
    remedy = "git config --global user.name NAME, and user.email"
    return [Finding("git", None, "commands cannot commit: git does not know who you are", remedy)]


def _of_keys(start: Startup) -> Iterator[Finding]:
    """Say which key files others than their owner may read or write."""
    config = start.loaded.config
    named = [provider.api_key_file for provider in config.llm.providers if provider.api_key_file]
    named += [one.file for one in config.secrets.values() if one.file]
    for file in dict.fromkeys(named):
        try:
            mode = Path(file).stat().st_mode
        except OSError as error:
            yield Finding("keys", False, f"{file}: {error.strerror}")
            continue
        if mode & 0o077:
            yield Finding("keys", False, f"{file} can be read by others", f"chmod 600 {shlex.quote(file)}")
        else:
            yield Finding("keys", True, f"{file} is yours alone")


async def _of_model(start: Startup) -> list[Finding]:
    """Say who answers, and what is sent before the first word."""
    prompt = len(system_prompt(str(start.places.workspace)))
    specs = specs_of(start)
    tools = sum(len(spec.description) + len(json.dumps(dict(spec.schema))) for spec in specs)
    size = f"{len(specs)} tools and the prompt: some {(prompt + tools) // 4} tokens"
    found = [Finding("prompt", True, size)]
    spec = start.loaded.config.llm.model
    if not spec:
        return [Finding("model", None, "none is configured: the offline one answers", _FIND), *found]
    try:
        async with open_model(start.loaded.config):
            return [Finding("model", True, f"{spec} (not asked)"), *found]
    except CliError as error:
        return [
            Finding("model", False, error.message, "leeward models PROVIDER lists what one offers"),
            *found,
        ]


def _of_terminal() -> Iterator[Finding]:
    """Say what a chat can draw, and whether the clock can be right."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        yield Finding("terminal", None, "this is none, so no chat can be held here")
    else:
        columns, lines = shutil.get_terminal_size()
        kind = os.environ.get("TERM", "dumb")
        drawn = "plain text" if kind in {"", "dumb"} or "NO_COLOR" in os.environ else "colours"
        yield Finding("terminal", True, f"{kind}, {columns} x {lines}, {drawn}")
    now = datetime.now(UTC)
    is_possible = now >= _RELEASED
    remedy = "" if is_possible else "set it: records, certificates and expiries go by it"
    yield Finding("clock", is_possible, f"{now:%Y-%m-%d %H:%M} UTC", remedy)


def _of_probe(probe: Probe) -> Finding:
    return Finding("escape", True if probe.escaped is False else None, str(probe))


async def _of_storage(start: Startup) -> list[Finding]:
    """Say whether the database and the audit in it are whole. Looking makes no database."""
    path = start.places.database
    if not path.exists():
        return [Finding("database", None, f"there is none yet at {path}")]
    async with open_storage(path) as database:
        damage = await database.integrity()
        found = [Finding("database", False, notice) for notice in database.take_notices()]
        found.append(Finding("database", not damage, "; ".join(damage) or str(path)))
        audit = audit_of(database, SystemClock(), start.loaded, start.places)
        verified = await audit.verify(*await audit.heads_elsewhere())
        problem = verified.problem
        text = f"{verified.records} records" if problem is None else problem.message
        remedy = "" if problem is None else "leeward audit verify says where; keep a copy of the database"
        return [*found, Finding("audit", problem is None, text, remedy)]
