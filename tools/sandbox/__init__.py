"""Run programs confined by bubblewrap or Landlock, and by a seccomp filter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeward.security.lazy import Loads, lazy_names

from .self_test import Probe, self_test

if TYPE_CHECKING:
    from .apply import Keeping, NotKept
    from .changes import READ, Change, ChangeLimits, Changes, Entry, UpperTree, changes_of
    from .known_toolchains import KnownToolchains
    from .overlaid import disk_for, run_overlaid
    from .program import Program, Runner, run_bare
    from .read_only import ReadOnlyRan, run_read_only
    from .read_only_probe import no_reading_because
    from .result import Ran
    from .sandbox import Sandbox, SandboxSettings, SandboxUnavailable, open_sandbox
    from .service import Service, open_service
    from .trial import TrialRan, TrialReach, TrialUnavailable, Upper, UpperBounds
    from .trial_probe import probe_grounds

__all__ = [
    "READ",
    "Change",
    "ChangeLimits",
    "Changes",
    "Entry",
    "Keeping",
    "KnownToolchains",
    "NotKept",
    "Probe",
    "Program",
    "Ran",
    "ReadOnlyRan",
    "Runner",
    "Sandbox",
    "SandboxSettings",
    "SandboxUnavailable",
    "Service",
    "TrialRan",
    "TrialReach",
    "TrialUnavailable",
    "Upper",
    "UpperBounds",
    "UpperTree",
    "changes_of",
    "disk_for",
    "no_reading_because",
    "open_sandbox",
    "open_service",
    "probe_grounds",
    "run_bare",
    "run_overlaid",
    "run_read_only",
    "self_test",
]

_HOMES = {
    "Change": ".changes",
    "ChangeLimits": ".changes",
    "Changes": ".changes",
    "Entry": ".changes",
    "Keeping": ".apply",
    "KnownToolchains": ".known_toolchains",
    "NotKept": ".apply",
    "Program": ".program",
    "READ": ".changes",
    "Ran": ".result",
    "ReadOnlyRan": ".read_only",
    "Runner": ".program",
    "Sandbox": ".sandbox",
    "SandboxSettings": ".sandbox",
    "SandboxUnavailable": ".sandbox",
    "Service": ".service",
    "TrialRan": ".trial",
    "TrialReach": ".trial",
    "TrialUnavailable": ".trial",
    "Upper": ".trial",
    "UpperBounds": ".trial",
    "UpperTree": ".changes",
    "changes_of": ".changes",
    "disk_for": ".overlaid",
    "no_reading_because": ".read_only_probe",
    "open_sandbox": ".sandbox",
    "open_service": ".service",
    "probe_grounds": ".trial_probe",
    "run_bare": ".program",
    "run_overlaid": ".overlaid",
    "run_read_only": ".read_only",
}

__getattr__: Loads = lazy_names(__name__, _HOMES)
