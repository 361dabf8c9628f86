"""What keeps programs in, and what may they reach? The keys of [tools.sandbox].

Models and nothing else, as in `config_models.py`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .narrowing import STAYS_OFF, STAYS_ON, SUBSET
from .types import PathText, Section

__all__ = ["Sandbox"]


class Sandbox(Section):
    """What keeps programs in."""

    level: Annotated[
        Literal["auto", "bubblewrap", "landlock", "none"],
        Field(description="What to use; auto is the strongest that works here."),
    ] = "auto"
    required: Annotated[bool, Field(description="Begin no session where no sandbox works."), STAYS_ON] = False
    network: Annotated[bool, Field(description="Let programs use the network."), STAYS_OFF] = False
    extra_read: Annotated[
        tuple[PathText, ...],
        Field(strict=False, description="Folders and files outside the workspace that programs may read."),
        SUBSET,
    ] = ()
    extra_write: Annotated[
        tuple[PathText, ...],
        Field(strict=False, description="Folders outside the workspace that programs may change."),
        SUBSET,
    ] = ()
    auto_allow: Annotated[
        bool,
        Field(description="Run commands without a question while the sandbox passes its own test."),
        STAYS_OFF,
    ] = False
