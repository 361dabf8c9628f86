"""What several test files need."""

from __future__ import annotations

import importlib.util
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

PLANTED = Path(__file__).parent / "planted"

# Started in the background (`make test &`, nohup) a process ignores Ctrl-C, and so would every program it
# starts: those that are interrupted here would never end.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def planted() -> Callable[[str], ModuleType]:
    """Load the obvious wrong version of a gate, by its name."""

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(f"planted_{name}", PLANTED / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture(scope="session")
def sessions() -> ModuleType:
    """The module `runtime/sessions.py`: whole sessions in a folder, with a model and a web server."""
    return _shared("sessions", "runtime")


@pytest.fixture(scope="session")
def servers() -> ModuleType:
    """The module `tools/servers.py`: servers on loopback, and a private authority for them."""
    return _shared("servers", "tools")


def _shared(name: str, folder: str) -> ModuleType:
    known = f"leeward_test_{name}"
    if known not in sys.modules:
        spec = importlib.util.spec_from_file_location(known, Path(__file__).parent / folder / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[known] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[known])
    return sys.modules[known]
