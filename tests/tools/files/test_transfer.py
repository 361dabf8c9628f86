"""Copy, move and delete of any tree: complete, or without any visible effect."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
import threading
from pathlib import Path

import pytest
import trio
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from leeward.security.outcome import PermanentFailure, PolicyBlocked
from leeward.security.policy import Policy
from leeward.tools.files import Guard, HardLinks, Trees, open_folder, transfer
from leeward.tools.files.transfer import copy_entry, delete_entry, entries_of

NAMES = ("a", "b", "sp ace", "caf\udce9", "new\nline", "-rf", "ö", "x" * 200)
NODES = st.dictionaries(
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join),
    st.one_of(
        st.tuples(
            st.just("file"), st.binary(max_size=20),
            st.sampled_from([0o644, 0o600, 0o755, 0o444, 0o4755, 0o400]),
        ),
        st.tuples(st.just("folder"), st.none(), st.sampled_from([0o755, 0o700, 0o2775, 0o1777])),
        st.tuples(
            st.just("link"), st.sampled_from(["a", "../..", "../../../outside", "nowhere", "."]), st.none(),
        ),
        st.tuples(st.just("hard"), st.none(), st.none()),
    ),
    max_size=8,
)  # fmt: skip


def planted(root: Path, nodes: dict[str, tuple]) -> None:
    """Make a tree, as far as names do not contradict each other; a hard link is to the first file there is.

    Links come last, so that nothing is ever made through one.
    """
    first: Path | None = None
    root.mkdir(parents=True)
    for name, (kind, held, mode) in sorted(nodes.items(), key=lambda one: (one[1][0] == "link", one[0])):
        path = root / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.parent.resolve() != path.parent or os.path.lexists(path):
                continue
            if kind == "file":
                path.write_bytes(held)
                path.chmod(mode)
                os.utime(path, ns=(10**18 + 1, 10**18 + len(held)))
                first = first or path
            elif kind == "folder":
                path.mkdir()
            elif kind == "link":
                path.symlink_to(held)
            elif first is not None:
                os.link(first, path)
        except OSError:
            continue
    for name, (kind, _, mode) in nodes.items():
        if kind == "folder" and (root / name).is_dir() and not (root / name).is_symlink():
            (root / name).chmod(mode)


def carried(root: Path) -> dict[str, tuple]:
    """All that a copy promises to bring along: kind, permissions, content, target, a file's time of
    change.
    """
    found = {}
    for folder, folders, files in os.walk(root):
        for name in (".", *folders, *files):
            path = Path(folder, name)
            status = path.lstat()
            kind, mode = stat.S_IFMT(status.st_mode), stat.S_IMODE(status.st_mode) & 0o777
            if path.is_symlink():
                found[os.path.relpath(path, root)] = kind, str(path.readlink())
            elif path.is_file():
                found[os.path.relpath(path, root)] = kind, mode, path.read_bytes(), status.st_mtime_ns
            else:
                found[os.path.relpath(path, root)] = kind, mode
    return found


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def copied(base: Path, source: str, target: str) -> None:
    """Copy as the tool does, in a thread that can be cancelled."""
    links = HardLinks(Guard(Policy(str(base), str(base))))

    def copy() -> None:
        with open_folder(str(base)) as folder:
            copy_entry(folder, source, folder, target, links)

    trio.run(trio.to_thread.run_sync, copy)


@settings(
    max_examples=settings().max_examples * 2 // 5,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)
@given(NODES)
@example({"a/b": ("file", b"x", 0o4755), "b": ("hard", None, None), "a": ("folder", None, 0o2775)})
@example({"caf\udce9/new\nline": ("link", "../..", None), "-rf": ("file", b"", 0o400)})
def test_a_copy_carries_what_it_promises_and_deleting_takes_all_of_it(nodes):  # fmt: skip
    with tempfile.TemporaryDirectory() as temporary:
        # Deep enough that no link in it leads out of what is thrown away afterwards.
        base = Path(os.path.realpath(temporary), *"abcde")
        planted(base / "source", nodes)
        before = carried(base / "source")
        copied(base, "source", "copy")
        assert carried(base / "copy") == before and carried(base / "source") == before
        ours = {path.lstat().st_ino for path in (base / "copy").rglob("*") if not path.is_dir()}
        assert not ours & {path.lstat().st_ino for path in (base / "source").rglob("*")}, "no file is shared"
        assert not any(
            path.lstat().st_mode & 0o6000 for path in (base / "copy").rglob("*") if not path.is_symlink()
        )

        def rest() -> int:
            with open_folder(str(base)) as folder:
                count = sum(1 for _ in entries_of(folder, "copy", 100))
                delete_entry(folder, "copy")
                return count

        assert trio.run(trio.to_thread.run_sync, rest) == len(
            [name for name in before if not name.endswith("/.")]
        )
        assert carried(base / "source") == before and names_in(base) == ["source"]


# ------------------------------------------------------------------ what fails on the way


def no_room(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def tree(workspace):
    for name in ("src/a", "src/d/b", "src/d/e/c"):
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text(name)
    (workspace / "src" / "link").symlink_to("a")
    return workspace


@pytest.fixture
def trees(policy, named):
    return lambda name: named(Trees(Guard(policy)).tools(), name)


@pytest.mark.parametrize("broken", ["mkdir", "symlink", "fchmod", "fsync", "utime", "read"])
@pytest.mark.parametrize("at", [1, 2])
async def test_a_copy_that_fails_anywhere_leaves_nothing_and_frees_what_it_took(
    run, trees, tree, monkeypatch, broken, at
):
    """Each call of the system that a copy makes fails at its first or second time."""
    before = carried(tree)
    real, times = getattr(transfer.os, broken, None), []

    def fail(*arguments, **named):
        times.append(1)
        if len(times) == at:
            no_room()
        return real(*arguments, **named)

    if broken == "read":
        monkeypatch.setattr("leeward.tools.files.lines.os.read", fail)
    else:
        monkeypatch.setattr(transfer.os, broken, fail)
    opened = len(names_in(Path("/proc/self/fd")))
    if broken == "symlink" and at == 2:
        await run(trees("copy_path"), {"source": "src", "destination": "copy"})
        return
    with pytest.raises(PermanentFailure, match="nothing was changed failed: No space left|No space left"):
        await run(trees("copy_path"), {"source": "src", "destination": "copy"})
    monkeypatch.undo()
    assert carried(tree) == before and len(times) >= at
    assert len(names_in(Path("/proc/self/fd"))) == opened


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a file system that is full at once")
async def test_a_disk_that_is_full_keeps_the_copy_from_appearing(run, trees, tree):
    small = tree / "small"
    small.mkdir()
    mounted = await trio.run_process(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(small)], check=False, capture_stderr=True
    )
    if mounted.returncode:
        pytest.skip(f"nothing can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        (tree / "src" / "big").write_bytes(b"x" * 300_000)
        (small / "there").write_text("x")
        for source in ("src", "src/big"):
            with pytest.raises(PermanentFailure, match="No space left"):
                await run(trees("copy_path"), {"source": source, "destination": "small/copy"})
            assert names_in(small) == ["there"]
        with pytest.raises(PermanentFailure, match="another file system; copy it there, then delete it here"):
            await run(trees("move_path"), {"source": "src", "destination": "small/moved"})
        assert names_in(small) == ["there"] and (tree / "src/big").stat().st_size == 300_000
        await run(trees("copy_path"), {"source": "src/a", "destination": "small/copy"})
        assert (small / "copy").read_text() == "src/a"
    finally:
        await trio.run_process(["umount", str(small)])


@pytest.mark.parametrize("what", ["file", "folder", "link", "became a link", "became a FIFO", "grew"])
async def test_what_changes_while_it_is_copied_is_copied_as_it_was_or_not_at_all(
    run, trees, tree, tmp_path, monkeypatch, what
):
    """Somebody changes the tree between the listing of a folder and the opening of what is in it."""
    (tmp_path / "outside").write_text("CANARY")
    real, done = transfer._copy_file, []

    def meanwhile(source, name, *rest):
        if not done:
            done.append(name)
            path = tree / "src" / "d" / "b"
            match what:
                case "file":
                    path.unlink()
                case "folder":
                    shutil.rmtree(tree / "src" / "d")
                case "link":
                    (tree / "src" / "link").unlink()
                case "became a link":
                    path.unlink()
                    path.symlink_to(tmp_path / "outside")
                case "became a FIFO":
                    path.unlink()
                    os.mkfifo(path)
                case "grew":
                    path.write_text("x" * 3_000_000)
        return real(source, name, *rest)

    monkeypatch.setattr(transfer, "_copy_file", meanwhile)
    names = {"a", "link", "d"}
    try:
        with trio.fail_after(30):
            await run(trees("copy_path"), {"source": "src", "destination": "copy"}, timeout=30)
    except (PermanentFailure, PolicyBlocked) as error:
        assert (
            "copy_path failed" in str(error)
            or "a link appeared" in str(error)
            or "not copied" in str(error)
            or "no folder" in str(error)
        )
        assert not (tree / "copy").exists()
    else:
        assert set(names_in(tree / "copy")) >= names - {"link", "d"}
    assert not list(tree.glob(".leeward-*")) and done
    assert not any(
        "CANARY" in path.read_text() for path in tree.rglob("*") if path.is_file() and not path.is_symlink()
    )


async def test_a_link_in_place_of_a_new_folder_hands_its_permissions_to_nothing(
    run, trees, tree, tmp_path, monkeypatch
):
    (tmp_path / "outside").mkdir(mode=0o700)
    (tree / "src").chmod(0o777)
    real = transfer._copy_file

    def meanwhile(*arguments):
        (new,) = tree.glob(".leeward-*")
        if not new.is_symlink():
            new.rename(tree / "taken")
            new.symlink_to(tmp_path / "outside")
        return real(*arguments)

    monkeypatch.setattr(transfer, "_copy_file", meanwhile)
    await run(trees("copy_path"), {"source": "src", "destination": "copy"})
    assert stat.S_IMODE((tmp_path / "outside").stat().st_mode) == 0o700 and not names_in(tmp_path / "outside")


async def test_a_cancelled_copy_leaves_nothing_and_a_cancelled_look_touches_nothing(
    clear, trees, tree, monkeypatch
):
    (tree / "src" / "big").write_bytes(b"x" * 5_000_000)
    before = carried(tree)
    begun, go_on = threading.Event(), threading.Event()
    real = transfer._copy_file

    def slow(*arguments):
        begun.set()
        assert go_on.wait(30)
        return real(*arguments)

    monkeypatch.setattr(transfer, "_copy_file", slow)
    cleared = await clear(
        executor := trees("copy_path"), {"source": "src", "destination": "copy"}, timeout=60
    )
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(executor.execute, cleared)
            await trio.to_thread.run_sync(begun.wait, 30)
            nursery.cancel_scope.cancel()
            go_on.set()
    assert carried(tree) == before
    with trio.CancelScope() as scope:
        scope.cancel()
        await trees("delete_path").execute(await clear(trees("delete_path"), {"path": "src"}))
    assert carried(tree) == before


@pytest.mark.parametrize("tool", ["copy_path", "move_path", "delete_path"])
async def test_what_lies_in_a_folder_that_may_not_be_entered_is_told_and_stays(
    run, trees, tree, tool, as_nobody
):
    """A folder of another's in the middle of the tree, as an ordinary user comes across it."""
    (tree / "src" / "d").chmod(0o700)
    os.chown(tree / "src" / "d", 0, 0)
    before = carried(tree)
    arguments = {"path": "src"} if tool == "delete_path" else {"source": "src", "destination": "new"}
    with as_nobody(tree), pytest.raises(PermanentFailure, match="Permission denied"):
        await run(trees(tool), arguments)
    assert carried(tree) == before


async def test_a_folder_that_may_not_be_written_to_takes_nothing(run, trees, tree, as_nobody):
    (tree / "shut").mkdir()
    with as_nobody(tree):
        (tree / "shut").chmod(0o555)
        before = carried(tree)
        for tool, arguments in {
            "copy_path": {"source": "src", "destination": "shut/new"},
            "move_path": {"source": "src", "destination": "shut/new"},
            "create_directory": {"path": "shut/new/deep"},
        }.items():
            with pytest.raises(PermanentFailure, match="Permission denied"):
                await run(trees(tool), arguments)
            assert carried(tree) == before
        (tree / "shut").chmod(0o755)
        await run(trees("copy_path"), {"source": "src", "destination": "shut/new"})
        assert carried(tree / "shut/new") == carried(tree / "src")
