from __future__ import annotations

import os

import trio

from leeward.tools import Surveyor


async def test_links_are_followed_and_missing_parts_kept(tmp_path):
    real = os.path.realpath(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    (tmp_path / "out").symlink_to("/etc")
    (tmp_path / "dangling").symlink_to("nowhere/at/all")
    (tmp_path / "loop").symlink_to("loop2")
    (tmp_path / "loop2").symlink_to("loop")
    (tmp_path / "file").write_text("x")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "to_fifo").symlink_to("fifo")
    expected = {
        "folder": "folder", "link/new/file": "folder/new/file", "out/passwd": "/etc/passwd", "missing/x": "missing/x",
        "dangling": "nowhere/at/all", "loop": "loop", "loop/x": "loop/x", "file/below": "file/below",
        "fifo": "fifo", "to_fifo": "fifo", "link/../x": "x", "n" * 300: "n" * 300, "a\0b": "a\0b", "\ud800": "\ud800",
    }  # fmt: skip
    with trio.fail_after(2):
        found = await Surveyor().resolve([f"{real}/{name}" for name in expected])
    assert found == {
        f"{real}/{name}": target if target.startswith("/") else f"{real}/{target}" for name, target in expected.items()
    }


async def test_nothing_asked_is_nothing_found():
    assert await Surveyor().resolve([]) == {}
