"""A short run of the file name fuzz: every verdict takes counted steps."""

from __future__ import annotations


def test_no_name_of_a_file_keeps_a_verdict_waiting(script):
    fuzz = script("fuzz/names_fuzz.py")
    report = fuzz.fuzzed(400, 3)
    assert report.names == 400 and report.too_much == []
    assert report.steps > 10_000 and len(report.verdicts) > 1


def test_a_line_that_takes_more_than_the_bound_fails_the_fuzz(script, monkeypatch):
    fuzz = script("fuzz/names_fuzz.py")
    monkeypatch.setattr(fuzz, "STEPS_FOR_A_LINE", 10)
    assert fuzz.fuzzed(50, 3).too_much != []
