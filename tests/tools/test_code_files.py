"""Hashes of files a line executes, and the names by which each may change."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from leeward.memory.changes import ALL_BELOW, LEFT_OUT
from leeward.security.command import ANYWHERE
from leeward.security.kinds import UNKNOWN
from leeward.security.policy import Policy
from leeward.tools import code_files as module
from leeward.tools.code_files import code_files
from leeward.tools.work import Work


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    made = tmp_path.resolve() / "ws"
    made.mkdir()
    return made


def found(ws: Path, *keys: str, work: Work | None = None):
    policy = Policy(str(ws), str(ws.parent / "home"))
    return code_files([f"{ws}/{key}" for key in keys], policy, work or Work())


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_file_is_named_with_all_that_leads_to_it(ws) -> None:
    (ws / "real" / "sub").mkdir(parents=True)
    (ws / "real" / "sub" / "x").write_text("one")
    (ws / "link").symlink_to("real")
    (ws / "first").symlink_to("second")
    (ws / "second").symlink_to("link/sub/x")
    one = found(ws, "first")[f"{ws}/first"]
    assert one.digest == digest("one")
    assert set(one.names) == {"first", "second", "link", "real", "real/sub", "real/sub/x"}


def test_what_is_not_there_has_names_and_nothing_in_it(ws) -> None:
    one = found(ws, "sub/x")[f"{ws}/sub/x"]
    assert one.digest == "" and set(one.names) == {"sub", "sub/x"}
    assert found(ws, "../x") == {}


def test_of_what_lies_elsewhere_only_the_place_is_told(ws) -> None:
    outside = ws.parent / "outside"
    outside.write_text("one")
    (ws / "x").symlink_to(outside)
    before = found(ws, "x")[f"{ws}/x"]
    outside.write_text("two")
    assert found(ws, "x")[f"{ws}/x"] == before
    (ws / "x").unlink()
    (ws / "x").symlink_to("/bin/sh")
    assert found(ws, "x")[f"{ws}/x"].digest != before.digest


@pytest.mark.parametrize("what", ["secret", "loop", "fifo", "device", "big", "unreadable"])
def test_what_cannot_be_told_is_unknown(ws, what, monkeypatch) -> None:
    path = ws / ("x.key" if what == "secret" else "x")
    if what == "loop":
        path.symlink_to("x")
    elif what == "fifo":
        os.mkfifo(path)
    elif what == "device":
        path.symlink_to("/dev/zero")
    else:
        path.write_text("one")
    if what == "big":
        monkeypatch.setattr(module, "_MOST_BYTES", 2)
    if what == "unreadable":
        path.chmod(0)
        if os.geteuid() == 0:
            pytest.skip("root reads every file")
    expected = UNKNOWN if what != "device" else hashlib.sha256(b"/dev/zero").hexdigest()
    assert found(ws, path.name)[str(path)].digest == expected


def test_any_of_a_name_below_but_for_what_is_left_out(ws) -> None:
    for name in ("conftest.py", "a/b/conftest.py", "node_modules/conftest.py", "a/other.py"):
        (ws / name).parent.mkdir(parents=True, exist_ok=True)
        (ws / name).write_text(name)
    key = f"{ws}{ANYWHERE}conftest.py"
    policy = Policy(str(ws), str(ws.parent / "home"))
    assert set(code_files([key], policy, Work())) == {f"{ws}/conftest.py", f"{ws}/a/b/conftest.py"}
    for number in range(40):
        (ws / f"d{number}").mkdir()
        (ws / f"d{number}" / "conftest.py").write_text("x")
    [one] = code_files([key], policy, Work()).values()
    (ws / "d7" / "conftest.py").write_text("y")
    [other] = code_files([key], policy, Work()).values()
    assert one.digest != other.digest and "d7/conftest.py" in other.names


def test_a_tree_too_big_to_look_through_changes_with_anything_in_it(ws, monkeypatch) -> None:
    monkeypatch.setattr(module, "_MOST_ENTRIES", 3)
    for number in range(5):
        (ws / f"{number}.txt").write_text("x")
    policy = Policy(str(ws), str(ws.parent / "home"))
    [one] = code_files([f"{ws}{ANYWHERE}conftest.py"], policy, Work()).values()
    assert (one.digest, one.names) == (UNKNOWN, (ALL_BELOW,))
    (ws / "x").write_text("one")
    assert found(ws, "x", work=Work(0))[f"{ws}/x"].digest == UNKNOWN


def test_what_lies_in_a_folder_of_tools_changes_with_all_of_these(ws) -> None:
    (ws / "node_modules" / ".bin").mkdir(parents=True)
    (ws / "node_modules" / ".bin" / "tool").write_text("one")
    assert LEFT_OUT in found(ws, "node_modules/.bin/tool")[f"{ws}/node_modules/.bin/tool"].names
