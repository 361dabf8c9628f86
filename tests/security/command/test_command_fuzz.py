"""A short run of the differential fuzz against a real bash."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest


@pytest.mark.skipif(
    shutil.which("bwrap") is None or not Path("/bin/bash").exists(), reason="needs bash and bubblewrap"
)
def test_no_program_runs_that_was_not_among_the_actions(script):
    report = script("fuzz/command_fuzz.py").fuzzed(200, 5)
    assert report.unforeseen == [] and report.read > 50 and report.ran > 50
