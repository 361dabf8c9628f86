"""Whose tools are there? Built-in ones, those handed in, those the person's configuration names.

An installed plug-in that is not named is not loaded: importing code runs it.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable, Iterable, Iterator

from leeward.security import Policy, ToolExecutor, TrustLevel, secret_reason
from leeward.tools import (
    DEFAULT_BODY_BYTES,
    BuiltinSettings,
    CompositeExecutor,
    NameClash,
    OverflowReader,
    Registered,
    Resolver,
    dns_resolver,
)

from .config import Config
from .exits import CliError, Exit

__all__ = ["ENTRY_POINTS", "all_tools", "builtin_settings", "configured_executors"]

ENTRY_POINTS = "leeward.executors"
"""The entry-point group under which a plug-in package offers a factory for its executor."""


def builtin_settings(
    config: Config,
    policy: Policy,
    store: OverflowReader,
    session: Callable[[], str],
    resolve: Resolver = dns_resolver,
) -> BuiltinSettings:
    """Return what the built-in tools need to know; `session` tells whose overflow may be read."""
    return BuiltinSettings(
        workspace=policy.workspace,
        home=policy.home,
        store=store,
        session=session,
        is_secret=lambda path: secret_reason(path, policy) is not None,
        shell_timeout=config.tools.shell.timeout,
        max_output=policy.max_bytes,
        fetch_timeout=config.tools.fetch.timeout,
        max_body_bytes=config.tools.fetch.max_body_bytes or DEFAULT_BODY_BYTES,
        allow_networks=policy.allow_networks,
        ca_file=config.tools.fetch.ca_file or None,
        resolve=resolve,
    )


def all_tools(
    config: Config, built_in: Iterable[ToolExecutor], own: Iterable[ToolExecutor] = ()
) -> CompositeExecutor:
    """Return all tools as one executor: built in, handed in, named by the configuration.

    Raises:
        CliError: one of them cannot be loaded, or two of them claim one name.
    """
    guarded = config.security.pre_execution_verify.url_grounding.guarded_tools
    try:
        return CompositeExecutor([*built_in, *own, *configured_executors(config)], guarded_tools=guarded)
    except NameClash as error:
        raise CliError(Exit.ARG_ERROR, "CONFIG_ERROR", str(error)) from error


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
