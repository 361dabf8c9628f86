"""The one place that starts processes, and the supervision of what they start."""

from .cgroup import Groups, find_groups
from .environment import Exceeded, Limits, environment, quiet_environment, size_text
from .git_settings import git_settings
from .kit import Kit, open_kit
from .output import OnChunk
from .overlay import Overlay
from .programs import SEARCH_PATH, Programs, find_programs, sound_toolchains, system_programs
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
    "Kit",
    "Limits",
    "OnChunk",
    "Overlay",
    "ProcessExit",
    "Programs",
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
    "find_programs",
    "git_settings",
    "mounts",
    "open_kit",
    "quiet_environment",
    "run_process",
    "send",
    "size_text",
    "sound_toolchains",
    "starting",
    "system_programs",
    "unstartable",
]
