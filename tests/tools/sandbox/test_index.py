"""The secret index finds what a full scan finds, and is unused where it could miss something."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import pytest

from leeward.tools import linux
from leeward.tools.process import mounts
from leeward.tools.sandbox import index as index_module
from leeward.tools.sandbox.index import SecretIndex
from leeward.tools.sandbox.scan import WorkspaceScan

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="notices of changes are Linux's")


@pytest.fixture
def place(tmp_path):
    root = Path(os.path.realpath(tmp_path)) / "ws"
    (root / "sub/deep").mkdir(parents=True)
    index = SecretIndex(WorkspaceScan((str(root),), (), (), (), lambda path: path.endswith(".pem")))
    yield root, index
    index.close()


@pytest.fixture
def watched(place):
    root, index = place
    index.look()
    if index.unused_because:
        pytest.skip(f"no notices here: {index.unused_because}")
    return root, index


def hidden(index):
    found = index.look()
    # Folders equally deep come in the order of the disk there, and of their names here.
    assert sorted(spot.path for spot in found.secrets) == sorted(
        spot.path for spot in index.scan.look().secrets
    )
    return {Path(spot.path).name for spot in found.secrets}


@pytest.mark.parametrize("seed", range(4))
def test_it_finds_what_a_scan_finds_whatever_is_done(script, watched, seed):
    problems, seen = script("fuzz/index_fuzz.py").fuzzed(80, seed)
    assert problems == []
    assert seen["used"] > seen["scanned"]


@pytest.mark.parametrize("seed", range(2))
def test_it_does_so_for_whom_folders_are_closed(script, watched, seed):
    if os.geteuid() != 0:
        pytest.skip("the other test runs as an ordinary user already")
    problems, seen = script("fuzz/index_fuzz.py").fuzzed(80, seed, 65_534)
    assert problems == []
    assert seen["used"] > seen["scanned"]


def test_a_later_look_lists_only_folders_that_hold_something(watched, monkeypatch):
    root, index = watched
    (root / "sub/key.pem").write_text("fake")
    assert hidden(index) == {"key.pem"}
    listed = []
    real = os.scandir
    monkeypatch.setattr(index_module.os, "scandir", lambda path: listed.append(str(path)) or real(path))
    index.look()
    assert listed == [str(root / "sub"), str(root / "sub/key.pem")]


def test_what_came_with_a_new_or_moved_folder_is_found(watched):
    root, index = watched
    other = root.parent / "other"
    (other / "a/b").mkdir(parents=True)
    (other / "a/b/key.pem").write_text("fake")
    other.rename(root / "sub/came")
    assert hidden(index) == {"key.pem"}
    (root / "sub").rename(root / "elsewhere")
    (root / "elsewhere/deep/two.pem").write_text("fake")
    assert hidden(index) == {"key.pem", "two.pem"}
    (root / "elsewhere/came").rename(root.parent / "gone")
    assert hidden(index) == {"two.pem"}


def test_a_secret_made_while_a_folder_is_listed_is_found(watched, monkeypatch):
    root, index = watched
    real = index_module.linux.watch_folder

    def watch(queue, path):
        if path.endswith("/new"):
            Path(path).rename(root / "old")
            Path(path).mkdir()
            Path(path, "key.pem").write_text("fake")
        return real(queue, path)

    (root / "new").mkdir()
    monkeypatch.setattr(index_module.linux, "watch_folder", watch)
    index.look()
    monkeypatch.undo()
    assert hidden(index) == {"key.pem"} and not index.unused_because


def test_more_changes_than_the_kernel_keeps_begin_it_anew(watched, monkeypatch):
    root, index = watched
    (root / "sub/deep/key.pem").write_text("fake")
    lost = [linux.FolderEvent(-1, linux.Notice.OVERFLOW, "")]

    def pending(queue):
        if lost:
            list(linux_pending(queue))
            yield lost.pop()
        yield from linux_pending(queue)

    linux_pending = linux.pending_notices
    monkeypatch.setattr(index_module.linux, "pending_notices", pending)
    assert hidden(index) == {"key.pem"}
    assert not lost and not index.unused_because


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.ENOSYS, errno.EACCES])
def test_folders_that_cannot_be_watched_are_scanned(place, monkeypatch, number):
    root, index = place
    (root / "sub/key.pem").write_text("fake")

    def refused(queue, path):
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(index_module.linux, "watch_folder", refused)
    assert hidden(index) == {"key.pem"} and index.unused_because
    (root / "sub/two.pem").write_text("fake")
    assert hidden(index) == {"key.pem", "two.pem"}


def test_no_queue_at_all_means_scans(place, monkeypatch):
    root, index = place
    (root / "sub/key.pem").write_text("fake")

    def refused():
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(index_module.linux, "open_notices", refused)
    assert hidden(index) == {"key.pem"} and "Too many open files" in index.unused_because


def test_more_folders_than_its_share_are_scanned(place, monkeypatch):
    root, index = place
    (root / "sub/key.pem").write_text("fake")
    monkeypatch.setattr(index_module, "_most_watches", lambda: 2)
    assert hidden(index) == {"key.pem"} and "more folders than may be watched" in index.unused_because
    assert index.watched == 0


@pytest.mark.parametrize("kind", ["nfs4", "fuse.sshfs", "9p", "overlay", "virtiofs", "something new"])
def test_a_file_system_that_others_change_is_scanned(place, monkeypatch, kind):
    root, index = place
    monkeypatch.setattr(index_module, "mounts", lambda _: [(1, "/", "/", kind)])
    index.look()
    assert kind in index.unused_because and index.watched == 0


def test_a_mount_inside_is_scanned_and_one_that_is_gone_is_not(watched, monkeypatch):
    root, index = watched
    inside = [(1, "/", "/", "ext4"), (2, "/", str(root / "sub"), "ext4")]
    monkeypatch.setattr(index_module, "mounts", lambda _: inside)
    index.look()
    assert "another file system is mounted" in index.unused_because
    monkeypatch.undo()
    index.look()
    assert not index.unused_because


def test_a_tree_that_was_replaced_is_looked_at_anew(watched):
    root, index = watched
    (root / "sub/key.pem").write_text("fake")
    assert hidden(index) == {"key.pem"}
    root.rename(root.parent / "away")
    root.mkdir()
    (root / "two.pem").write_text("fake")
    assert hidden(index) == {"two.pem"}


def test_another_name_of_a_secret_is_found(watched):
    root, index = watched
    (root / "sub/key.pem").write_text("fake")
    assert hidden(index) == {"key.pem"}
    os.link(root / "sub/key.pem", root / "sub/deep/plain")
    assert hidden(index) == {"key.pem", "plain"}


def test_closing_it_gives_everything_back_and_it_can_be_used_again(watched):
    root, index = watched
    before = len([*Path("/proc/self/fd").iterdir()])
    index.close()
    assert len([*Path("/proc/self/fd").iterdir()]) == before - 1
    (root / "sub/key.pem").write_text("fake")
    assert hidden(index) == {"key.pem"}


def test_names_of_mounts_are_read_as_they_are(tmp_path):
    line = b"36 35 98:0 /mnt1 /a\\040b\\134c rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n"
    (tmp_path / "mountinfo").write_bytes(line)
    assert [*mounts(str(tmp_path / "mountinfo"))] == [(os.makedev(98, 0), "/mnt1", "/a b\\c", "ext3")]
