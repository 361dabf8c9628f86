"""Real clients through the proxy: git, pip, npm, wget, and a client that does not speak HTTP."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import shlex
import shutil
import subprocess
import sys
import tarfile
import zipfile
from contextlib import asynccontextmanager
from pathlib import Path

import h11
import pytest
import trio

from https import FILES, INDEX, Handler, bare_repository, git_server, serving
from leeward.security.call import Status
from leeward.security.ports import Answer


@pytest.fixture
def opened(tmp_path, sessions):
    """Open a session with a server of ours behind two names, or skip without trials."""

    async def resolve(host: str, port: int):
        return ("127.0.0.1",)

    @asynccontextmanager
    async def opened(handle: Handler, *answers: Answer):
        (tmp_path / "ws").mkdir(exist_ok=True)
        approver = sessions.Answers(*answers)
        config = '[tools.fetch]\nallow_networks = ["127.0.0.0/8"]\n[tools.shell]\ntimeout = 100\n'
        async with serving(tmp_path / "ws", handle) as port:
            async with sessions.session(
                tmp_path, config, trial="auto", approver=approver, resolve=resolve
            ) as runtime:
                if problem := await runtime.sandbox.no_trial_because():
                    pytest.skip(f"trial runs are needed: {problem}")
                runtime.asked, runtime.port = approver.questions, port
                yield runtime

    return opened


async def run(runtime, line: str):
    with trio.fail_after(200):
        return await runtime.call("shell", {"command": line})


def asked(runtime) -> list[str]:
    return [question.action.call.tool for question in runtime.asked]


@pytest.fixture
def repository(tmp_path) -> Path:
    return bare_repository(tmp_path)


async def test_git_clones_fetches_and_pushes_by_https(opened, repository, tmp_path) -> None:
    async with opened(git_server(repository.parent), Answer.YES) as runtime:
        url = f"https://{INDEX}:{runtime.port}/repo.git"
        result = await run(runtime, f"git -c http.sslCAInfo=$PWD/ca.pem clone -q --no-hardlinks {url} cloned")
        assert result.outcome.exit_code == 0, result.shown
        assert (tmp_path / "ws" / "cloned" / "a.txt").read_text() == "one\n"
        runtime.asked.clear()
        # Where the remote lies stands in the repository, so only the run shows it.
        line = "cd cloned && git -c http.sslCAInfo=$PWD/../ca.pem fetch"
        result = await run(runtime, line)
        assert result.outcome.exit_code == 0 and asked(runtime)[:1] == ["network"], result.shown
        runtime.asked.clear()
        line = (
            "cd cloned && echo two > b.txt && git add b.txt && git -c user.name=A -c user.email=a@x.example "
            "commit -qm second && git -c http.sslCAInfo=$PWD/../ca.pem push -q origin main"
        )
        result = await run(runtime, line)
        assert result.outcome.exit_code == 0, result.shown
        log = subprocess.run(
            ["git", "-C", str(repository), "log", "--format=%s", "main"],
            check=True,
            capture_output=True,
            text=True,
        )
        assert log.stdout.split() == ["second", "first"]


async def test_a_remote_by_ssh_fails_at_once_and_says_what_to_do(opened) -> None:
    async with opened(git_server(Path("/nowhere")), Answer.NO) as runtime:
        for remote in ("git@git.example.com:a/b.git", "ssh://git.example.com/a/b.git"):
            began = trio.current_time()
            result = await run(runtime, f"git clone -q {remote} x")
            assert result.outcome.exit_code and "give the remote by https" in result.shown, result.shown
            assert trio.current_time() - began < 20 and runtime.asked == []


def wheel() -> bytes:
    data = io.BytesIO()
    files = {
        "lee_demo.py": "value = 42\n",
        "lee_demo-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: lee-demo\nVersion: 1.0\n",
        "lee_demo-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(data, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        record = "".join(f"{name},,\n" for name in (*files, "lee_demo-1.0.dist-info/RECORD"))
        archive.writestr("lee_demo-1.0.dist-info/RECORD", record)
    return data.getvalue()


async def test_pip_installs_once_both_hosts_of_an_index_are_allowed(opened, tmp_path) -> None:
    port = 0

    async def handle(request: h11.Request, body: bytes) -> tuple[int, str, bytes]:
        path = request.target.decode()
        if path == "/simple/lee-demo/":
            name = "lee_demo-1.0-py3-none-any.whl"
            return 200, "text/html", f'<a href="https://{FILES}:{port}/{name}">{name}</a>'.encode()
        return (200, "application/zip", wheel()) if path.endswith(".whl") else (404, "text/plain", b"no")

    async with opened(handle, Answer.YES) as runtime:
        port = runtime.port
        (tmp_path / "ws" / "index.cfg").write_text(
            f"[global]\nindex-url = https://{INDEX}:{port}/simple\ncert = {tmp_path}/ws/ca.pem\n"
        )
        pip = f"{shlex.quote(sys.executable)} -m pip"
        line = f"PIP_CONFIG_FILE=$PWD/index.cfg {pip} install -q --no-cache-dir --target out lee-demo"
        began = trio.current_time()
        result = await run(runtime, line)
        if "No module named pip" in result.shown:
            pytest.skip("the Python of commands has no pip")
        assert result.outcome.exit_code == 0, result.shown
        assert (tmp_path / "ws" / "out" / "lee_demo.py").read_text() == "value = 42\n"
        # Each host is asked about once it is refused, which is at once.
        assert asked(runtime) == ["network", "network", "keep"] and trio.current_time() - began < 60


async def test_npm_installs_from_a_registry(opened, tmp_path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        text = json.dumps({"name": "lee-demo", "version": "1.0.0"}).encode()
        member = tarfile.TarInfo("package/package.json")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))
    packed, port = data.getvalue(), 0

    async def handle(request: h11.Request, body: bytes) -> tuple[int, str, bytes]:
        if request.target == b"/lee-demo":
            digest = base64.b64encode(hashlib.sha512(packed).digest()).decode()
            dist = {"tarball": f"https://{INDEX}:{port}/demo.tgz", "integrity": f"sha512-{digest}"}
            version = {"name": "lee-demo", "version": "1.0.0", "dist": dist}
            about = {"name": "lee-demo", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
            return 200, "application/json", json.dumps(about).encode()
        return (
            (200, "application/gzip", packed)
            if request.target == b"/demo.tgz"
            else (404, "text/plain", b"no")
        )

    async with opened(handle, Answer.YES) as runtime:
        port = runtime.port
        (tmp_path / "ws" / "package.json").write_text('{"name": "x", "version": "1.0.0"}')
        line = (
            f"npm install --registry https://{INDEX}:{port}/ --cafile ca.pem --no-audit --no-fund "
            "--cache /tmp/cache lee-demo"
        )
        result = await run(runtime, line)
        assert result.outcome.exit_code == 0, result.shown
        assert (tmp_path / "ws" / "node_modules" / "lee-demo" / "package.json").exists()
        assert asked(runtime) == ["shell", "keep"]


async def test_wget_follows_a_redirect_to_a_host_that_is_allowed_and_to_no_other(opened, tmp_path) -> None:
    if shutil.which("wget") is None:
        pytest.skip("wget is not installed")

    async def handle(request: h11.Request, body: bytes) -> tuple[int, str, bytes]:
        return 200, "text/plain", b"fetched"

    async with opened(handle, Answer.YES, Answer.NO) as runtime:
        result = await run(runtime, f"wget -q --ca-certificate=ca.pem -O- https://{INDEX}:{runtime.port}/x")
        assert result.outcome.status is Status.OK and "fetched" in result.shown


LOOPBACK = """
import http.server, threading, urllib.request
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/a.txt").read())
"""


async def test_what_a_program_says_to_itself_needs_nobody(opened, tmp_path) -> None:
    async with opened(git_server(Path("/nowhere")), Answer.NO) as runtime:
        (tmp_path / "ws" / "a.txt").write_text("mine")
        (tmp_path / "ws" / "own.py").write_text(LOOPBACK)
        result = await run(runtime, "python3 own.py")
        assert "b'mine'" in result.shown and runtime.asked == [], result.shown


DIRECT = """
import socket
for family, place in ((socket.AF_INET, ("93.184.215.14", 443)), (socket.AF_INET, ("1.1.1.1", 53)),
                      (socket.AF_INET6, ("2606:4700::1111", 443)), (socket.AF_INET, ("127.0.0.1", PORT))):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        try:
            with socket.socket(family, kind) as made:
                made.settimeout(5)
                made.connect(place)
                made.send(b"x")
                print("sent" if kind == socket.SOCK_STREAM else "into the void")
        except OSError as error:
            print("held", error.errno)
for family, kind in ((socket.AF_PACKET, socket.SOCK_RAW), (socket.AF_INET, socket.SOCK_RAW)):
    try:
        socket.socket(family, kind).close()
        print("raw")
    except OSError as error:
        print("held", error.errno)
try:
    print(socket.getaddrinfo("index.example.com", 443))
except OSError:
    print("held name")
"""


async def test_past_the_proxy_nothing_is_reached(opened, tmp_path) -> None:
    async with opened(git_server(Path("/nowhere")), Answer.NO) as runtime:
        (tmp_path / "ws" / "direct.py").write_text(DIRECT.replace("PORT", str(runtime.port)))
        result = await run(runtime, "python3 direct.py")
        assert "sent" not in result.shown and "raw" not in result.shown, result.shown
        assert result.shown.count("held") >= 8 and "held name" in result.shown


async def test_a_run_that_is_cancelled_takes_its_connections_with_it(opened) -> None:
    reached = trio.Event()

    async def handle(request: h11.Request, body: bytes) -> tuple[int, str, bytes]:
        reached.set()
        await trio.sleep_forever()
        raise AssertionError

    async with opened(handle, Answer.YES) as runtime:
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run, runtime, f"curl -s --cacert ca.pem https://{INDEX}:{runtime.port}/")
            with trio.fail_after(100):
                await reached.wait()
            began = trio.current_time()
            nursery.cancel_scope.cancel()
        assert trio.current_time() - began < 20
