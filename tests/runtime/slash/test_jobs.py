"""Background commands: real processes in whole sessions, none left when a session ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import trio

from leeward.runtime.slash import dispatch, parse
from leeward.security.call import Asker, Status
from leeward.security.ports import Answer


@pytest.fixture
def mark(request) -> str:
    """A number of seconds to sleep that no other process on this machine sleeps."""
    return f"9{os.getpid():07d}.{abs(hash(request.node.name)) % 10_000:04d}"


def sleepers(mark: str) -> list[str]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if mark.encode() in words and state != "Z":
                found.append(folder.name)
    return found


async def until(condition) -> None:
    with trio.fail_after(20):
        while not condition():
            await trio.sleep(0.02)


async def said(runtime, line: str) -> str:
    return (await dispatch(runtime, parse(line))).text


async def start(runtime, command: str):
    result = await runtime.call("shell", {"command": command, "background": True})
    assert result.outcome.status is Status.OK, result.shown
    return result


LEVELS = ['[tools.sandbox]\nlevel = "none"\n', '[tools.sandbox]\nlevel = "auto"\n']


@pytest.mark.parametrize("config", LEVELS, ids=["none", "auto"])
@pytest.mark.parametrize(
    "command",
    [
        "sleep {0}",
        "trap '' TERM; sleep {0}",
        "setsid sleep {0} & setsid setsid sleep {0} & (sleep {0} &) & wait",
        "nohup sleep {0} > /dev/null 2>&1 & disown; exec sleep {0}",
    ],
)
async def test_nothing_of_a_job_survives_its_session(tmp_path, sessions, mark, command, config) -> None:
    approver = sessions.Answers(Answer.YES)
    async with sessions.session(tmp_path, config, approver=approver) as runtime:
        await runtime.turn("hello")
        for end in (runtime.new_session, runtime.resume):
            await start(runtime, command.format(mark))
            await until(lambda: sleepers(mark))
            await end()
            assert not sleepers(mark) and await said(runtime, "/jobs") == "nothing runs in the background"
        await start(runtime, command.format(mark))
        await until(lambda: sleepers(mark))
    assert not sleepers(mark)


async def test_a_cancelled_session_takes_its_jobs_along(tmp_path, sessions, mark) -> None:
    with trio.CancelScope() as scope:
        async with sessions.session(tmp_path, approver=sessions.Answers(Answer.YES)) as runtime:
            await start(runtime, f"trap '' TERM HUP INT; sleep {mark}")
            await until(lambda: sleepers(mark))
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught and not sleepers(mark)


RUNTIME = """
import sys, trio, os
sys.path.insert(0, {tests!r})
import sessions
from pathlib import Path
from leeward.security.ports import Answer
from leeward.tools.process.supervisor import claim_process

async def main():
    claim_process()
    yes = sessions.Answers(Answer.YES)
    async with sessions.session(Path({folder!r}), {config!r}, approver=yes) as runtime:
        await runtime.call("shell", {{"command": {command!r}, "background": True}})
        print(runtime.session_id, flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


@pytest.mark.parametrize("config", LEVELS, ids=["none", "auto"])
async def test_a_killed_runtime_leaves_no_job_and_the_next_start_says_so(
    tmp_path, sessions, mark, config
) -> None:
    command = f"setsid sleep {mark} & trap '' TERM; sleep {mark}"
    text = RUNTIME.format(
        tests=str(Path(__file__).parents[1]), folder=str(tmp_path), config=config, command=command
    )
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(text)], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        name = (await trio.to_thread.run_sync(process.stdout.readline)).decode().strip()
        await until(lambda: len(sleepers(mark)) == 2)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    await until(lambda: not sleepers(mark))
    async with sessions.session(tmp_path, config) as runtime:
        alerts = [event.message for event in runtime.heard if type(event).__name__ == "Alert"]
        assert any(mark in alert and "ran when the session broke off" in alert for alert in alerts), alerts
        rows = await runtime.audit.list_records(name, 100, kinds=("outcome", "job"))
        assert [row.body.get("status") or row.body["state"] for row in rows] == [
            "running",
            "started",
            "unknown",
        ]
    async with sessions.session(tmp_path, config) as runtime:
        assert not [event for event in runtime.heard if type(event).__name__ == "Alert"]


async def test_what_happens_to_whoever_opened_it_is_no_group(tmp_path, sessions) -> None:
    with pytest.raises(ZeroDivisionError):
        async with sessions.session(tmp_path, approver=sessions.Answers(Answer.YES)) as runtime:
            await start(runtime, "sleep 5")
            raise ZeroDivisionError


async def test_a_job_is_judged_as_any_other_command(tmp_path, sessions) -> None:
    approver = sessions.Answers(Answer.NO)
    async with sessions.session(tmp_path, approver=approver) as runtime:
        for command in ("touch made", "rm -rf /", "curl http://a.example/"):
            result = await runtime.call("shell", {"command": command, "background": True})
            assert result.outcome.status is Status.DENIED
        assert await said(runtime, "/jobs") == "nothing runs in the background"
        assert not list(runtime.places.workspace.iterdir()) and not await sessions.rows(runtime, "job")


async def test_what_a_job_did_is_on_record_and_told_once(tmp_path, sessions) -> None:
    says = ["first", "second", "third"]
    async with sessions.session(tmp_path, says=says, approver=sessions.Answers(Answer.YES)) as runtime:
        call = (await start(runtime, "printf 'its \\033[31mwords\\n'; touch made; exit 3")).call
        await until(lambda: runtime.jobs.all()[0].over.is_set())
        rows = await sessions.rows(runtime, "decision", "job", "outcome")
        told = [row.body.get("state") or row.body.get("status") or row.body["allowed"] for row in rows]
        # The job may be over before the record of its start is written.
        assert (
            told[0] is True and set(told[1:]) == {"running", "started", "ended"} and rows[-1].call == call.id
        )
        (end,) = [row.body for row in rows if row.body.get("state") == "ended"]
        assert (end["exit_code"], end["job"], end["size"] > 5) == (3, "job_1", True)
        await runtime.turn("go on")
        words = runtime.provider.requests[-1].messages[-1].text
        assert "go on" in words and "its " in words and "exit code 3" in words and "\033" not in words
        assert words.count("«UNTRUSTED:") == 1 and words.index("job_1 is over") > words.index("«UNTRUSTED:")
        alerts = [event.message for event in runtime.heard if type(event).__name__ == "Alert"]
        assert sum("job_1 is over" in alert for alert in alerts) == 1
        await runtime.turn("and on")
        assert runtime.provider.requests[-1].messages[-1].text == "and on"


async def test_a_model_reads_and_stops_its_jobs(tmp_path, sessions, mark) -> None:
    says = [
        [("shell", {"command": f"echo begun; sleep {mark}", "background": True})],
        "it runs",
        [("job_output", {"id": "job_1", "wait": 1})],
        [("job_stop", {"id": "job_1"})],
        [("job_output", {"id": "job_1"}), ("job_output", {"id": "job_2"})],
    ]
    async with sessions.session(tmp_path, says=says, approver=sessions.Answers(Answer.YES)) as runtime:
        await runtime.turn("go")
        await until(lambda: "begun" in runtime.jobs.all()[0].output.latest)
        await runtime.turn("and now")
        first, running, stopped, again, absent = runtime.provider.seen()
        assert "started as job_1" in first
        assert "begun" in running and "job_1 has been running for" in running
        assert all("begun" in text and "job_1 is over (stopped" in text for text in (stopped, again))
        assert "no background command of that id; there are: job_1" in absent and not sleepers(mark)


async def test_long_output_is_kept_and_secrets_are_not(tmp_path, sessions) -> None:
    secret = "ghp_" + "a1B2" * 9
    async with sessions.session(tmp_path, approver=sessions.Answers(Answer.YES)) as runtime:
        await start(
            runtime,
            f"seq 1 40000; echo {secret[:20]}; printf %s {secret[:20]}; sleep 0.1; echo {secret[20:]}",
        )
        await until(lambda: runtime.jobs.all()[0].over.is_set())
        result = await runtime.call("job_output", {"id": "job_1"})
        assert "kept as of_" in result.shown and secret not in result.shown
        (kept,) = await runtime.overflow.entries(runtime.session_id)
        page = await runtime.overflow.get(runtime.session_id, kept.id, 0, 10_000_000)
        assert page.text.startswith("1\n2\n") and "39999\n40000\n" in page.text and secret not in page.text
        shown = await runtime.call("read_overflow", {"id": kept.id, "line": 20_000, "limit": 6})
        assert "20000" in shown.shown
        assert secret not in await said(runtime, "/jobs") and secret not in await said(runtime, "/jobs job_1")


async def test_jobs_are_bounded_in_number_and_time(tmp_path, sessions, mark) -> None:
    config = "[tools.shell]\nmax_jobs = 2\nlongest_job = 1.0\n"
    async with sessions.session(tmp_path, config, approver=sessions.Answers(Answer.YES)) as runtime:
        for _ in range(2):
            await start(runtime, f"trap '' TERM; sleep {mark}")
        refused = await runtime.call("shell", {"command": f"sleep {mark}; touch made", "background": True})
        assert refused.outcome.status is Status.ERROR and "no more than 2 may at once" in refused.shown
        await until(lambda: all(job.over.is_set() for job in runtime.jobs.all()))
        assert not sleepers(mark) and {job.state for job in runtime.jobs.all()} == {"timeout"}
        await start(runtime, "echo again")


async def test_the_person_lists_shows_and_stops(tmp_path, sessions, mark) -> None:
    async with sessions.session(tmp_path, approver=sessions.Answers(Answer.YES)) as runtime:
        result = await runtime.call(
            "shell", {"command": f"echo begun; sleep {mark}", "background": True}, Asker.PERSON
        )
        assert result.outcome.status is Status.OK
        await until(lambda: "begun" in runtime.jobs.all()[0].output.latest)
        listed = await said(runtime, "/jobs")
        assert listed.startswith("job_1 has been running for ") and f"sleep {mark}" in listed
        assert "│ begun" in await said(runtime, "/jobs job_1")
        stopped = await said(runtime, "/jobs stop job_1")
        assert stopped.startswith("job_1 is over (stopped") and not sleepers(mark)
        assert "was stopped" not in stopped  # once is enough
        for line, why in (
            ("/jobs stop", "usage"),
            ("/jobs x y", "usage"),
            ("/jobs job_9", "there are: job_1"),
        ):
            result = await dispatch(runtime, parse(line))
            assert result.failed and why in result.text
