"""The tool shell and its background jobs."""

from .jobs import Job, Jobs, JobState
from .shell import Shell

__all__ = ["Job", "JobState", "Jobs", "Shell"]
