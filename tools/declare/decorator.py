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
from dataclasses import dataclass
from typing import Any, TypeAlias, overload

from pydantic_core import PydanticSerializationError, to_json

from leeward.security.action import NAME_RULE, is_tool_name
from leeward.security.call import Action, Cleared, ToolSpec
from leeward.security.kinds import Effect
from leeward.security.outcome import Output, PermanentFailure
from leeward.security.paths import Preview

from .judged import as_text
from .validation import Signature, checker, own_schema

__all__ = ["SingleTool", "check_name", "schema_tool", "spec_from_schema", "tool"]

Run: TypeAlias = Callable[[Cleared], Awaitable[object]]
Function: TypeAlias = Callable[..., Awaitable[object]]

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
) -> SingleTool | Callable[[Function], SingleTool]:
    """Make an async function a tool: its signature the schema, its docstring the description.

    The function returns a str, an `Output`, or anything JSON can say; it tells a failure by raising a
    `ToolError`. It gets paths and URLs as they were judged. A parameter annotated `Cleared` gets the leave
    to run (deadline, `emit`, `follow`) and is no argument of the tool.

    Args:
        function: what runs; left out where the decorator is called.
        effects: what it does to the world; not said means everything.
        timeout: seconds until it is stopped.
        name: what models call it, if not as the function is called.
        idempotent: whether a failed call may be repeated.
        preview: what a call would change, for the person who is asked. What stands at the judged paths
            is in `Action.places` then, and the tool refuses where that is no longer so.

    Raises:
        TypeError: the function cannot be a tool; the message says why.
        ValueError: the name or the timeout is not possible.
    """

    def declared(function: Function) -> SingleTool:
        _must_be_async(function)
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
    return ToolSpec(name, description, own, check, effects, timeout=_seconds(timeout), idempotent=idempotent)


def schema_tool(
    name: str,
    description: str,
    schema: Mapping[str, Any],
    run: Run,
    *,
    effects: Effect = Effect.ALL,
    timeout: float = _TIMEOUT,
    idempotent: bool = False,
) -> SingleTool:
    """Return an executor with one tool described by a JSON Schema; `run` takes the arguments itself.

    Raises:
        ValueError: as `spec_from_schema`.
    """
    spec = spec_from_schema(
        name, description, schema, effects=effects, timeout=timeout, idempotent=idempotent
    )
    return SingleTool(spec, run)


def check_name(name: str) -> str:
    """Return a tool's name if models can be told it.

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


def _must_be_async(function: Function) -> None:
    if not inspect.iscoroutinefunction(function):
        name = getattr(function, "__qualname__", repr(function))
        raise TypeError(f"{name} must be an 'async def' that returns: a tool runs beside others")


def _runner(function: Function, signature: Signature) -> Run:
    async def run(cleared: Cleared) -> object:
        values = signature.values(cleared)
        if signature.injected is not None:
            values[signature.injected] = cleared
        return await function(**values)

    return run


def _output(returned: object) -> Output:
    """Return what a tool returned as an `Output`.

    Raises:
        PermanentFailure: it returned something that is neither text nor JSON.
    """
    if isinstance(returned, Output):
        return returned
    said = as_text(returned)
    if isinstance(said, str):
        return Output(said)
    try:
        return Output(to_json(said).decode())
    except (PydanticSerializationError, UnicodeDecodeError) as error:
        kind = type(returned).__name__
        raise PermanentFailure(f"the tool returned a {kind}, which is neither text nor JSON") from error
