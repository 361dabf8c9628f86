"""The one place that starts processes, and the supervision of what they start."""

from .cgroup import Groups, find_groups
from .environment import SEARCH_PATH, Exceeded, Limits, environment, quiet_environment, size_text
from .output import OnChunk
from .overlay import Overlay
from .reaper import FIRST_DESCRIPTOR, children, descendants, mounts
from .run import Child, ProcessExit, Start, Starter, run_process, starting, unstartable
from .supervisor import MOST_ASKED, SupervisedProcess, SupervisedStart, Supervisor, claim_process, send

__all__ = [
    "FIRST_DESCRIPTOR",
    "MOST_ASKED",
    "SEARCH_PATH",
    "Child",
    "Exceeded",
    "Groups",
    "Limits",
    "OnChunk",
    "Overlay",
    "ProcessExit",
    "Start",
    "Starter",
    "SupervisedProcess",
    "SupervisedStart",
    "Supervisor",
    "children",
    "claim_process",
    "descendants",
    "environment",
    "find_groups",
    "mounts",
    "quiet_environment",
    "run_process",
    "send",
    "size_text",
    "starting",
    "unstartable",
]
