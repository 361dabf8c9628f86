"""Change a tree at random, and compare after each step what the secret index finds with a scan of everything.

`fuzzed` makes names that are secret, repositories, folders of ours, links, sockets and closed folders, and
moves, replaces and deletes them, one at a time and by the hundred, at times while the index looks. All of it
happens in a temporary folder. `python tests/fuzz/index_fuzz.py [STEPS] [SEED]` does so at length, as root and
as an ordinary user, and exits 1 with all that was found.
"""

from __future__ import annotations

import os
import random
import shutil
import socket
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from leeward.security.paths import secret_reason
from leeward.security.policy import Policy
from leeward.tools import linux
from leeward.tools.sandbox.index import SecretIndex
from leeward.tools.sandbox.scan import ScanResult, WorkspaceScan

__all__ = ["fuzzed"]

_FOLDERS = (
    "a", "b", "c", "src", ".git", ".GIT", "hooks", "refs", "objects", ".leeward", ".ssh",
    "node_modules", "caf\udce9", "new\nline", "id_rsa",
)  # fmt: skip
_FILES = (
    "x", "y", ".env", ".ENV", "key.pem", "id_rsa", "HEAD", "config", "commondir", "pre-commit",
    ".npmrc", "id_rsa~", ".git", "caf\udce9.key", "\x1b[31m",
)  # fmt: skip
_CONTENTS = (
    "",
    "0" * 40,
    "[core]\n\thooksPath = hooks\n",
    "[include]\n\tpath = ../x\n",
    "../..",
    "SECRET=fake\n",
)
_MODES = (0o755, 0o700, 0o000, 0o111, 0o600, 0o444)
_NOBODY = 65_534
_MANY = 150


def _scan(base: Path) -> WorkspaceScan:
    policy = Policy(str(base / "ws"), str(base / "home"))
    return WorkspaceScan(
        roots=(str(base / "ws"),),
        read_only=(str(base / "read"), str(base / "missing")),
        places=(str(base / "ws/a/x"), str(base / "ws/src")),
        secret_places=(str(base / "ws/b/x"),),
        is_secret=lambda path: secret_reason(path, policy) is not None,
    )


def _folders(base: Path) -> list[Path]:
    found = [base / "ws", base / "read", base / "out"]
    for folder in found:
        with suppress(OSError), os.scandir(folder) as entries:
            found += (Path(one.path) for one in entries if one.is_dir(follow_symlinks=False))
    return found


class _Deeds:
    """What is done at random to the trees below a folder."""

    def __init__(self, base: Path, rng: random.Random) -> None:
        self.base, self.rng = base, rng

    def folder(self) -> Path:
        return self.rng.choice(_folders(self.base))

    def entry(self) -> Path:
        folder = self.folder()
        names = [path.name for path in folder.iterdir()] or ["x"]
        return folder / self.rng.choice(names)

    def new(self, names: tuple[str, ...] = _FILES) -> Path:
        return self.folder() / self.rng.choice(names)

    def write(self) -> None:
        path = self.new()
        if not path.is_fifo():
            path.write_text(self.rng.choice(_CONTENTS))

    def make_folder(self) -> None:
        self.new(_FOLDERS).mkdir()

    def make_deep(self) -> None:
        path = self.folder().joinpath(*self.rng.choices(_FOLDERS, k=3))
        path.mkdir(parents=True)
        (path / self.rng.choice(_FILES)).write_text("x")

    def remove(self) -> None:
        path = self.entry()
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()

    def rename(self) -> None:
        target = self.new(self.rng.choice((_FILES, _FOLDERS)))
        self.entry().rename(target)

    def exchange(self) -> None:
        one, other = self.entry(), self.entry()
        if one.parent == other.parent and one != other:
            handle = os.open(one.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                linux.exchange_names(handle, one.name, other.name)
            finally:
                os.close(handle)

    def link(self) -> None:
        self.new(self.rng.choice((_FILES, _FOLDERS))).symlink_to(self.rng.choice([self.folder(), "x", ".."]))

    def hard_link(self) -> None:
        os.link(self.entry(), self.new(("plain", *_FILES)), follow_symlinks=False)

    def mode(self) -> None:
        path = self.entry()
        if not path.is_symlink():
            path.chmod(self.rng.choice(_MODES))

    def open_all(self) -> None:
        for folder in _folders(self.base):
            for path in (folder, *folder.iterdir()):
                if path.is_dir() and not path.is_symlink():
                    path.chmod(0o755)

    def listen(self) -> None:
        here = Path.cwd()
        os.chdir(self.folder())
        try:
            with socket.socket(socket.AF_UNIX) as listening:
                listening.bind(self.rng.choice(("x", "sock")))
        finally:
            os.chdir(here)

    def pipe(self) -> None:
        os.mkfifo(self.new())

    def repository(self) -> None:
        folder = self.new(("a", "bare", ".git"))
        for name in ("objects", "refs/heads", "hooks"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "HEAD").write_text("ref: refs/heads/main\n")
        (folder / "config").write_text(self.rng.choice(_CONTENTS))
        (folder / "refs/heads/id_rsa").write_text(self.rng.choice(_CONTENTS))

    def many(self) -> None:
        folder = self.folder()
        for number in range(_MANY):
            path = folder / f"m{number}"
            if self.rng.random() < 0.2:
                path.mkdir()
                (path / self.rng.choice(_FILES)).write_text("x")
            else:
                path.write_text("x")

    def quickly(self) -> None:
        """Make, move and remove folders of the same few names, over and over."""
        folder = self.folder()
        for _ in range(40):
            one, other = (folder / self.rng.choice(("q", "r", "s")) for _ in range(2))
            with suppress(OSError):
                self.rng.choice((one.mkdir, one.rmdir, lambda one=one, other=other: one.rename(other)))()
            with suppress(OSError):
                (one / self.rng.choice((".env", "x"))).write_text("x")

    def replace_top(self) -> None:
        top = self.base / self.rng.choice(("ws", "read"))
        top.rename(self.base / "away")
        if self.rng.random() < 0.5:
            shutil.copytree(self.base / "away", top, symlinks=True)
            shutil.rmtree(self.base / "away")
        else:
            (self.base / "away").rename(top)

    def prune(self) -> None:
        """Keep it small enough to be scanned after each step."""
        for folder in _folders(self.base)[3:]:
            if self.rng.random() < 0.7:
                shutil.rmtree(folder, ignore_errors=True)

    def all(self) -> list[Callable[[], None]]:
        often = [
            self.write,
            self.make_folder,
            self.make_deep,
            self.remove,
            self.rename,
            self.rename,
            self.mode,
        ]
        seldom = [
            self.exchange,
            self.link,
            self.hard_link,
            self.open_all,
            self.listen,
            self.pipe,
            self.repository,
        ]
        rarely = [self.many, self.quickly, self.replace_top]
        return often * 6 + seldom * 3 + rarely


def _shown(seen: ScanResult) -> tuple[object, ...]:
    return seen.marks, sorted((spot.path, spot.is_folder) for spot in seen.secrets), seen.is_whole


@contextmanager
def _as_user(base: Path, user: int) -> Iterator[None]:
    """Be another user for a while, if that can be; `base` is given to them."""
    if user == os.geteuid():
        yield
        return
    os.chown(base, user, user)
    os.setegid(user)
    os.seteuid(user)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def _disturbed(index: SecretIndex, do: Callable[[], None], rng: random.Random) -> None:
    """Look while another thread changes the tree; what was found then is not compared."""

    def run() -> None:
        for _ in range(rng.randrange(1, 20)):
            with suppress(OSError, shutil.Error):
                do()

    thread = threading.Thread(target=run)
    thread.start()
    while thread.is_alive():
        index.look()
    thread.join()


def fuzzed(steps: int, seed: int, user: int | None = None) -> tuple[list[str], Counter[str]]:
    """Take random steps; return the differences, and how often the index was used and what was done."""
    rng, problems, seen = random.Random(seed), [], Counter[str]()
    with tempfile.TemporaryDirectory() as made:
        base = Path(os.path.realpath(made))
        with _as_user(base, os.geteuid() if user is None else user):
            for name in ("ws", "read", "out", "home"):
                (base / name).mkdir()
            scan, deeds = _scan(base), _Deeds(base, rng)
            index = SecretIndex(scan)
            for step in range(steps):
                done = [rng.choice(deeds.all()) for _ in range(rng.choice((1, 1, 2, 5)))]
                if step % 50 == 49:
                    done = [deeds.open_all, deeds.prune]
                for do in done:
                    with suppress(OSError, shutil.Error):
                        do()
                        seen[do.__name__] += 1
                if rng.random() < 0.03:
                    _disturbed(index, lambda: rng.choice(deeds.all())(), rng)
                found, expected = _shown(index.look()), _shown(scan.look())
                seen["scanned" if index.unused_because else "used"] += 1
                seen["secrets"] += len(expected[1])  # type: ignore[arg-type]
                if found != expected:
                    names = [do.__name__ for do in done]
                    problems.append(f"seed {seed}, step {step}, {names}: {found} is not {expected}")
                    break
            index.close()
            with suppress(OSError):
                deeds.open_all()
    return problems, seen


def main() -> None:
    """Take many steps and say what was found."""
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 3000
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    problems: list[str] = []
    for user in (os.geteuid(), *((_NOBODY,) if os.geteuid() == 0 else ())):
        for seed in range(first, first + 10):
            found, seen = fuzzed(steps, seed, user)
            problems += found
            print(f"user {user}, seed {seed}: {dict(seen)}", flush=True)
    print("\n".join(problems) or "the index found what a scan finds")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
