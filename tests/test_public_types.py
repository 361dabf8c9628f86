"""What `leeward` exports is typed in full, so that programs that embed it can be checked."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from loading import load_module

PUBLIC_TYPES = load_module(Path(__file__).parents[1] / ".ci" / "public_types.py")


@pytest.fixture
def check():
    """`pyright --verifytypes`, where it can be had."""
    found = PUBLIC_TYPES.checker()
    if isinstance(found, str):
        pytest.skip(found)
    return PUBLIC_TYPES.check


@pytest.mark.slow
def test_every_public_type_is_known(check):
    assert check(Path(sys.executable)) == ("100%", [])


def test_a_type_that_is_missing_is_found(check, tmp_path, monkeypatch):
    package = tmp_path / "halftyped"
    package.mkdir()
    (package / "py.typed").touch()
    (package / "__init__.py").write_text("def known() -> int: ...\ndef unknown(value): ...\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    score, faults = check(Path(sys.executable), "halftyped")
    assert score == "50%" and any('parameter "value"' in fault for fault in faults), (score, faults)


def test_without_pyright_it_says_so(monkeypatch, capsys):
    monkeypatch.setattr(PUBLIC_TYPES, "find_spec", lambda _: None)
    monkeypatch.setattr(sys, "argv", ["public_types.py"])
    assert PUBLIC_TYPES.main() == 0
    assert capsys.readouterr().out == "public types were not checked: pyright is not installed\n"
