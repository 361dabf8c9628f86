"""Every attack of the tables, run read-only on both levels, and judged from outside."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio

from leeward.tools.sandbox import ReadOnlyRan, no_reading_because, run_read_only
from leeward.tools.sandbox import landlock as landlock_module
from leeward.tools.sandbox.program import Program
from leeward.tools.sandbox.trial import TrialUnavailable
from loading import toml_of
from other_user import assert_passes_as

HERE = Path(__file__).parents[1]
LEVELS = ("bubblewrap", "landlock")
OURS, TRIAL, ESCAPES = (
    toml_of(HERE / f"{name}.toml")["attempt"] for name in ("read_only_attacks", "trial_attacks", "escapes")
)
# What fills memory is bounded on trial; here there is nothing but the own /tmp, or the disk's.
FILLS = {"fill the memory it writes to", "make a million files"}


@pytest.fixture
def attacks(script):
    return script("tools/sandbox/test_trial_attacks.py")


@pytest.fixture
def escapes(script):
    return script("tools/sandbox/test_sandbox_escapes.py")


@pytest.fixture
def scene(attacks, escapes, tmp_path):
    """Open a scene whose attempts are made read-only."""

    @dataclass
    class Reading(attacks.Scene):
        read: ReadOnlyRan | None = None

        async def run(self, argv, here, env):
            program = Program(argv, here, env, trio.current_time() + 30, 1 << 20)
            self.read = await run_read_only(self.sandbox, program)
            return self.read.ran.finished, self.world.state()

        def wished(self) -> set[str]:
            return {os.path.relpath(path, self.world.ws) for path in self.read.wishes}

    def scene(level, because=no_reading_because):
        return attacks.scene(tmp_path, escapes, Reading, level, because)

    return scene


@pytest.mark.parametrize("level", LEVELS)
async def test_no_attack_changes_the_workspace_and_what_it_wished_is_known(level, scene):
    async with scene(level) as shared:
        for attack in OURS:
            assert await shared.attempt(attack) == [], (attack["name"], shared.read)
            if level == "bubblewrap" or attack.get("below", True):
                missing = {*attack.get("wishes", ())} - shared.wished()
                assert not missing, (attack["name"], shared.read)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("table", [TRIAL, ESCAPES], ids=["trial", "escapes"])
async def test_no_attack_of_the_other_tables_gets_out(level, table, scene):
    async with scene(level) as shared:
        for attack in table:
            if attack["name"] not in FILLS:
                assert await shared.attempt(attack) == [], (attack["name"], shared.read)


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
async def test_an_older_landlock_holds_as_well(version, scene, monkeypatch):
    if landlock_module.landlock_version() < version:
        pytest.skip("the kernel's own Landlock is older")
    monkeypatch.setattr(landlock_module, "landlock_version", lambda: version)
    async with scene("landlock") as shared:
        for attack in (*OURS, *(one for one in TRIAL if one["name"] not in FILLS)):
            assert await shared.attempt(attack) == [], (attack["name"], shared.read)


async def test_without_a_sandbox_there_is_none(scene):
    async def none(_):
        return ""

    async with scene("none", none) as shared:
        with pytest.raises(TrialUnavailable):
            await shared.attempt(OURS[0])


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="this is an ordinary user already")
@pytest.mark.parametrize("level", LEVELS)
def test_the_tables_hold_for_nobody_too(level):
    assert_passes_as(65_534, __file__, f"test_no_ and {level}")
