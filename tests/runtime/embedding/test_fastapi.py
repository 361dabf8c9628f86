"""The FastAPI example under a real uvicorn: clients come and leave, and nothing of them stays behind."""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import sqlite3
import threading
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path

import pytest
import trio
import uvicorn

import leeward.aio
from leeward import Effect, tool
from leeward.runtime.embedding import portal
from leeward.runtime.providers.interface import CallRequested, Stopped, StopReason, TextDelta
from loading import load_module

ROOT = Path(__file__).parents[3]
HELD = load_module(Path(__file__).parents[1] / "sessions.py")
KINDS = ("run", "hang", "talk", "say")
CONFIG = {"tools": {"sandbox": {"level": "none"}}, "permissions.autonomy": "full"}


class Model:
    """Does what the message names: runs a command, calls a tool that hangs, talks for long, or answers."""

    name = "kinds"

    @asynccontextmanager
    async def stream(self, request):
        yield self._events(request)

    async def _events(self, request):
        await trio.lowlevel.checkpoint()
        kind, _, number = request.messages[-1].text.partition(" ")
        if kind == "run":
            line = f"echo $$ > pid-{number}; sleep 1000 & sleep 1000"
            yield CallRequested(HELD.called("shell", {"command": line}))
        elif kind == "hang":
            yield CallRequested(HELD.called("hang", {}))
        for piece in range(10_000 if kind == "talk" else 1):
            yield TextDelta(f"{kind} {piece} {'x' * 20_000}\n")
            await trio.sleep(0.002)
        yield Stopped(StopReason.STOP)


@tool(effects=Effect.READ)
async def hang() -> str:
    """Never return."""
    await trio.sleep_forever()
    return ""


async def watched(app, folder, left, scope, receive, send):
    """Add the session of a response to `left` where the response is over before it."""
    sessions = []

    async def sent(message):
        if body := message.get("body"):
            first = json.loads(body)
            sessions.extend([first["session"]] if "session" in first else [])
        await send(message)

    await app(scope, receive, sent)
    ended = {session for session, _, kind, _ in records(folder) if kind == "ended"} if sessions else set()
    left.extend({*sessions} - ended)


@asynccontextmanager
async def served(folder, **options):
    """The example at work; leaving the block shuts it down as a signal would."""
    example = load_module(ROOT / "examples" / "fastapi_service.py")
    places = HELD.places(folder)
    app = example.make_app(places=places, provider=Model(), executors=[hang], config=CONFIG)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(
            partial(watched, app, folder, left := []),
            interface="asgi3",
            lifespan="on",
            log_level="error",
            **options,
        )
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve([listener]))
        while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.01)
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            await serving
        assert left == [], "a response is over with its session, however the client left"


@asynccontextmanager
async def posted(port: int, text: str):
    """A request under way, and its lines as they come."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = json.dumps({"text": text}).encode()
    head = f"POST /turns HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    writer.write(f"{head}\r\nConnection: close\r\n\r\n".encode() + body)
    try:
        yield reader, writer
    finally:
        writer.close()


def pid_file(folder: Path, text: str) -> Path:
    """Where the command that a message names writes its process id."""
    return HELD.places(folder).workspace / f"pid-{text.split()[1]}"


def records(folder: Path) -> list[tuple[str, str | None, str, dict]]:
    """All records as (session, call, kind, body)."""
    with closing(sqlite3.connect(HELD.places(folder).database)) as database:
        rows = database.execute("SELECT session, call, kind, body FROM audit ORDER BY seq").fetchall()
    return [(session, call, kind, json.loads(body)) for session, call, kind, body in rows]


def processes_in(folder: Path) -> list[str]:
    """The command lines of all processes that work in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            where = (process / "cwd").readlink()
            if where.is_relative_to(folder):
                found.append((process / "cmdline").read_bytes().decode())
        except OSError:
            continue
    return found


def nothing_is_left(folder: Path, threads: set[threading.Thread]) -> None:
    """Hold that no process and no thread stays, and that each call that was let run has one outcome."""
    assert processes_in(folder) == []
    assert portal._portal is None
    for thread in set(threading.enumerate()) - threads:
        # One that trio keeps for later, idle for ten seconds at most, has this name; one at work another.
        if not thread.name.startswith("Trio thread "):
            thread.join(5)
            assert not thread.is_alive(), thread
    found = records(folder)
    allowed = [call for _, call, kind, body in found if kind == "decision" and body["allowed"]]
    assert sorted(allowed) == sorted(call for _, call, kind, _ in found if kind == "outcome")
    begun = {session for session, _, kind, _ in found if kind == "session"}
    assert begun == {session for session, _, kind, _ in found if kind == "ended"}


def test_an_answer_is_streamed_as_json_lines(tmp_path):
    async def client():
        async with served(tmp_path) as port, posted(port, "say it") as (reader, _):
            return (await reader.read()).decode()

    threads = set(threading.enumerate())
    answer = asyncio.run(client())
    lines = [json.loads(line) for line in answer.splitlines() if line.startswith("{")]
    assert "application/x-ndjson" in answer
    assert [line["type"] for line in lines] == ["session", "text", "end"]
    assert lines[0]["session"] in {session for session, *_ in records(tmp_path)}
    nothing_is_left(tmp_path, threads)


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 12))])
def test_twenty_clients_disconnect_at_random(tmp_path, seed):
    chance = random.Random(seed)
    # What is asked for, how many lines are awaited, how many seconds more, and how the client leaves then.
    plans = [
        (f"{kind} {number}", lines, chance.random() / 3, chance.choice(["reset", "close", "stall"]))
        for number, (kind, lines) in enumerate([(kind, lines) for kind in KINDS for lines in (0, 0, 1, 2, 2)])
    ]

    async def client(port, text, lines, seconds, leaves):
        async with posted(port, text) as (reader, writer):
            if text.startswith("say"):
                return (await reader.read()).count(b'"type": "end"')
            seen = 0
            while seen < lines:
                seen += (await reader.readline()).startswith(b"{")
            while text.startswith("run") and lines == 2 and not pid_file(tmp_path, text).exists():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            # Who does not read fills the connection up: the server waits in `send` then, not for an event.
            reading = asyncio.create_task(reader.read()) if leaves != "stall" else None
            await asyncio.sleep(seconds)
            if leaves == "reset":
                writer.transport.abort()
            if reading is not None:
                reading.cancel()
            return 0

    async def clients():
        async with served(tmp_path) as port:
            ended = await asyncio.gather(*(client(port, *plan) for plan in plans))
            # What a client leaves behind ends at once, not with the service, which has three tasks itself.
            async with asyncio.timeout(20):
                while processes_in(tmp_path) or len(asyncio.all_tasks()) > 3:
                    await asyncio.sleep(0.02)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return ended

    threads = set(threading.enumerate())
    assert sum(asyncio.run(clients())) == 5
    nothing_is_left(tmp_path, threads)
    statuses = [body["status"] for _, _, kind, body in records(tmp_path) if kind == "outcome"]
    assert {*statuses} == {"cancelled"} and len(statuses) >= 2, "two waited until their command had begun"


def test_the_service_is_ended_while_clients_wait(tmp_path):
    async def clients():
        async with (
            served(tmp_path, timeout_graceful_shutdown=0.2) as port,
            posted(port, "run 1"),
            posted(port, "hang 1"),
        ):
            while not pid_file(tmp_path, "run 1").exists():  # noqa: ASYNC110 - a program writes it
                await asyncio.sleep(0.01)

    threads = set(threading.enumerate())
    asyncio.run(clients())
    nothing_is_left(tmp_path, threads)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file(tmp_path, "run 1").read_text()), 0)


def test_a_client_that_leaves_while_a_line_is_sent_ends_its_turn(tmp_path):
    """As servers of ASGI 2.4 tell it: `send` fails, and the generator waits for nothing."""
    example = load_module(ROOT / "examples" / "fastapi_service.py")
    sent = []

    async def send(message):
        sent.append(message)
        if len(sent) == 3:
            raise OSError("the client has left")

    async def program():
        options = {"places": HELD.places(tmp_path), "provider": Model(), "config": CONFIG}
        async with leeward.aio.Runtime.open(**options) as runtime:
            lines = example.answer(runtime, "talk 1")
            with pytest.raises(Exception, check=lambda error: type(error).__name__ == "ClientDisconnect"):
                await example.TurnResponse(lines)(
                    {"type": "http", "asgi": {"spec_version": "2.4"}}, None, send
                )
            session = json.loads(sent[1]["body"])["session"]
            assert (session, "ended") in {(of, kind) for of, _, kind, _ in records(tmp_path)}

    threads = set(threading.enumerate())
    asyncio.run(program())
    nothing_is_left(tmp_path, threads)
