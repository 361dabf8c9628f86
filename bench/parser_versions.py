"""Print the lowest or the highest allowed versions of the parsers that verdicts rest on, for pip.

`python bench/parser_versions.py lowest|highest`. The bounds stand in `pyproject.toml` alone; for the highest
they are printed as they are, and pip takes the newest version within them.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

PARSERS = ("ada-url", "google-re2", "jsonschema-rs", "selectolax", "tree-sitter", "tree-sitter-bash")
_BOUNDS = re.compile(r"(?P<name>[a-z0-9-]+)>=(?P<lowest>[0-9.]+),<(?P<above>[0-9.]+)")


def requirements(end: str, entries: list[str]) -> Iterator[str]:
    """Yield a requirement for each parser; `end` is "lowest" or "highest".

    Raises:
        ValueError: a parser is missing, named twice or not bounded on both sides.
    """
    for parser in PARSERS:
        named = [entry for entry in entries if re.match(r"[\w.-]+", entry)[0] == parser]  # type: ignore[index]
        bounds = _BOUNDS.fullmatch(named[0]) if len(named) == 1 else None
        if bounds is None:
            raise ValueError(f"{parser} needs one entry with a bound on both sides, and has {named}")
        yield f"{parser}=={bounds['lowest']}" if end == "lowest" else bounds[0]


def main() -> None:
    """Print the requirements for one end, one a line."""
    (end,) = sys.argv[1:]
    settings = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text("utf-8"))
    print(*requirements(end, settings["project"]["dependencies"]), sep="\n")


if __name__ == "__main__":
    main()
