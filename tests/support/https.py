"""An https server on loopback for tests, what it answers, and git's own backend as such an answer."""

from __future__ import annotations

import gzip
import os
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import h11
import trio
import trustme

__all__ = ["FILES", "INDEX", "Handler", "bare_repository", "git_server", "serving"]

Handler = Callable[[h11.Request, bytes], Awaitable[tuple[int, str, bytes]]]
FOUND, UNAUTHORIZED = 302, 401
INDEX, FILES = "index.example.com", "files.example.com"


@asynccontextmanager
async def serving(folder: Path, handle: Handler) -> AsyncIterator[int]:
    """Serve what a function answers, over TLS on loopback; yield the port."""
    authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
    authority.cert_pem.write_to_path(folder / "ca.pem")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(INDEX, FILES, key_type=trustme.KeyType.ECDSA).configure_cert(context)

    async def serve(stream: trio.SSLStream[trio.SocketStream]) -> None:
        http = h11.Connection(h11.SERVER)
        request, body = None, b""
        try:
            while True:
                event = http.next_event()
                if event is h11.NEED_DATA:
                    http.receive_data(bytes(await stream.receive_some(65_536)))
                elif isinstance(event, h11.Request):
                    request = event
                elif isinstance(event, h11.Data):
                    body += bytes(event.data)
                elif isinstance(event, h11.EndOfMessage):
                    assert request is not None
                    status, kind, answer = await handle(request, body)
                    headers = [
                        ("Content-Type", kind),
                        ("Content-Length", str(len(answer))),
                        ("Connection", "close"),
                    ]
                    if status == FOUND:
                        headers.append(("Location", answer.decode()))
                    if status == UNAUTHORIZED:
                        headers.append(("WWW-Authenticate", 'Basic realm="x"'))
                    head = http.send(h11.Response(status_code=status, headers=headers)) or b""
                    await stream.send_all(head + answer)
                    return
                else:
                    return
        except (trio.BrokenResourceError, trio.ClosedResourceError, h11.ProtocolError):
            return
        finally:
            with trio.move_on_after(1):
                await trio.aclose_forcefully(stream)

    (tcp,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with trio.open_nursery() as nursery:
        listener = trio.SSLListener(tcp, context, https_compatible=True)
        nursery.start_soon(trio.serve_listeners, serve, [listener])
        yield tcp.socket.getsockname()[1]
        nursery.cancel_scope.cancel()


def bare_repository(tmp_path: Path) -> Path:
    """Return a bare repository with a commit in it, which may be pushed to."""
    bare, work = tmp_path / "served" / "repo.git", tmp_path / "work"
    who = {"GIT_CONFIG_GLOBAL": "/dev/null", "PATH": os.environ["PATH"]}
    for name in ("AUTHOR", "COMMITTER"):
        who |= {f"GIT_{name}_NAME": "Ada", f"GIT_{name}_EMAIL": "ada@example.com"}
    work.mkdir()
    (work / "a.txt").write_text("one\n")
    for command in (
        f"git init -q -b main {work}", f"git -C {work} add a.txt", f"git -C {work} commit -qm first",
        f"git clone -q --bare {work} {bare}", f"git -C {bare} config http.receivepack true",
    ):  # fmt: skip
        subprocess.run(command.split(), check=True, env=who)
    return bare


def git_server(served: Path) -> Handler:
    """Answer as git's own backend does."""

    async def handle(request: h11.Request, body: bytes) -> tuple[int, str, bytes]:
        path, _, query = request.target.decode().partition("?")
        headers = {name.decode(): value.decode() for name, value in request.headers}
        if headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        env = {
            "GIT_PROJECT_ROOT": str(served), "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": request.method.decode(), "CONTENT_TYPE": headers.get("content-type", ""),
            "CONTENT_LENGTH": str(len(body)), "REMOTE_USER": "ada", "PATH": os.environ["PATH"],
            "GIT_PROTOCOL": headers.get("git-protocol", ""), "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*",
        }  # fmt: skip
        done = await trio.run_process(["git", "http-backend"], stdin=body, capture_stdout=True, env=env)
        head, _, answer = done.stdout.partition(b"\r\n\r\n")
        told = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        return int(told.get("Status", "200").split()[0]), told.get("Content-Type", ""), answer

    return handle
