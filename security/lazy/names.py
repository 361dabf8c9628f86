"""Fronts that load a name when it is first used (PEP 562).

    if TYPE_CHECKING:
        from .parse import parse_command

    __getattr__: Loads = lazy_names(__name__, {"parse_command": ".expand"})

An import of the package itself (`from leeward.security import command`) loads nothing until a name of
it is used; `from leeward.security.command import parse_command` loads at once. A library, and a module that
one file uses, is imported there as

    if TYPE_CHECKING:
        import jsonschema_rs
    else:
        jsonschema_rs = LazyModule("jsonschema_rs")
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, TypeAlias

__all__ = ["LazyModule", "Loads", "lazy_names"]

Loads: TypeAlias = Callable[[str], Any]
"""The `__getattr__` of a package: from a name of it to what has that name."""


def lazy_names(package: str, homes: Mapping[str, str]) -> Loads:
    """Return the `__getattr__` of a package whose names have these homes: modules, relative ones or not."""

    def load(name: str) -> Any:
        """Load a name on its first use; from then on it is found without coming here."""
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name], package), name)
        setattr(sys.modules[package], name, value)
        return value

    return load


class LazyModule:
    """A module that is imported when something of it is first asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        """Import the module; what was asked for is found without coming here from now on."""
        value = getattr(import_module(self._name), name)
        setattr(self, name, value)
        return value
