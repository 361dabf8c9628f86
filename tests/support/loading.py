"""Load modules and TOML tables that lie beside tests.

Tests are no packages and cannot import each other; this folder alone stands in the path of pytest. There is
no second loader.
"""

from __future__ import annotations

import importlib.util
import sys
import tarfile
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[2]

SAFE: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
"""How an archive of ours is unpacked; before Python 3.11.4 nothing can be said."""


def load_module(path: Path) -> ModuleType:
    """Load a file of this checkout as a module of its own, once in a process."""
    name = "leeward_test_" + "_".join(path.resolve().relative_to(ROOT).with_suffix("").parts)
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


def toml_of(path: Path) -> dict[str, Any]:
    """Return what a TOML file holds."""
    return tomllib.loads(path.read_text(encoding="utf-8"))


def rows_beside(test: str) -> dict[str, Any]:
    """Return the tables of a test by their names, from the TOML file that is named like it."""
    return toml_of(Path(test).with_suffix(".toml"))
