"""The reference holds every public name, as the docstrings describe it."""

from __future__ import annotations

import builtins
import collections.abc
import contextlib
import enum
import importlib
import inspect
import pathlib
import re
import sys
import typing

import pytest

from loading import ROOT

PAGE = ROOT / "docs/reference.md"


@pytest.fixture(scope="module")
def reference(script):
    return script("../.ci/reference.py")


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="other versions write signatures in other ways")
def test_the_page_is_what_the_docstrings_say(reference) -> None:
    written = "\n".join(reference.reference())
    assert PAGE.read_text(encoding="utf-8") == written, "run: python .ci/reference.py > docs/reference.md"


def test_every_public_name_is_described(reference) -> None:
    page = PAGE.read_text(encoding="utf-8")
    parts = dict(part.split("\n", 1) for part in page.split("\n### ")[1:])
    for module in reference.MODULES:
        for name in {*importlib.import_module(module).__all__} - {"__version__"}:
            text = parts[f"`{module}.{name}`"]
            assert len(text.replace("```", "").split()) > 3, f"{module}.{name} has no docstring"


def test_every_name_in_it_can_be_imported(reference) -> None:
    page = PAGE.read_text(encoding="utf-8")
    named = set()
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        named |= {*re.findall(r"(?<![\w.])[A-Z]\w+", re.sub(r"'[^']*'", "", block))}
    for errors in re.findall(r"^Raises:\n\n((?:- .*\n)+)", page, re.MULTILINE):
        raised = [
            name for line in re.findall(r"^- ([^:]+):", errors, re.MULTILINE) for name in line.split(", ")
        ]
        named |= {name for name in raised if name != "trio.BusyResourceError"}
    ours = set()
    for module in (*reference.MODULES, reference.TYPES):
        loaded = importlib.import_module(module)
        values = {name: getattr(loaded, name) for name in loaded.__all__}
        # `leeward.aio.Runtime` and its like are classes of another name.
        ours |= {*values} | {value.__name__ for value in values.values() if inspect.isclass(value)}
    standard = (builtins, collections.abc, contextlib, enum, pathlib, typing)
    assert sorted(named - ours - {name for module in standard for name in dir(module)}) == []
