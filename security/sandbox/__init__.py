"""The confinement of a program, as values, and what one has tampered with."""

from .confinement import (
    SYSTEM_FOLDERS,
    Confinement,
    Masks,
    PathGrant,
    PathRight,
    SandboxLevel,
    Spot,
    bubblewrap_arguments,
    confinement_of,
    folders_in_between,
    landlock_grants,
    trial_confinement,
)
from .tampering import HOOK_NAMES, Mark, MarkChange, MarkKind, Role, changes_to_undo, places_named
from .toolchains import PACKAGE_FOLDERS, TOOLCHAIN_VARIABLES, toolchains

__all__ = [
    "HOOK_NAMES",
    "PACKAGE_FOLDERS",
    "SYSTEM_FOLDERS",
    "TOOLCHAIN_VARIABLES",
    "Confinement",
    "Mark",
    "MarkChange",
    "MarkKind",
    "Masks",
    "PathGrant",
    "PathRight",
    "Role",
    "SandboxLevel",
    "Spot",
    "bubblewrap_arguments",
    "changes_to_undo",
    "confinement_of",
    "folders_in_between",
    "landlock_grants",
    "places_named",
    "toolchains",
    "trial_confinement",
]
