"""Style figures of the sources, held against their bars; plain words in docstrings, comments and messages."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
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
        "fn_code_p90": 20, "fn_len_max": 60, "nesting_max": 4, "file_max": 600, "params_max": 8,
        "class_methods_max": 15, "cycles": 0, "comment_echo_pct": 3, "broad_except_swallowing": 3,
        "any_per_kloc": 4,
    }  # fmt: skip


def test_nothing_falls_short_of_the_bars() -> None:
    assert missed(ROOT) == set()


STYLE = {
    "fn_code_p90": "def f() -> None:\n" + "    x = 1\n" * 21,
    "fn_len_max": "def f() -> None:\n" + "    x = 1\n" * 61,
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


ROOMS = ("security", "memory", "tools", "runtime", "src/leeward")

BANNED = re.compile(
    r"\b(?:said|told|stands?|stood|(?:go(?:es)?|gone|going) on with|what (?:became|becomes|has become) of"
    r"|none of|whoever|in vain)\b",
    re.IGNORECASE,
)
"""Literary or vague words; each has a plain one: reported, is, resume, outcome, not one, the caller."""

# What is written elsewhere and quoted here: words of a model's prompt, of a person, of a contract.
ALLOWED = {
    "runtime/conversation/compaction.py": "the prompt of a summary, which models were tried with",
    "runtime/conversation/prompt.py": "the system prompt, whose bytes are versioned",
    "tools/composite.py": "the rule in a tool's description, for models",
    "tools/http/fetch.py": "the description of a tool, for models",
}
PASSED_OVER = re.compile(r"`[^`]*`|\bsaid (?:no|yes)\b|\"said\":|\bTold:")
"""Code in backquotes, a person's answer to `[y]es / [n]o`, the field of a format, an exception's name."""


def texts(source: str) -> Iterator[tuple[int, str]]:
    """Every docstring, comment and text of several words in a file, with its line."""
    # To split a file into tokens takes ten times as long as to parse it.
    if any("#" in line and BANNED.search(line.partition("#")[2]) for line in source.split("\n")):
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


def banned(source: str) -> list[tuple[int, str]]:
    if not BANNED.search(source):
        return []
    return [
        (line, found[0])
        for line, text in texts(source)
        for found in BANNED.finditer(PASSED_OVER.sub("", text))
    ]


def files() -> Iterator[Path]:
    for room in ROOMS:
        found = (ROOT / room).glob("*.py") if room.startswith("src") else (ROOT / room).rglob("*.py")
        yield from sorted(found)


def test_no_module_docstring_is_a_question() -> None:
    begins = re.compile(r'r?"""(.*?)(?:\n\n|""")', re.DOTALL)
    everywhere = [*files(), *(ROOT / "tests").rglob("*.py"), *(ROOT / "bench").rglob("*.py")]
    found = ((path, begins.match(path.read_text("utf-8"))) for path in everywhere)
    assert [path for path, text in found if text is not None and text[1].rstrip().endswith("?")] == []


def test_docstrings_comments_and_messages_use_plain_words() -> None:
    found = {}
    for path in files():
        name = str(path.relative_to(ROOT))
        if name not in ALLOWED:
            found[name] = banned(path.read_text("utf-8"))
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_each_allowance_is_needed() -> None:
    assert all(banned((ROOT / name).read_text("utf-8")) for name in ALLOWED)


def test_a_banned_phrase_is_found_wherever_it_stands() -> None:
    source = '"""What stands here."""\n# Nobody is told.\nx = f"they said {1} in vain"\ny = "they said no"\n'
    assert banned(source) == [(2, "told"), (1, "stands"), (3, "said"), (3, "in vain")]
