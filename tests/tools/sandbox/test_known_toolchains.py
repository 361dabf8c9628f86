"""Remembered toolchain scans hold while nothing changed, and never miss a secret."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from leeward.tools.sandbox import known_toolchains
from leeward.tools.sandbox.known_toolchains import KnownToolchains
from leeward.tools.sandbox.toolchains import ToolchainSecrets


def never(path: str) -> str | None:
    """Take no name as secret but `.env`."""
    return "named" if path.endswith("/.env") else None


@pytest.fixture
def top(tmp_path, monkeypatch) -> Path:
    """Make a large toolchain, of which also a change of just now shows."""
    monkeypatch.setattr(known_toolchains, "_LARGE", 10)
    monkeypatch.setattr(known_toolchains, "_SETTLED_NS", -3_600_000_000_000)
    top = tmp_path / "go" / "pkg"
    for number in range(12):
        (top / f"m{number}").mkdir(parents=True)
        (top / f"m{number}" / "x.go").write_text("x")
    (top / "m3" / ".env").write_text("fake")
    return top


@pytest.fixture
def looks(monkeypatch) -> list[str]:
    """Return the folders that are gone through."""
    looks: list[str] = []
    look = ToolchainSecrets._look

    def counted(self, top, *rest):
        looks.append(top)
        return look(self, top, *rest)

    monkeypatch.setattr(ToolchainSecrets, "_look", counted)
    return looks


def found(top: Path, rules: str = "1", *, linked: frozenset[tuple[int, int]] = frozenset()) -> set[str]:
    known = KnownToolchains(top.parents[1] / "known", rules)
    return {spot.path for spot in ToolchainSecrets(never, known, linked).spots([str(top)])}


def test_a_toolchain_at_rest_is_gone_through_once(top, looks):
    assert found(top) == found(top) == {f"{top}/m3/.env"}
    assert looks == [str(top)]


CHANGES = {
    "a secret": lambda top: (top / "m5" / ".env").write_text("fake"),
    "a secret in a new folder": lambda top: ((top / "m5" / "n").mkdir(), (top / "m5/n/.env").write_text("f")),
    "a secret by renaming": lambda top: (top / "m7" / "x.go").rename(top / "m7" / ".env"),
    "a secret in the place of a file": lambda top: (top / "m8/x.go").replace(top / "m9/.env"),
    "a folder with secrets moved in": lambda top: (
        shutil.copytree(top / "m3", top.parent / "beside"), (top.parent / "beside").rename(top / "m99")
    ),
    "a FIFO": lambda top: os.mkfifo(top / "m1" / "fifo"),
    "a further name": lambda top: os.link(top / "m3" / ".env", top / "m2" / ".env"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_what_changed_is_seen_whatever_times_it_is_given(top, looks, name):
    before = found(top)
    times = {folder: folder.stat() for folder in (top, *top.rglob("*")) if folder.is_dir()}
    CHANGES[name](top)
    for folder, status in times.items():
        os.utime(folder, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert len(found(top) - before) == 1
    assert len(looks) == 2


def test_a_folder_that_is_another_one_is_gone_through(top, looks):
    found(top)
    copy = top.with_name("copy")
    shutil.copytree(top, copy)
    (copy / "m4" / ".env").write_text("fake")
    shutil.rmtree(top)
    copy.rename(top)
    assert found(top) == {f"{top}/m3/.env", f"{top}/m4/.env"}


def test_a_link_that_leads_elsewhere_is_gone_through(top, looks):
    way = top.parent / "pkgs"
    way.symlink_to(top)
    assert f"{way}/m3/.env" in found(way)
    other = top.parent / "other"
    shutil.copytree(top, other)
    way.unlink()
    way.symlink_to(other)
    assert f"{other}/m3/.env" in found(way)


def test_other_rules_look_again(top, looks):
    assert found(top, "1") == found(top, "2")
    assert len(looks) == 2


def test_where_secrets_have_several_names_nothing_is_taken_as_known(top, looks):
    found(top)
    secret = top.parent / "credentials"
    os.link(top / "m6" / "x.go", secret)
    status = secret.stat()
    assert f"{top}/m6/x.go" in found(top, linked=frozenset({(status.st_dev, status.st_ino)}))


def test_what_changed_just_before_is_not_remembered(top, looks, monkeypatch):
    monkeypatch.setattr(known_toolchains, "_SETTLED_NS", 2_000_000_000)
    found(top)
    found(top)
    assert len(looks) == 2


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "null", '{"basis": 1}', '{"basis": [], "folders": 3}', "\0", "9" * 5000]
)
def test_a_file_that_tells_nothing_is_as_none(top, looks, content):
    found(top)
    [file] = (top.parents[1] / "known").iterdir()
    file.write_text(content)
    assert found(top) == {f"{top}/m3/.env"}
    assert len(looks) == 2


@pytest.mark.parametrize("key", ["folders", "spots", "seal"])
def test_a_file_of_which_a_part_is_missing_is_as_none(top, looks, key):
    found(top)
    [file] = (top.parents[1] / "known").iterdir()
    told = known_toolchains.json.loads(file.read_text())
    del told[key]
    file.write_text(known_toolchains.json.dumps(told))
    assert found(top) == {f"{top}/m3/.env"}


def test_a_folder_that_cannot_be_written_is_no_harm(top, looks):
    (top.parents[1] / "known").write_text("a file")
    assert found(top) == {f"{top}/m3/.env"}


def test_what_a_killed_process_left_half_written_goes(top, looks):
    found(top)
    [file] = (top.parents[1] / "known").iterdir()
    file.with_name(f"{file.name}.1").write_text("{")
    (top / "m0" / "new").write_text("x")
    found(top)
    assert [*file.parent.iterdir()] == [file]


def test_names_that_are_no_text_are_remembered(top, looks):
    odd = os.fsencode(top) + b"/m\xff"
    Path(os.fsdecode(odd)).mkdir()
    (Path(os.fsdecode(odd)) / ".env").write_text("fake")
    assert found(top) == found(top) == {f"{top}/m3/.env", f"{os.fsdecode(odd)}/.env"}
    assert len(looks) == 1
