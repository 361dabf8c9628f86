"""A session is open in one process at a time, and free again however that process ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from leeward.memory.sessions import LOCKS, SessionInUse, SessionLock
from leeward.security.ports import RecordError

_HOLDER = """
import sys, time
from pathlib import Path
from leeward.memory.sessions import SessionLock
lock = SessionLock.take(Path(sys.argv[1]), "s")
print("held", flush=True)
sys.stdin.read()
"""


def held_elsewhere(database: Path) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(database)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout.readline() == "held\n"
    return child


@pytest.mark.parametrize("session", ["../mine", "a/b", "", ".", "..", "x\0y"])
def test_an_id_from_a_changed_database_leads_to_no_other_file(tmp_path: Path, session: str) -> None:
    """The file of a lock is emptied and removed; sessions are deleted at a start, by the ids that stand
    there.
    """
    mine = tmp_path / "mine"
    mine.write_text("kept", encoding="utf-8")
    with pytest.raises((SessionInUse, RecordError)):
        SessionLock.take(tmp_path / "x.db", str(mine) if session == "../mine" else session)
    with pytest.raises((SessionInUse, RecordError)):
        SessionLock.take(tmp_path / "x.db", session)
    assert mine.read_text(encoding="utf-8") == "kept"


def test_one_at_a_time(tmp_path: Path) -> None:
    database = tmp_path / "x.db"
    first = SessionLock.take(database, "s")
    with pytest.raises(SessionInUse, match=f"session s is open already, by process {os.getpid()}"):
        SessionLock.take(database, "s")
    SessionLock.take(database, "t").release()
    first.release()
    first.release()
    SessionLock.take(database, "s").release()
    folder = tmp_path / f"x.db{LOCKS}"
    assert list(folder.iterdir()) == [] and folder.stat().st_mode & 0o777 == 0o700


def test_a_process_that_is_killed_leaves_nothing_that_would_have_to_be_cleared(tmp_path: Path) -> None:
    database = tmp_path / "x.db"
    with held_elsewhere(database) as child:
        with pytest.raises(SessionInUse, match=f"by process {child.pid}$"):
            SessionLock.take(database, "s")
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert (tmp_path / f"x.db{LOCKS}" / "s").exists()
        SessionLock.take(database, "s").release()


def test_a_program_that_is_started_meanwhile_keeps_nothing(tmp_path: Path) -> None:
    database = tmp_path / "x.db"
    lock = SessionLock.take(database, "s")
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, close_fds=False
    ):
        lock.release()
        SessionLock.take(database, "s").release()


def test_whoever_wants_it_at_the_same_time_one_has_it(tmp_path: Path) -> None:
    """Taking and giving back remove and make the file all the time; never do two hold it."""
    database, holding, most = tmp_path / "x.db", [0], [0]
    guard = threading.Lock()

    def take_and_give() -> None:
        for _ in range(200):
            try:
                lock = SessionLock.take(database, "s")
            except SessionInUse:
                continue
            with guard:
                holding[0] += 1
                most[0] = max(most[0], holding[0])
            with guard:
                holding[0] -= 1
            lock.release()

    threads = [threading.Thread(target=take_and_give) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most[0] == 1


def test_where_no_lock_can_be_made_nothing_is_held(tmp_path: Path) -> None:
    (tmp_path / f"x.db{LOCKS}").write_text("in the way")
    with pytest.raises(RecordError, match="session s cannot be locked"):
        SessionLock.take(tmp_path / "x.db", "s")


def test_a_link_in_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / f"x.db{LOCKS}"
    folder.mkdir()
    (tmp_path / "victim").write_text("mine")
    (folder / "s").symlink_to(tmp_path / "victim")
    with pytest.raises(RecordError):
        SessionLock.take(tmp_path / "x.db", "s")
    assert (tmp_path / "victim").read_text() == "mine"
