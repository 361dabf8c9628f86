"""The keys of `[tools.file]`: what no tool reads, and what is no secret in spite of its name.

Models and nothing else, as in `config_models.py`. How the globs are read stands in
`security/path_pattern.py`.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from .narrowing import MORE
from .types import Expected, Section

__all__ = ["File"]


def _is_path_glob(text: str) -> str:
    problem = None
    if not text.strip("/") or not text.isprintable():
        problem = "there is no name in it"
    elif text.startswith("~") and not text.startswith("~/"):
        problem = "it names another user's home; write the whole path"
    elif text.count("[") != text.count("]"):
        problem = "a bracket in it is not closed"
    if problem is not None:
        raise PydanticCustomError("glob", "{problem}", {"problem": problem})
    return text


PathGlob = Annotated[
    str, AfterValidator(_is_path_glob), Expected("a glob such as *.pem, private/** or ~/notes/diary.md")
]


class File(Section):
    """Files, for every tool: those that read, copy, move or search them, and commands."""

    deny_read: Annotated[
        tuple[PathGlob, ...],
        Field(
            strict=False,
            description="Files and folders no tool reads, beside the built-in ones; a bare name anywhere.",
        ),
        MORE,
    ] = ()
    allow_read: Annotated[
        tuple[PathGlob, ...],
        Field(
            strict=False,
            description="Files that only their name makes secret, such as a test key, and that are not.",
        ),
    ] = ()
