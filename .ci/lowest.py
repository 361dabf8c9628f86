"""Print the lowest version of each dependency that pyproject.toml allows, as constraints for an installer."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def lowest(requirement: str) -> str:
    """Return a requirement's lower bound as the only version."""
    found = re.match(r"([\w.-]+)(?:\[[\w,]+\])?>=([\w.]+)", requirement)
    if found is None:
        raise SystemExit(f"{requirement} has no lower bound")
    return f"{found[1]}=={found[2]}"


if __name__ == "__main__":
    for entry in (*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]):
        print(lowest(entry))
