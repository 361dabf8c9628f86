"""The manual page names what the parser knows, and a reader of such pages takes it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest

from leeward.runtime.cli.main import _flags, _parser
from loading import ROOT

PAGE = ROOT / "docs/leeward.1"


@pytest.fixture(scope="module")
def manual(script):
    return script("../.ci/manual.py")


def test_the_page_is_what_the_parser_says(manual) -> None:
    written = PAGE.read_text(encoding="ascii")
    assert written == manual.page(), "run: python .ci/manual.py > docs/leeward.1"


def test_every_flag_and_command_is_in_it() -> None:
    text = PAGE.read_text(encoding="ascii").replace("\\-", "-").replace("\\fB", " ")
    flags = {flag for flag in _flags(_parser()) if flag not in {"-h", "--help"}}
    assert flags <= set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", text))
    (commands,) = (action for action in _parser()._actions if action.dest == "command")
    assert all(f".SS leeward {name}\n" in text for name in commands.choices)


@pytest.mark.parametrize("text", ["a-b", ".not a macro", "'nor this", "back\\slash", "…", "two\nlines"])
def test_any_text_is_literal(manual, text) -> None:
    line = manual.escaped(text)
    assert line.isascii() and "\n" not in line and not line.startswith((".", "'"))


@pytest.mark.skipif(shutil.which("man") is None, reason="man is not installed")
def test_it_is_read_without_a_warning() -> None:
    environment = {"PATH": os.environ["PATH"], "MANWIDTH": "80", "LANG": "C.UTF-8"}
    command = ["man", "--warnings=w", "-l", str(PAGE)]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=True)
    assert ran.stderr == "" and "leeward audit why" in ran.stdout
