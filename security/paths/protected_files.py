"""Recognise files that no tool may write: configuration of git and Leeward, shell start files, the system.

Paths are judged by their text alone; nothing here reads a disk. What runs later without being named, and is
asked about, is in `autorun.py`.
"""

from __future__ import annotations

from ..policy import Policy
from .pattern import as_one_name
from .workspace import DEVICES, at_home, is_below, is_inside

__all__ = ["OF_GIT", "protected_places", "protected_reason"]

_RC_FILES = frozenset({
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".zshrc", ".zshenv", ".zprofile",
    ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc", ".login", ".xprofile", ".xinitrc", ".xsession",
    ".inputrc", ".gitconfig", ".vimrc", ".pam_environment",
})  # fmt: skip
_RC_FOLDERS = (
    ".config/autostart",
    ".config/environment.d",
    ".config/fish",
    ".config/git",
    ".config/systemd",
    ".local/bin",
    "Library/LaunchAgents",
)
_PROTECTED_SYSTEM = (
    "/bin",
    "/boot",
    "/etc",
    "/lib",
    "/lib64",
    "/proc",
    "/sbin",
    "/sys",
    "/usr",
    "/dev",
    "/var/spool/cron",
)
OF_GIT = "git runs or obeys it"
"""Why what lies in a repository is protected."""

_CONTROL_FOLDERS = {".git": OF_GIT, ".leeward": "it configures Leeward"}


def protected_reason(path: str, policy: Policy) -> str | None:
    """Say why a file must not be written, in our words, or None; `path` is absolute and normalised."""
    path_as_one = as_one_name(path)
    if is_below(path_as_one, policy.protected_paths):
        return "it belongs to Leeward or to what runs it"
    folder, _, name = path_as_one.rpartition("/")
    # Both names are hidden ones, which most paths do not have.
    parts = path_as_one.split("/") if "/." in path_as_one else ()
    reason = next((why for part in parts if (why := _CONTROL_FOLDERS.get(part))), None)
    if reason is not None:
        return reason
    runs_at_start = is_below(path_as_one, at_home(policy.home, _RC_FOLDERS))
    if runs_at_start or (name in _RC_FILES and folder == as_one_name(policy.home.rstrip("/"))):
        return "a shell or a program runs it at start"
    system = is_below(path_as_one, _PROTECTED_SYSTEM) and not is_below(path_as_one, DEVICES)
    if system and not is_inside(path, policy.workspace):
        return "it belongs to the system"
    return None


def protected_places(policy: Policy) -> tuple[str, ...]:
    """Return the folders and files outside of the system that nothing writes, wherever they exist."""
    control = at_home(policy.workspace, tuple(_CONTROL_FOLDERS))
    at_start = (*at_home(policy.home, tuple(sorted(_RC_FILES))), *at_home(policy.home, _RC_FOLDERS))
    return tuple(dict.fromkeys((*policy.protected_paths, *control, *at_start)))
