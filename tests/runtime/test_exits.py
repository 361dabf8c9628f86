"""Every exit code, and a case that leads to it."""

from __future__ import annotations

import http.server
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
import trio

from leeward.runtime.exits import Exit

OFFLINE = ("--model", "offline")
ALLOW_SLEEP = '[[permissions.rules]]\ntool = "shell"\naction = "allow"\n'


@contextmanager
def answering(status: int) -> Iterator[str]:
    """Serve one status to whatever is asked, and yield a configuration with that model."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(status)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield model_at(f"http://127.0.0.1:{server.server_port}/v1")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def model_at(url: str) -> str:
    """Configure a model that is asked once: how often it is asked again, and when, is `test_retry.py`'s."""
    return f'[llm]\nmodel = "test:any"\nretries = 0\n[[llm.providers]]\nname = "test"\nbase_url = "{url}"\n'


def test_0_success(leeward):
    assert leeward("-p", "read notes.md", *OFFLINE).code == Exit.SUCCESS


def test_1_general_error_when_a_tool_failed(leeward):
    ran = leeward("call", "read", '{"path": "missing.md"}', "--output", "json")
    assert ran.code == Exit.GENERAL_ERROR
    assert ran.json["error"]["code"] == "PERMANENT_FAILURE"


def test_2_arg_error(leeward):
    ran = leeward("--autonomy", "wild", "--output", "json")
    assert (ran.code, ran.json["error"]["code"]) == (Exit.ARG_ERROR, "ARG_ERROR")
    assert not leeward.data.exists()


def test_3_partial_failure_when_a_call_was_refused(leeward):
    ran = leeward("-p", "guess the website of somebody", *OFFLINE, "--output", "json")
    assert (ran.code, ran.json["error"]["code"]) == (Exit.PARTIAL_FAILURE, "PARTIAL_FAILURE")
    assert ran.json["data"]["calls"][0]["gate"] == "grounding"


def test_3_partial_failure_when_the_turns_ran_out(leeward):
    calls = '[[reply]]\ncalls = [{ tool = "read", args = { path = "notes.md" } }]\n'
    (leeward.home / "busy.toml").write_text(calls * 2)
    model = f"scripted:{leeward.home}/busy.toml"
    ran = leeward("-p", "go", "--model", model, "--max-turns", "1", "--output", "json")
    assert (ran.code, ran.json["data"]["reason"]) == (Exit.PARTIAL_FAILURE, "max_turns")


def test_4_precondition_without_a_model(leeward):
    ran = leeward("-p", "hello", "--output", "json")
    assert (ran.code, ran.json["error"]["code"]) == (Exit.PRECONDITION, "MODEL_REQUIRED")


def test_4_precondition_when_nobody_can_be_asked(leeward):
    ran = leeward("call", "shell", '{"command": "make"}', "--output", "json")
    assert (ran.code, ran.json["error"]["code"]) == (Exit.PRECONDITION, "INPUT_REQUIRED")


def test_5_not_found(leeward):
    for words, code in (
        (("call", "raed", "{}"), "TOOL_NOT_FOUND"),
        (("audit", "show", "call_of_nobody"), "NOT_FOUND"),
    ):
        ran = leeward(*words, "--output", "json")
        assert (ran.code, ran.json["error"]["code"]) == (Exit.NOT_FOUND, code)


def test_7_permission_denied(leeward):
    ran = leeward("call", "fetch", '{"url": "https://example.com/"}', "--output", "json")
    assert (ran.code, ran.json["error"]["code"]) == (Exit.PERMISSION_DENIED, "PERMISSION_DENIED")


@pytest.mark.parametrize(
    ("status", "code"), [(401, Exit.AUTH_REQUIRED), (429, Exit.RATE_LIMITED), (503, Exit.UNAVAILABLE)]
)
def test_8_11_and_12_from_the_provider(leeward, status, code):
    with answering(status) as configuration:
        leeward.configure(configuration)
        ran = leeward("-p", "hello", "--output", "json")
    assert (ran.code, ran.json["error"]["code"]) == (code, "MODEL_ERROR")


def test_12_unavailable_when_nothing_listens(leeward):
    with answering(200) as configuration:
        pass
    leeward.configure(configuration)
    assert leeward("-p", "hello").code == Exit.UNAVAILABLE


class OnceItRuns(trio.abc.Clock):
    """A clock that stands still until a program with this word runs, and is an hour late from then on."""

    def __init__(self, word: str) -> None:
        self.word, self.since = word, float("inf")

    def start_clock(self) -> None:
        pass

    def current_time(self) -> float:
        now = time.monotonic()
        if now < self.since and commands_with(self.word):
            self.since = now
        return max(0.0, 3600 + now - self.since)

    def deadline_to_sleep_time(self, deadline: float) -> float:
        left = deadline - self.current_time()
        return max(0.0, left) if self.since < float("inf") else min(max(0.0, left), 0.05)


@pytest.fixture
def late(monkeypatch):
    """A number of seconds to sleep; what limits the wait for it is over once something sleeps so long."""
    lasting = f"60.{os.getpid()}{time.time_ns() % 10**9}"
    monkeypatch.setattr(trio, "run", partial(trio.run, clock=OnceItRuns(lasting)))
    return lasting


def test_10_timeout_of_the_whole(leeward, late):
    leeward.configure(ALLOW_SLEEP)
    call = json.dumps({"command": f"sleep {late}"})
    ran = leeward("call", "shell", call, "--timeout", "0.5", "--output", "json")
    assert (ran.code, ran.json["error"]["code"]) == (Exit.TIMEOUT, "TIMEOUT")


def test_10_timeout_tells_what_there_was_by_then(leeward, late):
    leeward.configure(ALLOW_SLEEP)
    ran = leeward("-p", f"run sleep {late}", *OFFLINE, "--timeout", "0.5", "--output", "json")
    assert (ran.code, ran.json["error"]["code"], ran.json["data"]["reason"]) == (10, "TIMEOUT", "cancelled")
    assert "No model is configured" in ran.json["data"]["text"]


def test_10_timeout_of_a_tool(leeward, late):
    leeward.configure(f"{ALLOW_SLEEP}[tools.shell]\ntimeout = 0.3\n")
    ran = leeward("call", "shell", json.dumps({"command": f"sleep {late}"}), "--output", "json")
    assert (ran.code, ran.json["error"]["code"]) == (Exit.TIMEOUT, "TIMEOUT")


def commands_with(word: str) -> list[str]:
    """The processes with a word among their arguments: a sandbox numbers its processes itself."""
    found = []
    # A deeper pattern looks at each process, and fails where one ends meanwhile.
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            found += [folder.name] if word.encode() in words else []
    return found


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, Exit.SIGINT), (signal.SIGTERM, Exit.SIGTERM)],
    ids=["sigint", "sigterm"],
)
def test_130_and_143_leave_a_clean_record_behind(leeward, number, code):
    leeward.configure(ALLOW_SLEEP)
    lasting = f"60.{os.getpid()}{number:02}"
    (leeward.workspace / "wait.sh").write_text(f"echo begun\nexec sleep {lasting}\n")
    running = leeward.start("call", "shell", '{"command": "sh wait.sh"}', "--output", "jsonl")
    events = map(json.loads, running.stdout)
    assert next(event["text"] for event in events if event["type"] == "output") == "begun\n"
    late = time.monotonic() + 120
    while commands_with(lasting) == []:
        assert time.monotonic() < late
        time.sleep(0.01)
    running.send_signal(number)
    out, err = running.communicate(timeout=120)
    assert (running.returncode, err) == (code, b"")
    assert json.loads(out.splitlines()[-1])["error"]["code"] == code.name
    records = leeward("audit", "list", "--output", "json").json["data"]["records"]
    assert [r["body"]["status"] for r in records if r["kind"] == "outcome"] == ["cancelled"]
    assert commands_with(lasting) == []
