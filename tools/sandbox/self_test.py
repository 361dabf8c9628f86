"""Test the sandbox by trying to escape from it; each attempt is judged from outside.

Every probe is an ordinary way out: writing, reading, connecting, tracing, killing. Where the outcome can be
observed from outside, the report of the program inside does not count. Nothing is concluded from a probe that
could not be carried out.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
import stat
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from leeward.security.lazy import dataclass
from leeward.security.outcome import PermanentFailure, PolicyBlocked

from ..process import SEARCH_PATH, Start, SupervisedProcess, SupervisedStart, children

if TYPE_CHECKING:
    from .sandbox import Sandbox

__all__ = ["Probe", "self_test"]

_LONGEST = 30.0
_PAUSE = 0.005
_MODE = 0o640

# Runs inside, with the standard library only; it gets all addresses, and prints what it did.
_ATTEMPTS = """
import ctypes, os, signal, socket, sys
canary, outside, home, victim, port, udp, path, name = sys.argv[1:]
victim, port, udp = int(victim), int(port), int(udp)

def attempt(what, function):
    try:
        found = function()
    except OSError as error:
        print(what, "failed", error.strerror or error)
    except Exception as error:
        print(what, "failed", type(error).__name__)
    else:
        print(what, "done", found or "")

def connect(family, kind, address):
    with socket.socket(family, kind) as made:
        made.settimeout(2)
        made.connect(address)
        made.sendall(b"out")

def trace():
    if ctypes.CDLL(None, use_errno=True).ptrace(16, victim, None, None):
        raise OSError(ctypes.get_errno(), "refused")

attempt("write", lambda: open(outside, "w").write("out") and "")
attempt("write at home", lambda: open(home, "w").write("out") and "")
attempt("read", lambda: open(canary).read())
attempt("change the mode", lambda: os.chmod(canary, 0o666))
here = "127.0.0.1"
attempt("tcp", lambda: connect(socket.AF_INET, socket.SOCK_STREAM, (here, port)))
attempt("udp", lambda: connect(socket.AF_INET, socket.SOCK_DGRAM, (here, udp)))
attempt("unix socket", lambda: connect(socket.AF_UNIX, socket.SOCK_STREAM, path))
name = chr(0) + name
attempt("abstract socket", lambda: connect(socket.AF_UNIX, socket.SOCK_STREAM, name))
attempt("environment", lambda: open(f"/proc/{victim}/environ").read())
attempt("trace", trace)
attempt("kill", lambda: os.kill(victim, signal.SIGKILL))
"""


@dataclass(frozen=True, slots=True)
class Probe:
    """One way out that was tried; `escaped` is None where it could not be. `detail` says how it went."""

    name: str
    escaped: bool | None
    detail: str = ""

    def __str__(self) -> str:
        word = {True: "ESCAPED", False: "held", None: "not tried"}[self.escaped]
        return f"{self.name}: {word}" + (f" ({self.detail})" if self.detail else "")


async def self_test(sandbox: Sandbox) -> tuple[Probe, ...]:
    """Try to get out of a sandbox and return what came of each attempt.

    What is tried at is made for it, and gone afterwards.
    """
    try:
        async with _Outside.made(sandbox) as outside:
            ran = await sandbox.run(
                [sys.executable, "-I", "-S", "-c", _ATTEMPTS, *outside.arguments()],
                cwd=sandbox.confinement.workspace,
                env={"PATH": SEARCH_PATH, "HOME": sandbox.confinement.home},
                deadline=trio.current_time() + _LONGEST,
                max_bytes=64 * 1024,
            )
            return tuple(outside.judged(ran.finished.stdout))
    except (PermanentFailure, PolicyBlocked, OSError) as error:
        return tuple(Probe(name, None, str(error)) for name in _NAMES)


_NAMES = (
    "write",
    "write at home",
    "read",
    "change the mode",
    "tcp",
    "udp",
    "unix socket",
    "abstract socket",
    "environment",
    "trace",
    "kill",
)


@dataclass(frozen=True, slots=True)
class _Outside:
    """What lies outside: a folder of ours with a canary, sockets that listen, and a process."""

    folder: Path
    home: Path
    address: Path
    secret: str
    listening: Mapping[str, socket.socket]
    victim: int

    @classmethod
    @asynccontextmanager
    async def made(cls, sandbox: Sandbox) -> AsyncIterator[_Outside]:
        """Yield it all and take it away again."""
        secret = secrets.token_hex(16)
        with ExitStack() as closing:
            folder, sockets = _folder(closing, sandbox.aside), _folder(closing)
            home = Path(sandbox.confinement.home, f".leeward-{secret}")
            closing.callback(home.unlink, missing_ok=True)
            canary = folder / "canary"
            canary.write_text(secret, encoding="ascii")
            canary.chmod(_MODE)
            listening = dict(_listening(sockets / "socket", secret, closing))
            nowhere = os.open(os.devnull, os.O_WRONLY)
            closing.callback(os.close, nowhere)
            start = Start(("/bin/sleep", "60"), "/", {"CANARY": secret}, nowhere, nowhere)
            child = await SupervisedStart()(start)
            try:
                victim = await _program_of(child, secret)
                yield cls(folder, home, sockets / "socket", secret, listening, victim)
            finally:
                with trio.CancelScope(shield=True):
                    await child.end()

    def arguments(self) -> tuple[str, ...]:
        """Return what the attempts need to know."""
        ports = [str(self.listening[name].getsockname()[1]) for name in ("tcp", "udp")]
        paths = (self.folder / "canary", self.folder / "written", self.home)
        return (*map(str, paths), str(self.victim), *ports, str(self.address), self.secret)

    def judged(self, printed: str) -> Iterator[Probe]:
        """Yield every probe with what can be seen of it from here."""
        results = {
            name: rest for name in _NAMES for line in printed.splitlines() if (rest := _after(line, name))
        }
        seen = {
            "write": (self.folder / "written").exists(),
            "write at home": self.home.exists(),
            "read": self.secret in results.get("read", ""),
            "change the mode": stat.S_IMODE((self.folder / "canary").stat().st_mode) != _MODE,
            **{name: _was_reached(one) for name, one in self.listening.items()},
            "environment": self.secret in results.get("environment", ""),
            "trace": results.get("trace", "").startswith("done"),
            # A process that was killed may be there a moment longer.
            "kill": results.get("kill", "").startswith("done") or not _is_alive(self.victim),
        }
        for name in _NAMES:
            if name in results or seen[name]:
                detail = results.get(name, "").partition(" ")[2]
                yield Probe(name, seen[name], "" if seen[name] else detail)
            else:
                yield Probe(name, None, "it printed no result")


async def _program_of(child: SupervisedProcess, secret: str) -> int:
    """Return a program that has begun, by what it was given.

    Raises:
        PermanentFailure: it did not begin.
    """
    with trio.move_on_after(_LONGEST):
        while True:
            for pid in children(child.pid):
                if secret in _environment_of(pid):
                    return pid
            await trio.sleep(_PAUSE)
    raise PermanentFailure("there is nothing to try at")


def _environment_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/environ").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _after(line: str, name: str) -> str:
    """Return what a line says of a probe: its first word is "done" or "failed"."""
    found = re.fullmatch(rf"{name} ((?:done|failed) .*)", line)
    return found[1] if found else ""


def _folder(closing: ExitStack, parent: str | None = None) -> Path:
    if parent is not None:
        Path(parent).mkdir(parents=True, exist_ok=True, mode=0o700)
    made = tempfile.TemporaryDirectory(prefix="leeward-test-", dir=parent)
    return Path(closing.enter_context(made))


def _listening(path: Path, secret: str, closing: ExitStack) -> Iterator[tuple[str, socket.socket]]:
    addresses: tuple[tuple[str, int, int, tuple[str, int] | str], ...] = (
        ("tcp", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
        ("udp", socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
        ("unix socket", socket.AF_UNIX, socket.SOCK_STREAM, str(path)),
        ("abstract socket", socket.AF_UNIX, socket.SOCK_STREAM, f"\0{secret}"),
    )
    for name, family, kind, address in addresses:
        made = closing.enter_context(socket.socket(family, kind))
        made.setblocking(False)
        made.bind(address)
        if kind == socket.SOCK_STREAM:
            made.listen()
        yield name, made


def _was_reached(listening: socket.socket) -> bool:
    with suppress(BlockingIOError):
        if listening.type == socket.SOCK_STREAM:
            listening.accept()[0].close()
        else:
            listening.recv(16)
        return True
    return False


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
