"""Recognise files that a program executes or obeys later without being named.

A write to such a file takes effect unattended: at the next commit, build, test run, login or session.
So `gates/paths.py` asks about it whatever else is allowed, and an answer given in advance covers it
only if its pattern names such a file (`permissions/answers.py`). The list is `autorun.toml`; files that
git and Leeward themselves obey are protected (`workspace.py`). Paths are judged by text alone.
"""

from __future__ import annotations

import re
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

from ..lazy import regex
from .pattern import as_one_name

__all__ = ["is_meant_to_run_later", "runs_later_reason"]


def _listed(key: str) -> dict[str, str]:
    """Return, for what the groups list under a key, who runs or obeys it."""
    return {as_one_name(entry): group["why"] for group in _GROUPS for entry in group.get(key, ())}


_GROUPS: list[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("autorun.toml").read_text(encoding="utf-8")
)["group"]
_NAMES, _ENDINGS = _listed("names"), _listed("endings")
_FOLDERS = {tuple(folder.split("/")): why for folder, why in _listed("folders").items()}
# Whatever is put in the place of such a folder brings along what belongs into it.
_UPPER = {parts[0]: why for parts, why in _FOLDERS.items() if parts[0].startswith(".")}


# An environment of Python's, by what people call it; what lies there is run by name, from the end of PATH.
_ENVIRONMENT = regex(r"[^/]*env[^/]*")
_PROGRAMS_OF_ENVIRONMENT = (
    "a command finds it by its name, as a program of the workspace's Python environment"
)


def runs_later_reason(path: str) -> str | None:
    """Say who runs or obeys a file (or what is in a folder) later, in our words, or None."""
    parts = as_one_name(path).strip("/").split("/")
    for folder in (*((part,) for part in parts), *pairwise(parts)):
        if folder in _FOLDERS:
            return _FOLDERS[folder]
        if folder[1:] == ("bin",) and _ENVIRONMENT.fullmatch(folder[0]):
            return _PROGRAMS_OF_ENVIRONMENT
    name = parts[-1]
    ending = next((ending for ending in _ENDINGS if name.endswith(ending)), None)
    return _NAMES.get(name) or _UPPER.get(name) or (_ENDINGS[ending] if ending else None)


def is_meant_to_run_later(pattern: str) -> bool:
    """Whether a glob speaks of such files by its own words, and does not just happen to match one."""
    return runs_later_reason(re.sub(r"(?:/\*\*?)+/?$", "", pattern)) is not None
