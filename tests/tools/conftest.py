"""Cleared calls for executors, made from real actions: read, surveyed, judged by nobody."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
import trio

from leeward.security.action import Draft
from leeward.security.call import Cleared, Output, ToolCall, ToolExecutor
from leeward.security.policy import Policy
from leeward.security.reading import read_call
from leeward.tools import Surveyor

Clear = Callable[..., Awaitable[Cleared]]
Run = Callable[..., Awaitable[Output]]


@pytest.fixture
def workspace(tmp_path):
    folder = tmp_path / "ws"
    folder.mkdir()
    return folder


@pytest.fixture
def policy(tmp_path, workspace):
    return Policy(workspace=os.path.realpath(workspace), home=os.path.realpath(tmp_path))


@pytest.fixture
def clear(policy) -> Clear:
    async def clear(
        executor: ToolExecutor,
        arguments: Mapping[str, Any],
        *,
        tool: str | None = None,
        timeout=5.0,
        emit=None,
    ) -> Cleared:
        specs = {spec.name: spec for spec in executor.specs()}
        call = ToolCall("1", tool or next(iter(specs)), json.dumps(arguments))
        action = await read_call(call, specs, policy, Surveyor(policy=policy))
        assert action.spec is not None and not action.problems, action.problems

        async def nowhere(_: str) -> None:
            pass

        return Cleared(action, trio.current_time() + timeout, emit or nowhere)

    return clear


@pytest.fixture
def believed(policy) -> Clear:
    """Clear a call whose paths are taken as they stand: what is left of a judgement when things changed since."""

    async def believed(executor: ToolExecutor, arguments: Mapping[str, Any]) -> Cleared:
        specs = {spec.name: spec for spec in executor.specs()}
        draft = Draft.of(ToolCall("1", next(iter(specs)), json.dumps(arguments)), specs)

        async def nowhere(_: str) -> None:
            pass

        action = draft.read(policy, {path: path for path in draft.paths(policy)})
        return Cleared(action, trio.current_time() + 5, nowhere)

    return believed


@pytest.fixture
def run(clear) -> Run:
    async def run(executor: ToolExecutor, arguments: Mapping[str, Any], **options: Any) -> Output:
        return await executor.execute(await clear(executor, arguments, **options))

    return run


@pytest.fixture
def named() -> Callable[[list[ToolExecutor], str], ToolExecutor]:
    def named(tools: list[ToolExecutor], name: str) -> ToolExecutor:
        return next(tool for tool in tools if tool.specs()[0].name == name)

    return named
