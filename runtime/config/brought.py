"""Find what a workspace brings along that acts on Leeward, and the digest of each file.

Instructions steer a model, configuration and output filters tighten what holds, commands are prompts,
sub-agents prompts with bounds, servers are started once each is allowed. Files are read here, by one
function, for their digest and for their use, so that what is used is what was trusted.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from .load import WORKSPACE_FILE, WORKSPACE_FILTERS

__all__ = [
    "AGENTS_FOLDER",
    "COMMANDS_FOLDER",
    "CONFIGURATION",
    "INSTRUCTIONS",
    "WORKSPACE_SERVERS",
    "brought_by",
    "contents_of",
    "purpose_of",
]

INSTRUCTIONS = ("AGENTS.md", "CLAUDE.md", "LEEWARD.md")
"""Names of instruction files, in the order in which they are read: what comes later adds to it."""

CONFIGURATION = (WORKSPACE_FILE, WORKSPACE_FILTERS)
COMMANDS_FOLDER = ".leeward/commands"
AGENTS_FOLDER = ".leeward/agents"
WORKSPACE_SERVERS = ".mcp.json"
"""The servers a workspace brings along, relative to it; read only where the workspace is trusted."""

_LARGEST = 1024 * 1024  # bytes of a file that are read
_MOST_ENTRIES, _MOST_FILES, _DEEPEST = 20_000, 50, 8  # of a walk for instructions of inner folders
_PASSED_OVER = frozenset({"node_modules", "venv", "target", "dist", "build", "vendor"})


def brought_by(workspace: Path, *, nested: bool = False) -> Mapping[str, str]:
    """Return the SHA-256 (hex) of each file, by its path relative to the workspace (absolute, resolved).

    `nested` looks for instruction files of inner folders too, which walks the tree, within bounds.
    """
    names = [*INSTRUCTIONS, *CONFIGURATION, WORKSPACE_SERVERS]
    for folder in (COMMANDS_FOLDER, AGENTS_FOLDER):
        names += _texts_in(workspace, folder)
    if nested:
        names += _nested(workspace)
    found = ((name, digest_of(workspace, name)) for name in names)
    return {name: digest for name, digest in found if digest is not None}


def digest_of(workspace: Path, name: str) -> str | None:
    """Return the digest of a file, None where it brings nothing."""
    data = contents_of(workspace, name)
    if data is None:
        # Configuration that cannot be read is an error once it is trusted; it must be asked about first.
        return "unreadable" if name in CONFIGURATION and os.path.lexists(workspace / name) else None
    return hashlib.sha256(data).hexdigest()


def contents_of(workspace: Path, name: str) -> bytes | None:
    """Return the first MiB of a file, None where it is missing, empty, no file, or lies elsewhere.

    Configuration alone may be a link that leads out of the workspace: it is written by people, and can only
    tighten.
    """
    # Resolved first and then opened without following links: what is swapped in between is not opened.
    path = Path(os.path.realpath(workspace / name))
    if name not in CONFIGURATION and not path.is_relative_to(workspace):
        return None
    try:
        # Not to wait for a pipe.
        with open(path, "rb", opener=_opened) as file:
            is_file = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            data = file.read(_LARGEST) if is_file else b""
    except OSError:
        return None
    return data if data.strip() else None


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def purpose_of(name: str) -> str:
    """Say in a few words what a file is for, by its name."""
    if name == WORKSPACE_FILE:
        return "configuration; it can only tighten what is allowed"
    if name == WORKSPACE_FILTERS:
        return "what is shown of the output of programs"
    if name == WORKSPACE_SERVERS:
        return "servers of tools; each is allowed apart"
    if name.startswith(f"{COMMANDS_FOLDER}/"):
        return f"the command /{Path(name).stem}, a prompt for the model"
    if name.startswith(f"{AGENTS_FOLDER}/"):
        return f"the sub-agent {Path(name).stem}, which may do no more than your own model"
    folder = name.rpartition("/")[0]
    return f"instructions for the model{f', for {folder}/' if folder else ''}; they permit nothing"


def _texts_in(workspace: Path, folder: str) -> Iterator[str]:
    try:
        entries = sorted(entry.name for entry in os.scandir(workspace / folder))
    except OSError:
        return
    yield from (f"{folder}/{name}" for name in entries[:_MOST_FILES] if name.endswith(".md"))


def _nested(workspace: Path) -> Iterator[str]:
    """Yield instruction files below the workspace's own folder; links, hidden and vendored folders apart."""
    folders, left, found = [(workspace, 0)], _MOST_ENTRIES, 0
    for folder, depth in folders:
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        left -= len(entries)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                is_own = not entry.name.startswith(".") and entry.name not in _PASSED_OVER
                if is_own and depth < _DEEPEST and left > 0:
                    folders.append((Path(entry.path), depth + 1))
            elif depth and entry.name in INSTRUCTIONS and found < _MOST_FILES:
                found += 1
                yield str(Path(entry.path).relative_to(workspace))
