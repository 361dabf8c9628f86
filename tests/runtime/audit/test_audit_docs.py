"""`docs/audit.md` describes every kind of record with every field, and its examples work."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from dataclasses import fields
from pathlib import Path

from leeward.memory.audit import KINDS
from leeward.memory.audit.events import stored_fields
from leeward.runtime.cli.main import FORMATS
from leeward.security.session import ActionRecord, AtomRecord, Decided, GateVerdict

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/audit.md").read_text(encoding="utf-8")


def rows(title: str) -> list[list[str]]:
    """The rows of the table whose first column has this title, the first such behind `title`'s section."""
    text = PAGE.partition(title)[2].lstrip().splitlines()
    table = []
    for line in text[2:]:
        if not line.startswith("|"):
            break
        table.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return table


def named(cells: list[list[str]]) -> list[str]:
    return [name for first, *_ in cells for name in re.findall(r"`(\w+)`", first)]


def test_every_kind_is_told_with_every_field():
    told = {
        kind: re.findall(r"`(\w+)`", last)
        for (kind,), last in (
            (re.findall(r"`(\w+)`", row[0]), row[-1])
            for row in rows(
                "null |\n| `kind` | one of those below |\n| `body` | a JSON object |\n| `id` | a name "
                "that no other record has |\n| `prev`, `hash` | the hash of the record before, and of "
                "this one |\n"
            )
        )
    }
    assert {*KINDS} <= {*told}
    for kind, event in KINDS.items():
        if kind != "decision":
            assert {*told[kind]} == {*stored_fields(event)}, kind
    assert {*told} - {*KINDS} >= {"session", "head", "pruned", "chain"}


def test_every_part_of_a_decision_is_told():
    for title, kind in (
        ("A `decision`:\n", Decided),
        ("is a list of the first three):\n", GateVerdict),
        ("`reading`:\n", ActionRecord),
        ("One of `parts`:\n", AtomRecord),
    ):
        assert {*named(rows(title))} == {field.name for field in fields(kind)}, title


def test_the_examples_are_commands_and_queries_there_are(leeward):
    assert leeward("call", "read", '{"path": "notes.md"}').code == 0
    for action in re.findall(r"^leeward audit (\w+)", PAGE, re.MULTILINE):
        assert leeward("audit", action, "--help").code == 0
    assert all(f in PAGE for f in FORMATS)
    joined = PAGE.replace("\\\n", "").replace("\n     WHERE", " WHERE")
    queries = re.findall(r'sqlite3 -readonly \S+\s+"([^"]+)"', joined)
    assert len(queries) == 3
    with closing(sqlite3.connect(f"file:{leeward.data / 'leeward.db'}?mode=ro", uri=True)) as file, file:
        for query in queries:
            file.execute(query).fetchall()
    file.close()
