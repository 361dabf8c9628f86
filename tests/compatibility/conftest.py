"""Fixtures for the compatibility tests."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from loading import SAFE, load_module

HERE = Path(__file__).parent


def _story() -> ModuleType:
    return load_module(HERE / "story.py")


@pytest.fixture(scope="session")
def story() -> ModuleType:
    """The module `story.py`: the sessions that were recorded, and machines to run `leeward` on."""
    return _story()


@pytest.fixture(scope="session")
def v0_1() -> Path:
    """The folder of what version 0.1.0 wrote."""
    return HERE / "v0_1"


@pytest.fixture(scope="session")
def expected(v0_1: Path) -> Any:
    """What version 0.1.0 said of what it wrote."""
    return json.loads((v0_1 / "expected.json").read_text(encoding="utf-8"))


def _unpacked(archive: Path, place: Path, preloaded: Any) -> Any:
    with tarfile.open(archive) as tar:
        tar.extractall(place, **SAFE)
    return _story().Machine(place / "home", place / "harbour", preloaded)


@pytest.fixture
def recorded(v0_1: Path, preloaded: Any) -> Iterator[Any]:
    """The machine as it was left, where it was."""
    module = _story()
    try:
        with module.recorded_place() as place:
            yield _unpacked(v0_1 / "kept.tar.xz", place, preloaded)
    except module.PlaceTaken as error:
        pytest.skip(f"the sessions belong to a path that cannot be had here: {error}")


@pytest.fixture
def moved(v0_1: Path, tmp_path: Path, preloaded: Any) -> Any:
    """The machine as it was left, but in another folder."""
    return _unpacked(v0_1 / "kept.tar.xz", tmp_path.resolve(), preloaded)


@pytest.fixture(scope="session")
def played(tmp_path_factory: pytest.TempPathFactory, preloaded: Any) -> Any:
    """A machine on which this version has lived through the same sessions."""
    place = tmp_path_factory.mktemp("played").resolve()
    # Whether commands can be run on trial depends on the machine; no earlier version ran any.
    machine = _story().Machine(place / "home", place / "harbour", preloaded, trial="off")
    machine.settle()
    _story().play(machine)
    return machine
