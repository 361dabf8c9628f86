"""The gates: one pure function per file; their order is `GATES` in `pipeline.py`."""

from .anomaly import anomaly
from .arguments import arguments
from .budget import budget
from .commands import commands
from .flow import flow
from .grounding import grounding
from .hooks import hooks
from .hosts import hosts
from .known import known
from .leaks import leaks
from .paths import paths
from .permissions import permissions
from .trust import trust

__all__ = [
    "anomaly",
    "arguments",
    "budget",
    "commands",
    "flow",
    "grounding",
    "hooks",
    "hosts",
    "known",
    "leaks",
    "paths",
    "permissions",
    "trust",
]
