"""Models of the configuration of hooks: when each of the person's programs is run, and in what.

Models and nothing else. A workspace cannot set this; `tools/hooks.py` runs them.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from .types import Expected, PathText, Section, ToolGlob

__all__ = ["HookSection"]

_LONGEST = 600

EventWord = Literal["before_call", "after_call", "before_turn", "after_turn", "session_start", "session_end"]
Word = Annotated[str, Field(min_length=1, max_length=4096), Expected("a text that is not empty")]
_OF_CALLS = frozenset({"before_call", "after_call"})


def _mismatch(key: str, expected: str) -> PydanticCustomError:
    context = {"key": key, "expected": expected, "beside": key}
    return PydanticCustomError("mismatch", "{key}: expected {expected}", context)


class HookSection(Section):
    """One program of yours that is run on an event, with what happened as JSON on its standard input."""

    on: Annotated[
        EventWord,
        Field(
            description="When: before_call, after_call, before_turn, after_turn, session_start, session_end."
        ),
    ]
    command: Annotated[
        tuple[Word, ...],
        Field(strict=False, description="The program and its arguments; started in the workspace."),
    ]
    tools: Annotated[
        tuple[ToolGlob, ...],
        Field(strict=False, description="The tools whose calls it is run for; a hook of calls alone."),
    ] = ("*",)
    sandbox: Annotated[
        Literal["read_only", "workspace", "none"],
        Field(
            description="What it runs in: it changes nothing, or the workspace alone, or all that you can."
        ),
    ] = "read_only"
    read: Annotated[
        tuple[PathText, ...],
        Field(strict=False, description="Further folders and files it may read."),
    ] = ()
    timeout: Annotated[float, Field(gt=0, le=_LONGEST, description="Seconds it may take.")] = 10.0

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if not self.command or ("/" in self.command[0] and not self.command[0].startswith("/")):
            raise _mismatch("command", "a program by its name or absolute path, then its arguments")
        if self.tools != ("*",) and self.on not in _OF_CALLS:
            raise _mismatch("tools", "no tools beside an event that is about no call")
        return self
