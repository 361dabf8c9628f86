"""Run a test file again as an unprivileged user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path

import pytest

from loading import ROOT

_PATH = ":".join(filter(None, [str(ROOT / "src"), *sys.path]))


def assert_passes_as(uid: int, file: str, selected: str) -> None:
    """Run the selected tests of a file as a user; all of them must pass, and none be skipped."""
    if shutil.which("setpriv") is None:
        pytest.skip("there is no setpriv to become another user with")
    python = _interpreter(uid)
    if python is None:
        pytest.skip("no interpreter with these packages can be run by another user")
    # The temporary folder of these tests may be closed to others.
    base = Path(f"/tmp/leeward-test-{uuid.uuid4().hex[:8]}")
    base.mkdir()
    os.chown(base, uid, uid)
    variables = [f"PATH={os.environ['PATH']}", f"HOME={base}", "PYTHONDONTWRITEBYTECODE=1"]
    options = ["-q", "-p", "no:cacheprovider", f"--basetemp={base}/t", "-k", selected, "-rs", file]
    try:
        done = subprocess.run(
            [*_as_user(uid), *variables, python, "-m", "pytest", *options],
            capture_output=True, text=True, cwd=ROOT, timeout=170,
        )  # fmt: skip
    finally:
        shutil.rmtree(base)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "passed" in done.stdout and "skipped" not in done.stdout, done.stdout[-2000:]


def run_as(uid: int, argv: list[str], variables: Mapping[str, str]) -> int | None:
    """Run a program of this checkout as a user, with more variables.

    Returns its exit code, None where no interpreter with these packages can be run by that user.
    """
    python = _interpreter(uid) if shutil.which("setpriv") else None
    if python is None:
        return None
    given = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1", **variables}
    words = [*_as_user(uid), *(f"{name}={value}" for name, value in given.items()), python, *argv]
    return subprocess.run(words, cwd=ROOT, check=False).returncode


def _as_user(uid: int) -> list[str]:
    """Return the start of a command line that a user runs, with an environment of its own."""
    return [
        "setpriv",
        f"--reuid={uid}",
        f"--regid={uid}",
        "--clear-groups",
        "env",
        "-i",
        f"PYTHONPATH={_PATH}",
    ]


def _interpreter(uid: int) -> str | None:
    """Return a Python that a user can run the tests with; ours may lie in a home that is closed to others."""
    version = sys.version_info[:2]
    asked = "import pytest, trio, leeward.tools, sys; print(sys.version_info[:2])"
    for python in dict.fromkeys((sys.executable, f"/usr/bin/python3.{version[1]}", "/usr/bin/python3")):
        words = [*_as_user(uid), python, "-c", asked]
        done = subprocess.run(words, capture_output=True, text=True, cwd="/")
        if done.returncode == 0 and done.stdout.strip() == str(tuple(version)):
            return python
    return None
