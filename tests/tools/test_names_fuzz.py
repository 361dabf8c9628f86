"""A short run of the fuzz of hostile file names: every verdict is there in counted steps."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

FUZZ = Path(__file__).resolve().parents[1] / "fuzz" / "names_fuzz.py"


def test_no_name_of_a_file_keeps_a_verdict_waiting(monkeypatch):
    spec = importlib.util.spec_from_file_location("names_fuzz", FUZZ)
    fuzz = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "names_fuzz", fuzz)
    spec.loader.exec_module(fuzz)
    report = fuzz.fuzzed(400, 3)
    assert report.names == 400 and report.too_much == []
    assert report.steps > 10_000 and len(report.verdicts) > 1
