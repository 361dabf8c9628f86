"""Make the folder `v0_1`: the stored sessions of `story.py` as version 0.1.0 wrote and described them.

It was made once and stays as it is: what later versions write is not what others hold already. That version
does not hold this script, so it was run from a later checkout with the earlier version's interpreter, whose
`leeward` stands beside it:

    git worktree add ../leeward-0.1.0 e48b07a
    python3.11 -m venv ../leeward-0.1.0/.venv
    ../leeward-0.1.0/.venv/bin/python -m pip install --editable ../leeward-0.1.0
    ../leeward-0.1.0/.venv/bin/python tests/compatibility/make_fixture.py
"""

from __future__ import annotations

import io
import json
import sys
import tarfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from story import SCRIPT, Machine, be_killed, play, recorded_place, sessions

VERSION = "0.1.0"
FOLDER = Path(__file__).with_name("v0_1")


def main() -> None:
    """Play the sessions, ask about them, and pack what is kept."""
    with recorded_place() as place:
        machine = Machine(place / "home", place / "harbour")
        machine.settle()
        assert machine.run("--version").out.split()[-1] == VERSION
        play(machine)
        (FOLDER / "expected.json").write_text(
            json.dumps(said(machine), sort_keys=True) + "\n", encoding="utf-8"
        )
        be_killed(machine)
        (FOLDER / "steps.leeward").write_text(SCRIPT, encoding="utf-8")
        pack(place, FOLDER / "kept.tar.xz")


def said(machine: Machine) -> dict[str, Any]:
    """What the version itself says of what it keeps."""

    def ask(*words: str) -> Any:
        return machine.run(*words, "--output", "json").json["data"]

    listed = ask("sessions", "list")["sessions"]
    verdicts = [
        verdict(one) for one in ask("audit", "list", "--kind", "decision", "--limit", "1000")["records"]
    ]
    return {
        "sessions": listed,
        "entries": {one["id"]: ask("sessions", "show", one["id"])["entries"] for one in listed},
        "long": sessions(machine)["read notes.md and then read plan.md"],
        "verdicts": verdicts,
        "untold": {
            session: ask("audit", "replay", "--session", session)["untold"] for session, *_ in verdicts
        },
        "grants": ask("permissions", "list")["grants"],
        "head": machine.run("audit", "verify").out.splitlines()[1],
        "found": ask("sessions", "search", "ferry")["found"],
    }


def verdict(record: dict[str, Any]) -> list[Any]:
    """What was decided about a call."""
    return [
        record["session"],
        record["call"],
        record["tool"],
        *(record["body"][key] for key in ("hop", "allowed", "gate", "rule")),
    ]


def pack(place: Path, archive: Path) -> None:
    """Pack home and workspace, without the names of whoever made it."""

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if entry.name.endswith("-shm"):
            return None  # SQLite makes it anew
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        return entry

    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w:xz", preset=9) as tar:
        tar.add(place, arcname=".", filter=plain)
    archive.write_bytes(held.getvalue())


if __name__ == "__main__":
    main()
