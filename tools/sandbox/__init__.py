"""Programs confined by bubblewrap or Landlock and a filter of system calls."""

from .sandbox import Ran, Runner, Sandbox, SandboxSettings, SandboxUnavailable, open_sandbox, run_bare
from .self_test import Probe, self_test

__all__ = [
    "Probe",
    "Ran",
    "Runner",
    "Sandbox",
    "SandboxSettings",
    "SandboxUnavailable",
    "open_sandbox",
    "run_bare",
    "self_test",
]
