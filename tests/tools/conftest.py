"""Cleared calls for executors, made from real actions that were read and surveyed but not judged."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from leeward.security.action import ActionBuilder
from leeward.security.call import Cleared, ToolCall, ToolExecutor
from leeward.security.judge import read_call
from leeward.security.outcome import Output
from leeward.security.policy import Policy
from leeward.tools.survey import Surveyor

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
    """Clear a call whose paths are taken as they stand: what is left of a judgement when things changed
    since.
    """

    async def believed(executor: ToolExecutor, arguments: Mapping[str, Any]) -> Cleared:
        specs = {spec.name: spec for spec in executor.specs()}
        draft = ActionBuilder.of(ToolCall("1", next(iter(specs)), json.dumps(arguments)), specs)

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


@pytest.fixture
def as_nobody(tmp_path):
    """Give a folder to an ordinary user and be one for a while; root may do all that is forbidden."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user for a while")

    @contextmanager
    def as_nobody(folder: Path) -> Iterator[None]:
        # How deep it lies is pytest's: a worker of a parallel run has a folder of its own.
        ours = [path for path in tmp_path.parents if path.name.startswith(("pytest-", "popen-"))]
        above = {path: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path, *ours)}
        for path, mode in above.items():
            path.chmod(mode | 0o055)
        owned = (path for path in (folder, *folder.rglob("*")) if path.lstat().st_mode & 0o077)
        for path in owned:
            os.lchown(path, 65_534, 65_534)
        os.setegid(65_534)
        os.seteuid(65_534)
        try:
            yield
        finally:
            os.seteuid(0)
            os.setegid(0)
            for path, mode in above.items():
                path.chmod(mode)

    return as_nobody
