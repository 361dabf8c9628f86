"""Programs confined by bubblewrap or Landlock and a filter of system calls."""

from .apply import Keeping, NotKept
from .changes import Change, ChangeLimits, Changes, Entry, changes_of
from .result import Ran
from .sandbox import Runner, Sandbox, SandboxSettings, SandboxUnavailable, open_sandbox, run_bare
from .self_test import Probe, self_test
from .trial import TrialRan, TrialUnavailable, Upper, UpperBounds

__all__ = [
    "Change",
    "ChangeLimits",
    "Changes",
    "Entry",
    "Keeping",
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
    "changes_of",
    "open_sandbox",
    "run_bare",
    "self_test",
]
