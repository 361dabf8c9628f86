"""Report the size and integrity of the database file, and return its free pages to the file system.

Nothing here deletes a row. What may be deleted is decided by the owner of the data: outputs in
`overflow/retention.py`, sessions in `sessions/catalog.py`, records of the audit in `audit/signer.py`.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import trio

from leeward.security.lazy import dataclass
from leeward.security.ports import RecordError

from .database import Database

__all__ = ["KeptTexts", "StorageStatus", "TableSize", "Upkeep"]

# In SQLite's log a page has a header of 24 bytes; it is written there first, and then into the file.
_FRAME_HEADER = 24

# How many pages one step gives back: no record of the audit waits for much more than one transaction.
_PAGES_AT_ONCE = 64

_INCREMENTAL = 2
_TABLES = (
    "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' AND rootpage > 0"
    " ORDER BY name"
)
_BYTES = (
    "SELECT tbl_name, sum(pgsize) FROM dbstat JOIN sqlite_master USING (name)"
    " WHERE aggregate = 1 GROUP BY tbl_name"
)
_TIME_COLUMN = (
    "SELECT name FROM pragma_table_info(?) WHERE name IN ('at', 'stored_at', 'started') AND type = 'REAL'"
)
_PAGES = (
    "SELECT page_size, page_count, freelist_count, auto_vacuum"
    " FROM pragma_page_size, pragma_page_count, pragma_freelist_count, pragma_auto_vacuum"
)
_TEXTS = (
    "SELECT count(id), coalesce(sum(bytes), 0), coalesce(sum(stored), 0),"
    " count(*) FILTER (WHERE id IS NULL) FROM overflow"
)


@dataclass(frozen=True, slots=True)
class TableSize:
    """A table with its indexes: bytes on disk (None where SQLite cannot tell), and the ages (epoch) in it."""

    name: str
    rows: int
    bytes: int | None
    oldest: float | None
    newest: float | None


@dataclass(frozen=True, slots=True)
class KeptTexts:
    """The outputs that are kept: how many, their own bytes, and those they take once compressed.

    `unfinished` counts those that are being written, or were left half written. `disk_bytes` is what
    the pages of their tables take, None where SQLite cannot tell.
    """

    texts: int
    bytes: int
    stored: int
    unfinished: int
    disk_bytes: int | None


@dataclass(frozen=True, slots=True)
class StorageStatus:
    """What there is to know of the file; `damage` is what SQLite finds wrong with it, in its own words."""

    file_bytes: int
    log_bytes: int
    page_size: int
    pages: int
    free_pages: int
    tables: tuple[TableSize, ...]
    kept: KeptTexts
    damage: tuple[str, ...]

    @property
    def written_per_byte(self) -> float | None:
        """Bytes written for each stored byte of the outputs, at least.

        Each page goes into the log and from there into the file, once; those that several transactions
        share are written again for each, which only a measurement can tell (`bench/overflow.py`).
        """
        if not self.kept.stored or self.kept.disk_bytes is None:
            return None
        return self.kept.disk_bytes / self.kept.stored * (2 + _FRAME_HEADER / self.page_size)


class Upkeep:
    """Looks at the file as a whole, and gives back what is free of it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def status(self) -> StorageStatus:
        """Return what there is to know; nothing is changed.

        Raises:
            RecordError: it could not be read.
        """
        damage = await self._database.integrity()
        sizes = await self._bytes_by_table()
        tables = [await self._table(name, sizes) for (name,) in await self._database.read(_TABLES)]
        ((page_size, pages, free, _),) = await self._database.read(_PAGES)
        ((texts, size, stored, unfinished),) = await self._database.read(_TEXTS)
        on_disk = [taken for name, taken in sizes.items() if name.startswith("overflow")]
        kept = KeptTexts(texts, size, stored, unfinished, sum(on_disk) if sizes else None)
        log = self._database.path.with_name(f"{self._database.path.name}-wal")
        return StorageStatus(
            file_bytes=await _size(self._database.path),
            log_bytes=await _size(log),
            page_size=page_size,
            pages=pages,
            free_pages=free,
            tables=tuple(tables),
            kept=kept,
            damage=tuple(damage),
        )

    async def vacuum(self) -> int:
        """Give the free pages back to the file system, a few at a time, and return how many bytes that were.

        A file that was made before this was possible is rewritten as a whole, once.

        Raises:
            RecordError: it could not be done, or not to its end.
        """
        before = await _size(self._database.path)
        ((_, _, free, mode),) = await self._database.read(_PAGES)
        if mode != _INCREMENTAL:
            await self._database.read(f"PRAGMA auto_vacuum = {_INCREMENTAL}")
            await self._database.read("VACUUM")
            free = 0
        while free:
            await self._database.read(f"PRAGMA incremental_vacuum({_PAGES_AT_ONCE})")
            ((_, _, left, _),) = await self._database.read(_PAGES)
            if left >= free:
                break
            free = left
        # Only now the file gets shorter; where another process reads in the log, it does that later.
        await self._database.read("PRAGMA wal_checkpoint(TRUNCATE)")
        return max(0, before - await _size(self._database.path))

    async def _bytes_by_table(self) -> dict[str, int]:
        """Return how many bytes the pages of each table take; nothing where this SQLite cannot tell."""
        with suppress(RecordError):
            return dict(await self._database.read(_BYTES))
        return {}

    async def _table(self, name: str, sizes: dict[str, int]) -> TableSize:
        ((rows,),) = await self._database.read(f'SELECT count(*) FROM "{name}"')  # noqa: S608 - a name of ours
        oldest = newest = None
        for (column,) in await self._database.read(_TIME_COLUMN, (name,)):
            query = f'SELECT min("{column}"), max("{column}") FROM "{name}"'  # noqa: S608 - names of ours
            ((oldest, newest),) = await self._database.read(query)
        return TableSize(name, rows, sizes.get(name), oldest, newest)


async def _size(path: Path) -> int:
    try:
        return (await trio.Path(path).stat()).st_size
    except FileNotFoundError:
        return 0
