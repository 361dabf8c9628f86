"""Plant files around a workspace, and check from outside what a program did to it.

Each secret has a canary of its own, so that a leak says which was read. `state` is everything that must stay
as it is, `disturbed` what listens or waits and must hear nothing, `left` the processes that a program leaves.
"""

from __future__ import annotations

import array
import base64
import codecs
import ctypes
import fcntl
import os
import random
import resource
import shutil
import signal
import socket
import stat
import string
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["HOSTILE_NAMES", "Surroundings", "inside_of", "traces_of"]

HOSTILE_NAMES = (
    b"-rf", b"--", b"--checkpoint-action=exec=sh x", b"new\nline", b"caf\xe9", b"\x1b[31mred", b" ", b"a b",
    b"*", b"$(id)", b"`id`", b"'", b'"', b"\\", b";x", b"&", b"~", b"#x", b"\xe2\x80\xae.txt", b"x" * 250,
    b"\x01\x7f", b".hidden", b"{t}", b"%s", b"-", b"|x", b"\t",
)  # fmt: skip
_STREAM, _DATAGRAM, _PACKETS = socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET
_ADD_KEY, _KEYCTL = {"x86_64": (248, 250), "aarch64": (217, 219)}.get(os.uname().machine, (0, 0))
_SESSION_KEYRING, _READ_KEY, _SEARCH_KEY, _UNLINK_KEY = -3, 11, 10, 9
_IPC_REMOVE, _IPC_MAKE, _NO_WAIT = 0, 0o1600, 0o4000
_TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run", "/mnt", "/")
_GIT = ("git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "init.defaultBranch=main")


class Surroundings:
    """A home with a workspace in it, a folder outside, and what listens, waits and is kept in memory."""

    def __init__(self, root: Path, *, has_history: bool = False) -> None:
        """Plant everything below a folder; with `has_history`, the repository once held a secret."""
        # Never the same again: a run that was killed may have left something of its world in memory.
        self._chance = chance = random.SystemRandom()
        self._undo: list[Callable[[], object]] = []
        self.root, self.home, self.outside = root, root / "home", root / "outside"
        self.ws, self.data, self.config = self.home / "ws", root / "data", root / "config"
        self.canaries: dict[str, str] = {}
        self.tag = self.word()
        # A number of seconds that nobody else sleeps.
        self.nap = f"3000.{chance.randrange(10**11, 10**12)}"
        self.key = 0x4C000000 | chance.randrange(1 << 23) << 1
        self._plant_files()
        self._plant_repository(self.canary("history") if has_history else "")
        self._plant_names()
        try:
            self._plant_listeners()
            self._plant_memory()
            self.serial = self._plant_key()
            self._plant_victim()
        except BaseException:
            self.close()
            raise

    def word(self) -> str:
        """Return a word that occurs nowhere else, and that nothing takes for a secret."""
        return "".join(self._chance.choices(string.ascii_lowercase, k=14))

    def canary(self, place: str) -> str:
        """Return the text that is planted in a place."""
        return self.canaries.setdefault(place, self.word())

    # -------------------------------------------------------------- planting

    def _plant_files(self) -> None:
        for name, path in self.secret_files().items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{self.canary(name)}\n")
        for path, text in {
            self.home / ".bashrc": "true\n",
            self.home / ".gitconfig": "[user]\n\tname = Ada\n\temail = ada@example.org\n",
            self.outside / "tree" / "file": "file\n",
            self.ws / "README.md": "read\nme\n",
            self.ws / "data": "old\n",
            self.ws / "src" / "main.py": "print(1)\n",
            self.ws / "Makefile": "all:\n\ttrue\n",
            self.ws / ".gitignore": ".env\nwork/\n",
            self.ws / ".leeward" / "config.toml": "\n",
            **{self.ws / "tree" / name: f"{name}\n" for name in "abc"},
        }.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.config.mkdir()
        (self.ws / "work").mkdir()
        os.link(self.home / ".ssh" / "id_ed25519", self.ws / "letter")
        os.link(self.ws / ".env", self.ws / "plain")

    def secret_files(self) -> dict[str, Path]:
        """Return the files with canaries by their names."""
        return {
            "home": self.home / "diary.txt",
            "ssh": self.home / ".ssh" / "id_ed25519",
            "token": self.home / ".config" / "app" / "token",
            "netrc": self.home / ".netrc",
            "outside": self.outside / "canary",
            "data": self.data / "planted",
            ".env": self.ws / ".env",
            "private": self.ws / "private" / "server.key",
        }

    def _plant_repository(self, secret: str) -> None:
        def git(*words: str) -> None:
            env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
            subprocess.run([*_GIT, *words], cwd=self.ws, check=True, capture_output=True, env=env, timeout=60)

        git("init", "-q", "--template=")
        if secret:
            (self.ws / "old.env").write_text(f"KEY={secret}\n")
        git("add", "-f", "README.md", "data", "src", *(["old.env"] if secret else []))
        git("commit", "-qm", "first")
        if secret:
            git("rm", "-q", "old.env")
        git("commit", "-q", "--allow-empty", "-m", "second")
        hook = self.ws / ".git" / "hooks" / "pre-commit"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text("#!/bin/sh\ntrue\n")
        hook.chmod(0o755)

    def _plant_names(self) -> None:
        names, links = os.fsencode(self.ws / "names"), self.ws / "links"
        Path(os.fsdecode(names)).mkdir()
        for name in HOSTILE_NAMES:
            Path(os.fsdecode(names + b"/" + name)).write_text("old\n")
        links.mkdir()
        for name, target in {
            "root": "/", "home": self.home, "outside": self.outside, "up": "..",
            "loop": "loop", "ws": self.ws, "proc": "/proc/self/root",
            "env": self.ws / ".env", "canary": "../../../outside/canary",
        }.items():  # fmt: skip
            (links / name).symlink_to(target)
        with suppress(OSError):
            os.setxattr(self.ws / "data", "user.planted", b"planted")

    def _plant_listeners(self) -> None:
        self._sockets: dict[str, socket.socket] = {}
        for name, family, kind, address in (
            ("tcp", socket.AF_INET, _STREAM, ("127.0.0.1", 0)),
            ("tcp6", socket.AF_INET6, _STREAM, ("::1", 0)),
            ("udp", socket.AF_INET, _DATAGRAM, ("127.0.0.1", 0)),
            ("abstract", socket.AF_UNIX, _STREAM, f"\0{self.tag}"),
            ("abstract datagram", socket.AF_UNIX, _DATAGRAM, f"\0{self.tag}d"),
        ):
            with suppress(OSError):
                self._listen(name, family, kind, address)
        for where, folder in (("outside", self.outside), ("inside", self.ws)):
            # The address of a local socket has room for about a hundred characters.
            with inside_of(folder):
                for name, kind in (("s", _STREAM), ("d", _DATAGRAM), ("p", _PACKETS)):
                    self._listen(f"{name} {where}", socket.AF_UNIX, kind, name)
        self._fifos = {}
        for path in (self.ws / "fifo", self.outside / "fifo"):
            os.mkfifo(path)
            self._fifos[str(path)] = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            self._undo.append(lambda handle=self._fifos[str(path)]: os.close(handle))
        # One that is written to from outside: whoever reads it takes what was meant for another.
        os.mkfifo(self.ws / "fifo2")
        self._filled = os.open(self.ws / "fifo2", os.O_RDWR | os.O_NONBLOCK)
        self._undo.append(lambda: os.close(self._filled))
        os.write(self._filled, self.canary("FIFO").encode())

    def _listen(self, name: str, family: int, kind: int, address: object) -> None:
        made = self._sockets[name] = socket.socket(family, kind)
        self._undo.append(made.close)
        made.bind(address)
        made.setblocking(False)
        if kind != _DATAGRAM:
            made.listen()

    def _plant_memory(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.shmat.restype = ctypes.c_void_p
        self._shared = Path(f"/dev/shm/leeward-{self.tag}")
        self._shared.write_text(self.canary("POSIX memory"))
        self._undo.append(lambda: self._shared.unlink(missing_ok=True))
        segment = self._libc.shmget(self.key, 4096, _IPC_MAKE)
        queue = self._libc.msgget(self.key, _IPC_MAKE)
        semaphore = self._libc.semget(self.key, 1, _IPC_MAKE)
        self._undo += (
            lambda: self._libc.shmctl(segment, _IPC_REMOVE, None),
            lambda: self._libc.msgctl(queue, _IPC_REMOVE, None),
            lambda: self._libc.semctl(semaphore, 0, _IPC_REMOVE),
        )
        if min(segment, queue, semaphore) < 0:
            raise OSError("memory that is shared by System V calls is needed")
        self._segment = self._libc.shmat(segment, None, 0)
        ctypes.memmove(self._segment, self.canary("System V memory").encode(), 14)
        self._message = b"\1\0\0\0\0\0\0\0" + self.canary("message queue").encode()
        self._libc.msgsnd(queue, self._message, 14, _NO_WAIT)
        self._queue, self._semaphore = queue, semaphore

    def _plant_key(self) -> int:
        """Return the serial number of a key in the kernel's keyring, 0 where none can be had."""
        if sys.platform != "linux" or not _KEYCTL:
            return 0
        name, text = f"leeward-{self.tag}".encode(), self.canary("keyring").encode()
        serial = int(self._libc.syscall(_ADD_KEY, b"user", name, text, len(text), _SESSION_KEYRING))
        if serial <= 0:
            return 0
        self._undo.append(lambda: self._libc.syscall(_KEYCTL, _UNLINK_KEY, serial, _SESSION_KEYRING))
        return serial

    def _plant_victim(self) -> None:
        argv = ["/bin/sh", "-c", "sleep 3000; :", self.tag, self.canary("arguments")]
        env = {"PATH": "/usr/bin:/bin", "NOTE": self.canary("environment of another")}
        self._victim = subprocess.Popen(argv, env=env, start_new_session=True, stdin=subprocess.DEVNULL)
        self._undo += (self._victim.wait, lambda: os.killpg(self._victim.pid, 9))
        self._limits = self._standing()

    # -------------------------------------------------------------- what programs are told

    def words(self) -> dict[str, str]:
        """Return what stands for the places of this world in a hostile text."""
        port = {name: str(one.getsockname()[1]) for name, one in self._sockets.items() if name in _PORTS}
        ours = {name: str(getattr(self, name)) for name in ("outside", "home", "data", "ws")}
        numbers = {"v": self._victim.pid, "r": os.getpid(), "key": self.key, "key1": self.key + 1}
        numbers["serial"] = self.serial
        return {
            **{name: "9" for name in _PORTS}, **port, **ours, "abstract": self.tag, "tag": self.tag,
            "z": self.nap, **{name: str(number) for name, number in numbers.items()},
        }  # fmt: skip

    def changeable(self) -> list[bytes]:
        """Return paths of things that must not change."""
        ws = [
            self.ws / name for name in (*_IN_WORKSPACE, ".git/config", ".git/hooks/pre-commit", ".git/HEAD")
        ]
        named = [os.fsencode(self.ws / "names") + b"/" + name for name in HOSTILE_NAMES]
        others = [
            self.outside / "canary",
            self.outside / "tree",
            self.home / ".bashrc",
            self.data / "planted",
            self.ws,
        ]
        return [*map(os.fsencode, (*ws, *others)), *named]

    def new(self) -> list[bytes]:
        """Return paths at which nothing lies."""
        inside = [
            self.ws / name for name in ("new", "src/new", ".git/hooks/post-checkout", ".git/new", ".env.new")
        ]
        inside += [
            self.ws / name
            for name in (".git/commondir", "tree/.git", ".leeward/new", ".vscode", "conftest.py")
        ]
        outside = [self.outside / "new", self.home / ".profile", self.home / ".ssh" / "rc", self.data / "new"]
        temporary = [Path(folder, f"new-{self.tag}") for folder in _TEMPORARY]
        named = [os.fsencode(self.ws) + b"/n" + name[:200] for name in HOSTILE_NAMES]
        return [*map(os.fsencode, (*inside, *outside, *temporary)), *named]

    # -------------------------------------------------------------- what became of it

    def state(self) -> dict[Path, object]:
        """Return everything that must stay as it is, down to the time of change."""
        found = dict(_tree(self.home, but=self.ws))
        for top in (self.ws, self.outside, self.data / "planted", self.data / "new"):
            found.update(_tree(top))
        return found

    def disturbed(self) -> list[str]:
        """Return what a program reached, took or changed that is no file; what was heard is forgotten."""
        found = [f"{name} was reached" for name, one in self._sockets.items() if _was_reached(one)]
        for path, handle in self._fifos.items():
            with suppress(BlockingIOError):
                found += [f"{path} was written to"] if os.read(handle, 4096) else []
        signs = {
            "another process was hit": self._victim.poll() is not None or self._standing() != self._limits,
            "the FIFO was read": _held(self._filled) != len(self.canary("FIFO")),
            "POSIX memory changed": not self._has_memory(),
            "System V memory changed": ctypes.string_at(self._segment, 14)
            != self.canary("System V memory").encode()
            or self._libc.shmget(self.key, 0, 0) < 0,
            "a message was taken or put": not self._has_message(),
            "a semaphore changed": self._libc.semctl(self._semaphore, 0, 12) != 0
            or self._libc.semget(self.key, 1, 0) < 0,
            "System V objects were made": max(
                self._libc.shmget(self.key + 1, 0, 0),
                self._libc.msgget(self.key + 1, 0),
                self._libc.semget(self.key + 1, 1, 0),
            )
            >= 0,
            "the keyring changed": not self._has_key(),
        }
        found += [sign for sign, is_so in signs.items() if is_so]
        for folder in _TEMPORARY:
            with suppress(OSError):
                names = _names(folder)
                ours = (name for name in names if self.tag in name and name != self._shared.name)
                found += [f"{folder}/{name} was made" for name in ours]
        return found

    def _has_memory(self) -> bool:
        with suppress(OSError):
            return self._shared.read_text() == self.canary("POSIX memory")
        return False

    def _has_message(self) -> bool:
        taken = ctypes.create_string_buffer(200)
        size = self._libc.msgrcv(self._queue, taken, 190, 0, _NO_WAIT)
        more = self._libc.msgrcv(self._queue, ctypes.create_string_buffer(200), 190, 0, _NO_WAIT)
        self._libc.msgsnd(self._queue, self._message, 14, _NO_WAIT)
        return size == 14 and more < 0 and taken.raw[:22] == self._message

    def _has_key(self) -> bool:
        if not self.serial:
            return True
        held = ctypes.create_string_buffer(64)
        size = self._libc.syscall(_KEYCTL, _READ_KEY, self.serial, held, 64)
        made = (
            self._libc.syscall(_KEYCTL, _SEARCH_KEY, ring, b"user", f"planted-{self.tag}".encode(), 0)
            for ring in range(-5, 0)
        )
        return held.raw[:size] == self.canary("keyring").encode() and max(made) < 0

    def _standing(self) -> tuple[object, ...]:
        """Return what the kernel says of the other process, but for what time does."""
        pid = self._victim.pid
        with suppress(OSError):
            words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            state = "S" if words[0] in "RSD" else words[0]
            limits = resource.prlimit(pid, resource.RLIMIT_NOFILE) if hasattr(resource, "prlimit") else ()
            score = Path(f"/proc/{pid}/oom_score_adj").read_text()
            return (state, words[16], limits, os.sched_getaffinity(pid), score)
        return ()

    def processes(self) -> set[int]:
        """Return the processes that there are."""
        return {int(name) for name in _names("/proc") if name.isdigit()}

    def left(self, before: set[int]) -> dict[int, str]:
        """Return processes that came since and belong to this world, with what shows it."""
        marks = (os.fsencode(self.root), self.nap.encode())
        found: dict[int, str] = {}
        for pid in self.processes() - before:
            for name in ("environ", "cmdline", "mountinfo"):
                with suppress(OSError):
                    held = Path(f"/proc/{pid}/{name}").read_bytes()
                    if any(mark in held for mark in marks):
                        found[pid] = f"{name} {held[:200]!r}"
                        break
        return found

    def close(self) -> None:
        """Take away what no folder holds; the folder is for the caller to remove."""
        for pid in self.left({os.getpid()}):
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        for undo in reversed(self._undo):
            with suppress(OSError):
                undo()
        self._undo.clear()
        for folder in _TEMPORARY:
            with suppress(OSError):
                for name in _names(folder):
                    if self.tag in name:
                        path = Path(folder, name)
                        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


_PORTS = ("tcp", "tcp6", "udp")
_IN_WORKSPACE = (
    "data",
    "README.md",
    "tree",
    "tree/a",
    "src/main.py",
    "links/root",
    "letter",
    "Makefile",
    ".env",
)


def traces_of(word: str, text: str) -> str:
    """Say in which form a word stands in a text, "" if it does not."""
    packed = "".join(text.split())
    plain = word.encode()
    forms = {
        "plain": [word],
        "backwards": [word[::-1]],
        "rotated": [codecs.encode(word, "rot13")],
        "hex": [plain.hex(), plain[::-1].hex()],
        "base64": [base64.b64encode(b"\0" * at + plain)[4 * (at > 0) : -4].decode() for at in range(3)],
        "decimal": [",".join(map(str, plain))],
    }
    lowered = packed.lower()
    for form, spelled in forms.items():
        if any(one in packed or (form == "hex" and one in lowered) for one in spelled):
            return form
    return ""


@contextmanager
def inside_of(folder: Path) -> Iterator[None]:
    """Be in a folder for a while."""
    before = os.open(".", os.O_RDONLY)
    os.chdir(folder)
    try:
        yield
    finally:
        os.fchdir(before)
        os.close(before)


def _names(folder: str | Path) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]


def _tree(top: Path, but: Path | None = None) -> Iterator[tuple[Path, object]]:
    """Yield everything in a folder, and it, with all that the kernel tells of it but when it was read."""
    try:
        info = top.lstat()
    except OSError:
        return
    target = top.readlink() if stat.S_ISLNK(info.st_mode) else None
    attributes: list[object] = []
    with suppress(OSError):
        names = os.listxattr(top, follow_symlinks=False)
        attributes = [(name, os.getxattr(top, name, follow_symlinks=False)) for name in names]
    content = b""
    if stat.S_ISREG(info.st_mode):
        with suppress(OSError), top.open("rb") as file:
            content = file.read(1 << 16)
    what = (info.st_mode, info.st_uid, info.st_gid, info.st_ino, info.st_size, info.st_nlink)
    yield top, (*what, info.st_mtime_ns, info.st_ctime_ns, target, attributes, content)
    if stat.S_ISDIR(info.st_mode):
        for name in _names(top):
            if top / name != but:
                yield from _tree(top / name)


def _held(fifo: int) -> int:
    """Return how many bytes wait in a FIFO."""
    count = array.array("i", [0])
    fcntl.ioctl(fifo, termios.FIONREAD, count)
    return count[0]


def _was_reached(listening: socket.socket) -> bool:
    try:
        listening.recv(16) if listening.type == _DATAGRAM else listening.accept()[0].close()
    except OSError:
        return False
    return True
