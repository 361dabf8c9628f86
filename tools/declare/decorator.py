"""Declare tools: the surface for authors, which the built-in tools use too.

    @tool(effects=Effect.SEND | Effect.BRING_IN, timeout=20)
    async def weather(city: Text, station: ResourceId | None = None) -> str:
        \"\"\"Current weather for a city.\"\"\"

A tool says what it does (`effects`) and what each argument is (`kinds.py`); nothing more is known of it.
Whatever it leaves unsaid is judged as everything it could be.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
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

__all__ = ["SingleTool", "check_name", "schema_tool", "spec_from_schema", "tool"]

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
    """Make a function a tool: its signature the schema, its docstring the description.

    An `async def` runs under trio. A plain `def` runs in a thread: after a time-out, or when the call is
    cancelled, nobody waits for it any more, but it is not stopped. The function returns a str, an `Output`,
    or anything JSON can say; it tells a failure by raising a `ToolError`. It gets paths and URLs as they
    were judged. In an `async def` a parameter annotated `Cleared` gets the permission
    to run (deadline, `emit`, `follow`) and is no argument of the tool.

    Args:
        function: what runs; left out where the decorator is called.
        effects: what it does to the world; without it, everything.
        timeout: seconds until it is stopped.
        name: what models call it, if not as the function is called.
        idempotent: whether a failed call may be repeated.
        preview: what a call would change, for the person who is asked. The state of the judged paths
            is in `Action.places` then, and the tool refuses where that is no longer so.
        result: whose words its results are, if not as its effects say; an `Output` may say otherwise.
        confidential: whether what it brings is asked about before it leaves.

    Raises:
        TypeError: the function cannot be a tool; the message says why.
        ValueError: the name or the timeout is not possible.
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
    """Return the spec of a tool whose arguments a JSON Schema describes, for executors of one's own.

    Raises:
        ValueError: the name, the timeout or the schema is not possible; a reference that leads out
            of the schema is not.
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
    """Return an executor with one tool described by a JSON Schema; `run` takes the arguments itself.

    Raises:
        ValueError: as `spec_from_schema`.
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
