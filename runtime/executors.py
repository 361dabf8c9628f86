"""Collect the executors of a session: built in, handed in, and named by the person's configuration.

An installed plug-in that is not named is not loaded, because importing code runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from leeward.security.filters import HARD_BOUND
from leeward.security.lazy import LazyModule
from leeward.security.trust import TrustLevel
from leeward.tools.builtin import BuiltinSettings
from leeward.tools.composite import Around, CompositeExecutor, Registered
from leeward.tools.http.fetch import DEFAULT_BODY_BYTES
from leeward.tools.http.resolve import Resolver, dns_resolver

from .exits import CliError, Exit
from .installation import ENTRY_POINTS

if TYPE_CHECKING:
    from importlib import metadata

    from leeward.security.call import ToolExecutor
    from leeward.security.policy import Policy
    from leeward.security.session import Session
    from leeward.tools.notes import NoteKeeper
    from leeward.tools.overflow import OverflowReader

    from .config import Config
else:
    metadata = LazyModule("importlib.metadata")  # it loads a dozen modules, and most starts name no plug-in

__all__ = ["all_tools", "builtin_settings", "configured_executors"]


def builtin_settings(
    config: Config,
    policy: Policy,
    store: OverflowReader,
    notes: NoteKeeper,
    session: Callable[[], Session],
    resolve: Resolver = dns_resolver,
) -> BuiltinSettings:
    """Return what the built-in tools need to know; `session` tells whose overflow and notes are meant."""
    return BuiltinSettings(
        workspace=policy.workspace,
        home=policy.home,
        store=store,
        notes=notes,
        session=session,
        policy=policy,
        shell_timeout=config.tools.shell.timeout,
        max_output=min(policy.max_bytes, HARD_BOUND),
        fetch_timeout=config.tools.fetch.timeout,
        max_body_bytes=config.tools.fetch.max_body_bytes or DEFAULT_BODY_BYTES,
        allow_networks=policy.allow_networks,
        allowed_hosts=policy.domain_allowlist,
        denied_hosts=policy.domain_denylist,
        ca_file=config.tools.fetch.ca_file or None,
        resolve=resolve,
    )


def all_tools(
    config: Config,
    built_in: Iterable[ToolExecutor],
    own: Iterable[ToolExecutor] = (),
    around: Around | None = None,
    named: Iterable[Registered] | None = None,
) -> CompositeExecutor:
    """Return all tools as one executor: built in, handed in, named by the configuration.

    `named` are the last ones, where they were loaded before.

    Raises:
        CliError: one of them cannot be loaded, two of them claim one name, or a name is not possible.
    """
    guarded = config.security.pre_execution_verify.url_grounding.guarded_tools
    handed_in = (Registered(executor, "handed in") for executor in own)
    executors: list[ToolExecutor | Registered] = [
        *built_in,
        *handed_in,
        *(configured_executors(config) if named is None else named),
    ]
    try:
        return CompositeExecutor(executors, guarded_tools=guarded, around=around)
    except ValueError as error:
        raise CliError(Exit.ARG_ERROR, "CONFIG_ERROR", str(error)) from error


def configured_executors(config: Config) -> Iterator[Registered]:
    """Yield what `[tools] executors` and `[tools] plugins` name, all at trust level verified.

    Raises:
        CliError: one of them cannot be loaded; the message says which and why.
    """
    for name in config.tools.executors:
        module, _, factory = name.partition(":")
        point = metadata.EntryPoint(name, f"{module}:{factory}", ENTRY_POINTS)
        yield from _loaded(point, f"executor {name}")
    installed = _installed() if config.tools.plugins else {}
    for name in config.tools.plugins:
        found = installed.get(name, [])
        if len(found) != 1:
            raise _unusable(f"plug-in {name}", _not_one(found, installed))
        yield from _loaded(found[0], f"plug-in {name}")


def _installed() -> dict[str, list[metadata.EntryPoint]]:
    """Return the plug-ins that are installed, by name; what names the same object twice counts once."""
    found: dict[str, list[metadata.EntryPoint]] = {}
    for point in metadata.entry_points(group=ENTRY_POINTS):
        if all(point.value != known.value for known in found.setdefault(point.name, [])):
            found[point.name].append(point)
    return found


def _not_one(found: Sequence[metadata.EntryPoint], installed: Iterable[str]) -> str:
    if found:
        return f"several packages offer one of that name: {', '.join(sorted(point.value for point in found))}"
    return f"it is not installed (installed: {', '.join(sorted(installed)) or 'none'})"


def _loaded(point: metadata.EntryPoint, what: str) -> Iterator[Registered]:
    """Import what an entry names and yield its executors: one, or several in a list.

    Raises:
        CliError: it cannot be imported, its factory or one of its executors fails, or it is none.
    """
    try:
        named = point.load()
        made = named if _is_executor(named) else named()
        executors = [made] if _is_executor(made) else [*made] if isinstance(made, Iterable) else []
        fits = bool(executors) and all(map(_is_executor, executors))
        # Asked for once before they count, so that an executor that cannot list its tools is named.
        for executor in executors if fits else ():
            executor.specs()
    except Exception as error:
        raise _unusable(what, f"{type(error).__name__}: {error}{_way_to(point, error)}") from error
    if not fits:
        raise _unusable(what, "neither it nor what it makes is a tool executor (specs and execute)")
    for executor in executors:
        yield Registered(executor, what, TrustLevel.VERIFIED)


def _way_to(point: metadata.EntryPoint, error: Exception) -> str:
    """Return how a module is found that is not installed, "" where that is not what is wrong."""
    top = point.module.partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or error.name != top:
        return ""
    # The folder that Leeward is started in may be a workspace of others, with a module of that name.
    here = Path.cwd()
    is_here = any((here / name).exists() for name in (f"{top}.py", top))
    folder = here if is_here else "FOLDER"
    lies = "; the one in this folder is not looked at" if is_here else ""
    return f"{lies}. Install it in Leeward's environment, or start with PYTHONPATH={folder}"


def _is_executor(value: object) -> bool:
    """Whether a value has what the Protocol asks for; a class is a factory and not yet an executor."""
    return not isinstance(value, type) and all(
        callable(getattr(value, name, None)) for name in ("specs", "execute")
    )


def _unusable(what: str, why: str) -> CliError:
    return CliError(Exit.ARG_ERROR, "CONFIG_ERROR", f"{what} cannot be used: {why}")
