"""One-line formats of records for `/audit` and `leeward audit`."""

from __future__ import annotations

import pytest

from leeward.memory.audit import Record
from leeward.runtime.audit import record_lines, record_text
from leeward.runtime.audit.text import egress_lines
from loading import rows_beside

ROWS = rows_beside(__file__)

HOP = {
    "at": 1.0, "call": "c", "tool": "fetch", "hop": 1, "url": "https://a.example/", "allowed": True,
    "gate": "grounding",
    "rule": "person", "ended": True, "method": "GET", "address": None, "http_status": None, "sent": 0,
    "received": 0, "seconds": 0.25, "problem": "no such name",
}  # fmt: skip


def record(kind, body, tool=None):
    return Record(7, 0.0, "s_1", kind, None, tool, body)


@pytest.mark.parametrize(
    ("kind", "body", "said"),
    [
        *ROWS["a_record_says_what_happened"],
        (
            "egress",
            HOP,
            (
                "hop 1: GET https://a.example/ allowed by grounding (person), not reached, 0 bytes out, 0 "
                "in, 0.250 s, no such name"
            ),
        ),
        (
            "egress",
            HOP | {"address": "192.0.2.1", "hop": 0, "problem": ""},
            (
                "GET https://a.example/ allowed by grounding (person), no answer from 192.0.2.1, 0 bytes "
                "out, 0 in, 0.250 s"
            ),
        ),
    ],
)
def test_a_record_says_what_happened(kind, body, said):
    assert record_text(record(kind, body)) == f"{kind:<9} {'':<14} {said}".rstrip()


def test_a_line_is_cut_where_attempts_to_go_out_are_told_in_full():
    long = record("egress", HOP | {"url": "https://a.example/" + "x" * 200 + "\x1b\u202e"}, "fetch")
    (cut,), (full,) = record_lines([long]), egress_lines([long])
    assert cut.endswith("…") and full.endswith("no such name")
    assert "\x1b" not in full and "\u202e" not in full
