from __future__ import annotations

import os

import trio

from leeward.tools.survey import Surveyor


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
        "folder": "folder", "link/new/file": "folder/new/file", "out/passwd": "/etc/passwd",
        "missing/x": "missing/x",
        "dangling": "nowhere/at/all", "file/below": "file/below", "out/no/such": "/etc/no/such",
        "fifo": "fifo", "to_fifo": "fifo", "link/../x": "x", "n" * 300: "n" * 300,
        "link/" + "n" * 300: "folder/" + "n" * 300,
    }  # fmt: skip
    with trio.fail_after(30):
        found = await Surveyor().resolve([f"{real}/{name}" for name in expected])
    assert found == {
        f"{real}/{name}": target if target.startswith("/") else f"{real}/{target}"
        for name, target in expected.items()
    }


async def test_what_cannot_be_followed_has_no_entry(tmp_path, monkeypatch):
    real = os.path.realpath(tmp_path)
    (tmp_path / "loop").symlink_to("loop2")
    (tmp_path / "loop2").symlink_to("loop")
    (tmp_path / "self").symlink_to("self/x")
    (tmp_path / "closed").symlink_to("/etc")
    (tmp_path / "good").mkdir()
    previous = "good"
    for number in range(1500):
        (tmp_path / f"link{number}").symlink_to(previous)
        previous = f"link{number}"
    read = os.readlink

    def refusing(path, *rest, **more):
        if os.fspath(path).endswith("/closed"):
            raise PermissionError(13, "Permission denied", path)
        return read(path, *rest, **more)

    monkeypatch.setattr(os, "readlink", refusing)
    names = [
        "loop",
        "loop/x",
        "self",
        "link1499",
        "link1499/x/y",
        "closed",
        "closed/x",
        "closed/no/such",
        "a\0b",
        "\ud800",
    ]
    found = await Surveyor().resolve([f"{real}/{name}" for name in [*names, "good", "good/x", "link20"]])
    assert found == {
        f"{real}/good": f"{real}/good",
        f"{real}/good/x": f"{real}/good/x",
        f"{real}/link20": f"{real}/good",
    }


async def test_no_path_of_the_process_table_breaks_the_survey():
    paths = [
        f"/proc/1/{name}"
        for name in ("root", "cwd", "exe", "fd/0", "task/1/cwd", "root/etc/passwd", "map_files/x")
    ]
    assert set(await Surveyor().resolve(paths)) <= set(paths)


async def test_a_name_behind_a_tilde_is_looked_up():
    found = await Surveyor().resolve(["~root", "~no-such_user0"])
    assert found["~root"].startswith("/") and found["~no-such_user0"] == "~no-such_user0"


async def test_nothing_asked_is_nothing_found():
    assert await Surveyor().resolve([]) == {}
