"""Kill the program at random moments: nothing may be lost, half done or unaccounted for afterwards.

Sessions from a script write files, by tools and by programs, and are killed with SIGKILL: after a random line
of what they print, a random instant later. After each kill the audit is verified against the head stored in a
second place, and compared with what lies on the disk. The next session starts where this one was killed, and
every third one resumes it. `python tests/fuzz/crash.py [KILLS] [SEED]` exits 1 with all that was found.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio

from leeward.memory.audit import AuditLogger, heads_in
from leeward.memory.audit.heads import ChainFault
from leeward.memory.database import AsyncioThread, Database
from leeward.memory.sessions import LOCKS, Catalog, Transcript
from leeward.runtime.sessions.history import taken_up

__all__ = ["Crashes", "crashed"]

# What one session prints, and how long it takes at most between two lines (seconds).
_LINES = 36
_INSTANT = 0.02
_STEPS = 6
_SHOWN = 20

_CONFIG = """
[permissions]
autonomy = "full"
[[permissions.rules]]
tool = "*"
action = "allow"
[tools.shell]
trial = "off"
[tools.audit]
heads = "{heads}"
[tools.overflow]
threshold = 2000
"""
_OPEN = """
SELECT session, call FROM audit AS decided
WHERE kind = 'decision' AND json_extract(body, '$.allowed') AND NOT json_extract(body, '$.hop')
    AND NOT EXISTS (SELECT 1 FROM audit AS ended WHERE ended.kind = 'outcome'
        AND ended.call = decided.call AND ended.session = decided.session AND ended.seq > decided.seq)
"""
_SESSIONS = "SELECT id FROM conversation ORDER BY rowid DESC LIMIT 3"
_DECISIONS = (
    "SELECT json_extract(body, '$.arguments') FROM audit WHERE kind = 'decision'"
    " AND json_extract(body, '$.allowed') AND seq > ?"
)
_LAST = "SELECT coalesce(max(seq), 0) FROM audit"


class Clock:
    """The time of day."""

    def now(self) -> float:
        """Return seconds since the epoch."""
        return time.time()


@dataclass
class Crashes:
    """One machine on which the program is killed again and again, and what was found."""

    folder: Path
    seed: int
    problems: list[str] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    _number: int = 0
    _checked: int = 0
    _decided: str = ""

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)
        for name in ("home", "config/leeward", "data", "work"):
            (self.folder / name).mkdir(parents=True)
        self.work = self.folder / "work"
        self.database = self.folder / "data" / "leeward" / "leeward.db"
        self._heads = self.folder / "heads"
        config = self.folder / "config" / "leeward" / "config.toml"
        config.write_text(_CONFIG.format(heads=self._heads), encoding="utf-8")

    def kill(self) -> None:
        """Start a session, kill it, and look at what is left."""
        self._number += 1
        lines = self._chance.randrange(_LINES) if self._chance.random() > 0.05 else 10_000
        with self._session() as child:
            heard = _listened(child, lines)
            time.sleep(self._chance.random() * (_INSTANT if heard else 0.4))
            child.kill()
            rest, errors = child.communicate(timeout=60)
            heard += rest.splitlines()
        self.seen["killed" if child.returncode == -signal.SIGKILL else "ended"] += 1
        if child.returncode not in {-signal.SIGKILL, 0} or "Traceback" in errors:
            self._found(f"it ended with {child.returncode}: {errors[-2000:]}")
        trio.run(self._look, [_event(line) for line in heard])

    def _found(self, problem: str) -> None:
        self.problems.append(f"seed {self.seed}, kill {self._number}: {problem}")

    @contextmanager
    def _session(self) -> Iterator[subprocess.Popen[str]]:
        argv = [sys.executable, "-P", "-m", "leeward", "--model", "offline", "--workspace", str(self.work)]
        argv += ["--output", "jsonl", "--script", "-"]
        if self._number % 3 == 0 and self.seen["sessions"]:
            argv += ["--resume"]
        environment = {
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder / "home"),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "XDG_DATA_HOME": str(self.folder / "data"),
        }
        child = subprocess.Popen(
            argv,
            env=environment,
            cwd=self.work,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert child.stdin is not None
        try:
            child.stdin.write(self._script())
            child.stdin.close()
            child.stdin = None
            yield child
        finally:
            child.kill()
            child.wait()

    def _script(self) -> str:
        """Return what the person says: each step is an effect of its own, and some a long output."""
        steps = []
        for number in range(_STEPS):
            name = f"f{self._number}_{number}"
            steps.append(
                self._chance.choice(
                    (
                        f"write {name}: {'x' * self._chance.randrange(1, 3000)}",
                        f"run echo done > {name}",
                        f"write {name}: a and then write {name}b: b and then run echo c > {name}c",
                        f"run seq 1 2000 | tee {name}",
                    )
                )
            )
        return "".join(f"{step}\n" for step in steps)

    async def _look(self, heard: Sequence[dict[str, Any]]) -> None:
        """Open what was left behind as the next start does, and hold it against all that must be so."""
        async with (
            AsyncioThread.open("look") as asyncio_thread,
            Database.open(self.database, asyncio_thread) as database,
        ):
            for notice in database.take_notices():
                self._found(notice)
            audit = AuditLogger(database, Clock())
            await self._look_at_effects(database, heard)
            await self._look_at_the_chain(audit)
            await self._look_at_open_calls(audit, database)
            await self._look_at_words(database)
            for line in await database.integrity():
                self._found(f"the file is damaged: {line}")
        left = sorted(name.name for name in self.database.parent.iterdir())
        if extra := set(left) - _EXPECTED:
            self._found(f"left behind: {extra}")

    async def _look_at_effects(self, database: Database, heard: Sequence[dict[str, Any]]) -> None:
        """Check that no file lacks an earlier decision, and no reported result its outcome on record."""
        rows = await database.read(_DECISIONS, (self._checked,))
        ((self._checked,),) = await database.read(_LAST)
        decided = " ".join(arguments for (arguments,) in rows)
        for file in self.work.glob(f"f{self._number}_*"):
            self.seen["effects"] += 1
            if file.name not in decided:
                self._found(f"{file.name} was written, and no decision is on record")
        for event in heard:
            if event.get("type") == "result":
                self.seen["results"] += 1
                kinds = await database.read("SELECT kind FROM audit WHERE call = ?", (event["call"],))
                if ("outcome",) not in kinds and event["status"] != "denied":
                    told = f"{event['call']} was told as {event['status']}"
                    self._found(f"{told}, its outcome is not on record")

    async def _look_at_the_chain(self, audit: AuditLogger) -> None:
        verified = await audit.verify(*(heads_in(self._heads) if self._heads.exists() else ()))
        self.seen["records"] = verified.records
        self.seen["heads"] = verified.heads
        if isinstance(verified.problem, ChainFault):
            self._found(f"the chain: {verified.problem}")

    async def _look_at_open_calls(self, audit: AuditLogger, database: Database) -> None:
        """Check that each call without an end is reported once and has one from then on, all of it signed."""
        wanted = {tuple(row) for row in await database.read(_OPEN)}
        told = await audit.unknown_outcomes()
        self.seen["unknown"] += len(told)
        if {(one.session, one.call) for one in told} != wanted or len(told) != len(wanted):
            self._found(f"without an end: {wanted}, told: {told}")
        if await audit.unknown_outcomes() or await database.read(_OPEN):
            self._found("a call without an end is told again")
        if left := list(self.database.parent.glob(f"*{LOCKS}/*")):
            self._found(f"locks of sessions that are over: {left}")
        if unsigned := (await audit.verify()).unsigned:
            self._found(f"{unsigned} records are still signed by nobody")

    async def _look_at_words(self, database: Database) -> None:
        """Check that the conversation can be resumed: every line whole, and every call with one result."""
        rows = await database.read(_SESSIONS)
        self.seen["sessions"] = max(self.seen["sessions"], len(rows))
        transcript = Transcript(database, Clock())
        for (session,) in rows:
            await Catalog(database, Clock()).named(session)
            messages = taken_up(await transcript.recall(session)).messages
            calls = [call.id for message in messages[:-1] for call in message.calls]
            results = [message.call_id for message in messages if message.role == "tool"]
            open_calls = [call for call in calls if call not in results]
            if len(results) != len(set(results)) or not set(results) <= set(calls) | _calls(messages):
                self._found(f"session {session}: results without a call")
            last = _calls(messages) if messages else set()
            if set(open_calls) - last:
                self._found(f"session {session}: calls without a result: {open_calls}")


_EXPECTED = {
    "leeward.db", "leeward.db-kept", "leeward.db-locks", "audit.key", "hash.key", "workspaces.json",
    "toolchains",
}  # fmt: skip


def _calls(messages: Sequence[Any]) -> set[str]:
    """Return the calls of the last reply, which may be open."""
    replies = [message for message in messages if message.role == "assistant"]
    return {call.id for call in replies[-1].calls} if replies else set()


def _event(line: str) -> dict[str, Any]:
    """Read an event; the last line may have been cut by the kill."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _listened(child: subprocess.Popen[str], lines: int) -> list[str]:
    assert child.stdout is not None
    heard: list[str] = []
    while len(heard) < lines and (line := child.stdout.readline()):
        heard.append(line)
    return heard


def crashed(kills: int, seed: int, workers: int = 2) -> tuple[list[str], Counter[str]]:
    """Kill so many sessions, on as many machines at once as there are workers; return what was found."""
    seen: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="leeward-crash-") as name:
        machines = [Crashes(Path(name) / str(number), seed + number) for number in range(workers)]
        threads = [
            threading.Thread(target=_kill_on, args=(machine, kills // workers + (number < kills % workers)))
            for number, machine in enumerate(machines)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for machine in machines:
        seen += machine.seen
    return [problem for machine in machines for problem in machine.problems], seen


def _kill_on(machine: Crashes, kills: int) -> None:
    for _ in range(kills):
        machine.kill()


def main() -> int:
    """Kill as often as the command line says, and tell what was found."""
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(10**6)
    began = time.monotonic()
    problems, seen = crashed(kills, seed)
    print(f"seed {seed}, {time.monotonic() - began:.0f} s: {dict(seen)}")
    for problem in problems[:_SHOWN]:
        print(problem)
    print(f"{len(problems)} problems" if problems else "nothing was wrong")
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
