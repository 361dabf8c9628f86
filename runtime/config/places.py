"""Locate the home, configuration and data folders, and the workspace."""

from __future__ import annotations

import os
from pathlib import Path

from leeward.security.lazy import dataclass

from .load import config_folder, data_folder
from .models import Config
from .trust import Trust

__all__ = ["Locations", "find_places"]


@dataclass(frozen=True, slots=True)
class Locations:
    """Absolute, resolved paths.

    `trust` is how far the workspace is trusted in this run, None where the person's answers say it.
    """

    workspace: Path
    home: Path
    config: Path
    data: Path
    database: Path
    trust: Trust | None = None


def find_places(config: Config, workspace: Path | None = None) -> Locations:
    """Return where everything lies; the workspace is the current folder unless one is named."""
    data = data_folder()
    named = config.storage.path
    return Locations(
        workspace=Path(os.path.realpath(workspace or Path.cwd())),
        home=Path(os.path.realpath(Path.home())),
        config=Path(os.path.realpath(config_folder())),
        data=Path(os.path.realpath(data)),
        database=Path(named) if named else data / "leeward.db",
    )
