"""Measure the cost of a long output: disk space, bytes written, memory and time. Prints a table.

    python bench/overflow.py [MEBIBYTES | --smoke]

A real program prints text, logs, random bytes and data that hardly compresses through the tool `shell`, each
in a fresh process; the last line is a gigabyte of logs. Counted are the bytes handed to the system for
writing (`wchar` of /proc/self/io, so SQLite's log as well as the file; what the program itself writes into
its pipe is not included, because the supervisor of its session started it), and the size of the file once it
is closed. The aims are 1.2 bytes on disk and 3 bytes written for each byte of output.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trio
from scale import SMOKE, scaled

from leeward.runtime.app import Runtime
from leeward.runtime.config import Locations, load
from leeward.security.ports import Answer

_MIB = 1024 * 1024
_SAMPLE = scaled(8, 1) * _MIB
_SOURCES = Path(os.__file__).parent
_AIMS = (1.2, 3.0)
_HEADS = ("MiB", "disk/byte", "written/byte", "written/stored", "peak MiB", "MiB/s")

Told = dict[str, Any]


def _text() -> bytes:
    found = bytearray()
    for path in sorted(_SOURCES.glob("*.py")):
        found += path.read_bytes()
    return bytes(found)


def _logs() -> bytes:
    lines = (
        f"2026-01-{at % 28 + 1:02}T{at % 24:02}:{at % 60:02}:{at * 7 % 60:02}.{secrets.randbelow(999):03}Z"
        f" INFO worker-{at % 16} request={secrets.token_hex(4)} path=/api/v1/items/{secrets.randbelow(999)}"
        f" status={secrets.choice((200, 200, 200, 404, 500))} took={secrets.randbelow(900)}ms\n"
        for at in range(_SAMPLE // 110)
    )
    return "".join(lines).encode()


def _random() -> bytes:
    return os.urandom(_SAMPLE)


def _base64() -> bytes:
    return base64.encodebytes(os.urandom(_SAMPLE * 3 // 4))


_KINDS: dict[str, Callable[[], bytes]] = {"text": _text, "logs": _logs, "random": _random, "base64": _base64}


class _Yes:
    """Whoever sits at the bench wants it to run."""

    async def ask(self, _question: object) -> Answer:
        await trio.lowlevel.checkpoint()
        return Answer.YES


def _written() -> int:
    counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counts["wchar"])


def _peak() -> int:
    """Return the most memory this process had; what `getrusage` says begins with that of its parent."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) * 1024


async def _measured(folder: Path, sample: Path, times: int) -> Told:
    """Print a sample so often, keep it, and tell what that cost."""
    where = Locations(folder / "work", folder, folder / "config", folder / "data", folder / "data/leeward.db")
    for made in (where.workspace, where.config):
        made.mkdir()
    # A program sees nothing else of the folder for temporary files.
    shutil.copy(sample, where.workspace)
    limits = f"overflow = {{ max_overflow_bytes = 0, max_total_bytes = {1 << 40} }}"
    text = f"[tools]\n{limits}\nshell.timeout = 3600\nshell.checkpoints = false\n"
    (where.config / "config.toml").write_text(text, encoding="utf-8")
    loaded = load(config_dir=where.config, environment={})
    async with Runtime.open(loaded, places=where, approver=_Yes()) as runtime:
        written, began = _written(), time.perf_counter()
        result = await runtime.call("shell", {"command": f"cat {' '.join([sample.name] * times)}"})
        seconds = time.perf_counter() - began
        if result.overflow_id is None:
            raise SystemExit(result.shown)
        entry = await runtime.overflow.entry(runtime.session_id, result.overflow_id)
    kept = sum(path.stat().st_size for path in where.database.parent.glob("leeward.db*"))
    return {
        "stored": entry.stored,
        "disk": kept,
        "written": _written() - written,
        "seconds": seconds,
        "peak": _peak(),
    }


def _fresh(sample: Path, times: int) -> Told:
    """Measure in a process of its own."""
    command = [sys.executable, __file__, "--measure", str(sample), str(times)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    found: Told = json.loads(done.stdout)
    return found


def main() -> int:
    """Print a line for each kind of output, and for a gigabyte."""
    words = sys.argv[1:]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if words[:1] == ["--measure"]:
            print(json.dumps(trio.run(_measured, folder, Path(words[1]), int(words[2]))))
            return 0
        size = scaled(32, 1, 0) * _MIB
        print(("{:<8}" + "{:>16}" * 6).format("output", *_HEADS))
        is_met = True
        for kind, least in (*((kind, size) for kind in _KINDS), ("logs", scaled(1024, 1) * _MIB)):
            sample = folder / kind
            sample.write_bytes(_KINDS[kind]())
            times = -(-least // sample.stat().st_size)
            output, found = times * sample.stat().st_size, _fresh(sample, times)
            written = found["written"]
            figures = [output / _MIB, found["disk"] / output, written / output, written / found["stored"]]
            is_met = is_met and figures[1] <= _AIMS[0] and figures[2] <= _AIMS[1]
            figures += [found["peak"] / _MIB, output / _MIB / found["seconds"]]
            print(("{:<8}" + "{:>16.3f}" * 6).format(kind, *figures))
    # What a database takes that holds nothing counts for too much of the little there is in it.
    return 0 if is_met or SMOKE else 1


if __name__ == "__main__":
    raise SystemExit(main())
