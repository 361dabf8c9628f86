"""`leeward audit tail` shows records of another process as they are written, until Ctrl-C."""

from __future__ import annotations

import json
import signal

import pytest


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_what_another_process_records_is_told_until_it_is_stopped(leeward, number, code):
    assert leeward.process("call", "read", '{"path": "notes.md"}').code == 0
    tail = leeward.start("audit", "tail", "--kind", "decision", "--output", "jsonl")
    try:
        first = json.loads(tail.stdout.readline())
        assert (first["type"], first["kind"], first["tool"]) == ("record", "decision", "read")
        # Two others write while it looks on: each record comes once, in the order of the audit.
        writers = [
            leeward.start("call", "write", json.dumps({"path": f"{n}.txt", "content": ""})) for n in range(2)
        ]
        told = [json.loads(tail.stdout.readline()) for _ in writers]
        assert [one["tool"] for one in told] == ["write", "write"] and first["seq"] < told[0]["seq"] < told[
            1
        ]["seq"]
        for writer in writers:
            writer.communicate(timeout=60)
        tail.send_signal(number)
        out, err = tail.communicate(timeout=60)
        assert tail.returncode == code and json.loads(out.splitlines()[-1])["code"] == code and err == b""
    finally:
        tail.kill()
        tail.communicate()


def test_for_people_it_is_a_line_each(leeward):
    leeward.process("call", "read", '{"path": "notes.md"}')
    tail = leeward.start("audit", "tail", "--limit", "1", "--tool", "read")
    try:
        assert b"outcome   read" in tail.stdout.readline()
        tail.send_signal(signal.SIGINT)
        out, err = tail.communicate(timeout=60)
        assert (tail.returncode, out) == (130, b"") and err == b"leeward: stopped by SIGINT\n"
    finally:
        tail.kill()
        tail.communicate()


def test_it_ends_with_its_clock_and_is_no_one_document(leeward):
    leeward("call", "read", '{"path": "notes.md"}')
    assert leeward("audit", "tail", "--timeout", "0.4").code == 10
    ran = leeward("audit", "tail", "--output", "json")
    assert (ran.code, ran.json["error"]["suggestion"]) == (2, "--output jsonl")
