"""Route each cleared call to the executor that has its tool.

Registration completes each tool's declaration with what the person configured: how far its source is trusted,
and whether its undeclared strings are to be read as URLs. Whether a call may run was decided before it gets
here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from leeward.security.kinds import Runs
from leeward.security.lazy import dataclass
from leeward.security.outcome import Output, ToolNotFound
from leeward.security.policy import KEEP, NETWORK
from leeward.security.trust import TrustLevel, min_trust

from .declare import check_name, guarded

if TYPE_CHECKING:
    from leeward.security.call import Action, Cleared, ToolExecutor, ToolSpec
    from leeward.security.trust import FileWords

__all__ = ["GUARDED_TOOLS", "Around", "CompositeExecutor", "NameClash", "Registered"]

GUARDED_TOOLS = ("fetch", "web_scrape")
"""Default of `[security.pre_execution_verify.url_grounding] guarded_tools`."""

URL_RULE = (
    "Only URLs the person gave, or links of a page that was opened before, exactly as they stood there: "
    "never constructed, guessed or inferred from names, brands or domain patterns."
)
"""What the description of every guarded tool says; those of the built-in ones hold it already."""

_BUILT_IN = "built in"


_RESERVED = {
    KEEP: "is what keeping the changes of a command is called",
    NETWORK: "is what letting a command reach hosts is called",
}


@dataclass(frozen=True, slots=True)
class Registered:
    """An executor and how it came in. `source` and `level` are set on its tools where given.

    A level can only lower the trust a spec claims for itself.
    """

    executor: ToolExecutor
    source: str | None = None
    level: TrustLevel | None = None


Around: TypeAlias = (
    "Callable[[Action, Callable[[], FileWords]], AbstractAsyncContextManager[Callable[[Output], None]]]"
)
"""A context around each call; it gets the labels of what the call writes, and last the output."""


class NameClash(ValueError):
    """Two executors claim one name; the message names both."""


class CompositeExecutor:
    """Several executors as one. Each is asked for its tools once, at construction."""

    def __init__(
        self,
        executors: Iterable[ToolExecutor | Registered],
        *,
        guarded_tools: Iterable[str] = GUARDED_TOOLS,
        around: Around | None = None,
    ) -> None:
        """Register executors; strings nobody declared in a guarded tool become URLs (see `schema.guarded`).

        Args:
            executors: in the order in which their tools are listed.
            guarded_tools: names of guarded tools; every tool whose name ends in `_fetch` is one too.
            around: sees to it that what a call changes can be undone.

        Raises:
            NameClash: two tools have one name.
            ValueError: a tool's name is not 1 to 64 characters of a-z, 0-9 and _, or is `keep`.
        """
        names = frozenset(guarded_tools)
        self._around = around
        self._routes: dict[str, tuple[ToolSpec, ToolExecutor]] = {}
        for entry in executors:
            registered = entry if isinstance(entry, Registered) else Registered(entry)
            for spec in registered.executor.specs():
                self._add(_completed(spec, registered, names), registered.executor)

    def _add(self, spec: ToolSpec, executor: ToolExecutor) -> None:
        if spec.name in _RESERVED:
            raise ValueError(
                f"{spec.source}: '{spec.name}' {_RESERVED[spec.name]}, so no tool can have this name"
            )
        known = self._routes.get(spec.name)
        if known is not None:
            first, second = (f"{s.source} ({type(e).__name__})" for s, e in (known, (spec, executor)))
            raise NameClash(f"two executors claim the tool '{spec.name}': {first} and {second}")
        self._routes[spec.name] = (spec, executor)

    def specs(self) -> Sequence[ToolSpec]:
        """Return all tools, in the order of registration."""
        return tuple(spec for spec, _ in self._routes.values())

    def spec(self, name: str) -> ToolSpec | None:
        """Return the tool with a name, or None."""
        route = self._routes.get(name)
        return route[0] if route is not None else None

    async def execute(self, cleared: Cleared) -> Output:
        """Run a cleared call in the executor that has its tool.

        Raises:
            ToolNotFound: no executor here has the tool that the call was judged for.
            ToolError: the tool failed.
        """
        judged = cleared.action.spec
        route = self._routes.get(judged.name) if judged is not None else None
        if route is None or route[0] is not judged:
            raise ToolNotFound("this call was judged for a tool that is not registered in this executor")
        if self._around is None or cleared.runs is not Runs.REAL or cleared.overlay:
            # What an overlay holds apart is kept for /undo when it is kept at all.
            return await route[1].execute(cleared)
        async with self._around(cleared.action, cleared.words) as came:
            output = await route[1].execute(cleared)
            came(output)
            return output


def _completed(spec: ToolSpec, registered: Registered, guarded_tools: frozenset[str]) -> ToolSpec:
    try:
        check_name(spec.name)
    except ValueError as error:
        raise ValueError(f"{registered.source or spec.source}: {error}") from error
    if registered.source is not None:
        spec = replace(spec, source=registered.source)
    if registered.level is not None:
        spec = replace(spec, level=min_trust(spec.level, registered.level))
    if spec.name in guarded_tools or spec.name.endswith("_fetch"):
        spec = _guarded(spec)
    return spec


def _guarded(spec: ToolSpec) -> ToolSpec:
    """Return a guarded tool: its strings are read as URLs; a foreign one's description has the rule."""
    if spec.source == _BUILT_IN:
        return replace(spec, schema=guarded(spec.schema))
    description = f"{spec.description}\n\n{URL_RULE}".strip()
    return replace(spec, schema=guarded(spec.schema, is_foreign=True), description=description)
