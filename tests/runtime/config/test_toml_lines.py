"""Every key of a TOML text is found on the line it was written on."""

from __future__ import annotations

import json
import tomllib
from functools import partial
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.runtime.config.toml_lines import key_lines

CASES: dict[str, tuple[str, dict[tuple[str | int, ...], int]]] = {
    "plain": ("a = 1\n\nb = 2", {("a",): 1, ("b",): 3}),
    "comments and blank lines": (
        "# [x]\n\n  # a = 1\na = 1 # [y]\nb = '#' # \"\n",
        {("a",): 4, ("b",): 5},
    ),
    "dotted keys": (
        "a.b.c = 1\na.b.d = 2",
        {("a",): 1, ("a", "b"): 1, ("a", "b", "c"): 1, ("a", "b", "d"): 2},
    ),
    "blanks around dots": ("a . b = 1\n[ c . d ]\ne = 1", {("a", "b"): 1, ("c", "d"): 2, ("c", "d", "e"): 3}),
    "quoted keys": (
        '"a.b" = 1\n\'c d\' = 2\n["e.f".g]\nh = 3',
        {("a.b",): 1, ("c d",): 2, ("e.f", "g", "h"): 4},
    ),
    "quoted header with a bracket": ('["a]b"]\nc = 1\n[x]\ny = 2', {("a]b", "c"): 2, ("x", "y"): 4}),
    "escaped key": ('"\\u0061" = 1\n', {("a",): 1}),
    "multi-line basic string": (
        'a = """\n[x]\ny = 1\n\\"""\n[z]"""\nb = 1',
        {("a",): 1, ("b",): 6},
    ),
    "multi-line literal string": ("a = '''\n[[x]]\n\"\"\"\n'''\nb = 1", {("a",): 1, ("b",): 5}),
    "quotes at the end of a multi-line string": ('a = """x"""""\nb = 1', {("a",): 1, ("b",): 2}),
    "quotes at its start": ("a = \"\"\"\"x\"\"\"\nb = ''''y'''\nc = 1", {("a",): 1, ("b",): 2, ("c",): 3}),
    "empty strings": (
        "a = \"\"\nb = ''\nc = \"\"\"\"\"\"\nd = ''''''\ne = 1",
        {("c",): 3, ("d",): 4, ("e",): 5},
    ),
    "a backslash ends a literal": ("a = 'c:\\'\nb = '[x'\nc = 1", {("b",): 2, ("c",): 3}),
    "array over lines": (
        'a = [ # one, [\n  "x",\n\n  "]", # ,\n  [2,\n   3],\n]\nb = 1',
        {("a",): 1, ("a", 0): 2, ("a", 1): 4, ("a", 2): 5, ("a", 2, 1): 5, ("b",): 8},
    ),
    "array of inline tables": (
        'r = [\n  {t = "x", m = "{"},\n  {t = "y"},\n]',
        {("r", 0, "t"): 2, ("r", 0, "m"): 2, ("r", 1): 3, ("r", 1, "t"): 3},
    ),
    "inline table": (
        "a = { b.c = 1, d = [1, 2] }\ne = {}",
        {("a", "b", "c"): 1, ("a", "d", 1): 1, ("e",): 2},
    ),
    "array of tables": (
        "[[a.b]]\nc = 1\n[[a.b]]\n\nc = 2\n[a.b.d]\ne = 3",
        {
            ("a", "b"): 1,
            ("a", "b", 0): 1,
            ("a", "b", 0, "c"): 2,
            ("a", "b", 1): 3,
            ("a", "b", 1, "c"): 5,
            ("a", "b", 1, "d"): 6,
            ("a", "b", 1, "d", "e"): 7,
        },
    ),
    "arrays of tables in arrays of tables": (
        "[[a]]\n[[a.b]]\nc = 1\n[[a.b]]\nc = 2\n[[a]]\n[[a.b]]\nc = 3",
        {("a", 0, "b", 0, "c"): 3, ("a", 0, "b", 1, "c"): 5, ("a", 1): 6, ("a", 1, "b", 0, "c"): 8},
    ),
    "a table opened after its child": (
        "[a.b]\nc = 1\n[a]\nd = 2",
        {("a",): 1, ("a", "b", "c"): 2, ("a", "d"): 4},
    ),
    "CRLF": ("a = 1\r\n[b]\r\nc = '''\r\n[x]\r\n'''\r\nd = 2\r\n", {("b",): 2, ("b", "c"): 3, ("b", "d"): 6}),
    "nothing": ("", {}),
    "only a comment": ("# a = 1", {}),
}


@pytest.mark.parametrize("name", CASES)
def test_every_key_is_found_on_its_line(name: str) -> None:
    text, expected = CASES[name]
    lines = key_lines(text)
    assert {path: lines.get(path) for path in expected} == expected
    assert set(lines) == set(_paths(tomllib.loads(text)))


def _paths(value: Any, here: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    inner: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    return [path for name, item in inner for path in ((*here, name), *_paths(item, (*here, name)))]


def test_what_is_not_toml_is_refused() -> None:
    with pytest.raises(tomllib.TOMLDecodeError):
        key_lines("a = [1\nb = 2")


def test_a_long_array_is_read_in_one_pass() -> None:
    text = "a = [\n" + "  1,\n" * 30_000 + "]\nb = '''\n" + "x = [\n" * 30_000 + "'''\nc = 1"
    lines = key_lines(text)
    assert lines["a", 29_999] == 30_001
    assert lines["c",] == 60_005


_STRING = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=8)
_NAME = st.sampled_from(["a", "b-1", '"c.d"', "'[e]'", '"#"', '"\\""'])
_ATOM = st.one_of(
    _STRING.map(partial(json.dumps, ensure_ascii=False)),
    _STRING.filter(lambda text: "'" not in text).map(lambda text: f"'{text}'"),
    st.sampled_from(
        ["1", "true", "1979-05-27", '"""\n[x]\n"""', "'''\n]\n'''", '"""a""b"""', '""" \\\n  x"""']
    ),
)
_VALUE = st.one_of(
    _ATOM,
    st.lists(_ATOM, max_size=3).map(lambda atoms: "[ # ]\n" + ", # ,\n".join(atoms) + "\n]"),
    _ATOM.filter(lambda atom: "\n" not in atom).map(lambda atom: f"{{ k = {atom} }}"),
)


@given(st.lists(st.tuples(_NAME, _VALUE, st.sampled_from(["", "  # = [", "\n", "\n# [x]\n"])), max_size=8))
@example([("a", '"\\\\"', ""), ("a", "'\\'", "  # = [")])
def test_keys_stand_where_they_were_put(statements: list[tuple[str, str, str]]) -> None:
    text = ""
    expected: dict[tuple[str | int, ...], int] = {}
    for index, (name, value, gap) in enumerate(statements):
        expected["t", index, *tomllib.loads(f"{name} = 1")] = text.count("\n") + 2
        text += f"[[t]]\n{name} = {value}{gap}\n"
    lines = key_lines(text)
    assert {path: lines[path] for path in expected} == expected
    assert set(lines) == set(_paths(tomllib.loads(text)))
