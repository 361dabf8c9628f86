"""Locate Leeward's own files on this machine: interpreter, folders, enabled plug-ins.

What runs Leeward must not be changed by what it runs, wherever it lies: `uv run leeward` in a project has all
of it inside the workspace.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import sysconfig
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

from .config import Config

__all__ = ["ENTRY_POINTS", "installation", "running_code"]

ENTRY_POINTS = "leeward.executors"
"""The entry-point group under which a plug-in package offers a factory for its executor."""

_LIBRARIES = ("stdlib", "platstdlib", "purelib", "platlib", "scripts")


def running_code(config: Config, workspace: Path) -> list[Path]:
    """Return what runs Leeward, plug-ins included, but nothing that holds the whole workspace."""
    found = [Path(os.path.realpath(path)) for path in (*installation(), *_plugins(config))]
    inside = Path(os.path.realpath(workspace))
    return [path for path in dict.fromkeys(found) if not inside.is_relative_to(path)]


def installation() -> Iterator[str]:
    """Yield where the interpreter, its libraries and our own folders lie."""
    yield from dict.fromkeys((sys.prefix, sys.base_prefix, sys.exec_prefix))
    paths = sysconfig.get_paths()
    yield from dict.fromkeys(paths[name] for name in _LIBRARIES)
    package = Path(__file__).resolve().parent
    yield from (str(package.with_name(name)) for name in ("runtime", "security", "memory", "tools"))
    outer = sys.modules["leeward"].__file__
    if outer is not None:
        yield str(Path(outer).resolve().parent)


def _plugins(config: Config) -> Iterator[str]:
    """Yield where enabled plug-ins lie. Nothing is imported: that would run them."""
    names = [name.partition(":")[0] for name in config.tools.executors]
    enabled = frozenset(config.tools.plugins)
    if enabled:
        names += [point.module for point in entry_points(group=ENTRY_POINTS) if point.name in enabled]
    for name in names:
        try:
            spec = importlib.util.find_spec(name.partition(".")[0])
        except (ImportError, ValueError):
            continue
        if spec is not None:
            yield from spec.submodule_search_locations or filter(None, (spec.origin,))
