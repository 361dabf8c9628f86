"""Declare tools. Authors of tools use this, and so do the built-in ones.

    @tool(effects=Effect.SEND | Effect.BRING_IN, timeout=20)
    async def weather(city: Text, station: ResourceId | None = None) -> str:
        \"\"\"Current weather for a city.\"\"\"

A tool declares its effects, and what each argument is (`kinds.py`). The gates know nothing else of it: an
argument without a kind is judged as everything it could be, a tool without effects as one that does
everything.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias, overload

import trio
from pydantic_core import PydanticSerializationError, to_json

from leeward.security.action import NAME_RULE, is_tool_name
from leeward.security.call import Action, Cleared, ToolSpec
from leeward.security.kinds import Effect
from leeward.security.lazy import dataclass
from leeward.security.outcome import Output, PermanentFailure
from leeward.security.paths import Preview
from leeward.security.trust import Origin

from .judged import as_text
from .validation import Signature, checker, name_of, own_schema

__all__ = ["Function", "Run", "SingleTool", "check_name", "schema_tool", "spec_from_schema", "tool"]

Run: TypeAlias = Callable[[Cleared], Awaitable[object]]
Function: TypeAlias = Callable[..., object]

_TIMEOUT = 30.0


@dataclass(frozen=True, slots=True)
class SingleTool:
    """An executor with one tool: what `@tool` and `schema_tool` make."""

    spec: ToolSpec
    run: Run

    def specs(self) -> Sequence[ToolSpec]:
        """Return the one tool."""
        return (self.spec,)

    def ordered(self) -> SingleTool:
        """Return the tool as one whose calls never run beside others, though it only reads."""
        return replace(self, spec=replace(self.spec, ordered=True))

    async def execute(self, cleared: Cleared) -> Output:
        """Run the tool; what it returns becomes an `Output`."""
        return _output(await self.run(cleared))


@overload
def tool(function: Function, /) -> SingleTool: ...


@overload
def tool(
    *,
    effects: Effect = ...,
    timeout: float = ...,
    name: str | None = ...,
    idempotent: bool = ...,
    preview: Callable[[Action], Preview | None] | None = ...,
    result: Origin | None = ...,
    confidential: bool = ...,
) -> Callable[[Function], SingleTool]: ...


def tool(
    function: Function | None = None,
    /,
    *,
    effects: Effect = Effect.ALL,
    timeout: float = _TIMEOUT,
    name: str | None = None,
    idempotent: bool = False,
    preview: Callable[[Action], Preview | None] | None = None,
    result: Origin | None = None,
    confidential: bool = False,
) -> SingleTool | Callable[[Function], SingleTool]:
    """Make a tool of a function: its signature becomes the schema, its docstring the description.

    The function returns a str, an `Output`, or a value that JSON can represent; it reports a failure by
    raising a `ToolError`. Paths and URLs reach it as they were judged. In an `async def`, a parameter
    annotated with `Cleared` receives the permission to run (deadline, `emit`, `follow`); it is not an
    argument of the tool.

    An `async def` runs under trio. A plain `def` runs in a thread, which cannot be stopped: after a time-out
    or a cancellation the call has ended, but the thread runs on until the function returns.

    Args:
        function: the function, if the decorator is used without parentheses.
        effects: what a call does to the world; everything, if left out.
        timeout: seconds until the call is stopped.
        name: the name for models; by default that of the function.
        idempotent: whether a failed call may be repeated.
        preview: returns what a call would change, to be shown with a question. The state of the judged paths
            is in `Action.places`; a tool must refuse to run if that state has changed since.
        result: the author of the results, if it does not follow from the effects. An `Output` overrides it.
        confidential: whether sending is asked about once a result of this tool was read.

    Raises:
        TypeError: the function cannot be a tool; the message says why.
        ValueError: the name or the timeout is invalid.
    """

    def declared(function: Function) -> SingleTool:
        _must_return(function)
        signature = Signature.of(function)
        spec = ToolSpec(
            name=check_name(name or str(getattr(function, "__name__", ""))),
            description=inspect.getdoc(function) or "",
            schema=signature.schema,
            check=signature.check,
            effects=effects,
            timeout=_seconds(timeout),
            idempotent=idempotent,
            preview=preview,
            result=result,
            confidential=confidential,
        )
        return SingleTool(spec, _runner(function, signature))

    return declared if function is None else declared(function)


def spec_from_schema(
    name: str,
    description: str,
    schema: Mapping[str, Any],
    *,
    effects: Effect = Effect.ALL,
    timeout: float = _TIMEOUT,
    idempotent: bool = False,
    result: Origin | None = None,
    confidential: bool = False,
) -> ToolSpec:
    """Return the spec of a tool whose arguments are described by a JSON Schema.

    For executors of your own, which implement `execute` themselves.

    Raises:
        ValueError: the name, the timeout or the schema is invalid, or the schema refers to another document.
    """
    check_name(name)
    try:
        own = own_schema(schema)
        check = checker(own)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    seconds = _seconds(timeout)
    return ToolSpec(
        name,
        description,
        own,
        check,
        effects,
        timeout=seconds,
        idempotent=idempotent,
        result=result,
        confidential=confidential,
    )


def schema_tool(
    name: str,
    description: str,
    schema: Mapping[str, Any],
    run: Run,
    *,
    effects: Effect = Effect.ALL,
    timeout: float = _TIMEOUT,
    idempotent: bool = False,
    result: Origin | None = None,
) -> SingleTool:
    """Return an executor with one tool whose arguments are described by a JSON Schema.

    `run` is called with the permission, and takes the arguments from it.

    Raises:
        ValueError: as for `spec_from_schema`.
    """
    spec = spec_from_schema(
        name,
        description,
        schema,
        effects=effects,
        timeout=timeout,
        idempotent=idempotent,
        result=result,
    )
    return SingleTool(spec, run)


def check_name(name: str) -> str:
    """Return a tool's name if every model accepts it.

    Raises:
        ValueError: it is not 1 to 64 characters of a-z, 0-9 and _.
    """
    if not is_tool_name(name):
        raise ValueError(f"{NAME_RULE}, unlike {name!r}")
    return name


def _seconds(timeout: float) -> float:
    if not (timeout > 0 and math.isfinite(timeout)):
        raise ValueError(f"a timeout is a number of seconds above 0, unlike {timeout!r}")
    return float(timeout)


def _must_return(function: Function) -> None:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{name_of(function)} yields; a tool returns its result")


def _runner(function: Function, signature: Signature) -> Run:
    if not inspect.iscoroutinefunction(function):
        return _in_thread(function, signature)

    async def run(cleared: Cleared) -> object:
        values = signature.values(cleared)
        if signature.injected is not None:
            values[signature.injected] = cleared
        return await function(**values)

    return run


# Functions that hang keep their threads; those of ours must not run out because of them.
_MOST_THREADS = 40
_threads: trio.lowlevel.RunVar[trio.CapacityLimiter] = trio.lowlevel.RunVar("threads of tools")


def _in_thread(function: Function, signature: Signature) -> Run:
    """Return how a function runs that may block.

    Raises:
        TypeError: it asks for the `Cleared`, which belongs to the trio thread.
    """
    if signature.injected is not None:
        raise TypeError(f"{name_of(function)} asks for the Cleared, so it must be an 'async def'")

    async def run(cleared: Cleared) -> object:
        work = partial(function, **signature.values(cleared))
        try:
            limiter = _threads.get()
        except LookupError:
            limiter = trio.CapacityLimiter(_MOST_THREADS)
            _threads.set(limiter)
        return await trio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=limiter)

    return run


def _output(returned: object) -> Output:
    """Return what a tool returned as an `Output`.

    Raises:
        PermanentFailure: it returned something that is neither text nor JSON.
    """
    if isinstance(returned, Output):
        return returned
    text = as_text(returned)
    if isinstance(text, str):
        return Output(text)
    try:
        return Output(to_json(text).decode())
    except (PydanticSerializationError, UnicodeDecodeError) as error:
        kind = type(returned).__name__
        raise PermanentFailure(f"the tool returned a {kind}, which is neither text nor JSON") from error
