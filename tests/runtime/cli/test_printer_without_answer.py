"""A closed standard output is no error if there was nothing to write."""

from __future__ import annotations

from pathlib import Path

import pytest

from leeward.runtime.exits import Exit
from leeward.runtime.options import Options
from leeward.runtime.printer import Printer


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("code", [Exit.SUCCESS, Exit.PRECONDITION, Exit.ARG_ERROR])
def test_a_command_without_an_answer_keeps_its_code(code: Exit) -> None:
    with Path("/dev/full").open("w") as full:
        printer = Printer(Options(output="text"), out=full)
        assert printer.end(code) is code
        assert Printer(Options(output="text"), out=full).finish(code) is code


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_an_answer_that_was_lost_is_a_failure() -> None:
    with Path("/dev/full").open("w") as full:
        printer = Printer(Options(output="text"), out=full)
        printer.answer("words\n")
        assert printer.end(Exit.SUCCESS) is Exit.GENERAL_ERROR
