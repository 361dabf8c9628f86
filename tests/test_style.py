"""The shape of the sources: measured, held against the bars, and each bar shown to be one."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from loading import load_module

ROOT = Path(__file__).parents[1]


def bench(name: str) -> ModuleType:
    return load_module(ROOT / "bench" / f"{name}.py")


def missed(checkout: Path) -> set[str]:
    """The figures of a checkout that fall short of their bars; how much is tested is printed by
    `make check`.
    """
    metrics, bars = bench("style_metrics"), bench("style_bars")
    figures = metrics.report(checkout, metrics.package_roots(checkout), [], "x")
    short = {name for name, bar in bars.AT_MOST.items() if figures[name] > bar} | {
        name for name, bar in bars.AT_LEAST.items() if figures[name] < bar
    }
    return (short - {"tests_per_source"}) | ({"generic_modules"} if figures["generic_modules"] else set())


def test_the_bars_are_the_documented_ones() -> None:
    bars = bench("style_bars")
    assert bars.AT_LEAST["annotated_pct"] == 100
    assert bars.AT_MOST == {
        "fn_code_p90": 20, "fn_over_60_pct": 1.5, "nesting_max": 4, "file_max": 600, "params_max": 8,
        "class_methods_max": 15, "cycles": 0, "comment_echo_pct": 3, "broad_except_swallowing": 3,
        "any_per_kloc": 4,
    }  # fmt: skip


def test_nothing_falls_short_of_the_bars() -> None:
    assert missed(ROOT) == set()


STYLE = {
    "fn_code_p90": "def f() -> None:\n" + "    x = 1\n" * 21,
    "fn_over_60_pct": "def f() -> None:\n" + "    x = 1\n" * 61,
    "nesting_max": "def f() -> None:\n"
    + "".join("    " * (depth + 1) + "if x:\n" for depth in range(5))
    + "    " * 6
    + "pass\n",
    "file_max": "x = 1\n" * 601,
    "params_max": (
        "def f(a: int, b: int, c: int, d: int, e: int, f: int, g: int, h: int, i: int) -> None: ...\n"
    ),
    "class_methods_max": "class A:\n"
    + "".join(f"    def f{number}(self) -> None: ...\n" for number in range(16)),
    "annotated_pct": "def f(x): ...\n",
    "comment_echo_pct": "# increment the counter\ncounter = increment(counter)\n",
    "any_per_kloc": "from typing import Any\n" + "x: Any = 1\n" * 5 + "y = 1\n" * 500,
    "broad_except_swallowing": "try: ...\nexcept Exception: ...\n" * 4,
    "cycles": "from . import other\n",
}


@pytest.mark.parametrize(("bar", "source"), STYLE.items(), ids=STYLE)
def test_what_falls_short_is_found(tmp_path: Path, bar: str, source: str) -> None:
    package = tmp_path / "src" / "thing"
    package.mkdir(parents=True)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_x.py").write_text("# a line\n" * 500)
    for name, text in {
        "__init__": "",
        "other": "from . import planted\n",
        "planted": "def f() -> None: ...\n",
    }.items():
        (package / f"{name}.py").write_text(text)
    assert bar not in missed(tmp_path)
    (package / "planted.py").write_text(source)
    assert bar in missed(tmp_path)
    (package / "utils.py").write_text("")
    assert "generic_modules" in missed(tmp_path)
