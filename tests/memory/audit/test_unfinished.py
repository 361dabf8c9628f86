"""A call whose process was killed is reported once, settled, and never counted as a failure."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import reduce
from pathlib import Path

import pytest

from leeward.memory.audit import AuditLogger
from leeward.memory.database import Database
from leeward.memory.sessions import LOCKS, SessionInUse, SessionLock
from leeward.security.call import Status
from leeward.security.policy import Policy
from leeward.security.ports import RecordError
from leeward.security.session import Asked, Decided, Finished, Session, TurnStarted, apply_events

ARGUMENTS = '{"command":"make release"}'
SCRIPT = """
import os, signal, sys, trio
from leeward.memory.audit import AuditLogger
from leeward.memory.database import Database, AsyncioThread
from leeward.memory.sessions import SessionLock
from leeward.security.session import Decided, Finished
from leeward.security.call import Status

class Clock:
    def now(self):
        return 5.0

async def main(path, session):
    async with AsyncioThread.open("x") as asyncio_thread, Database.open(path, asyncio_thread) as database:
        lock = SessionLock.take(database.path, session)
        audit = AuditLogger(database, Clock())
        await audit.start_session(session, "/w", "c")
        await audit.append(session, Decided(1.0, "c1", "shell", "d1", True, arguments='{"command":"ls"}'))
        await audit.append(session, Finished(2.0, "c1", "shell", "d1", Status.OK))
        released = Decided(3.0, "c2", "shell", "d2", True, arguments='{"command":"make release"}')
        await audit.append(session, released)
        os.kill(os.getpid(), signal.SIGKILL)

trio.run(main, sys.argv[1], sys.argv[2])
"""


@pytest.fixture
def audit(database: Database, clock) -> AuditLogger:
    return AuditLogger(database, clock)


def killed(path: Path, session: str) -> None:
    """Leave a session behind as a process does that is killed in the middle of a call."""
    ended = subprocess.run([sys.executable, "-c", SCRIPT, path, session], timeout=60, check=False)
    assert ended.returncode == -signal.SIGKILL


def allowed(call: str, hop: int = 0, *, is_allowed: bool = True) -> Decided:
    return Decided(1.0, call, "shell", f"d_{call}", is_allowed, arguments=ARGUMENTS, hop=hop)


async def test_a_call_of_a_killed_process_is_told_once_and_settled(
    audit: AuditLogger, database: Database, clock
) -> None:
    killed(database.path, "s_killed")
    (call,) = await audit.unknown_outcomes()
    assert (call.session, call.call, call.tool, call.at) == ("s_killed", "c2", "shell", 3.0)
    assert call.arguments == ARGUMENTS
    *_, unknown = await audit.events_of("s_killed")
    assert isinstance(unknown, Finished)
    assert (unknown.call, unknown.digest, unknown.status, unknown.at) == (
        "c2",
        "d2",
        Status.UNKNOWN,
        clock.time,
    )
    assert await audit.unknown_outcomes() == []
    assert await audit.unfinished("s_killed") == []
    assert (await audit.verify()).problem is None
    assert list(database.path.with_name(database.path.name + LOCKS).iterdir()) == []


async def test_what_is_no_lock_keeps_nobody_from_starting(
    audit: AuditLogger, database: Database, tmp_path: Path
) -> None:
    killed(database.path, "s_killed")
    locks = database.path.with_name(database.path.name + LOCKS)
    (locks / "a_folder").mkdir()
    os.mkfifo(locks / "a_pipe")
    (locks / "a_link").symlink_to(tmp_path)
    (locks / "z_dangling").symlink_to(tmp_path / "nothing")
    assert [call.session for call in await audit.unknown_outcomes()] == ["s_killed"]
    assert len(list(locks.iterdir())) == 4


async def test_of_two_that_start_at_once_one_tells(audit: AuditLogger, database: Database, clock) -> None:
    killed(database.path, "s_killed")
    lock = SessionLock.take(database.path, "s_killed")
    assert await AuditLogger(database, clock).unknown_outcomes() == [], "somebody is at it"
    lock.release(is_settled=False)
    assert len(await audit.unknown_outcomes()) == 1
    outcomes = await audit.list_records("s_killed", kinds=["outcome"])
    assert [record.body["status"] for record in outcomes] == ["ok", "unknown"]


async def test_a_session_that_is_open_is_left_alone(audit: AuditLogger, database: Database) -> None:
    lock = SessionLock.take(database.path, "s_open")
    await audit.append("s_open", allowed("c1"))
    assert await audit.unknown_outcomes() == []
    assert [call.call for call in await audit.unfinished("s_open")] == ["c1"]
    with pytest.raises(SessionInUse):
        SessionLock.take(database.path, "s_open")
    lock.release()


async def test_a_session_that_ended_with_something_open_is_looked_after(
    audit: AuditLogger, database: Database
) -> None:
    """Its outcome could not be written, for instance, because the disk was full to the end."""
    lock = SessionLock.take(database.path, "s_1")
    await audit.append("s_1", allowed("c1"))
    lock.release(is_settled=False)
    assert [call.call for call in await audit.unknown_outcomes()] == ["c1"]


async def test_what_cannot_be_settled_now_is_found_again(audit: AuditLogger, database: Database) -> None:
    killed(database.path, "s_killed")
    await database.read("PRAGMA query_only = ON")
    with pytest.raises(RecordError, match="read-only"):
        await audit.unknown_outcomes()
    await database.read("PRAGMA query_only = OFF")
    assert len(await audit.unknown_outcomes()) == 1


@pytest.mark.parametrize(
    ("events", "open_calls"),
    [
        ([allowed("c1")], ["c1"]),
        ([allowed("c1", is_allowed=False)], []),
        ([Asked(1.0, "c1", "shell", "d")], []),
        ([allowed("c1"), Finished(2.0, "c1", "shell", "d", Status.CANCELLED)], []),
        ([allowed("c1"), allowed("c2"), Finished(2.0, "c1", "shell", "d", Status.OK)], ["c2"]),
        ([allowed("c1"), Finished(2.0, "c1", "shell", "d", Status.OK), allowed("c1")], ["c1"]),
        ([allowed("c1"), allowed("c1", 1), Finished(2.0, "c1", "fetch", "d", Status.OK)], []),
        ([allowed("c1"), Finished(2.0, "c1", "shell", "d", Status.OK), allowed("c1", 1)], []),
        ([TurnStarted(1.0)], []),
    ],
)
async def test_which_calls_are_open(audit: AuditLogger, events: list, open_calls: list[str]) -> None:
    await audit.append("other", allowed("c9"), Finished(1.0, "c1", "shell", "d", Status.OK))
    await audit.append("s", *events)
    await audit.append(
        "other", Finished(9.0, "c1", "shell", "d", Status.OK), Finished(9.0, "c2", "shell", "d", Status.OK)
    )
    assert [call.call for call in await audit.unfinished("s")] == open_calls
    assert await audit.settle("s") == await audit.settle("nobody") or open_calls
    assert await audit.unfinished("s") == []


async def test_a_row_that_is_no_json_keeps_nobody_from_starting(
    audit: AuditLogger, database: Database
) -> None:
    await audit.append("s", allowed("c1"), allowed("c2"))
    await database.write([("UPDATE audit SET body = '{' WHERE call = 'c1'", ())])
    assert [call.call for call in await audit.unfinished("s")] == ["c2"]


async def test_an_unknown_end_is_no_failure_of_the_tool_and_no_repetition(audit: AuditLogger) -> None:
    start = Session("s", Policy("/w", "/h"))
    await audit.append("s", allowed("c1"))
    await audit.settle("s")
    session = reduce(apply_events, await audit.events_of("s"), start)
    assert (session.running, session.pending) == (frozenset(), frozenset())
    assert session.anomaly == start.anomaly
    assert (session.last, session.repeats) == (start.last, start.repeats)
    assert session.calls_this_session == 1, "it counts as a call all the same"
