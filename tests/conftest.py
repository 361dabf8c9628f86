"""Fixtures shared by all tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from loading import load_module
from toolchains import look_once_at_toolchains

# Started in the background (`make test &`, nohup) a process ignores Ctrl-C, and so would every program it
# starts: those that are interrupted here would never end.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# How many examples a property is tried on. A test that needs more or fewer than others says so as a multiple
# of `settings().max_examples`. How long one takes is no property of the code: the machine may be busy.
QUIET = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
settings.register_profile("default", max_examples=100, deadline=None, suppress_health_check=QUIET)
settings.register_profile("fast", settings.get_profile("default"), max_examples=20)
settings.register_profile("ci", settings.get_profile("default"), derandomize=True, print_blob=True)
settings.register_profile("thorough", settings.get_profile("default"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


look_once_at_toolchains()

TESTS = Path(__file__).parent


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Give two cores three workers: a third of the time a test waits for a disk, a process or a terminal."""
    named = os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS")
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return int(named) if named else cores + (cores + 1) // 2


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Say why an asynchronous test was skipped: pytest-trio takes it out of a group without its reason."""
    try:
        return (yield)
    except pytest.skip.Exception as skipped:
        inner: BaseException | None = skipped.__context__
        while isinstance(inner, BaseExceptionGroup) and len(inner.exceptions) == 1:
            (inner,) = inner.exceptions
        if isinstance(inner, pytest.skip.Exception):
            raise inner from None
        raise


@pytest.fixture(scope="session")
def script() -> Callable[[str], ModuleType]:
    """Load a file by its path among the tests."""
    return lambda path: load_module((TESTS / path).resolve())


@pytest.fixture(scope="session")
def git() -> Callable[..., str]:
    """Run git in a folder with nobody's settings but some name; return what it prints."""

    def git(folder: Path, *words: str) -> str:
        env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
        named = (
            "-c",
            "user.name=Ada",
            "-c",
            "user.email=ada@example.org",
            "-c",
            "protocol.file.allow=always",
        )
        done = subprocess.run(
            ["git", *named, *words],
            cwd=folder,
            env=env,
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        )
        return done.stdout

    return git


@pytest.fixture
def planted() -> Callable[[str], ModuleType]:
    """Load the obvious wrong version of a gate, by its name."""
    return lambda name: load_module(TESTS / "planted" / f"{name}.py")


@pytest.fixture(scope="session")
def preloaded() -> Iterator[Any]:
    """The module `preloaded.py` at work: processes of `leeward` without the cost of its imports."""
    at_work = load_module(TESTS / "preloaded.py").Preloaded()
    yield at_work
    at_work.close()


@pytest.fixture(scope="session")
def sessions() -> ModuleType:
    """The module `runtime/sessions.py`: whole sessions in a folder, with a model and a web server."""
    return load_module(TESTS / "runtime" / "sessions.py")


@pytest.fixture(scope="session")
def servers() -> ModuleType:
    """The module `tools/servers.py`: servers on loopback, and a private authority for them."""
    return load_module(TESTS / "tools" / "servers.py")
