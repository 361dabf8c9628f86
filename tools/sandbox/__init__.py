"""Programs confined by bubblewrap or Landlock and a filter of system calls."""

from .apply import Keeping, NotKept
from .changes import READ, Change, ChangeLimits, Changes, Entry, UpperTree, changes_of
from .known_toolchains import KnownToolchains
from .program import Runner, run_bare
from .result import Ran
from .sandbox import Sandbox, SandboxSettings, SandboxUnavailable, open_sandbox
from .self_test import Probe, self_test
from .trial import TrialRan, TrialUnavailable, Upper, UpperBounds
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
    "Ran",
    "Runner",
    "Sandbox",
    "SandboxSettings",
    "SandboxUnavailable",
    "TrialRan",
    "TrialUnavailable",
    "Upper",
    "UpperBounds",
    "UpperTree",
    "changes_of",
    "open_sandbox",
    "probe_grounds",
    "run_bare",
    "self_test",
]
