"""File tools and files that are unreadable, vanish, change, or belong to others."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from leeward.security.outcome import PermanentFailure, PolicyBlocked
from leeward.tools.files import DirHandle, Files, Guard, WriteTools, states
from leeward.tools.files import atomic as replace
from leeward.tools.files import lines as lines_module
from leeward.tools.search import Search
from leeward.tools.search import grep as matches_module


@pytest.fixture
def tool(policy, named):
    guard = Guard(policy)
    tools = [*Files(guard).tools(), *WriteTools(guard).tools(), *Search(guard).tools()]
    return lambda name: named(tools, name)


@pytest.fixture
def tree(workspace):
    for name in ("a.txt", "d/b.txt", "d/e/c.txt", "z.txt"):
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text(f"needle in {name}\n")
    return workspace


# ------------------------------------------------------------------ what may not be read


async def test_a_search_goes_by_what_may_not_be_read_and_counts_it(run, tool, tree, as_nobody):
    (tree / "a.txt").chmod(0o600)
    (tree / "d/e").chmod(0o700)
    (tree / ".gitignore").write_text("z.txt\n")
    (tree / ".gitignore").chmod(0o600)
    with as_nobody(tree):
        found = await run(tool("grep"), {"pattern": "needle"})
        assert sorted(found.text.split("\n")) == ["d/b.txt:1: needle in d/b.txt", "z.txt:1: needle in z.txt"]
        assert "2 files and 1 folders could not be opened" in found.notices
        names = await run(tool("find_path"), {"pattern": "*.txt"})
        assert sorted(names.text.split("\n")) == ["a.txt", "d/b.txt", "z.txt"]
        assert "0 files and 1 folders could not be opened" in names.notices
        with pytest.raises(PermanentFailure, match="listing the folder failed: Permission denied"):
            await run(tool("list_directory"), {"path": "d/e"})
        with pytest.raises(PermanentFailure, match="Permission denied"):
            await run(tool("read"), {"path": "a.txt"})
        with pytest.raises(PermanentFailure, match="Permission denied"):
            await run(tool("edit"), {"path": "a.txt", "old_string": "needle", "new_string": "x"})
        # Where nobody can tell what a path leads to, there is none that was judged.
        for name, more in {"read": {}, "write": {"content": "x"}}.items():
            with pytest.raises(PolicyBlocked, match="no path was judged"):
                await run(tool(name), {"path": "d/e/c.txt", **more})
    assert (tree / "a.txt").read_text() == "needle in a.txt\n"


async def test_another_ones_file_is_replaced_where_the_folder_allows_it(run, tool, tree, as_nobody):
    """What is replaced becomes the file of who replaced it, if nothing else is possible, and as closed as
    before.
    """
    (tree / "a.txt").chmod(0o646)
    with as_nobody(tree):
        os.setegid(0)
        os.seteuid(0)
        os.chown(tree / "a.txt", 0, 0)
        os.setegid(65_534)
        os.seteuid(65_534)
        await run(tool("edit"), {"path": "a.txt", "old_string": "needle", "new_string": "pin"})
    found = (tree / "a.txt").stat()
    assert (tree / "a.txt").read_text() == "pin in a.txt\n"
    assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (65_534, 0o646)


async def test_a_folder_that_may_not_be_listed_takes_a_file_all_the_same(run, tool, tree, as_nobody):
    with as_nobody(tree):
        (tree / "d").chmod(0o311)
        await run(tool("write"), {"path": "d/new", "content": "x"})
        with pytest.raises(PermanentFailure, match="there is no gone in this folder$"):
            await run(tool("read"), {"path": "d/gone"})
    assert (tree / "d/new").read_text() == "x"


# ------------------------------------------------------------------ what breaks while it is read


@pytest.mark.parametrize(("at", "found"), [(1, []), (3, ["1"]), (5, ["1", "2"])])
async def test_a_file_that_breaks_while_it_is_searched_keeps_what_was_found_in_it(
    run, tool, workspace, monkeypatch, at, found
):
    """Each read of a small block is one; the disk refuses some of them."""
    (workspace / "broken").write_text("needle\n" * 40)
    (workspace / "whole").write_text("needle\n")
    inode, times, real = (workspace / "broken").stat().st_ino, [], os.read

    def read(descriptor, size):
        if os.fstat(descriptor).st_ino == inode:
            times.append(size)
            if len(times) >= at:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(descriptor, size)

    for module in (matches_module, lines_module):
        monkeypatch.setattr(module, "_BLOCK", 7)
        monkeypatch.setattr(module.os, "read", read)
    output = await run(tool("grep"), {"pattern": "needle"})
    monkeypatch.undo()
    lines = [line.split(":")[1] for line in output.text.split("\n") if line.startswith("broken")]
    assert lines[: len(found)] == found and len(lines) < 40 and "whole:1: needle" in output.text
    assert "1 files and 0 folders could not be opened" in output.notices


@pytest.mark.parametrize("at", [1, 2, 3])
async def test_a_file_that_breaks_while_it_is_read_is_told_and_was_not_seen(run, tool, tree, monkeypatch, at):
    times, real = [], os.read

    def read(descriptor, size):
        times.append(size)
        if len(times) == at:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(descriptor, min(size, 4))

    before = len(list(Path("/proc/self/fd").iterdir()))
    monkeypatch.setattr(lines_module.os, "read", read)
    with pytest.raises(PermanentFailure, match="reading the file failed: Input/output error"):
        await run(tool("read"), {"path": "a.txt"})
    monkeypatch.undo()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    (tree / "a.txt").write_text("changed by somebody")
    await run(tool("write"), {"path": "a.txt", "content": "mine"})
    assert (tree / "a.txt").read_text() == "mine", "of what was not read nothing can be out of date"


@pytest.mark.parametrize("became", ["nothing", "a link", "a folder", "a FIFO", "another file"])
async def test_what_changes_between_the_listing_and_the_opening_is_never_followed(
    run, tool, tree, tmp_path, monkeypatch, became
):
    (tmp_path / "outside").write_text("needle CANARY\n")
    real, path = DirHandle.open_known_file, tree / "a.txt"

    def meanwhile(folder, name):
        if name == "a.txt" and path.is_file() and not path.is_symlink():
            path.unlink()
            match became:
                case "a link":
                    path.symlink_to(tmp_path / "outside")
                case "a folder":
                    path.mkdir()
                case "a FIFO":
                    os.mkfifo(path)
                case "another file":
                    path.write_text("needle of others\n")
        return real(folder, name)

    monkeypatch.setattr(DirHandle, "open_known_file", meanwhile)
    output = await run(tool("grep"), {"pattern": "needle"})
    assert "CANARY" not in output.text and "z.txt:1" in output.text
    if became == "another file":
        assert "a.txt:1: needle of others" in output.text
    else:
        assert "1 files and 0 folders could not be opened" in output.notices


@pytest.mark.parametrize("came", ["a file", "a link", "a folder"])
async def test_what_comes_to_be_there_while_a_new_file_is_written_stays(
    run, tool, workspace, tmp_path, monkeypatch, came
):
    (tmp_path / "outside").write_text("theirs")
    path, real = workspace / "new", os.fsync

    def meanwhile(descriptor):
        if not os.path.lexists(path):
            match came:
                case "a file":
                    path.write_text("theirs")
                case "a link":
                    path.symlink_to(tmp_path / "outside")
                case "a folder":
                    path.mkdir()
        real(descriptor)

    monkeypatch.setattr(replace.os, "fsync", meanwhile)
    why = "a link appeared" if came == "a link" else "changed by somebody else meanwhile"
    with pytest.raises((PermanentFailure, PolicyBlocked), match=why):
        await run(tool("write"), {"path": "new", "content": "mine"})
    assert [one.name for one in workspace.iterdir()] == ["new"] and (
        tmp_path / "outside"
    ).read_text() == "theirs"
    assert path.is_dir() or path.read_text() == "theirs"


# ------------------------------------------------------------------ what a yes is to


async def test_what_a_file_holds_is_told_as_far_as_it_can_be(policy, workspace, as_nobody):
    (workspace / "small").write_text("x")
    (workspace / "middle").write_bytes(b"x" * (1024 * 1024 + 1))
    with (workspace / "huge").open("wb") as file:
        file.truncate(16 * 1024 * 1024 + 1)
    (workspace / "shut").write_text("x")
    (workspace / "shut").chmod(0o600)
    (workspace / ".env").write_text("SECRET=fake")
    (workspace / "folder").mkdir()
    os.mkfifo(workspace / "fifo")
    (workspace / "closed").mkdir(mode=0o700)
    names = [
        "small",
        "middle",
        "huge",
        "shut",
        ".env",
        "folder",
        "fifo",
        "gone",
        "gone/below",
        "small/below",
        "closed/x",
    ]
    with as_nobody(workspace):
        found = states([str(workspace / name) for name in names], policy)
    told = {Path(path).name if "below" not in path else path[-11:]: state for path, state in found.items()}
    assert told["small"].content == b"x" and len(told["small"].mark) == 64
    assert told["middle"].content is None and len(told["middle"].mark) == 64
    assert told["huge"].content is None and told["huge"].mark == ":".join(map(str, told["huge"].identity))
    assert (told["folder"].kind, told["fifo"].kind, told["gone"].kind) == ("a folder", "a FIFO", "")
    assert "shut" not in told and ".env" not in told and "x" not in told
    before = told["huge"]
    os.utime(workspace / "huge", ns=(1, 1))
    (after,) = states([str(workspace / "huge")], policy).values()
    assert after.mark != before.mark, "what was not read whole is another one once its time is"
