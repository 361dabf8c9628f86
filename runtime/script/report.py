"""Write a JUnit report of a script: a test case for each step, in the form that CI systems read.

A report is written however the script ended, and all at once: a reader never sees half of one. What a step
says is escaped visibly, since XML has no place for control characters.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree as ET

from leeward.security.lazy import dataclass
from leeward.security.text import visible

from ..exits import CliError, Exit
from .script import ScriptStep

__all__ = ["Report"]

_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class _Case:
    """A step that was run: seconds it took, and why it failed, as a kind and a message."""

    step: ScriptStep
    seconds: float
    failure: tuple[str, str] | None


class Report:
    """The report of one script, to be written to a file."""

    def __init__(self, path: Path, script: str) -> None:
        self._path = path
        self._script = script
        self._cases: list[_Case] = []

    @contextmanager
    def step(self, step: ScriptStep) -> Iterator[None]:
        """Add a case for the step that is run within; what it raises goes on as it is."""
        begun, failure = time.monotonic(), None
        try:
            yield
        except CliError as error:
            failure = (error.code, _failure_text(error))
            raise
        except BaseException as error:
            failure = (type(error).__name__, "the step did not come to its end")
            raise
        finally:
            self._cases.append(_Case(step, time.monotonic() - begun, failure))

    def write(self, steps: int) -> None:
        """Write the file; of `steps` there were, those that did not run count as skipped.

        Raises:
            CliError: it cannot be written.
        """
        failed = sum(case.failure is not None for case in self._cases)
        counts = {"tests": steps, "failures": failed, "errors": 0, "skipped": steps - len(self._cases)}
        seconds = sum(case.seconds for case in self._cases)
        about = {name: str(count) for name, count in counts.items()} | {"time": f"{seconds:.3f}"}
        root = ET.Element("testsuites", about)
        suite = ET.SubElement(root, "testsuite", {"name": visible(self._script), **about})
        for case in self._cases:
            step = case.step
            first = visible(step.text.partition("\n")[0])[:_LONGEST_NAME]
            named = {"classname": visible(step.file), "name": f"line {step.line}: {first}"}
            element = ET.SubElement(suite, "testcase", {**named, "time": f"{case.seconds:.3f}"})
            if case.failure is not None:
                kind, message = map(visible, case.failure)
                ET.SubElement(element, "failure", {"type": kind, "message": message}).text = message
        beside = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            ET.ElementTree(root).write(beside, encoding="utf-8", xml_declaration=True)
            beside.replace(self._path)
        except OSError as error:
            beside.unlink(missing_ok=True)
            why = f"--report {self._path} cannot be written: {error.strerror}"
            raise CliError(Exit.GENERAL_ERROR, "REPORT_LOST", why, phase="report") from error


def _failure_text(error: CliError) -> str:
    """Return the message with what an expectation wanted and got."""
    detail = (f"{name}: {error.detail[name]}" for name in ("expected", "found") if name in error.detail)
    return "; ".join((error.message, *detail))
