"""Killed at any moment: nothing is lost, partial, or unaccounted for."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from types import ModuleType

import pytest
import trio


@pytest.fixture(scope="module")
def crash(script) -> ModuleType:
    return script("fuzz/crash.py")


@pytest.mark.slow
def test_nothing_is_lost_or_half_there_after_fifty_kills(crash: ModuleType) -> None:
    """Here few; `make crash` kills more than a thousand times."""
    problems, seen = crash.crashed(50, seed=1)
    assert problems == []
    assert seen["killed"] + seen["ended"] == 50
    assert seen["killed"] > 30
    assert min(seen["effects"], seen["results"], seen["heads"]) > 0


def test_what_is_looked_for_is_found(crash: ModuleType, tmp_path: Path) -> None:
    machine = crash.Crashes(tmp_path / "m", seed=2)
    machine.kill()
    assert machine.problems == []
    (machine.work / "f1_99").write_text("nobody decided that")
    trio.run(machine._look, [])
    with closing(sqlite3.connect(machine.database)) as database, database:
        database.execute("UPDATE audit SET tool = 'none' WHERE seq = 2")
    trio.run(machine._look, [{"type": "result", "call": "c1", "status": "ok"}])
    with closing(sqlite3.connect(machine.database)) as database, database:
        database.execute(
            "INSERT INTO entry (session, turn, role, content, origin, at) VALUES ('nobody', 1, 'user', "
            "'{}', 'person', 1.0)"
        )
    trio.run(machine._look, [])
    found = "\n".join(machine.problems)
    for expected in (
        "f1_99 was written, and no decision is on record",
        "c1 was told as ok, its outcome is not on record",
        "the chain: ChainFault(seq=2",
        "the file is damaged: row",
    ):
        assert expected in found
