"""The keys of `[tools.shell]`: which commands may run, how long, and how much of the machine they may use.

Models and nothing else, as in `config_models.py`. How the entries are read stands in
`security/command/rules.py`.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from leeward.security.rules import DEFAULT_CONFIRM, command_entry_problem
from leeward.tools.process import Limits

from .narrowing import LOWER, MORE, SUBSET, lower_from
from .types import Expected, PathText, Section

__all__ = ["Shell"]

_WEEK = 7 * 24 * 3600


def _is_entry(text: str) -> str:
    problem = command_entry_problem(text)
    if problem is not None:
        raise PydanticCustomError("command", "{problem}", {"problem": problem})
    return text


CommandEntry = Annotated[
    str, AfterValidator(_is_entry), Expected("the words of a command, such as git push or npm publish *")
]


class Shell(Section):
    """Programs."""

    timeout: Annotated[float, Field(gt=0, le=_WEEK, description="Seconds a command may run."), LOWER] = 30.0
    max_jobs: Annotated[
        int, Field(ge=0, le=64, description="Commands that may run in the background at once."), LOWER
    ] = 4
    longest_job: Annotated[
        float, Field(gt=0, le=_WEEK, description="Seconds a command may run in the background."), LOWER
    ] = 3600.0
    memory: Annotated[
        int,
        Field(
            ge=0,
            le=1 << 50,
            description="Bytes of memory a command may use in all; 0: half the machine, at most 4 GiB.",
        ),
        lower_from(Limits().memory),
    ] = 0
    checkpoints: Annotated[
        bool, Field(description="Keep what calls change in the workspace, so that /undo takes it back.")
    ] = True
    checkpoint_bytes: Annotated[
        int,
        Field(ge=0, le=1 << 32, description="Bytes of files kept of one state of the workspace, at most."),
    ] = 64 * 1024 * 1024
    allowed_paths: Annotated[
        tuple[PathText, ...],
        Field(strict=False, description="Folders outside the workspace that may be used without asking."),
        SUBSET,
    ] = ()
    blocked_commands: Annotated[
        tuple[CommandEntry, ...],
        Field(strict=False, description="Commands that never run, however they are wrapped or quoted."),
        MORE,
    ] = ()
    allowed_commands: Annotated[
        tuple[CommandEntry, ...],
        Field(strict=False, description="Commands that run without a question; a last * for any words."),
        SUBSET,
    ] = ()
    confirm_patterns: Annotated[
        tuple[CommandEntry, ...],
        Field(strict=False, description="Constructs and commands that are always asked about."),
        MORE,
    ] = DEFAULT_CONFIRM
