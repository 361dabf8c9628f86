"""Fixtures for tests of tools; pytest finds them wherever Leeward is installed, without any configuration.

An async test that uses one of them runs under trio, whether or not pytest-trio is there.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from leeward.security.lazy import LazyModule

if TYPE_CHECKING:
    from leeward import testing

__all__ = ["leeward_session", "leeward_workspace", "pytest_pyfunc_call", "tool_bench"]

_FIXTURES = {"leeward_session", "leeward_workspace", "tool_bench"}
_LOOPS = ("trio", "asyncio", "anyio")


def _load(module: str, name: str) -> Any:
    """Load what a test needs; every run of pytest loads this file, also where no test is about tools."""
    return getattr(LazyModule(module), name)


@pytest.fixture
def leeward_workspace(tmp_path: Path) -> Path:
    """The empty folder that the tools under test work in."""
    folder = tmp_path / "leeward" / "workspace"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def tool_bench(leeward_workspace: Path) -> Callable[..., testing.ToolBench]:
    """Make a `leeward.testing.ToolBench` in the workspace: `tool_bench(my_tool, answers=[Answer.YES])`."""
    return partial(_load("leeward.testing", "ToolBench"), workspace=leeward_workspace)


@pytest.fixture
def leeward_session(
    leeward_workspace: Path,
) -> Callable[..., AbstractAsyncContextManager[testing.SessionBench]]:
    """Open whole sessions in that folder, each with `async with` and the tools under test."""
    return partial(_load("leeward.testing", "open_session"), leeward_workspace.parent)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an async test that uses these fixtures, unless a marker says what else runs it."""
    is_ours = inspect.iscoroutinefunction(pyfuncitem.obj) and not _FIXTURES.isdisjoint(
        pyfuncitem.fixturenames
    )
    if not is_ours or any(map(pyfuncitem.get_closest_marker, _LOOPS)):
        return None
    names: tuple[str, ...] = pyfuncitem._fixtureinfo.argnames
    given: dict[str, Any] = {name: pyfuncitem.funcargs[name] for name in names}
    _load("trio", "run")(partial(pyfuncitem.obj, **given))
    return True
