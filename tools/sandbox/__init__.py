"""Programs confined by bubblewrap or Landlock and a filter of system calls."""

from .result import Ran
from .sandbox import Runner, Sandbox, SandboxSettings, SandboxUnavailable, open_sandbox, run_bare
from .self_test import Probe, self_test
from .trial import TrialRan, TrialUnavailable, Upper, UpperBounds

__all__ = [
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
    "open_sandbox",
    "run_bare",
    "self_test",
]
