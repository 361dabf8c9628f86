"""Find a command's workspace and configuration, and ask the questions that come before it starts.

Two questions come before anything is opened: whether an unusual folder (a home, a root) is meant as a
workspace, and whether the workspace's own configuration may be read. Where nobody can be asked, an open
question ends the command.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..config import (
    WORKSPACE_FILE,
    WORKSPACE_FILTERS,
    Loaded,
    Locations,
    config_folder,
    data_folder,
    find_places,
    is_trusted,
    load,
    printable,
)
from ..exits import CliError, Exit
from ..policy import workspace_question

if TYPE_CHECKING:
    from ..options import Options

__all__ = ["Startup", "begin", "look", "require_model"]


@dataclass(frozen=True, slots=True)
class Startup:
    """What holds, and the questions that are still open.

    `unusual` asks whether this folder is meant; `untrusted` is the workspace's own configuration file
    that was not read because the person has not been asked yet.
    """

    loaded: Loaded
    places: Locations
    unusual: str | None
    untrusted: Path | None


def look(options: Options) -> Startup:
    """Return where things lie and what is configured, without asking anything.

    Raises:
        CliError: the workspace is no folder, or the configuration cannot be used.
    """
    workspace = _workspace(options)
    data = Path(os.path.realpath(data_folder()))
    said = is_trusted(data, workspace)
    loaded = load(file=options.config, workspace=workspace, trusted=said is True, flags=options.flags())
    places = find_places(loaded.config, workspace)
    unusual = None
    if options.workspace is None:
        unusual = workspace_question(workspace, places.home, config_folder(), places.data)
    brought = (workspace / WORKSPACE_FILE, workspace / WORKSPACE_FILTERS)
    unread = (
        own for own in brought if (own.exists() or own.is_symlink()) and not _is_named(own, options, loaded)
    )
    return Startup(loaded, places, unusual, next(unread, None) if said is None else None)


def begin(options: Options, *, works: bool = True) -> Startup:
    """Return where to work where nobody can be asked; `works` is False for what only looks.

    Raises:
        CliError: as `look`, or a question is open.
    """
    start = look(options)
    if works and start.unusual is not None:
        raise CliError(
            Exit.PRECONDITION,
            "INPUT_REQUIRED",
            f"nobody is here to answer: {start.unusual}",
            suggestion="name the folder with --workspace to say that it is meant",
        )
    if start.untrusted is not None:
        raise CliError(
            Exit.PRECONDITION,
            "INPUT_REQUIRED",
            f"nobody is here to say whether {printable(str(start.untrusted))} may be read",
            suggestion="leeward config trust (or: leeward config distrust) answers that for this workspace",
        )
    return start


def require_model(start: Startup) -> None:
    """See that a model was chosen.

    Raises:
        CliError: none was, and without a person there is no falling back to another.
    """
    if not start.loaded.config.llm.model:
        raise CliError(
            Exit.PRECONDITION,
            "MODEL_REQUIRED",
            "no model was chosen, and nobody is here to choose one",
            suggestion="--model PROVIDER:NAME, or --model offline",
        )


def _workspace(options: Options) -> Path:
    try:
        workspace = Path(os.path.realpath(options.workspace or Path.cwd()))
    except OSError as error:
        why = f"the current folder is gone: {error.strerror}"
        raise CliError(Exit.ARG_ERROR, "ARG_ERROR", why) from error
    if not workspace.is_dir():
        shown = printable(str(options.workspace or workspace))
        raise CliError(Exit.ARG_ERROR, "ARG_ERROR", f"--workspace {shown} is not a folder")
    return workspace


def _is_named(own: Path, options: Options, loaded: Loaded) -> bool:
    """Whether the person named this very file as theirs, so that it was read already."""
    return options.config is not None and any(own.samefile(file) for file in loaded.files)
