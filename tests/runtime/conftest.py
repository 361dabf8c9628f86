"""Fixtures for the runtime's tests."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


def _load(name: str) -> ModuleType:
    """Load a module that lies beside the tests; without packages they cannot import each other."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.fixture(scope="session")
def model_server(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The module `model_server.py`: real model servers on loopback."""
    module = _load("model_server")
    module.FOLDERS.append(tmp_path_factory.mktemp("model-server"))
    return module
