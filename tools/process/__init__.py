"""The one place that starts processes, and the supervision of what they start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leeward.security.lazy import Loads, lazy_names

from .environment import Exceeded, Limits, UpperBounds, environment, quiet_environment, size_text
from .git_settings import git_settings

if TYPE_CHECKING:
    from .cgroup import Groups, find_groups
    from .dialogue import Dialogue, open_dialogue
    from .disk_upper import DiskUpper, remove_abandoned, room_on_disk
    from .kit import Kit, open_kit
    from .listener import Listener
    from .network import OwnNetwork, Serve, network_environment, run_served, serve_network
    from .output import OnChunk
    from .overlay import Overlay
    from .programs import SEARCH_PATH, Programs, find_programs, sound_toolchains, system_programs
    from .reaper import FIRST_DESCRIPTOR, children, descendants, mounts
    from .run import Child, ProcessExit, Start, Starter, at_terminal, run_process, starting, unstartable
    from .supervisor import MOST_ASKED, SupervisedProcess, SupervisedStart, Supervisor, claim_process, send

__all__ = [
    "FIRST_DESCRIPTOR",
    "MOST_ASKED",
    "SEARCH_PATH",
    "Child",
    "Dialogue",
    "DiskUpper",
    "Exceeded",
    "Groups",
    "Kit",
    "Limits",
    "Listener",
    "OnChunk",
    "Overlay",
    "OwnNetwork",
    "ProcessExit",
    "Programs",
    "Serve",
    "Start",
    "Starter",
    "SupervisedProcess",
    "SupervisedStart",
    "Supervisor",
    "UpperBounds",
    "at_terminal",
    "children",
    "claim_process",
    "descendants",
    "environment",
    "find_groups",
    "find_programs",
    "git_settings",
    "mounts",
    "network_environment",
    "open_dialogue",
    "open_kit",
    "quiet_environment",
    "remove_abandoned",
    "room_on_disk",
    "run_process",
    "run_served",
    "send",
    "serve_network",
    "size_text",
    "sound_toolchains",
    "starting",
    "system_programs",
    "unstartable",
]

_HOMES = {
    "Child": ".run",
    "Dialogue": ".dialogue",
    "DiskUpper": ".disk_upper",
    "FIRST_DESCRIPTOR": ".reaper",
    "Groups": ".cgroup",
    "Kit": ".kit",
    "Listener": ".listener",
    "MOST_ASKED": ".supervisor",
    "OnChunk": ".output",
    "Overlay": ".overlay",
    "OwnNetwork": ".network",
    "ProcessExit": ".run",
    "Programs": ".programs",
    "SEARCH_PATH": ".programs",
    "Serve": ".network",
    "Start": ".run",
    "Starter": ".run",
    "SupervisedProcess": ".supervisor",
    "SupervisedStart": ".supervisor",
    "Supervisor": ".supervisor",
    "at_terminal": ".run",
    "children": ".reaper",
    "claim_process": ".supervisor",
    "descendants": ".reaper",
    "find_groups": ".cgroup",
    "find_programs": ".programs",
    "mounts": ".reaper",
    "network_environment": ".network",
    "open_dialogue": ".dialogue",
    "open_kit": ".kit",
    "remove_abandoned": ".disk_upper",
    "room_on_disk": ".disk_upper",
    "run_process": ".run",
    "run_served": ".network",
    "send": ".supervisor",
    "serve_network": ".network",
    "sound_toolchains": ".programs",
    "starting": ".run",
    "system_programs": ".programs",
    "unstartable": ".run",
}

__getattr__: Loads = lazy_names(__name__, _HOMES)
