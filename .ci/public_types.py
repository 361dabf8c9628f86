"""Hold what `leeward` exports to be typed in full: `pyright --verifytypes`, without the network.

`python .ci/public_types.py [PYTHON]` looks at the package as PYTHON imports it (by default this one), and
exits with 1 if a type is missing. Where pyright or Node.js is not installed it says so, and exits with 0.

The files of pyright are run with Node.js as they lie in its package: its own command asks the network first.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

MISSING = "public types were not checked: "
_SECONDS = 600


def checker() -> tuple[str, str] | str:
    """Return Node.js and the file to run with it, or why there is none."""
    spec, node = find_spec("pyright"), shutil.which("node")
    if spec is None or spec.origin is None:
        return "pyright is not installed"
    program = Path(spec.origin).parent / "dist" / "index.js"
    if not program.exists():
        return "this pyright comes without its program"
    return "Node.js is not installed" if node is None else (node, str(program))


def check(python: Path, package: str = "leeward") -> tuple[str, list[str]] | str:
    """Return the score and what lowers it, or why there is none; `python` is what imports the package."""
    found = checker()
    if isinstance(found, str):
        return found
    argv = [*found, "--verifytypes", package, "--ignoreexternal"]
    # It looks for the package where the first `python` of the path does, whatever else it is told.
    around = {**os.environ, "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(  # noqa: S603 - what is run lies in a package of ours
        argv, env=around, capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    score = re.search(r"Type completeness score: ([\d.]+%)", done.stdout)
    faults = [line.strip() for line in done.stdout.splitlines() if " error: " in line]
    # All that uses a type which is not known is named as well; only what is missing has to be mended.
    causes = [fault for fault in faults if "is partially unknown" not in fault]
    if score is None:
        return f"pyright failed: {done.stdout}{done.stderr}"
    return score[1], causes or faults


def main() -> int:
    """Print the score and what lowers it."""
    found = check(Path(sys.argv[1] if len(sys.argv) > 1 else sys.executable))
    if isinstance(found, str):
        print(f"{MISSING}{found}")
        return 0
    score, faults = found
    print("\n".join((*faults, f"public types: {score}")))
    return 0 if score == "100%" else 1


if __name__ == "__main__":
    sys.exit(main())
