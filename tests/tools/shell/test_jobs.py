"""Background commands one by one: how each ends, failures, and what is reported to whom."""

from __future__ import annotations

import json
import os
import time
from contextlib import asynccontextmanager, nullcontext

import pytest
import trio
import trio.testing
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from leeward.memory.database import AsyncioThread, Database
from leeward.memory.overflow import OverflowStore
from leeward.security.action import ActionBuilder
from leeward.security.call import Cleared, ToolCall
from leeward.security.outcome import PermanentFailure, ResourceNotFound
from leeward.security.output import BackgroundOutput
from leeward.security.policy import Policy
from leeward.security.ports import RecordError
from leeward.security.session import JobChanged, Session
from leeward.security.trust import Origin
from leeward.tools.process import environment
from leeward.tools.shell import Jobs, JobState, Shell
from leeward.tools.shell.jobs import Ending


class Clock:
    def now(self) -> float:
        return 1_000_000.0


class Unused:
    """What would keep outputs that are too long to show; here there are none."""

    def spool(self, _: str) -> None:
        raise AssertionError("nothing here is long enough to be stored")


class Book:
    """Holds what was put on record; fails at the changes to a state that is named."""

    def __init__(self, fails: tuple[str, ...] = ()) -> None:
        self.changes: list[JobChanged] = []
        self.fails = fails

    async def record(self, change: JobChanged) -> None:
        await trio.lowlevel.checkpoint()
        if change.state in self.fails:
            raise RecordError("the disk is full")
        self.changes.append(change)

    @property
    def states(self) -> list[str]:
        return [change.state for change in self.changes]


@asynccontextmanager
async def store_in(folder):
    async with (
        AsyncioThread.open("test") as asyncio_thread,
        Database.open(folder / "store.db", asyncio_thread) as database,
    ):
        yield OverflowStore(database, Clock())


@pytest.fixture
async def store(tmp_path):
    async with store_in(tmp_path) as store:
        yield store


@pytest.fixture
def shell(policy, store, workspace):
    """Make the jobs of a session, and the shell that starts them."""

    def made(fails=(), **wished) -> tuple[Jobs, Shell, Book]:
        book = Book(fails)
        jobs = Jobs(
            screen=lambda action: BackgroundOutput(action, Session("s", policy), store),
            record=book.record,
            **wished,
        )
        return jobs, Shell(str(workspace), environment("/nowhere", {}), 30, 100_000, jobs=jobs), book

    return made


@pytest.fixture
def start(clear):
    async def start(shell: Shell, command: str):
        (tool,) = shell.tools()
        return await tool.execute(await clear(tool, {"command": command, "background": True}))

    return start


async def over(job) -> None:
    with trio.fail_after(30):
        await job.over.wait()


# ------------------------------------------------------------------ every way to its end


@pytest.mark.parametrize(
    ("command", "state", "code", "detail", "text"),
    [
        ("echo out; echo err >&2", JobState.ENDED, 0, "exit code 0 after", "out\nerr\n"),
        ("echo x; exit 7", JobState.ENDED, 7, "exit code 7 after", "x\n"),
        ("echo x; kill -KILL $$", JobState.FAILED, None, "ended by signal 9 (SIGKILL)", "x\n"),
        ("nosuchprogram_", JobState.FAILED, 127, "the program was not found", "nosuchprogram_"),
        ("printf 'half \\303'; exit 1", JobState.ENDED, 1, "exit code 1", "half \N{REPLACEMENT CHARACTER}"),
        ("(sleep 60 &) ; echo done", JobState.ENDED, 0, "exit code 0", "done\n"),
    ],
)
async def test_an_end_of_its_own_is_on_record_and_told(shell, start, run, command, state, code, detail, text):
    jobs, made, book = shell()
    async with jobs.opened():
        output = await start(made, command)
        assert output.goes_on and output.origin is Origin.TOOL and "started as job_1" in output.text
        job = jobs.find("job_1")
        await over(job)
        assert (job.state, job.ending.exit_code) == (state, code) and detail in job.ending.detail
        shown = await run(jobs.tools()[0], {"id": "job_1"})
        assert (
            text in shown.text
            and shown.exit_code == code
            and ("how it ended", job.ending.detail) in shown.facts
        )
        assert shown.notices[0].startswith(f"job_1 is over ({state} after")
    assert book.states == ["running", state] and book.changes[-1].exit_code == code
    assert detail in book.changes[-1].detail and book.changes[-1].size == job.output.chars


async def test_its_deadline_ends_it_with_what_it_printed(shell, start, run):
    jobs, made, book = shell(longest=0.5)
    async with jobs.opened():
        await start(made, "echo begun; sleep 60")
        shown = await run(jobs.tools()[0], {"id": "job_1", "wait": 20}, timeout=30)
        assert shown.text == "begun\n" and jobs.find("job_1").state is JobState.TIMEOUT
    assert book.states == ["running", "timeout"] and "at its deadline" in book.changes[-1].detail


async def test_stopping_waits_until_nothing_of_it_is_left(shell, start, run, workspace):
    jobs, made, book = shell()
    async with jobs.opened():
        await start(made, "trap '' TERM; echo begun; echo $$ > pid; sleep 60")
        with trio.fail_after(30):
            while not (workspace / "pid").exists() or not (workspace / "pid").read_text().strip():
                await trio.sleep(0.01)
        running = await run(jobs.tools()[0], {"id": "job_1"})
        assert "has been running for" in running.notices[0] and running.exit_code is None
        stopped = await run(jobs.tools()[1], {"id": "job_1"}, timeout=30)
        with pytest.raises(ProcessLookupError):
            os.kill(int((workspace / "pid").read_text()), 0)
        assert stopped.text == "begun\n" and stopped.notices[0].startswith("job_1 is over (stopped")
        again = await run(jobs.tools()[1], {"id": "job_1"})
        assert again.text == stopped.text, "stopped twice it is as over as before"
    assert book.states == ["running", "stopped"]


async def test_what_was_printed_before_it_was_stopped_is_shown_though_nobody_read_it_yet(
    shell, start, run, workspace
):
    jobs, made, _ = shell()
    waits = "echo $$ > pid; while [ ! -e go ]; do sleep 0.01; done"
    line = f"{waits}; echo begun; echo bad >&2; touch done; sleep 60"
    async with jobs.opened():
        await start(made, line)
        with trio.fail_after(30):
            while not (workspace / "pid").exists():
                await trio.sleep(0.01)
        # Nothing else is done in this thread until both lines are in their pipes.
        (workspace / "go").touch()
        while not (workspace / "done").exists():
            time.sleep(0.01)  # noqa: ASYNC251
        stopped = await run(jobs.tools()[1], {"id": "job_1"}, timeout=30)
    assert "begun" in stopped.text and "bad" in stopped.text


@pytest.mark.parametrize(
    ("fails", "states", "has_run"),
    [(("running",), ["failed"], False), (("ended",), ["running"], True), (("running", "failed"), [], False)],
)
async def test_what_cannot_be_put_on_record_does_not_run_and_is_over_all_the_same(
    shell, start, workspace, fails, states, has_run
):
    jobs, made, book = shell(fails)
    # That its end is on no record is for whoever had it open to know: nothing may start before it is.
    is_owed = fails[-1] != "running"
    with trio.fail_after(30), pytest.raises(RecordError) if is_owed else nullcontext():
        async with jobs.opened():
            await start(made, "touch ran; echo x")
            job = jobs.find("job_1")
            await over(job)
            await trio.testing.wait_all_tasks_blocked()
    assert book.states == states and (workspace / "ran").exists() is has_run
    assert (
        job.state == ("ended" if has_run else "failed")
        and ("the disk is full" in job.ending.detail) is not has_run
    )


@pytest.mark.parametrize(
    "error", [PermanentFailure("no such thing"), OSError(24, "Too many open files"), RecordError("full")]
)
async def test_what_cannot_be_run_has_failed_and_says_why(shell, clear, error):
    jobs, made, book = shell()

    async def run(_deadline, _emit):
        raise error

    async with jobs.opened():
        cleared = await clear(made.tools()[0], {"command": "true", "background": True})
        job = await jobs.start(cleared, "true", run)
        await over(job)
        assert job.state is JobState.FAILED and str(error) in job.ending.detail
        assert [one.id for one in jobs.news()] == ["job_1"] and not jobs.news()
    assert book.states == ["running", "failed"]


async def test_a_secret_in_how_it_ended_is_masked_on_record(shell, clear):
    jobs, made, book = shell()
    secret = "ghp_" + "a1B2" * 9

    async def run(_deadline, emit):
        await emit(f"token {secret}\n")
        raise PermanentFailure(f"remote said {secret} " + "x" * 2000)

    async with jobs.opened():
        job = await jobs.start(await clear(made.tools()[0], {"command": "true"}), "true", run)
        await over(job)
    assert (
        secret not in job.text
        and secret not in book.changes[-1].detail
        and len(book.changes[-1].detail) <= 500
    )


# ------------------------------------------------------------------ what cannot be started


async def test_nothing_runs_where_nobody_would_end_it(shell, start, workspace):
    jobs, made, _ = shell()
    with pytest.raises(PermanentFailure, match="nothing can run in the background here"):
        await start(made, "touch ran")
    async with jobs.opened():
        pass
    with pytest.raises(PermanentFailure, match="nothing can run in the background here"):
        await start(made, "touch ran")
    assert not (workspace / "ran").exists() and not jobs.all()


async def test_no_more_than_so_many_at_once_and_one_that_ended_makes_room(shell, start):
    jobs, made, _ = shell(most=2)
    async with jobs.opened():
        for _ in range(2):
            await start(made, "sleep 60")
        with pytest.raises(PermanentFailure, match="job_1, job_2 run in the background, and no more than 2"):
            await start(made, "true")
        with trio.fail_after(30):
            await jobs.stop(jobs.find("job_1"))
        await start(made, "true")
        with pytest.raises(ResourceNotFound, match="there are: job_1, job_2, job_3"):
            jobs.find("job_4")
        await jobs.end_all()
        with pytest.raises(ResourceNotFound, match="there is none at all"):
            jobs.find("job_1")
        await start(made, "true")
        assert [job.id for job in jobs.all()] == ["job_1"], "a new session counts from the beginning"


# ------------------------------------------------------------------ any order of events

DONE = st.one_of(
    st.just("start"), st.sampled_from(["end", "fail", "stop", "news", "show"]), st.just("start"),
    st.just("end")
)  # fmt: skip


async def many(steps, most) -> None:
    """Start, end, stop and ask in some order, with jobs whose end is ours to choose; compared with a list."""
    policy = Policy("/ws", "/h")
    (tool,) = Shell("/ws", {}, 30, 1000).tools()
    action = ActionBuilder.of(
        ToolCall("1", "shell", json.dumps({"command": "x"})), {"shell": tool.specs()[0]}
    ).read(policy, {})

    async def nowhere(_: str) -> None:
        pass

    book = Book()
    ends: dict[str, trio.Event] = {}
    fails: set[str] = set()
    jobs = Jobs(
        screen=lambda action: BackgroundOutput(action, Session("s", policy), Unused()),
        record=book.record,
        most=most,
    )
    begun, state, told = 0, {}, set()

    def run_of(number):
        name = f"job_{number}"
        ends[name] = trio.Event()

        async def run(_deadline, emit) -> Ending:
            await emit(f"{name} speaks\n")
            await ends[name].wait()
            if name in fails:
                raise PermanentFailure("it broke")
            return Ending(JobState.ENDED, "it ended", 0)

        return run

    async with jobs.opened():
        for what in steps:
            running = [name for name, how in state.items() if how == "running"]
            if what == "start" and len(running) >= most:
                with pytest.raises(PermanentFailure):
                    await jobs.start(
                        Cleared(action, trio.current_time() + 30, nowhere), "x", run_of(begun + 1)
                    )
            elif what == "start":
                begun += 1
                await jobs.start(Cleared(action, trio.current_time() + 30, nowhere), "x", run_of(begun))
                await trio.testing.wait_all_tasks_blocked()
                state[f"job_{begun}"] = "running"
            elif what == "news":
                new = {name for name, how in state.items() if how != "running" and name not in told}
                assert {job.id for job in jobs.news()} == new
                told |= new
            elif what == "show":
                assert {job.id: job.state for job in jobs.all()} == state
            elif running and what == "stop":
                await jobs.stop(jobs.find(running[0]))
                state[running[0]] = "stopped"
            elif running:
                fails.update({running[0]} if what == "fail" else ())
                ends[running[0]].set()
                await over(jobs.find(running[0]))
                state[running[0]] = "failed" if what == "fail" else "ended"
            for job in jobs.all():
                assert job.state == state[job.id] and (job.text == f"{job.id} speaks\n") is (
                    job.state != "running"
                )
        await jobs.end_all()
    changes: dict[str, list[str]] = {}
    for change in book.changes:
        changes.setdefault(change.job, []).append(change.state)
    assert changes == {
        name: ["running", "stopped" if how == "running" else how] for name, how in state.items()
    }


@settings(
    max_examples=settings().max_examples * 3 // 5, suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)  # fmt: skip
@given(st.lists(DONE, max_size=14), st.integers(1, 3))
@example(["start", "stop", "news", "news"], 1)
@example(["start", "start", "fail", "start", "end", "news", "show"], 1)
@example(["start", "start", "start", "end", "start", "stop", "news"], 3)
def test_whatever_comes_to_pass_each_job_has_one_end_on_record(steps, most):
    trio.run(many, steps, most)


async def test_only_so_many_are_remembered_and_none_that_was_not_told_is_forgotten(shell, clear):
    jobs, made, _ = shell()

    async def run(_deadline, _emit) -> Ending:
        return Ending(JobState.ENDED, "it ended", 0)

    async with jobs.opened():
        for number in range(60):
            job = await jobs.start(await clear(made.tools()[0], {"command": "true"}), "true", run)
            await over(job)
            if number % 10:
                job.is_reported = True
        kept = [job.id for job in jobs.all()]
    assert {f"job_{number + 1}" for number in range(0, 60, 10)} <= set(kept) and len(kept) <= 51
