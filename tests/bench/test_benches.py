"""Every bench runs and prints its figures."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# What benches are made of, the figures of `make check`, and `make soak`.
PARTS = {"floor", "loaded", "model_server", "scale", "plot", "silent", "soak", "style_bars", "style_metrics"}
BENCHES = sorted(path.stem for path in (ROOT / "bench").glob("*.py") if path.stem not in PARTS)

_NUMBER = re.compile(r"(?<![\w.])\d+(\.\d+)?(?![\w.])")


@pytest.mark.slow
@pytest.mark.parametrize("bench", BENCHES)
def test_a_bench_runs_and_prints_figures(bench: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "bench" / f"{bench}.py", "--smoke"],
        cwd=tmp_path, capture_output=True, text=True, timeout=170, check=False,
    )  # fmt: skip
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert _NUMBER.search(done.stdout), done.stdout
    assert list(tmp_path.iterdir()) == []


def test_make_figures_runs_every_bench() -> None:
    recipe = (ROOT / "Makefile").read_text().partition("\nfigures:")[2].partition("\n\n")[0]
    assert sorted({*re.findall(r"bench/(\w+)\.py", recipe)}) == BENCHES
