from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from leeward.memory.database import AsyncioThread, Database


class SetClock:
    """A clock that shows what it is set to."""

    def __init__(self) -> None:
        self.time = 1_000_000.0

    def now(self) -> float:
        return self.time


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
async def asyncio_thread() -> AsyncIterator[AsyncioThread]:
    async with AsyncioThread.open("test") as asyncio_thread:
        yield asyncio_thread


@pytest.fixture
async def database(asyncio_thread: AsyncioThread, tmp_path: Path) -> AsyncIterator[Database]:
    async with Database.open(tmp_path / "store.db", asyncio_thread, busy_seconds=0.1) as database:
        yield database
