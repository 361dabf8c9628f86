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
    name = "leeward_test_sessions"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).parent / "runtime" / "sessions.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]
