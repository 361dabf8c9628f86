"""The tool shell, its trial runs and its background jobs."""

from .jobs import Job, Jobs, JobState
from .shell import Shell
from .trials import TrialProposal, Trials

__all__ = ["Job", "JobState", "Jobs", "Shell", "TrialProposal", "Trials"]
