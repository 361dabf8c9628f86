"""Measure what skills cost a start: finding them, and reading what the prompt says. Prints one JSON line.

    python bench/skills.py [SKILLS | --smoke]

Milliseconds, the median of several starts, against a folder without any; `load` is reading one whole, with
its digest, as a call of `load_skill` does; `one_blocked` is a start where one is blocked, so that all are
hashed.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from scale import scaled

from leeward.security.trust import TrustLevel
from leeward.tools.skills import Skill, Skills, SkillStore, digest_of

_ROUNDS = scaled(15, 2)
_TEXT = "---\nname: {}\ndescription: Says how a kind of work is done here, step by step.\n---\n{}"


async def _nothing(_: Skill) -> None:
    """Nobody follows it."""


def _milliseconds(work: Callable[[], object]) -> float:
    took = []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        work()
        took.append((time.perf_counter() - began) * 1e3)
    return round(statistics.median(took), 2)


def main() -> int:
    """Print the figures."""
    count = scaled(1000, 20, 0)
    with tempfile.TemporaryDirectory() as name:
        parent, empty = Path(name, "skills"), Path(name, "none")
        for number in range(count):
            folder = parent / f"skill-{number}"
            folder.mkdir(parents=True)
            (folder / "SKILL.md").write_text(_TEXT.format(folder.name, "A line.\n" * 200), encoding="utf-8")
        empty.mkdir()
        store = SkillStore(Path(name, "skills.json"))
        many, none = (Skills([where], store, _nothing) for where in (parent, empty))

        def start(skills: Skills) -> None:
            if skills.folders():
                skills.documents()

        found = {
            "skills": count,
            "start_ms": _milliseconds(lambda: start(many)),
            "none_ms": _milliseconds(lambda: start(none)),
            "load_ms": _milliseconds(lambda: many.read("skill-7")),
            "aim_ms": 20,
        }
        store.set(parent / "skill-7", digest_of(parent / "skill-7"), TrustLevel.BLOCKED)
        found["one_blocked_ms"] = _milliseconds(lambda: start(many))
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
