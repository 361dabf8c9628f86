"""Keep what random programs did to random trees: the workspace is then what the programs saw, or untouched.

`fuzzed` runs random operations in an overlay, keeps or discards what they changed, and compares the workspace
with the tree that the programs saw, or with the one before. `killed` kills the process that keeps at a random
moment, and the one after it, too, at times; what the next one makes of it must be one of both trees.
`python tests/fuzz/keep_fuzz.py [KILLS] [SEED]` does both at length and exits 1 with all that was found.
"""

from __future__ import annotations

import importlib.util
import os
import random
import shlex
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import trio

from leeward.memory.checkpoints import CheckpointStore
from leeward.memory.database import AsyncioThread, Database
from leeward.security.policy import Policy
from leeward.tools.files import Guard
from leeward.tools.sandbox import Changes, Keeping, changes_of

__all__ = ["fuzzed", "killed"]

_NAMES = (
    "a",
    "b",
    "c",
    "d",
    "e",
    "-n",
    " ",
    "caf\udce9",
    "ü",
    "new\nline",
    "\x1b[31m",
    "x" * 200,
    ".hidden",
    "*",
)
_MODES = ("644", "600", "755", "444", "400", "700", "000")
_FOLDER_MODES = ("755", "700", "555", "500", "000", "1777", "2755")
# The programs are not confined: what they write through a link would be written, so no link leads far.
_TARGETS = ("a", "nowhere", "b/c", "./d")
_CHANCE_OF_HOOK = 0.6


class Clock:
    """The time of day."""

    def now(self) -> float:
        """Return seconds since the epoch."""
        return time.time()


def _upper_module() -> Any:
    path = Path(__file__).parents[1] / "tools" / "sandbox" / "trial_upper.py"
    spec = importlib.util.spec_from_file_location("trial_upper", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


UPPER = _upper_module()


def _path(rng: random.Random, folders: list[str]) -> str:
    folder = rng.choice(folders)
    return f"{folder}/{rng.choice(_NAMES)}" if folder else rng.choice(_NAMES)


def tree(root: Path, rng: random.Random, entries: int) -> list[str]:
    """Make a random tree, and return the folders in it."""
    folders = [""]
    for _ in range(entries):
        path = _path(rng, folders)
        whole = root / path
        if os.path.lexists(whole):
            continue
        match rng.choice("fffffddl"):
            case "d":
                whole.mkdir()
                folders.append(path)
            case "l":
                whole.symlink_to(rng.choice(_TARGETS))
            case _:
                whole.write_bytes(rng.randbytes(rng.choice((0, 1, 10, 5000))))
                whole.chmod(int(rng.choice(_MODES if os.getuid() == 0 else _MODES[:-1]), 8))
                os.utime(whole, ns=(1, rng.randrange(10**18)))
    for folder in reversed(folders[1:]):
        if rng.random() < 0.2:
            (root / folder).chmod(int(rng.choice(_FOLDER_MODES[:4]), 8))
    return folders


def operations(rng: random.Random, folders: list[str], count: int) -> str:
    """Return lines of a shell that do random things; some fail."""
    lines = []
    for _ in range(count):
        one, other = (shlex.quote(f"./{_path(rng, folders)}") for _ in range(2))
        text = shlex.quote("x" * rng.choice((1, 3, 4000)))
        lines.append(
            rng.choice(
                (
                    f"printf %s {text} >{one}",
                    f"printf %s {text} >>{one}",
                    f"rm -rf {one}",
                    f"mv -T {one} {other}",
                    f"rm -rf {one}; mkdir {one}; printf n >{one}/n",
                    f"mkdir -p {one}/p/q; printf {text} >{one}/p/q/r",
                    f"chmod {rng.choice(_MODES)} {one}",
                    f"chmod {rng.choice(_FOLDER_MODES)} {one}",
                    f"rm -f {one}; ln -s {rng.choice(_TARGETS)} {one}",
                    f"printf %s {text} >{one}.new && mv -fT {one}.new {one}",
                    f"truncate -s {rng.choice((0, 3, 9000))} {one}",
                    f"cp -a {one} {other}",
                    f"ln -f {one} {other}",
                    f"chmod u+w {one}; touch {one}/t; chmod u-w {one}",
                    f": >>{one}",
                    f"cp -p {one} {one}.c; cat {one}.c >{one}; rm {one}.c",
                )
            )
        )
    return "\n".join(f"({line}) 2>/dev/null </dev/null" for line in lines)


@contextmanager
def keeping(folder: Path, work: Path) -> Iterator[Callable[[Callable[[Keeping], Awaitable[Any]]], Any]]:
    """Yield what runs something with a store in a folder."""

    async def run(act: Callable[[Keeping], Awaitable[Any]]) -> Any:
        async with AsyncioThread.open("keep") as thread, Database.open(folder / "k.db", thread) as database:
            store = CheckpointStore(database, Clock(), 1 << 28)
            guard = Guard(Policy(str(work), str(folder)))
            return await act(Keeping(store, guard, 20_000, folder / "journal"))

    yield lambda act: trio.run(run, act)


def differences(found: dict[str, Any], wanted: dict[str, Any], changes: Changes | None) -> list[str]:
    """Return where two trees differ; times count where a file is one of the changes."""
    timed = None if changes is None else {one.path for one in changes.changes}
    told = []
    for path in sorted(found.keys() | wanted.keys()):
        one, other = found.get(path), wanted.get(path)
        if one is not None and other is not None and timed is not None and path not in timed:
            one, other = one[:3], other[:3]
        if other is not None and other[0] == "file" and changes is not None:
            # Nothing that is kept runs as somebody else.
            other = (other[0], other[1] & 0o777, *other[2:])
        if one != other:
            told.append(f"{path!r}: {one}, and not {other}")
    return told


@contextmanager
def machine(rng: random.Random, entries: int, count: int) -> Iterator[tuple[Path, Path, Any, dict[str, Any]]]:
    """Yield a folder for a store, a workspace, what random programs wrote there, and how it was before."""
    with tempfile.TemporaryDirectory() as made:
        folder, work = Path(made).resolve(), Path(made).resolve() / "ws"
        work.mkdir()
        folders = tree(work, rng, entries)
        before = UPPER.view(str(work))
        try:
            with UPPER.upper_of(work, operations(rng, folders, count)) as upper:
                yield folder, work, upper, before
        finally:
            for path in [work, *work.rglob("*")]:
                if path.is_dir() and not path.is_symlink():
                    path.chmod(0o700)


def fuzzed(rounds: int, seed: int) -> tuple[list[str], Counter[str]]:
    """Keep, or discard, what random programs did; return what was wrong, and what was seen."""
    problems: list[str] = []
    seen: Counter[str] = Counter()
    for number in range(rounds):
        rng = random.Random(f"{seed} {number}")
        with machine(rng, rng.randrange(40), rng.randrange(25)) as (folder, work, upper, before):
            changes = changes_of(upper.handle, upper.lower, upper.began)
            again = changes_of(upper.handle, upper.lower, upper.began)
            told = [] if changes == again else ["a second look finds something else"]
            told += [f"a conflict with nobody: {path!r}" for path in changes.conflicts]
            if rng.random() < 0.15:
                wanted, seen["discarded"] = before, seen["discarded"] + 1
            else:
                wanted, seen["kept"] = upper.view, seen["kept"] + 1
                seen["changes"] += len(changes.changes)
                told += _kept(folder, work, upper, changes)
            stays = {path for path, _ in changes.refused} - {one.path for one in changes.changes}
            seen["refused"] += len(stays)
            found = differences(UPPER.view(str(work)), wanted, None if wanted is before else changes)
            told += [line for line in found if not any(repr(path) in line for path in stays)]
            told += [f"left behind: {path}" for path in work.rglob(".leeward-*")]
        problems += [f"{seed} {number}: {line}" for line in told]
    return problems, seen


def _kept(folder: Path, work: Path, upper: Any, changes: Changes) -> list[str]:
    async def keep(keeping: Keeping) -> None:
        await keeping.keep(upper.handle, upper.lower, changes, session="s", call="c", tool="shell")

    with keeping(folder, work) as run:
        try:
            run(keep)
        except BaseException as error:  # noqa: BLE001 — whatever it is, it is told with the round
            return [f"not kept: {error!r}"]
    return []


def _child(work: Callable[[], int]) -> int:
    """Do something in a process of its own, which may end itself or be ended, and return its number."""
    child = os.fork()
    if child == 0:
        status = 70
        try:
            status = work()
        finally:
            os._exit(status)
    return child


def _dies_at(event: int) -> None:
    """End this process at the n-th thing it does to files."""
    left = event

    def hook(name: str, _: tuple[Any, ...]) -> None:
        nonlocal left
        if name.startswith(("os.", "open", "fcntl")):
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def killed(kills: int, seed: int, entries: int = 60) -> tuple[list[str], Counter[str]]:
    """Kill whoever keeps, and look at what the next one makes of it."""
    problems: list[str] = []
    seen: Counter[str] = Counter()
    for number in range(kills):
        rng = random.Random(f"killed {seed} {number}")
        with machine(rng, rng.randrange(entries), rng.randrange(1, entries)) as (folder, work, upper, before):
            changes = changes_of(upper.handle, upper.lower, upper.began)
            _killed(
                rng,
                folder,
                work,
                lambda: _keeps(folder, work, upper, changes),
                40 + 30 * len(changes.changes),
            )
            seen["killed"] += 1
            while rng.random() < 0.4:
                _killed(rng, folder, work, lambda: _finishes(folder, work), 30 + 20 * len(changes.changes))
                seen["killed while finishing"] += 1
            middle = UPPER.view(str(work))
            status = os.waitstatus_to_exitcode(os.waitpid(_child(lambda: _finishes(folder, work)), 0)[1])
            found = UPPER.view(str(work))
            back, there = differences(found, before, None), differences(found, upper.view, changes)
            seen["taken back" if not back else "applied" if not there else "neither"] += 1
            seen["half-applied"] += bool(
                differences(middle, before, None) and differences(middle, upper.view, changes)
            )
            told = [f"finishing ended with {status}"] if status else []
            if back and there:
                told += [f"not as before: {line}" for line in back[:3]] + [
                    f"not applied: {line}" for line in there[:3]
                ]
            told += [f"left behind: {path}" for path in work.rglob(".leeward-*")]
            told += [
                f"left behind: {path}" for path in (folder / "journal").glob("*/*") if path.name != "lock"
            ]
        problems += [f"killed {seed} {number}: {line}" for line in told]
    return problems, seen


def _killed(rng: random.Random, folder: Path, work: Path, act: Callable[[], int], events: int) -> None:
    if rng.random() < _CHANCE_OF_HOOK:
        event = rng.randrange(events)

        def dies() -> int:
            _dies_at(event)
            return act()

        os.waitpid(_child(dies), 0)
        return
    child = _child(act)
    time.sleep(rng.random() * (0.02 + events * 0.0002))
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def _keeps(folder: Path, work: Path, upper: Any, changes: Changes) -> int:
    return 1 if _kept(folder, work, upper, changes) else 0


def _finishes(folder: Path, work: Path) -> int:
    with keeping(folder, work) as run:
        lines = run(lambda keeping: keeping.finish_pending())
    return 3 if any("half-applied" in line for line in lines) else 0


def main() -> int:
    """Do both at length."""
    kills, seed = (int(text) for text in (*sys.argv[1:], "500", "1")[:2])
    if why := UPPER.why_not():
        print(why)
        return 0
    os.nice(10)
    problems, seen = killed(kills, seed)
    more, also = fuzzed(max(1, kills // 2), seed)
    print(dict(seen), dict(also))
    print("\n".join(problems + more))
    return 1 if problems or more else 0


if __name__ == "__main__":
    sys.exit(main())
