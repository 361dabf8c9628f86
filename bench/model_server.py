"""A model server on loopback that always gives the same reply, to measure clients.

    python bench/model_server.py            prints its base URL on a line and serves until it is ended

Standard library only, so that any client can be compared with it. What it answers is told by the name
of the model, and by nothing but the number of tool results that a request holds:

    answer              one short text
    stream-N            N pieces of text, " token" each, one event and one HTTP chunk for each
    steps-N:TOOL        a call of TOOL with {"n": k}, k the results so far, until there are N; then a text

Every reply is streamed and ends with usage (a token for each four bytes of the request) and [DONE].
`GET /v1/models` lists "answer". Connections are kept open. Nothing is checked and nothing is stored.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator

__all__ = ["main"]

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_MODEL = re.compile(rb'"model"\s*:\s*"([^"]+)"')
_RESULT = re.compile(rb'"role"\s*:\s*"tool"')
_LENGTH = re.compile(rb"(?i)\r\ncontent-length:\s*(\d+)")
_PER_WRITE = 64  # chunks that go out together, as a network would bring them


def _event(data: object) -> bytes:
    body = b"data: " + (data if isinstance(data, bytes) else json.dumps(data).encode()) + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(body), body)


def _chunk(delta: dict[str, object], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return _event({"id": "chatcmpl-0", "object": "chat.completion.chunk", "model": "m", "choices": [choice]})


_FIRST, _TOKEN = _chunk({"role": "assistant", "content": ""}), _chunk({"content": " token"})
_LAST = _event(b"[DONE]") + b"0\r\n\r\n"


def _pieces(model: str, results: int) -> Iterator[bytes]:
    """Yield what a model says to a request that holds so many results of tools."""
    kind, _, rest = model.partition("-")
    if kind == "stream":
        yield from (_TOKEN for _ in range(int(rest)))
    count, _, tool = rest.partition(":")
    if kind == "steps" and results < int(count):
        function = {"name": tool, "arguments": json.dumps({"n": results})}
        yield _chunk(
            {"tool_calls": [{"index": 0, "id": f"call_{results}", "type": "function", "function": function}]}
        )
        yield _chunk({}, "tool_calls")
        return
    yield _chunk({"content": "Done."})
    yield _chunk({}, "stop")


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = _LENGTH.search(head)
            body = await reader.readexactly(int(length[1])) if length else b""
            await _answer(writer, head, body)
    except (asyncio.IncompleteReadError, ConnectionError):
        return
    finally:
        writer.close()


async def _answer(writer: asyncio.StreamWriter, head: bytes, body: bytes) -> None:
    if head.startswith(b"GET"):
        page = b'{"data": [{"id": "answer"}]}'
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(page)
            + page
        )
        return
    named = _MODEL.search(body)
    waiting = [_HEAD, _FIRST]
    for piece in _pieces(named[1].decode() if named else "answer", len(_RESULT.findall(body))):
        waiting.append(piece)
        if len(waiting) >= _PER_WRITE:
            writer.write(b"".join(waiting))
            waiting.clear()
            await writer.drain()
    usage = {"prompt_tokens": len(body) // 4, "completion_tokens": 7}
    writer.write(b"".join([*waiting, _event({"choices": [], "usage": usage}), _LAST]))
    await writer.drain()


async def main() -> None:
    """Serve on a free port of 127.0.0.1 until the process is ended."""
    server = await asyncio.start_server(_serve, "127.0.0.1", 0, limit=64 * 1024 * 1024, backlog=1024)
    host, port = server.sockets[0].getsockname()
    print(f"http://{host}:{port}/v1", flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
