"""Write a JUnit report of scripts, as CI systems read it: a suite for each, a test case for each step.

A report is written however the script ended, and all at once: a reader never sees half of one. What a step
says is escaped visibly, since XML has no place for control characters.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree as ET

from leeward.security.lazy import dataclass
from leeward.security.text import visible

from ..exits import CliError, Exit
from .script import Script, ScriptStep

__all__ = ["Report", "Suite"]

_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class _Case:
    """A step that was run: seconds it took, and why it failed, as a kind and a message."""

    step: ScriptStep
    seconds: float
    failure: tuple[str, str] | None


class Suite:
    """What came of the steps of one script."""

    def __init__(self, script: Script) -> None:
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

    @property
    def counts(self) -> Counter[str]:
        """How many steps there are, how many failed, and how many did not run."""
        failed = sum(case.failure is not None for case in self._cases)
        steps = len(self._script.steps)
        return Counter(tests=steps, failures=failed, errors=0, skipped=steps - len(self._cases))

    @property
    def seconds(self) -> float:
        """How long its steps took."""
        return sum(case.seconds for case in self._cases)

    def add_to(self, root: ET.Element) -> None:
        """Add it to a report."""
        about = _about(self.counts, self.seconds)
        suite = ET.SubElement(root, "testsuite", {"name": visible(self._script.name), **about})
        for case in self._cases:
            step = case.step
            first = visible(step.text.partition("\n")[0])[:_LONGEST_NAME]
            named = {"classname": visible(step.file), "name": f"line {step.line}: {first}"}
            element = ET.SubElement(suite, "testcase", {**named, "time": f"{case.seconds:.3f}"})
            if case.failure is not None:
                kind, message = map(visible, case.failure)
                ET.SubElement(element, "failure", {"type": kind, "message": message}).text = message


class Report:
    """The report of a run, to be written to a file: a suite for each script, in order."""

    def __init__(self, path: Path, scripts: Sequence[Script]) -> None:
        self._path = path
        self.suites: list[Suite] = [Suite(script) for script in scripts]

    @contextmanager
    def written(self) -> Iterator[None]:
        """Write the file at the end, however that comes; steps that did not run count as skipped.

        Raises:
            CliError: it cannot be written.
        """
        try:
            yield
        finally:
            self._write()

    def _write(self) -> None:
        counts = sum((suite.counts for suite in self.suites), Counter[str]())
        root = ET.Element("testsuites", _about(counts, sum(suite.seconds for suite in self.suites)))
        for suite in self.suites:
            suite.add_to(root)
        beside = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            ET.ElementTree(root).write(beside, encoding="utf-8", xml_declaration=True)
            beside.replace(self._path)
        except OSError as error:
            beside.unlink(missing_ok=True)
            why = f"--report {self._path} cannot be written: {error.strerror}"
            raise CliError(Exit.GENERAL_ERROR, "REPORT_LOST", why, phase="report") from error


def _about(counts: Mapping[str, int], seconds: float) -> dict[str, str]:
    names = ("tests", "failures", "errors", "skipped")
    return {name: str(counts.get(name, 0)) for name in names} | {"time": f"{seconds:.3f}"}


def _failure_text(error: CliError) -> str:
    """Return the message with what an expectation wanted and got."""
    detail = (f"{name}: {error.detail[name]}" for name in ("expected", "found") if name in error.detail)
    return "; ".join((error.message, *detail))
