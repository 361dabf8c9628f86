"""A short run of hostile lines on each rung, of wrong confinements, and of ordinary lines."""

from __future__ import annotations

import os
import random

import pytest

from other_user import assert_passes_as
from surroundings import Surroundings, traces_of

# What is missing, the kinds of lines that show it, and a seed; with 4, the first world has a secret history.
WEAK = {
    "no filter of system calls": (("io_uring", "namespaces", "trace", "keyring"), 1),
    "no overlay": (("write", "names", "attributes"), 1),
    "the home in sight": (("read",), 1),
    "the network": (("tcp", "udp"), 1),
    "our environment": (("proc",), 1),
    "processes of others": (("signal",), 1),
    "memory of others": (("ipc",), 1),
    "no masks": (("read",), 1),
    "the history": (("history",), 4),
    "left alive": (("outlive",), 1),
}
LINES = 60


@pytest.fixture
def hostile(script):
    return script("fuzz/hostile.py")


@pytest.mark.parametrize("rung", ["trial", "read_only", "landlock", "none"])
def test_no_hostile_line_changes_reaches_or_reads_anything_unasked(hostile, rung):
    """Here few; `make hostile` runs thousands."""
    report = hostile.fuzzed(16, 5, rung)
    if report.unavailable:
        pytest.skip(report.unavailable)
    assert report.findings == []
    assert sum(report.lines.values()) == 16
    assert report.lines["ran"] >= (10 if rung == "trial" else 0)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="this is an ordinary user already")
def test_no_hostile_line_does_so_for_nobody_either():
    assert_passes_as(65_534, __file__, "test_no_hostile_line_changes and trial")


@pytest.mark.slow
@pytest.mark.parametrize("missing", WEAK)
def test_a_wrong_confinement_is_found_out_within_few_lines(hostile, planted, missing):
    kinds, seed = WEAK[missing]
    with planted("confinement").WEAK[missing]():
        report = hostile.fuzzed(LINES, seed, kinds=kinds, most=1)
    if report.unavailable:
        pytest.skip(report.unavailable)
    assert report.findings, report.shown()


def test_every_wrong_confinement_is_tried(planted):
    assert planted("confinement").WEAK.keys() == WEAK.keys()


def test_a_line_is_the_same_each_time_and_all_kinds_are_drawn(hostile, tmp_path):
    world = Surroundings(tmp_path)
    try:
        grammar, again = hostile.Grammar(world), hostile.Grammar(world)
        lines = [grammar.draw(random.Random(number), number) for number in range(300)]
        assert lines == [again.draw(random.Random(number), number) for number in range(300)]
        assert {kind for line in lines for kind in line.kinds} == {
            row["kind"] for row in hostile.TABLES["do"]
        }
        assert len({line.text for line in lines}) == 300
    finally:
        world.close()


@pytest.mark.parametrize(
    "text",
    [
        "a canarybirdsing b",
        "x\ngnisdribyranac",
        "pnaneloveqfvat",
        "63616e617279626972 6473696e67",
        "\n".join("canarybirdsing"),
        "Y2FuYXJ5YmlyZHNpbmc=",
        "eGNhbmFyeWJpcmRzaW5neQ==",
        "eHhjYW5hcnliaXJkc2luZ3l5",
    ],
)
def test_a_secret_is_found_in_whatever_form_it_is_printed(text):
    assert traces_of("canarybirdsing", text)
    assert not traces_of("canarybirdsing", "canary bird sung")


def test_a_world_at_rest_tells_of_nothing(tmp_path):
    world = Surroundings(tmp_path)
    try:
        before, there = world.state(), world.processes()
        assert world.disturbed() == [] and world.disturbed() == []
        assert world.state() == before and world.left(there) == {}
        (world.ws / "data").chmod(0o600)
        (world.home / ".bashrc").write_text("x")
        changed = {path for path in before if world.state()[path] != before[path]}
        assert changed == {world.ws / "data", world.home / ".bashrc"}
    finally:
        world.close()


# ------------------------------------------------------------------ ordinary lines


def test_ordinary_lines_do_on_trial_what_they_do_bare(script):
    """Here every twelfth; `make hostile` runs all of them."""
    counts, differing = script("fuzz/ordinary.py").compared(step=12)
    if not counts["rung: trial"]:
        pytest.skip("trial runs cannot be had here")
    assert differing == []
    assert counts["lines"] >= 8
