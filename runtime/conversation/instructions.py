"""Read a project's instruction files where the person trusts them, and admit them through the pipeline.

Those of the workspace's own folder are part of the system prompt. Those of an inner folder go along with the
first result that is about something in that folder, outside its marks, so that the prompt keeps its bytes.
Only contents that the person trusts are used; what changed since is left out.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from leeward.security.call import Status
from leeward.security.filters import Source, label
from leeward.security.lazy import dataclass
from leeward.security.paths import secret_reason
from leeward.security.trust import Origin

from ..config import INSTRUCTIONS, contents_of, trust_in

if TYPE_CHECKING:
    from leeward.security.call import ToolResult
    from leeward.security.pipeline import Pipeline
    from leeward.security.policy import Policy

    from ..config import Locations

__all__ = ["LARGEST", "Instructions", "ProjectFile", "read_project_files"]

LARGEST = 32 * 1024
"""Bytes that are read of each; they go along with every request."""

_WORDS = re.compile(r"[^\s'\"`;|&<>()=:,]+")


@dataclass(frozen=True, slots=True)
class ProjectFile:
    """One file's name and text; `is_cut` tells that it goes on beyond what is read."""

    name: str
    text: str
    is_cut: bool = False


def read_project_files(
    workspace: Path,
    trusted: Mapping[str, str],
    is_secret: Callable[[str], bool],
    names: Iterable[str] = INSTRUCTIONS,
) -> tuple[ProjectFile, ...]:
    """Return instruction files of a workspace (absolute, resolved); the same text counts once.

    `trusted` are the digests of what the person trusts, by name. A file that lies elsewhere, that is another
    by now, or that `is_secret` (asked about its absolute path) is left out.
    """
    found: list[ProjectFile] = []
    for name in names:
        data = contents_of(workspace, name) if name in trusted else None
        if data is None or hashlib.sha256(data).hexdigest() != trusted[name]:
            continue
        if is_secret(os.path.realpath(workspace / name)):
            continue
        text = data[:LARGEST].decode("utf-8", "replace" if len(data) <= LARGEST else "ignore")
        if all(text != other.text for other in found):
            found.append(ProjectFile(name, text, len(data) > LARGEST))
    return tuple(found)


class Instructions:
    """The instruction files that one conversation follows; `warn` is called about one that changed."""

    def __init__(self, pipeline: Pipeline, places: Locations, warn: Callable[[str], None]) -> None:
        self._pipeline = pipeline
        self._places = places
        self._warn = warn
        self._trusted: Mapping[str, str] = {}
        self._inner: dict[str, list[str]] = {}

    async def begin(self) -> list[tuple[str, str]]:
        """Return the files of the workspace's own folder, as they were admitted, each with its name."""
        trust = await trio.to_thread.run_sync(trust_in, self._places)
        self._trusted = trust.files
        changed = [name for name in trust.unanswered if name in INSTRUCTIONS]
        if trust.answer and changed:
            self._warn(
                f"{', '.join(changed)}: not what you trusted, so the model does not read it; "
                "leeward config trust answers for it as it is now"
            )
        self._inner = {}
        for name in sorted(trust.files):
            folder, _, file = name.rpartition("/")
            if folder and file in INSTRUCTIONS:
                self._inner.setdefault(folder, []).append(name)
        return await self._admitted(INSTRUCTIONS)

    async def behind(self, result: ToolResult) -> str:
        """Return what goes to the model behind a result: instructions of the folders it is about, once."""
        if not self._inner or result.outcome.status is not Status.OK:
            return ""
        reached = [folder for folder in self._inner if self._is_about(result.call.arguments, folder)]
        names = [name for folder in reached for name in self._inner.pop(folder)]
        files = await self._admitted(names)
        heads = ((label(name, Source("path", Origin.PROJECT)), text) for name, text in files)
        return "".join(f"\n\n[project instructions: {name}]\n{text}" for name, text in heads)

    def _is_about(self, arguments: str, folder: str) -> bool:
        """Whether a word of the arguments names something in a folder. It grants nothing, so it may guess."""
        root = str(self._places.workspace)
        places = (os.path.normpath(os.path.join(root, word)) for word in _words(arguments))  # noqa: PTH118
        return any(place == f"{root}/{folder}" or place.startswith(f"{root}/{folder}/") for place in places)

    async def _admitted(self, names: Iterable[str]) -> list[tuple[str, str]]:
        is_secret = partial(_is_secret, policy=self._pipeline.session.policy)
        files = await trio.to_thread.run_sync(
            read_project_files, self._places.workspace, self._trusted, is_secret, tuple(names)
        )
        return [(file.name, await self._fenced(file)) for file in files]

    async def _fenced(self, file: ProjectFile) -> str:
        source = Source("project", Origin.PROJECT, file.name, shows=True)
        fenced = await self._pipeline.admit(file.text, source)
        return f"{fenced}\n[it goes on; only its beginning is read]" if file.is_cut else fenced


def _is_secret(path: str, policy: Policy) -> bool:
    return secret_reason(path, policy) is not None


def _words(arguments: str) -> Iterator[str]:
    try:
        values = [json.loads(arguments)]
    except (ValueError, RecursionError):
        return
    for value in values:
        if isinstance(value, str):
            yield from _WORDS.findall(value)
            yield value
        elif isinstance(value, Mapping):
            values.extend(value.values())
        elif isinstance(value, list):
            values.extend(value)
