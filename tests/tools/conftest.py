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
        executor: ToolExecutor, arguments: Mapping[str, Any], *, tool: str | None = None, timeout=5.0, emit=None
    ) -> Cleared:
        specs = {spec.name: spec for spec in executor.specs()}
        call = ToolCall("1", tool or next(iter(specs)), json.dumps(arguments))
        draft = Draft.of(call, specs)
        assert draft.spec is not None and not draft.problems, draft.problems
        action = draft.read(policy, await Surveyor().resolve(draft.paths(policy)))

        async def nowhere(_: str) -> None:
            pass

        return Cleared(action, trio.current_time() + timeout, emit or nowhere)

    return clear


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
