"""Print the lowest or the highest versions of the dependencies that `pyproject.toml` allows, for pip.

`python .ci/versions.py lowest|highest [--parsers]`. The bounds stand in `pyproject.toml` alone; for the
highest they are printed as they are, and pip takes the newest version within them. `--parsers` leaves all
out but the parsers that verdicts rest on, which must be bounded on both sides.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

PARSERS = ("ada-url", "google-re2", "jsonschema-rs", "selectolax", "tree-sitter", "tree-sitter-bash")
_BOUNDS = re.compile(r"(?P<name>[\w.-]+)(?:\[[\w,]+\])?>=(?P<lowest>[\w.]+)(?P<below>,<[\w.]+)?")


def requirements(end: str, entries: list[str], *, parsers: bool) -> Iterator[str]:
    """Yield a requirement for each entry; `end` is "lowest" or "highest".

    Raises:
        ValueError: an entry has no lower bound, or a parser is missing, named twice or has no bound above.
    """
    named: list[str] = []
    for entry in entries:
        bounds = _BOUNDS.fullmatch(entry)
        if bounds is None:
            raise ValueError(f"{entry} is not bounded as NAME>=LOWEST or NAME>=LOWEST,<ABOVE")
        if parsers and bounds["name"] not in PARSERS:
            continue
        if parsers and bounds["below"] is None:
            raise ValueError(f"{entry} is a parser that verdicts rest on, and needs a bound above")
        named.append(bounds["name"])
        yield f"{bounds['name']}=={bounds['lowest']}" if end == "lowest" else entry
    if parsers and sorted(named) != sorted(PARSERS):
        raise ValueError(f"each of {', '.join(PARSERS)} is needed once, and named were {', '.join(named)}")


def main() -> None:
    """Print the requirements for one end, one a line."""
    end, *rest = sys.argv[1:] or ["nothing"]
    if end not in {"lowest", "highest"} or rest not in ([], ["--parsers"]):
        raise SystemExit("usage: python .ci/versions.py lowest|highest [--parsers]")
    text = Path(__file__).parents[1].joinpath("pyproject.toml").read_text("utf-8")
    project = tomllib.loads(text)["project"]
    entries = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    print(*requirements(end, entries, parsers=bool(rest)), sep="\n")


if __name__ == "__main__":
    main()
