"""The reference holds every public name, as the docstrings describe it."""

from __future__ import annotations

import importlib
import sys

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
