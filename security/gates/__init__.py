"""One file, one function, one question each; the order is `GATES` in `pipeline.py`."""

from .anomaly import anomaly
from .arguments import arguments
from .budget import budget
from .commands import commands
from .grounding import grounding
from .hosts import hosts
from .known import known
from .paths import paths
from .permissions import permissions
from .trust import trust

__all__ = [
    "anomaly",
    "arguments",
    "budget",
    "commands",
    "grounding",
    "hosts",
    "known",
    "paths",
    "permissions",
    "trust",
]
