"""Whose tools are there? Built-in ones, those handed in, those the person's configuration names.

An installed plug-in that is not named is not loaded: importing code runs it.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Iterator

from leeward.security import ToolExecutor, TrustLevel
from leeward.tools import Registered

from .config import Config
from .exits import CliError, Exit

__all__ = ["ENTRY_POINTS", "configured_executors"]

ENTRY_POINTS = "leeward.executors"
"""The entry-point group under which a plug-in package offers a factory for its executor."""


def configured_executors(config: Config) -> Iterator[Registered]:
    """Yield what `[tools] executors` and `[tools] plugins` name, both at trust level verified.

    Raises:
        CliError: one of them cannot be loaded; the message says which and why.
    """
    for name in config.tools.executors:
        module, _, factory = name.partition(":")
        yield Registered(_made(f"module:{module}", module, factory), f"executor {name}", TrustLevel.VERIFIED)
    installed = {point.name: point for point in importlib.metadata.entry_points(group=ENTRY_POINTS)}
    for name in config.tools.plugins:
        point = installed.get(name)
        if point is None:
            known = ", ".join(sorted(installed)) or "none"
            raise _unusable(f"plug-in {name}", f"it is not installed (installed: {known})")
        made = _made(f"plug-in {name}", point.module, point.attr)
        yield Registered(made, f"plug-in {name}", TrustLevel.VERIFIED)


def _made(what: str, module: str, factory: str) -> ToolExecutor:
    try:
        made = getattr(importlib.import_module(module), factory)()
    except Exception as error:
        raise _unusable(what, f"{type(error).__name__}: {error}") from error
    if not callable(getattr(made, "specs", None)) or not callable(getattr(made, "execute", None)):
        raise _unusable(what, f"{factory}() returned no tool executor (specs and execute)")
    return made  # type: ignore[no-any-return]  # what the Protocol asks for was looked at above


def _unusable(what: str, why: str) -> CliError:
    return CliError(Exit.ARG_ERROR, "CONFIG_ERROR", f"{what} cannot be used: {why}")
