"""Measure MCP servers: the first call of a cold one, starts and calls, and how soon a stopped call is over.

    python bench/servers.py [STARTS | --smoke]

The server is that of the tests, in the sandbox that works here. Cold is a whole run of `leeward call` in an
empty home, from the start of the process to its exit. Then one runtime starts the server so often and calls
it; and a call that the server never answers is cancelled, as Ctrl-C does. The last line says how many
processes are left, which must be none.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio
from scale import scaled

from leeward import Runtime
from leeward.security.call import Status
from leeward.tools.process import descendants

_SERVER = Path(__file__).resolve().parents[1] / "tests" / "support" / "mcp_server.py"
_COLD = scaled(5, 1)
_STARTS = scaled(50, 2, 0)
_STOPS = scaled(20, 2)
_AIMS = {"cold": 2000, "stopped": 500}


def _settings(mode: str) -> str:
    command = json.dumps([sys.executable, "-S", str(_SERVER), mode])
    tools = "".join(
        f'[mcp.servers.a.tools.{name}]\neffects = ["read"]\narguments = {arguments}\n'
        for name, arguments in {"echo": '{ text = "text" }', "wait": "{}"}.items()
    )
    calls = max(_STARTS, _STOPS, 50)
    limits = f"max_tool_calls_per_turn = {calls}\nmax_tool_calls_per_session = {2 * calls}\n"
    return f"[agent]\n{limits}[mcp.servers.a]\ncommand = {command}\n{tools}"


def _spread(name: str, times: list[float]) -> None:
    took = sorted(one * 1e3 for one in times)
    aim = f", aim {_AIMS[name]}" if name in _AIMS else ""
    print(f"{name:<8} median {statistics.median(took):.1f} ms, slowest {took[-1]:.1f}{aim}")


def _cold() -> None:
    """Time whole runs, each with a home of its own."""
    times = []
    for _ in range(_COLD):
        with tempfile.TemporaryDirectory() as name:
            config = Path(name, ".config", "leeward", "config.toml")
            config.parent.mkdir(parents=True)
            config.write_text(_settings("plain"), encoding="utf-8")
            Path(name, "work").mkdir()
            leeward = str(Path(sys.executable).with_name("leeward"))
            where = {"cwd": Path(name, "work"), "env": {"HOME": name, "PATH": os.environ["PATH"]}}
            began = time.perf_counter()
            subprocess.run(
                [leeward, "call", "a__echo", '{"text": "x"}'], check=True, capture_output=True, **where
            )
            times.append(time.perf_counter() - began)
    _spread("cold", times)


@asynccontextmanager
async def _runtime(folder: str, mode: str) -> AsyncIterator[Runtime]:
    """Open a runtime with a server, in a home of its own."""
    os.environ |= {"HOME": folder, "XDG_DATA_HOME": f"{folder}/data"}
    config, work = trio.Path(folder, "config.toml"), trio.Path(folder, "work")
    await config.write_text(_settings(mode), encoding="utf-8")
    await work.mkdir()
    async with Runtime.open(model="offline", config=Path(config), workspace=str(work)) as runtime:
        yield runtime


async def _warm(folder: str) -> None:
    started, called = [], []
    async with _runtime(folder, "plain") as runtime:
        server = runtime.servers.servers["a"]
        for number in range(_STARTS):
            began = time.perf_counter()
            await server.refresh()
            started.append(time.perf_counter() - began)
            began = time.perf_counter()
            result = await runtime.call("a__echo", {"text": str(number)})
            called.append(time.perf_counter() - began)
            assert result.outcome.status is Status.OK, result.shown
            server.close()
    _spread("start", started)
    _spread("call", called)


async def _stopped(folder: str) -> None:
    times = []
    async with _runtime(folder, "hangs") as runtime:
        for _ in range(_STOPS):
            with trio.move_on_after(0.3) as scope:
                await runtime.call("a__wait", {"seconds": 3600})
            times.append(trio.current_time() - scope.deadline)
    _spread("stopped", times)


def main() -> int:
    """Print the figures."""
    _cold()
    for part in (_warm, _stopped):
        with tempfile.TemporaryDirectory() as folder:
            trio.run(part, folder)
    print(f"left     {len([*descendants(os.getpid(), 1000)])} processes")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
