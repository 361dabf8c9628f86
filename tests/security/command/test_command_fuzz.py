"""A short run of the differential fuzz against a real bash."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest

FUZZ = Path(__file__).resolve().parents[2] / "fuzz" / "command_fuzz.py"


@pytest.mark.skipif(
    shutil.which("bwrap") is None or not Path("/bin/bash").exists(), reason="needs bash and bubblewrap"
)
def test_no_program_runs_that_was_not_among_the_actions(monkeypatch):
    spec = importlib.util.spec_from_file_location("command_fuzz", FUZZ)
    fuzz = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "command_fuzz", fuzz)
    spec.loader.exec_module(fuzz)
    report = fuzz.fuzzed(200, 5)
    assert report.unforeseen == [] and report.read > 50 and report.ran > 50
