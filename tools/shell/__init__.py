"""The tool shell, its trial and read-only runs, and its background jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeward.security.lazy import Loads, lazy_names

if TYPE_CHECKING:
    from .jobs import Job, Jobs, JobState
    from .readers import Readers
    from .shell import Lent, Shell
    from .trials import TrialProposal, Trials

__all__ = ["Job", "JobState", "Jobs", "Lent", "Readers", "Shell", "TrialProposal", "Trials"]

_HOMES = {
    "Job": ".jobs",
    "JobState": ".jobs",
    "Jobs": ".jobs",
    "Lent": ".shell",
    "Readers": ".readers",
    "Shell": ".shell",
    "TrialProposal": ".trials",
    "Trials": ".trials",
}

__getattr__: Loads = lazy_names(__name__, _HOMES)
