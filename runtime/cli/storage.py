"""`leeward storage`: report what is stored and its size, delete what is too old, and free disk space.

Other sessions may be running meanwhile, in this process or in others: everything is done in short
transactions, and nothing is deleted that somebody has open.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from leeward.memory.database import Database, StorageStatus, TableSize, Upkeep
from leeward.memory.overflow import OverflowStore
from leeward.security.kinds import Json
from leeward.tools.process import size_text

from ..clock import SystemClock
from ..console import Startup, look
from ..exits import CliError, Exit
from ..options import Options
from ..printer import Printer, plain
from ..sessions import SessionStore, expire
from ..storage import audit_of, open_storage

__all__ = ["storage"]

_DAY = 86_400


async def storage(options: Options, printer: Printer) -> Exit:
    """Say what is kept, clean it up, or give back what is free.

    Raises:
        CliError: no age was given for the audit's records.
        RecordError: the database cannot be read or written.
    """
    start = look(options)
    path = start.places.database
    if options.action == "prune" and "audit" in options.kept and options.older_than is None:
        why = "to delete audit records, give their age"
        raise CliError(Exit.ARG_ERROR, "ARG_ERROR", why, suggestion="--audit --older-than DAYS")
    if not path.exists():
        # Looking makes no database, and where there is none, there is nothing to clean up.
        printer.answer(f"there is no database yet at {plain(str(path))}\n")
        return _print(printer, {"path": str(path), "exists": False})
    async with open_storage(path) as database:
        for notice in database.take_notices():
            printer.warn(notice)
        match options.action:
            case "prune":
                answer = await _prune(options, start, database)
                lines = list(_pruned_lines(answer))
            case "vacuum":
                freed = await Upkeep(database).vacuum()
                answer, lines = {"freed_bytes": freed}, [f"{size_text(freed)} given back"]
            case _:
                status = await Upkeep(database).status()
                answer = _status_json(status, path, start)
                lines = list(_status_lines(status, path, start))
    printer.answer("".join(f"{plain(line)}\n" for line in lines))
    return _print(printer, answer)


def _print(printer: Printer, answer: dict[str, Json]) -> Exit:
    printer.event({"schema": 1, "type": "storage", **answer})
    return printer.finish(Exit.SUCCESS, answer)


async def _prune(options: Options, start: Startup, database: Database) -> dict[str, Json]:
    """Delete what is older than the given age, or than the configuration keeps it."""
    config, clock = start.loaded.config, SystemClock()
    kinds = options.kept or ("overflow", "transcripts")
    answer: dict[str, Json] = {}
    if "overflow" in kinds:
        limits = config.tools.overflow
        days = limits.retention_days if options.older_than is None else options.older_than
        pruned = await OverflowStore(database, clock, limits.max_total_bytes).prune(days)
        answer["overflow"] = {"texts": pruned.texts, "bytes": pruned.bytes}
    audit = audit_of(database, clock, start.loaded, start.places)
    if "transcripts" in kinds:
        days = config.memory.retention_days if options.older_than is None else options.older_than
        kept = SessionStore.of(database, clock, audit, config)
        answer["transcripts"] = {"sessions": await expire(kept, days)}
    if "audit" in kinds and options.older_than is not None:
        heads = await audit.heads(clock.now() - options.older_than * _DAY, 1)
        answer["audit"] = {"records": await audit.prune(heads[0]) if heads else 0, "at_a_head": bool(heads)}
    return answer


def _pruned_lines(answer: dict[str, Json]) -> Iterator[str]:
    match answer.get("overflow"):
        case {"texts": int() as texts, "bytes": int() as size}:
            yield f"outputs deleted: {texts}, {size_text(size)}"
    match answer.get("transcripts"):
        case {"sessions": int() as sessions}:
            yield f"sessions deleted: {sessions}"
    match answer.get("audit"):
        case {"at_a_head": False}:
            yield "audit records deleted: none; there is no signed head of that age to cut at"
        case {"records": int() as records}:
            yield f"audit records deleted: {records}"
    yield "leeward storage vacuum returns the space to the disk"


def _status_json(status: StorageStatus, path: Path, start: Startup) -> dict[str, Json]:
    kept = status.kept
    return {
        "path": str(path),
        "exists": True,
        "file_bytes": status.file_bytes,
        "log_bytes": status.log_bytes,
        "free_bytes": status.free_pages * status.page_size,
        "tables": [_table_json(table) for table in status.tables],
        "overflow": {
            "texts": kept.texts,
            "unfinished": kept.unfinished,
            "bytes": kept.bytes,
            "stored_bytes": kept.stored,
            "disk_bytes": kept.disk_bytes,
            "max_total_bytes": start.loaded.config.tools.overflow.max_total_bytes,
            "written_per_stored_byte": status.written_per_byte,
        },
        "damage": list(status.damage),
    }


def _table_json(table: TableSize) -> dict[str, Json]:
    return {
        "name": table.name,
        "rows": table.rows,
        "bytes": table.bytes,
        "oldest": table.oldest,
        "newest": table.newest,
    }


def _status_lines(status: StorageStatus, path: Path, start: Startup) -> Iterator[str]:
    free, kept = status.free_pages * status.page_size, status.kept
    yield f"{path}"
    file, log = size_text(status.file_bytes), size_text(status.log_bytes)
    yield f"file {file}, of which {size_text(free)} free; log {log}"
    yield f"{'table':<24} {'rows':>10} {'on disk':>10}  age"
    for table in status.tables:
        size = "?" if table.bytes is None else size_text(table.bytes)
        yield f"{table.name:<24} {table.rows:>10} {size:>10}  {_age(table)}".rstrip()
    stored, most = size_text(kept.stored), size_text(start.loaded.config.tools.overflow.max_total_bytes)
    yield f"outputs: {kept.texts}, {size_text(kept.bytes)}, kept in {stored} of at most {most}"
    if kept.unfinished:
        yield f"outputs being written or left unfinished: {kept.unfinished}"
    if (written := status.written_per_byte) is not None:
        yield f"written for each stored byte of them: {written:.2f}, at least"
    yield from (f"damaged: {line}" for line in status.damage)
    if not status.damage:
        yield "integrity: ok"


def _age(table: TableSize) -> str:
    if table.oldest is None or table.newest is None:
        return ""
    now = time.time()
    return f"{_ago(now - table.newest)} to {_ago(now - table.oldest)}"


def _ago(seconds: float) -> str:
    for unit, size in (("d", _DAY), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"
