"""Start several processes on one damaged database: one sets it aside, all use the new one.

Each repetition damages a database in one of several ways. Six processes open it at the same moment, beside
one that has had it open all along and closes it then; in every fourth repetition one of the six is killed at
a random instant. `python tests/fuzz/begin_anew.py [REPETITIONS] [SEED]` exits 1 with all that went wrong.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import trio

from leeward.memory.audit import AuditLogger
from leeward.memory.database import AsyncioThread, Database
from leeward.memory.database import backup as kept
from leeward.security.session import TurnStarted

OPENERS = 6
_RECORDS = 40
_PAGE = 4096
# An opener takes about this long (seconds) from the gate to its end; a kill comes within it.
_INSTANT = 0.15
# Nobody needs as long, on a machine however busy (seconds).
_PATIENCE = 120


class Clock:
    """The same instant for all records."""

    def now(self) -> float:
        """Return it."""
        return 7.0


async def _write(path: Path, records: int, told: list[str]) -> None:
    async with (
        AsyncioThread.open("begin-anew") as asyncio_thread,
        Database.open(path, asyncio_thread, busy_seconds=30) as database,
    ):
        audit = AuditLogger(database, Clock())
        for number in range(records):
            await audit.append("s", TurnStarted(float(number)))
        told += database.take_notices()


def _forked(work: Callable[[], list[str]]) -> tuple[int, int]:
    """Run a function in a process of its own; return its id and a descriptor with the lines it returns.

    It ends after `_PATIENCE` seconds by itself, also when nobody is left who waits for it.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    code = 1
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(_PATIENCE)
        os.write(writing, "".join(f"{line}\n" for line in work()).encode())
        code = 0
    except BaseException as error:
        os.write(writing, f"FAILED {error} ({error.__cause__!r})\n".encode())
    finally:
        os._exit(code)


def _ended(child: tuple[int, int]) -> list[str]:
    """Wait for the end of such a process, and return its lines."""
    with os.fdopen(child[1], "rb") as file:
        lines = file.read().decode().splitlines()
    _, status = os.waitpid(child[0], 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM:
        lines.append(f"FAILED: a process was not at its end after {_PATIENCE} s")
    return lines


def _opener(path: Path, gate: int) -> list[str]:
    told: list[str] = []
    os.read(gate, 1)
    trio.run(_write, path, 1, told)
    return told


async def _hold(path: Path, ready: int, gate: int) -> None:
    """Have the file open, as a program that has noticed nothing, and close it with the gate."""
    async with AsyncioThread.open("begin-anew") as asyncio_thread, Database.open(path, asyncio_thread):
        os.write(ready, b"1")
        await trio.to_thread.run_sync(os.read, gate, 1)


def _holder(path: Path, ready: int, gate: int) -> list[str]:
    trio.run(_hold, path, ready, gate)
    return []


def _overwrite(path: Path, start: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(start)
        file.write(content)


def _suspected(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        ((page,),) = other.execute("SELECT rootpage FROM sqlite_master WHERE name = 'audit'")
    _overwrite(path, (page - 1) * _PAGE, b"\xff" * _PAGE)
    kept.suspect(path)


def _half_moved(path: Path) -> None:
    folder = path.with_name(path.name + kept.BACKUP_SUFFIX) / "damaged-20260101T000000Z.partial"
    folder.mkdir(parents=True)
    path.rename(folder / path.name)


DAMAGE: tuple[Callable[[Path], None], ...] = (
    lambda path: _overwrite(path, 100, b"\xff" * (_PAGE - 100)),
    lambda path: _overwrite(path, 0, bytes(_PAGE)),
    lambda path: _overwrite(path, 16, b"\0\3"),
    _suspected,
    _half_moved,
)


def _repeated(folder: Path, number: int, chance: random.Random) -> list[str]:
    """Do it once and return what went wrong."""
    path = folder / "data" / "store.db"
    path.parent.mkdir(parents=True)
    (path.parent / "audit.key").write_bytes(bytes(32))
    _ended(_forked(lambda: [] if trio.run(_write, path, _RECORDS, []) else []))
    waiting, gate = os.pipe()
    ready, is_ready = os.pipe()
    children = [_forked(lambda: _holder(path, is_ready, waiting))]
    os.read(ready, 1)
    DAMAGE[number % len(DAMAGE)](path)
    children += [_forked(lambda: _opener(path, waiting)) for _ in range(OPENERS)]
    victim = children[-1][0] if number % 4 == 3 else 0
    os.write(gate, b"1" * len(children))
    if victim:
        time.sleep(chance.uniform(0, _INSTANT))
        os.kill(victim, signal.SIGKILL)
    told = [line for child in children for line in _ended(child)]
    for handle in (waiting, gate, ready, is_ready):
        os.close(handle)
    return [f"repetition {number}: {why}" for why in _wrong(path, told, is_killed=bool(victim))]


def _wrong(path: Path, told: list[str], *, is_killed: bool) -> list[str]:
    wrong = [line for line in told if line.startswith("FAILED")]
    notices = len(told) - len(wrong)
    # Who was killed may have been the one to tell of it, and may or may not have written.
    if not (notices == 1 or (is_killed and notices == 0)):
        wrong.append(f"{notices} processes told that they had moved it")
    with closing(sqlite3.connect(path)) as other:
        records = other.execute("SELECT count(*) FROM audit").fetchone()[0]
        if other.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
            wrong.append("the new file is damaged")
    if not OPENERS - is_killed <= records <= OPENERS:
        wrong.append(f"{records} records stand in the new file")
    places = sorted(one.name for one in path.with_name(path.name + kept.BACKUP_SUFFIX).iterdir())
    if not (len(places) == 1 and places[0].startswith("damaged-") and "." not in places[0]):
        wrong.append(f"what was damaged is kept in {places}")
    elif not (path.with_name(path.name + kept.BACKUP_SUFFIX) / places[0] / path.name).exists():
        wrong.append("what was damaged is gone")
    return wrong


def begun(repetitions: int, seed: int = 1) -> list[str]:
    """Repeat it and return what went wrong."""
    chance, wrong = random.Random(seed), []
    for number in range(repetitions):
        with tempfile.TemporaryDirectory() as name:
            wrong += _repeated(Path(name), number, chance)
    return wrong


def main() -> int:
    """Repeat it as often as asked for; return how the process ends."""
    repetitions, seed = (int(word) for word in [*sys.argv[1:], *("200", "1")[len(sys.argv) - 1 :]])
    wrong = begun(repetitions, seed)
    print(*wrong, f"{repetitions} repetitions, {len(wrong)} things went wrong", sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
