"""Find a command's workspace and configuration, and ask the questions that come before it starts.

Two questions come before anything is opened: whether an unusual folder (a home, a root) is meant as a
workspace, and whether the workspace's own configuration may be read. Where nobody can be asked, an open
question ends the command.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from leeward.security.lazy import dataclass

from ..config import (
    CONFIGURATION,
    INSTRUCTIONS,
    Loaded,
    Locations,
    Trust,
    config_folder,
    data_folder,
    find_places,
    load,
    printable,
    trust_of,
    trusted_now,
)
from ..exits import CliError, Exit
from ..policy import workspace_question

if TYPE_CHECKING:
    from ..options import Options

__all__ = ["Startup", "begin", "look", "require_model"]


@dataclass(frozen=True, slots=True)
class Startup:
    """What holds, and the questions that are still open.

    `unusual` asks whether this folder is meant; `trust` tells what of the workspace is trusted, and about
    what of it the person must still be asked.
    """

    loaded: Loaded
    places: Locations
    unusual: str | None
    trust: Trust

    @property
    def untrusted(self) -> Path | None:
        """The workspace's own configuration file that was not read because nobody was asked yet."""
        unread = [name for name in self.trust.unanswered if name in CONFIGURATION]
        return self.places.workspace / unread[0] if unread else None

    @property
    def left_out(self) -> tuple[str, ...]:
        """The names of instruction files that no model reads because nobody was asked yet."""
        return tuple(name for name in self.trust.unanswered if name.rpartition("/")[2] in INSTRUCTIONS)


def look(options: Options) -> Startup:
    """Return where things lie and what is configured, without asking anything.

    Raises:
        CliError: the workspace is no folder, or the configuration cannot be used.
    """
    workspace = _workspace(options)
    data = Path(os.path.realpath(data_folder()))
    # A flag is an answer for this run alone.
    trust = trusted_now(workspace) if options.trust_workspace else trust_of(data, workspace)
    flags = options.flags()
    loaded = load(file=options.config, workspace=workspace, trusted=trust.reads_configuration, flags=flags)
    places = find_places(loaded.config, workspace)
    places = replace(places, trust=trust if options.trust_workspace else None)
    unusual = None
    if options.workspace is None:
        unusual = workspace_question(workspace, places.home, config_folder(), places.data)
    is_open = [name for name in trust.unanswered if not _is_named(workspace / name, options, loaded)]
    return Startup(loaded, places, unusual, replace(trust, unanswered=tuple(is_open)))


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
            suggestion="leeward config trust (or: distrust) answers that for this workspace, "
            "--trust-workspace for this run",
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
            suggestion="leeward config init, which finds one, or --model PROVIDER:NAME, or --model offline",
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
    return options.config is not None and own.exists() and any(own.samefile(file) for file in loaded.files)
