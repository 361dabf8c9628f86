"""`leeward storage` and `/overflow`: report, clean up while others work, free disk space."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest
import trio

from leeward.memory.database import AsyncioThread, Database, Upkeep
from leeward.memory.overflow import OverflowStore
from leeward.runtime.cli.storage import _ago
from leeward.runtime.slash import dispatch, parse
from leeward.security.call import Status
from leeward.security.text import without_margins
from leeward.security.trust import Origin
from leeward.tools.process import size_text

NOISE = "".join(chr(0x4E00 + number * 7919 % 20_000) for number in range(700_000))
DAY = 86_400


class Clock:
    def __init__(self, days: float = 0) -> None:
        self.time = time.time() - days * DAY

    def now(self) -> float:
        return self.time


async def keep(path, days: float, *texts: str, session: str = "s") -> list[str]:
    """Keep outputs as they were kept so many days ago."""
    path.parent.mkdir(parents=True, exist_ok=True)
    async with AsyncioThread.open("test") as asyncio_thread, Database.open(path, asyncio_thread) as database:
        store = OverflowStore(database, Clock(days))
        return [await store.put(session, text, Origin.WEB) for text in texts]


@pytest.fixture
def database(leeward):
    return leeward.data / "leeward.db"


def told(leeward, *words: str):
    ran = leeward("storage", *words, "--output", "json")
    assert ran.code == 0, ran
    return ran.json["data"]


@pytest.mark.parametrize("action", ["status", "prune", "vacuum"])
def test_where_there_is_no_database_none_is_made(leeward, database, action):
    ran = leeward("storage", action)
    assert ran.code == 0 and "there is no database yet" in ran.out
    assert told(leeward, action) == {"path": str(database), "exists": False}
    assert not database.exists()


def test_status_says_what_takes_the_room(leeward, database):
    trio.run(keep, database, 2, NOISE, "line\n" * 100_000)
    found = told(leeward, "status")
    tables = {table["name"]: table for table in found["tables"]}
    assert found["file_bytes"] == database.stat().st_size and found["damage"] == []
    chunks, texts = tables["overflow_chunk"], tables["overflow"]
    assert chunks["rows"] == 19 and chunks["bytes"] > 1_000_000 and chunks["bytes"] % 4096 == 0
    assert texts["rows"] == 2 and 1.9 * DAY < time.time() - texts["oldest"] < 2.1 * DAY
    kept = found["overflow"]
    assert (kept["texts"], kept["unfinished"], kept["max_total_bytes"]) == (2, 0, 1 << 30)
    assert kept["bytes"] == len(NOISE.encode()) + 500_000 and kept["stored_bytes"] < kept["bytes"]
    assert kept["disk_bytes"] <= 1.2 * kept["stored_bytes"] and 2 < kept["written_per_stored_byte"] < 3
    shown = leeward("storage", "status").out
    assert (
        "overflow_chunk" in shown
        and "2 d to 2 d" in shown
        and "integrity: ok" in shown
        and "outputs: 2, " in shown
    )


def test_status_tells_of_damage_and_of_what_was_left_unfinished(leeward, database):
    trio.run(keep, database, 0, "one")
    with closing(sqlite3.connect(database)) as other:
        other.execute("INSERT INTO overflow (ref, stored_at, used_at) VALUES (5, 0, 0)")
        other.execute("INSERT INTO overflow_chunk VALUES (77, 0, 0, 0, x'00')")
        other.commit()
    found = told(leeward, "status")
    assert found["overflow"]["unfinished"] == 1 and any("overflow_chunk" in line for line in found["damage"])
    shown = leeward("storage", "status").out
    assert "left unfinished: 1" in shown and "damaged: " in shown and "integrity: ok" not in shown


def test_prune_deletes_what_is_too_old_and_no_more(leeward, database):
    trio.run(keep, database, 8, NOISE)
    trio.run(keep, database, 6, "younger " * 20_000)
    found = told(leeward, "prune", "--overflow")
    assert (
        found == {"overflow": {"texts": 1, "bytes": found["overflow"]["bytes"]}}
        and found["overflow"]["bytes"] > 1_000_000
    )
    assert told(leeward, "status")["overflow"]["texts"] == 1
    assert told(leeward, "prune", "--overflow", "--older-than", "5.5")["overflow"]["texts"] == 1
    assert told(leeward, "status")["overflow"]["texts"] == 0
    assert "outputs deleted: 0" in leeward("storage", "prune").out


def test_prune_keeps_to_the_budget(leeward, database):
    trio.run(keep, database, 1, NOISE)
    trio.run(keep, database, 0, "kept\n" * 20_000)
    leeward.configure("[tools.overflow]\nmax_total_bytes = 100000\n")
    told(leeward, "prune")
    found = told(leeward, "status")["overflow"]
    assert (found["texts"], found["max_total_bytes"]) == (1, 100_000) and found["stored_bytes"] < 100_000


def test_prune_deletes_sessions_nobody_went_on_with(leeward):
    assert leeward("-p", "hello", "--model", "offline").code == 0
    assert told(leeward, "prune", "--transcripts") == {"transcripts": {"sessions": 0}}
    assert told(leeward, "prune", "--transcripts", "--older-than", "0") == {"transcripts": {"sessions": 1}}
    assert {table["name"]: table["rows"] for table in told(leeward, "status")["tables"]}["conversation"] == 0
    assert "sessions deleted: 0" in leeward("storage", "prune", "--older-than", "0").out


def test_records_of_the_audit_go_only_when_it_is_said_how_old_and_at_a_signed_head(leeward, database):
    ran = leeward("storage", "prune", "--audit")
    assert ran.code == 2 and "give their age" in ran.err
    for _ in range(2):
        assert leeward("-p", "hello", "--model", "offline").code == 0
    before = {table["name"]: table["rows"] for table in told(leeward, "status")["tables"]}["audit"]
    found = told(leeward, "prune", "--audit", "--older-than", "1")
    assert found == {"audit": {"records": 0, "at_a_head": False}}
    assert "no signed head of that age" in leeward("storage", "prune", "--audit", "--older-than", "1").out
    found = told(leeward, "prune", "--audit", "--older-than", "0")
    after = {table["name"]: table["rows"] for table in told(leeward, "status")["tables"]}["audit"]
    assert found["audit"]["at_a_head"] and found["audit"]["records"] > 0 and after < before
    assert leeward("audit", "verify").code == 0


@pytest.mark.parametrize("days", ["-1", "nan", "inf", "x", ""])
def test_an_age_that_is_none_is_refused(leeward, days):
    assert leeward("storage", "prune", "--older-than", days).code == 2


def test_vacuum_gives_back_what_is_free(leeward, database):
    trio.run(keep, database, 8, NOISE)
    full = database.stat().st_size
    told(leeward, "prune")
    assert told(leeward, "status")["free_bytes"] > 1_000_000
    freed = told(leeward, "vacuum")["freed_bytes"]
    assert freed > 1_000_000 and database.stat().st_size == full - freed
    assert told(leeward, "status")["free_bytes"] == 0 and "given back" in leeward("storage", "vacuum").out


async def test_a_file_that_was_made_before_this_was_possible_is_rewritten_once(tmp_path):
    path = tmp_path / "old.db"
    await keep(path, 8, NOISE)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode = DELETE")
        other.execute("PRAGMA auto_vacuum = NONE")
        other.execute("VACUUM")
    async with AsyncioThread.open("test") as asyncio_thread, Database.open(path, asyncio_thread) as database:
        store = OverflowStore(database, Clock())
        (kept,) = [await store.put("s", "still here", Origin.WEB)]
        await store.prune()
        assert await database.read("PRAGMA auto_vacuum") == [(0,)]
        assert await Upkeep(database).vacuum() > 1_000_000
        assert await database.read("PRAGMA auto_vacuum") == [(2,)]
        assert (await store.get("s", kept)).text == "still here"


async def test_vacuum_goes_in_small_steps(tmp_path, monkeypatch):
    async with (
        AsyncioThread.open("test") as asyncio_thread,
        Database.open(tmp_path / "store.db", asyncio_thread) as database,
    ):
        store = OverflowStore(database, Clock(8))
        await store.put("s", NOISE, Origin.WEB)
        await OverflowStore(database, Clock()).prune()
        asked, read = [], database.read

        async def watched(sql, values=()):
            asked.append(sql)
            return await read(sql, values)

        monkeypatch.setattr(database, "read", watched)
        await Upkeep(database).vacuum()
    assert "VACUUM" not in asked and sum("incremental_vacuum(64)" in sql for sql in asked) > 4


_OTHER = """
import sys, time, trio
from leeward.memory.audit import AuditLogger
from leeward.memory.database import Database, AsyncioThread
from leeward.memory.overflow import OverflowStore
from leeward.security.trust import Origin
from leeward.security.session import TurnStarted

class Clock:
    now = staticmethod(time.time)

async def main(path):
    async with AsyncioThread.open("s") as asyncio_thread, Database.open(path, asyncio_thread) as database:
        store, audit = OverflowStore(database, Clock()), AuditLogger(database, Clock())
        print("open", flush=True)
        number = 0
        while not sys.stdin.closed and number < 400:
            number += 1
            text = f"{number} " * 60_000
            key = await store.put("other", text, Origin.WEB)
            await audit.append("other", TurnStarted(float(number)))
            assert (await store.get("other", key, 0, len(text))).text == text
            if number == 3:
                print("busy", flush=True)
            if number > 3 and await trio.Path(path + ".stop").exists():
                break
        print(number, flush=True)

trio.run(main, sys.argv[1])
"""


def test_all_of_it_is_safe_while_another_process_writes(leeward, database):
    trio.run(keep, database, 8, NOISE)
    argv = [sys.executable, "-W", "error", "-c", _OTHER, str(database)]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as other:
        assert [other.stdout.readline().strip() for _ in range(2)] == ["open", "busy"]
        assert told(leeward, "prune")["overflow"]["texts"] == 1
        told(leeward, "vacuum")
        assert told(leeward, "status")["damage"] == []
        database.with_name("leeward.db.stop").touch()
        out, err = other.communicate(timeout=60)
        assert (other.returncode, err) == (0, "")
    count = int(out.split()[-1])
    assert told(leeward, "status")["overflow"]["texts"] == count
    with closing(sqlite3.connect(database)) as found:
        assert found.execute(
            "SELECT count(*) FROM audit WHERE session = 'other' AND kind = 'turn'"
        ).fetchone() == (count,)


def test_a_file_that_cannot_be_used_is_an_error_in_words(leeward, database):
    database.parent.mkdir(parents=True)
    with closing(sqlite3.connect(database)) as other:
        other.execute("CREATE TABLE of_another_program (x)")
        other.commit()
    ran = leeward("storage", "status", "--output", "json")
    assert (
        ran.code == 1
        and ran.json["error"]["code"] == "STORAGE_ERROR"
        and "another program" in ran.json["error"]["message"]
    )


def test_json_lines_say_the_same(leeward, database):
    trio.run(keep, database, 0, "one")
    lines = leeward("storage", "status", "--output", "jsonl").lines
    assert lines[0]["type"] == "storage" and lines[0]["overflow"]["texts"] == 1


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (1 << 30, "1.0 GiB"),
        (1 << 50, "1024.0 TiB"),
    ],
)
def test_sizes_are_said_as_people_read_them(size, said):
    assert size_text(size) == said


@pytest.mark.parametrize(
    ("seconds", "said"), [(-1, "0 s"), (59, "59 s"), (60, "1 min"), (7200, "2 h"), (3 * DAY, "3 d")]
)
def test_ages_are_said_as_people_read_them(seconds, said):
    assert _ago(seconds) == said


# ------------------------------------------------------------------ a real program that prints a lot

_MEASURED = """
import sys
from leeward.runtime.cli import main as cli
code = cli.run(sys.argv[1:])
with open("/proc/self/status") as status:
    (peak,) = (int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
print(code, peak // 1024, file=sys.stderr)
"""


def printed(leeward, mebibytes: int):
    """Let a program print so much, and return the result and the most memory (MiB) that the process had."""
    command = f"head -c {mebibytes}M /dev/zero | tr '\\0' 'x' | fold -w 99"
    words = ["call", "shell", json.dumps({"command": command}), "--output", "json", "--autonomy", "full"]
    argv = [sys.executable, "-c", _MEASURED, *words]
    done = subprocess.run(
        argv,
        env=leeward.environment,
        cwd=leeward.workspace,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    code, peak = done.stderr.split()[-2:]
    assert code == "0", done
    return json.loads(done.stdout)["data"], int(peak)


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
def test_what_a_program_prints_is_kept_and_never_held(leeward, database):
    leeward.configure("[tools.overflow]\nmax_overflow_bytes = 1000000000\n")
    _, little = printed(leeward, 1)
    result, much = printed(leeward, 64)
    assert much - little < 24, "64 times as much takes no more memory, but for what varies anyway"
    characters = 64 * 1024 * 1024 + 64 * 1024 * 1024 // 99
    assert f"the whole text, {characters} characters" in result["text"]
    with closing(sqlite3.connect(database)) as found:
        (size, lines) = found.execute(
            "SELECT bytes, lines FROM overflow WHERE id = ?", (result["overflow_id"],)
        ).fetchone()
    assert size == characters and lines == 64 * 1024 * 1024 // 99 + 1


# ------------------------------------------------------------------ real programs in a real session

SHELL = '[permissions]\nautonomy = "full"\nrules = [{ tool = "shell", action = "allow" }]\n'


async def ran(runtime, command: str):
    result = await runtime.call("shell", {"command": command})
    assert result.outcome.status is Status.OK, result
    return result


async def test_what_is_kept_is_listed_with_where_it_came_from(sessions, tmp_path):
    async with sessions.session(tmp_path, SHELL) as runtime:
        assert (await dispatch(runtime, parse("/overflow"))).text == "nothing was too long to show"
        result = await ran(runtime, "seq 1 30000")
        again = await ran(runtime, "seq 1 30000")
        (line,) = (await dispatch(runtime, parse("/overflow"))).text.splitlines()
        size = len("".join(f"{number}\n" for number in range(1, 30_001)))
        assert (
            line.startswith(f"{result.overflow_id}  {size} characters in 30000 lines, from ")
            and again.overflow_id == result.overflow_id
        )
        await runtime.new_session()
        assert (await dispatch(runtime, parse("/overflow"))).text == "nothing was too long to show"


async def test_binary_garbage_and_one_giant_line_are_kept_and_shown_safely(sessions, tmp_path):
    async with sessions.session(tmp_path, SHELL) as runtime:
        for command in (
            "head -c 1000000 /dev/urandom",
            "head -c 1000000 /dev/zero",
            "printf 'x%.0s' $(seq 1 200000)",
        ):
            result = await runtime.call("shell", {"command": command})
            assert (
                result.outcome.status is Status.OK and "\x1b" not in result.text and "\0" not in result.text
            )
            if result.overflow_id is not None:
                stored = await runtime.overflow.entry(runtime.session_id, result.overflow_id)
                page = await runtime.overflow.get(runtime.session_id, result.overflow_id, 0, stored.chars)
                assert len(page.text) == stored.chars and not set("\x1b\0\x9b\r") & set(page.text)


async def test_a_full_disk_costs_the_copy_and_not_the_call(sessions, tmp_path):
    async with sessions.session(tmp_path, SHELL) as runtime:
        ((pages,),) = await runtime.overflow._database.read("PRAGMA page_count")
        await runtime.overflow._database.read(f"PRAGMA max_page_count = {pages + 30}")
        (runtime.places.workspace / "noise.sh").write_text(
            "head -c 3000000 /dev/urandom | base64", encoding="utf-8"
        )
        result = await ran(runtime, "sh noise.sh")
        assert (
            "could not be stored: " in result.text
            and "the disk is full" in result.text
            and result.overflow_id is None
        )
        assert (await ran(runtime, "echo still here")).text.count("still here") >= 1


async def test_a_text_over_the_cap_is_kept_up_to_there_and_its_end_is_shown(sessions, tmp_path):
    async with sessions.session(
        tmp_path, SHELL + "[tools.overflow]\nmax_overflow_bytes = 200000\n"
    ) as runtime:
        result = await ran(runtime, "seq 1 100000")
        stored = await runtime.overflow.entry(runtime.session_id, result.overflow_id)
        assert 190_000 < stored.bytes <= 200_000
        assert (
            f"the first {stored.chars} characters" in result.text
            and "were dropped" in result.text
            and "\n100000\n" in result.text
        )


async def test_eight_programs_at_once_each_keep_their_own(sessions, tmp_path):
    async with sessions.session(tmp_path, SHELL) as runtime:
        found = {}

        async def one(number: int) -> None:
            found[number] = await ran(runtime, f"seq {number}00000 {number}30000")

        async with trio.open_nursery() as nursery:
            for number in range(1, 9):
                nursery.start_soon(one, number)
        for number, result in found.items():
            page = await runtime.overflow.get(runtime.session_id, result.overflow_id, 0, 10**7)
            assert page.text == "".join(
                f"{line}\n" for line in range(number * 100_000, number * 100_000 + 30_001)
            )


async def test_a_program_that_is_stopped_takes_along_what_it_had_printed(sessions, tmp_path):
    async with sessions.session(tmp_path, SHELL + "[tools.shell]\ntimeout = 6\n") as runtime:
        (runtime.places.workspace / "on.sh").write_text("seq 1 30000; sleep 60", encoding="utf-8")
        await ran(runtime, "true")  # the first command looks over the machine, and that can take long
        result = await runtime.call("shell", {"command": "sh on.sh"})
        assert result.outcome.status is Status.TIMEOUT
        assert "\n30000\n" in without_margins(result.text)
        assert (await runtime.overflow.entry(runtime.session_id, result.overflow_id)).lines == 30_000
