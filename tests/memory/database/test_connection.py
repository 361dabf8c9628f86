"""The internals of aiosqlite that we rely on still exist and behave as assumed."""

from __future__ import annotations

import re
import sqlite3
import threading
from pathlib import Path
from queue import SimpleQueue

import aiosqlite

import leeward.memory
from leeward.memory.database import Database

MEMORY = Path(leeward.memory.__file__).parent
PRIVATE = re.compile(r"\bself\.(_[a-z]\w*)|\bdef (_[a-z]\w*)")


def theirs() -> set[str]:
    connection = aiosqlite.Connection(lambda: sqlite3.connect(":memory:"), iter_chunk_size=64)
    return {name for name in dir(connection) if not name.startswith("__")}


def test_only_the_queue_and_the_connection_within_are_used_of_aiosqlite_s_private_names() -> None:
    files = [path for path in MEMORY.rglob("*.py") if "aiosqlite" in path.read_text(encoding="utf-8")]
    importing = [path for path in files if "import aiosqlite" in path.read_text(encoding="utf-8")]
    assert [path.name for path in importing] == ["connection.py"]
    found = {name for pair in PRIVATE.findall(importing[0].read_text(encoding="utf-8")) for name in pair}
    assert found & theirs() == {"_tx", "_conn"}


async def test_what_is_put_into_the_queue_is_called_in_the_thread_with_sqlite_s_connection(
    database: Database,
) -> None:
    connection, told = database._writer.connection, SimpleQueue[tuple[object, threading.Thread]]()
    assert type(connection._tx) is SimpleQueue
    connection.start(lambda own: told.put((own, threading.current_thread())))
    own, thread = told.get(timeout=30)
    assert isinstance(own, sqlite3.Connection) and thread is connection._thread
