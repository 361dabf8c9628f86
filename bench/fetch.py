"""Measure what the guarded HTTP client costs beside a bare one.

Opens the same small page on the same loopback server, over TLS and one kept connection, and prints requests
per second, CPU per request and the ratio to a bare httpcore client for: the client with its judged address,
checked peer and bounded body; a whole call through the pipeline, with an audit that keeps nothing; and the
same with the durable audit. The server runs in a process of its own.
"""

from __future__ import annotations

import multiprocessing
import ssl
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeAlias

import httpcore
import trio
import trustme
from scale import scaled
from silent import NoAudit, Silent

from leeward.memory.audit import AuditLogger
from leeward.memory.database import AsyncioThread, Database
from leeward.memory.overflow import OverflowStore
from leeward.security.call import ToolCall
from leeward.security.pipeline import Pipeline
from leeward.security.policy import CallLimits, Policy
from leeward.security.ports import Audit, Ports
from leeward.security.session import Session, UrlsAdded
from leeward.security.url import Provenance, Url, parse_url
from leeward.tools.composite import CompositeExecutor
from leeward.tools.http.client import Client, tls_context
from leeward.tools.http.dial import GuardedBackend
from leeward.tools.http.fetch import Fetcher
from leeward.tools.survey import Surveyor

Steps: TypeAlias = Mapping[str, Callable[[int], Awaitable[object]]]

ROUNDS = scaled(15, 1)
REQUESTS = scaled(100, 10)
PAGE = b"Hello, world.\n" * 150


async def loopback(_host: str, _port: int) -> Sequence[str]:
    """Resolve every name to loopback."""
    return ("127.0.0.1",)


def serve(folder: str, ready: Connection) -> None:
    """Answer every request with the same page, in a process of its own."""
    authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
    authority.cert_pem.write_to_path(Path(folder) / "ca.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("pages.example", key_type=trustme.KeyType.ECDSA).configure_cert(context)
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {len(PAGE)}\r\n\r\n"

    async def answer(stream: trio.abc.Stream) -> None:
        while await stream.receive_some(65_536):
            await stream.send_all(head.encode() + PAGE)

    async def main() -> None:
        tcp = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
        ready.send(tcp.socket.getsockname()[1])
        await trio.serve_listeners(answer, [trio.SSLListener(tcp, context, https_compatible=True)])

    trio.run(main)


async def _whole(
    fetcher: Fetcher, url: Url, audit: Audit, store: OverflowStore
) -> Callable[[int], Awaitable[object]]:
    """Return a whole call: read, judged, recorded, run, screened, recorded."""
    silent = Silent()
    executor = CompositeExecutor(fetcher.tools())
    ports = Ports(executor, Surveyor(), None, audit, store, silent, silent)  # type: ignore[arg-type]
    limits = CallLimits(per_turn=10**9, per_session=10**9, repeats=10**9)
    policy = Policy("/", "/", calls=limits, allow_networks=("127.0.0.0/8",))
    pipeline = Pipeline(Session("bench", policy), ports)
    await pipeline.note(UrlsAdded(0.0, (url.text,), Provenance.PERSON))

    async def call(number: int) -> object:
        return await pipeline.run(ToolCall(f"c{number}", "fetch", f'{{"url": "{url.text}"}}'))

    return call


async def _measured(steps: Steps) -> dict[str, tuple[float, float]]:
    """Return the medians of wall and CPU time per request, in microseconds; all take turns."""
    walls: dict[str, list[float]] = {name: [] for name in steps}
    cpus: dict[str, list[float]] = {name: [] for name in steps}
    for step in steps.values():
        await step(0)
    for turn in range(ROUNDS):
        for name, step in steps.items():
            wall, cpu = time.perf_counter(), time.process_time()
            for number in range(REQUESTS):
                await step(turn * REQUESTS + number)
            walls[name].append((time.perf_counter() - wall) / REQUESTS * 1e6)
            cpus[name].append((time.process_time() - cpu) / REQUESTS * 1e6)
    return {name: (statistics.median(walls[name]), statistics.median(cpus[name])) for name in steps}


async def _bench(folder: str, port: int) -> None:
    tls, url = partial(tls_context, f"{folder}/ca.pem"), parse_url(f"https://pages.example:{port}/page")
    assert isinstance(url, Url)
    backend = GuardedBackend(("127.0.0.0/8",), loopback)
    client = Client(backend, tls, 102_400, 20.0)
    fetcher = Fetcher(partial(Client, backend, tls))
    bare = httpcore.AsyncConnectionPool(ssl_context=tls(), http2=True, network_backend=backend.trio_backend)
    extensions = {"sni_hostname": "pages.example"}
    headers = [
        ("Host", f"pages.example:{port}"),
        ("User-Agent", "bench"),
        ("Accept", "text/html, text/*;q=0.9"),
        ("Accept-Encoding", "gzip, deflate"),
    ]

    async def floor(_number: int) -> object:
        address = f"https://127.0.0.1:{port}/page"
        return await bare.request("GET", address, headers=headers, extensions=extensions)

    async def guarded(_number: int) -> object:
        return await client.get(url, trio.current_time() + 20, lambda exchange: None)

    async with (
        AsyncioThread.open("storage") as asyncio_thread,
        Database.open(Path(folder) / "bench.db", asyncio_thread) as database,
    ):
        store = OverflowStore(database, Silent())
        steps = {
            "bare httpcore": floor,
            "guarded client": guarded,
            "whole call, without an audit": await _whole(fetcher, url, NoAudit(), store),
            "whole call, durable audit": await _whole(fetcher, url, AuditLogger(database, Silent()), store),
        }
        found = await _measured(steps)
    base_wall, base_cpu = found["bare httpcore"]
    print(f"{'':30} {'requests/s':>10} {'ratio':>7} {'CPU µs':>8} {'ratio':>7}")
    for name, (wall, cpu) in found.items():
        print(f"{name:30} {1e6 / wall:10.0f} {wall / base_wall:7.2f} {cpu:8.0f} {cpu / base_cpu:7.2f}")
    await bare.aclose()
    await client.aclose()
    await fetcher.aclose()


def main() -> None:
    """Start the server, measure, and stop it."""
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = multiprocessing.Pipe()
        server = multiprocessing.Process(target=serve, args=(folder, theirs), daemon=True)
        server.start()
        try:
            trio.run(_bench, folder, ours.recv())
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
