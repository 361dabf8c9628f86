"""Decompression bombs cost no memory: the peak of a process of its own is measured."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = r"""
import gzip, resource, ssl, sys, tempfile, zlib
from functools import partial
from pathlib import Path
import trio, trustme
from leeward.security.url import parse_url
from leeward.tools.http.client import Client, tls_context
from leeward.tools.http.dial import GuardedBackend

def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

def gzipped(count, layers=1):
    data, packed = b"\0" * 1_000_000, zlib.compressobj(1, zlib.DEFLATED, 31)
    body = b"".join([*(packed.compress(data) for _ in range(count)), packed.flush()])
    for _ in range(layers - 1):
        body = gzip.compress(body)
    return body

BODIES = {
    "none": ("identity", lambda: b"hello"),
    "gzip": ("gzip", lambda: gzipped(200)),
    "deflate": ("deflate", lambda: zlib.compress(b"\0" * 1_000_000)),
    "stacked": ("gzip", lambda: gzipped(200, 2)),
    "twice": ("gzip, gzip", lambda: gzipped(200, 2)),
    "brotli": ("br", lambda: b"\x1b\xff\xff\x7f" + b"\0" * 313),
    "members": ("gzip", lambda: gzip.compress(b"") * 50_000),
}
encoding, made = BODIES[sys.argv[1]]
body = made()

async def main():
    folder = Path(tempfile.mkdtemp())
    authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
    authority.cert_pem.write_to_path(folder / "ca.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("pages.example", key_type=trustme.KeyType.ECDSA).configure_cert(context)

    async def serve(stream):
        try:
            await stream.receive_some()
            head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: {encoding}\r\n"
            head += f"Content-Length: {len(body)}\r\n\r\n"
            await stream.send_all(head.encode() + body)
            await stream.receive_some()
        except trio.BrokenResourceError:
            pass

    async def loopback(host, port): return ["127.0.0.1"]

    async with trio.open_nursery() as nursery:
        tcp = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
        listener = trio.SSLListener(tcp, context, https_compatible=True)
        nursery.start_soon(trio.serve_listeners, serve, [listener])
        backend = GuardedBackend(("127.0.0.0/8",), loopback)
        client = Client(backend, partial(tls_context, str(folder / "ca.pem")), 102_400, 20.0)
        url = parse_url(f"https://pages.example:{tcp.socket.getsockname()[1]}/")
        before = peak()
        try:
            answer = await client.get(url, trio.current_time() + 20, lambda exchange: None)
            kept = len(answer.body.content)
        except Exception as error:
            kept = type(error).__name__
        print(len(body), kept, peak() - before)
        await client.aclose()
        nursery.cancel_scope.cancel()

trio.run(main)
"""

ALLOWED_KIB = 12_000


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        ("none", "5"),
        ("gzip", "102400"),
        ("deflate", "102400"),
        ("stacked", None),
        ("twice", "PermanentFailure"),
        ("brotli", "PermanentFailure"),
        ("members", "0"),
    ],
)
def test_the_peak_of_a_process_does_not_rise(body, kept):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, body], capture_output=True, text=True, timeout=120, check=True
    )
    size, found, rise = done.stdout.split()
    assert kept in (None, found)
    assert int(rise) < ALLOWED_KIB, f"{body}: {size} bytes cost {rise} KiB"
