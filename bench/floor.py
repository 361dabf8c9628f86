"""Measure the least an agent can cost: a bare loop over httpx or h11 on trio.

    python bench/floor.py httpx|h11 URL MODEL [CONVERSATIONS]

Asks the server in `model_server.py`, streams the reply, runs the one function it may ask for, which does
nothing, and asks again. No gates, no record, no retries, no checks. Prints what it measured as JSON.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import h11
import httpx
import trio

__all__ = ["Conversation", "measure_floor"]

TOOL = {
    "type": "function",
    "function": {
        "name": "nothing",
        "description": "Do nothing.",
        "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    },
}
Ask = Callable[[bytes], AsyncIterator[bytes]]


class Conversation:
    """One conversation: the messages, the text, and how long (CPU and wall, in seconds) each step took."""

    def __init__(self, model: str) -> None:
        self.model = model
        self.messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
        self.text: list[str] = []
        self.marks: list[tuple[float, float]] = []

    async def hold(self, ask: Ask) -> None:
        """Ask and answer until the model wants nothing more."""
        calls = True
        while calls:
            calls = await self._step(ask)
            self.marks.append((time.process_time(), time.perf_counter()))

    async def _step(self, ask: Ask) -> bool:
        body = {"model": self.model, "stream": True, "messages": self.messages, "tools": [TOOL]}
        calls: list[dict[str, Any]] = []
        rest = b""
        async for piece in ask(json.dumps(body).encode()):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                if line.startswith(b"data: {"):
                    self._read(json.loads(line[6:]), calls)
        if calls:
            self.messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        for call in calls:
            result = _nothing(**json.loads(call["function"]["arguments"]))
            self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
        return bool(calls)

    def _read(self, chunk: dict[str, Any], calls: list[dict[str, Any]]) -> None:
        for choice in chunk["choices"]:
            delta = choice["delta"]
            if text := delta.get("content"):
                self.text.append(text)
            calls.extend(delta.get("tool_calls", ()))


def _nothing(n: int) -> str:
    return str(n)


async def _over_httpx(url: str, hold: Callable[[Ask], Awaitable[None]]) -> None:
    async with httpx.AsyncClient(timeout=60, limits=httpx.Limits(max_connections=None)) as client:

        async def ask(body: bytes) -> AsyncIterator[bytes]:
            headers = {"content-type": "application/json"}
            async with client.stream(
                "POST", f"{url}/chat/completions", content=body, headers=headers
            ) as reply:
                async for piece in reply.aiter_bytes():
                    yield piece

        await hold(ask)


async def _over_h11(url: str, hold: Callable[[Ask], Awaitable[None]]) -> None:
    parts = urlsplit(url)
    stream = await trio.open_tcp_stream(parts.hostname or "", parts.port or 80)
    connection = h11.Connection(h11.CLIENT)

    async def ask(body: bytes) -> AsyncIterator[bytes]:
        headers = [
            ("host", parts.netloc),
            ("content-length", str(len(body))),
            ("content-type", "application/json"),
        ]
        head = h11.Request(method="POST", target=f"{parts.path}/chat/completions", headers=headers)
        sent = [connection.send(event) or b"" for event in (head, h11.Data(data=body), h11.EndOfMessage())]
        await stream.send_all(b"".join(sent))
        while not isinstance(event := connection.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                connection.receive_data(await stream.receive_some())
            elif isinstance(event, h11.Data):
                yield bytes(event.data)
        connection.start_next_cycle()

    async with stream:
        await hold(ask)


async def measure_floor(transport: str, url: str, model: str, count: int = 1) -> list[Conversation]:
    """Hold so many conversations at once; over httpx they share a client, over h11 each has a connection."""
    conversations = [Conversation(model) for _ in range(count)]

    async def all_at_once(ask: Ask) -> None:
        async with trio.open_nursery() as nursery:
            for conversation in conversations:
                nursery.start_soon(conversation.hold, ask)

    if transport == "httpx":
        await _over_httpx(url, all_at_once)
    else:
        async with trio.open_nursery() as nursery:
            for conversation in conversations:
                nursery.start_soon(_over_h11, url, conversation.hold)
    return conversations


def main() -> int:
    """Hold conversations as the command line says, and print what they took."""
    transport, url, model, *count = sys.argv[1:]
    cpu, wall = time.process_time(), time.perf_counter()
    held = trio.run(measure_floor, transport, url, model, int(count[0]) if count else 1)
    told = {
        "cpu": time.process_time() - cpu,
        "wall": time.perf_counter() - wall,
        "peak_kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        "marks": held[0].marks,
        "text": sum(map(len, held[0].text)),
        "steps": sum(len(one.marks) for one in held),
    }
    print(json.dumps(told))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
