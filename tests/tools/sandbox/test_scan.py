"""After a program: tampering with files that others obey is undone and reported."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from leeward.security.sandbox import MarkKind, Role, changes_to_undo
from leeward.tools.sandbox import quarantine as aside_module
from leeward.tools.sandbox import scan as scan_module
from leeward.tools.sandbox.quarantine import undo
from leeward.tools.sandbox.scan import WorkspaceScan

HOOK = "r/.git/hooks"
OBEYED = (
    f"{HOOK}/pre-commit", f"{HOOK}/post-checkout", f"{HOOK}/d/x", "r/.git/config", "r/.git/commondir",
    "r/.git/config.worktree",
    ".leeward/config.toml", ".leeward/skills/x", "sub/.leeward/x", "locked/file", "r/.git", ".leeward", HOOK,
)  # fmt: skip
OTHERS = (
    "plain",
    "sub/file",
    "r/src/code",
    "r/.git/refs/heads/main",
    f"{HOOK}/pre-commit.sample",
    "r/.git/logs/HEAD",
)
DEED = st.tuples(
    st.sampled_from([*OBEYED, *OTHERS]),
    st.sampled_from(["write", "append", "remove", "link", "folder", "fifo", "run", "big", "swap"]),
)


def made(base: Path) -> WorkspaceScan:
    root = base / "ws"
    for name in (
        f"{HOOK}/pre-commit",
        "r/.git/HEAD",
        "r/.git/config",
        ".leeward/config.toml",
        "locked/file",
        *OTHERS,
    ):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text({"r/.git/config": "[core]\n\tbare = false\n"}.get(name, f"before {name}\n"))
    for name in ("r/.git/objects", "r/.git/refs", "r/.git/hooks/d"):
        (root / name).mkdir(exist_ok=True)
    (root / f"{HOOK}/pre-commit").chmod(0o755)
    (root / f"{HOOK}/linked").symlink_to("pre-commit")
    return WorkspaceScan(
        (str(root),), (), (str(root / "locked"), str(root / "locked/file")), (), lambda _: False
    )


def do(path: Path, what: str) -> None:
    """What a program in the sandbox may try, as far as it can be done."""
    if path.is_fifo() and what in ("write", "append", "big"):
        # Nobody reads there, so whoever wrote would wait for ever.
        return
    try:
        match what:
            case "write":
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("#!/bin/sh\nevil\n")
            case "append":
                with path.open("a") as file:
                    file.write("[core]\n\tsshCommand = evil\n")
            case "remove":
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
            case "link":
                path.unlink()
                path.symlink_to("evil")
            case "folder":
                path.mkdir(parents=True)
            case "fifo":
                os.mkfifo(path)
            case "run":
                path.chmod(0o777)
            case "big":
                path.write_bytes(b"#" * 300_000)
            case "swap":
                path.rename(path.with_name("elsewhere"))
                path.mkdir()
                (path / "pre-commit").write_text("evil\n")
    except OSError:
        return


def is_harmless(path: str, before, after) -> bool:
    """Whether what is there by now may stay: what was asked of `changes_to_undo` a second time."""
    return not changes_to_undo(
        {p: m for p, m in before.items() if p == path}, {p: m for p, m in after.items() if p == path}
    )


@settings(
    max_examples=settings().max_examples * 3 // 5,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)
@given(st.lists(DEED, max_size=5))
@example([(HOOK, "remove"), (f"{HOOK}/pre-commit", "write")])
@example([("r/.git", "remove")])
@example([("r/.git", "swap"), ("r/.git/config", "write")])
@example([(".leeward", "remove"), (".leeward", "link")])
@example([(".leeward/config.toml", "remove"), (".leeward/config.toml", "folder")])
@example([(HOOK, "swap")])
@example([("locked/file", "big"), ("sub/.leeward/x", "write")])
def test_what_is_obeyed_is_afterwards_what_it_was_before(deeds):  # fmt: skip
    with tempfile.TemporaryDirectory() as temporary:
        base = Path(os.path.realpath(temporary))
        scan, aside = made(base), str(base / "aside")
        seen = scan.look()
        before = seen.marks
        plain = {name: (base / "ws" / name).read_text() for name in ("plain", "sub/file", "r/src/code")}
        touched = {name for name, _ in deeds}
        for name, what in deeds:
            do(base / "ws" / name, what)
        changes = changes_to_undo(before, scan.look(seen).marks)
        told = undo(changes, aside)
        after = scan.look(seen).marks
        # Asked again there is nothing left to undo, or it was told that it could not be.
        rest = changes_to_undo(before, after)
        failed = [line for line in told if "could not be" in line]
        for change in rest:
            assert failed, f"{change.path} stays as it is, and nobody was told: {told}"
        for path, mark in before.items():
            if not rest and mark.kind is MarkKind.FILE and after.get(path) != mark:
                assert is_harmless(path, before, after), path
        assert len(told) == len(set(told)) and bool(told) >= bool(changes and not rest and changes[0].before)
        for name, text in plain.items():
            assert name in touched or (base / "ws" / name).read_text() == text, f"{name} was nobody's to undo"
        # What was moved is kept for the person, with what it held.
        for line in told:
            if "was moved to" in line:
                assert os.path.lexists(line.rpartition(" was moved to ")[2])


@pytest.fixture
def place(tmp_path):
    return Path(os.path.realpath(tmp_path)), made(Path(os.path.realpath(tmp_path)))


def undone(place):
    base, scan = place
    before = scan.look()
    yield before.marks
    yield undo(changes_to_undo(before.marks, scan.look(before).marks), str(base / "aside"))


@pytest.mark.parametrize("broken", ["rename", "open"])
def test_what_cannot_be_undone_is_told_and_the_rest_is_undone(place, monkeypatch, broken):
    base, _ = place
    steps = undone(place)
    next(steps)
    (base / "ws" / HOOK / "post-merge").write_text("evil")
    (base / "ws" / ".leeward/config.toml").write_text("evil")
    (base / "ws" / "r/.git/config").unlink()
    real = getattr(os, broken)

    def fail(path, *arguments, **named):
        is_new = broken == "open" and arguments[0] & os.O_CREAT
        if path == "post-merge" if broken == "rename" else is_new and path == "config":
            raise OSError(30, "Read-only file system")
        return real(path, *arguments, **named)

    monkeypatch.setattr(aside_module.os, broken, fail)
    told = next(steps)
    monkeypatch.undo()
    (why,) = (line for line in told if "could not be undone: Read-only file system" in line)
    assert len(told) == 3 and "(the changed one is " not in why
    assert (base / "ws/.leeward/config.toml").read_text() == "before .leeward/config.toml\n"
    assert (base / "ws" / HOOK / "post-merge").exists() is (broken == "rename")
    assert (base / "ws/r/.git/config").exists() is (broken == "rename")


def test_what_was_moved_and_cannot_be_put_back_is_told_with_its_place(place, monkeypatch):
    base, _ = place
    steps = undone(place)
    next(steps)
    (base / "ws/r/.git/config").write_text("mine too\n")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(aside_module, "_write", fail)
    (told,) = next(steps)
    kept = Path(told.rpartition("No space left on device (the changed one is ")[2].rstrip(")"))
    assert kept.read_text() == "mine too\n"


def test_a_disk_of_its_own_is_moved_to_a_name_beside_it_that_nothing_obeys(place, monkeypatch):
    base, _ = place
    steps = undone(place)
    next(steps)
    (base / "ws/.leeward/evil").mkdir()
    (base / "ws" / HOOK / "post-merge").write_text("evil")
    real = os.rename

    def rename(source, target, **handles):
        if str(base / "aside") in str(target):
            raise OSError(18, "Invalid cross-device link")
        real(source, target, **handles)

    monkeypatch.setattr(aside_module.os, "rename", rename)
    told = next(steps)
    assert len(told) == 2 and not list((base / "aside").iterdir())
    for line in told:
        moved = Path(line.rpartition(" was moved to ")[2])
        assert moved.exists() and not {".git", ".leeward", "hooks"} & set(moved.parts)


def test_a_file_too_large_to_be_kept_is_told_as_lost_and_moved(place):
    base, _ = place
    big = base / "ws/.leeward/big"
    big.write_bytes(b"x" * 300_000)
    huge = base / "ws/.leeward/huge"
    with huge.open("wb") as file:
        file.truncate(9 * 1024 * 1024)
    steps = undone(place)
    assert next(steps)[str(huge)].digest.startswith("9437184 bytes at ")
    big.write_bytes(b"y" * 300_000)
    os.utime(huge, ns=(1, 1))
    told = next(steps)
    assert len(told) == 2 and all(
        "was changed and could not be put back (the changed one is " in line for line in told
    )
    assert not big.exists() and not huge.exists()


def test_a_look_goes_by_what_vanishes_and_what_may_not_be_seen(place, monkeypatch):
    base, scan = place
    whole = scan.look()
    real = os.lstat

    def lstat(path, *arguments, **named):
        if str(path).endswith(("pre-commit", "config.toml")):
            raise FileNotFoundError(2, "gone")
        return real(path, *arguments, **named)

    monkeypatch.setattr(scan_module.os, "lstat", lstat)
    seen = scan.look()
    assert {path for path in whole.marks.keys() - seen.marks.keys()} == {
        str(base / "ws" / HOOK / "pre-commit"),
        str(base / "ws/.leeward/config.toml"),
    }
    monkeypatch.undo()
    monkeypatch.setattr(scan_module, "_MOST", 3)
    assert not scan.look().is_whole and whole.is_whole
    gone = replace(
        scan,
        roots=(str(base / "nowhere"),),
        places=(str(base / "nowhere/x"),),
        secret_places=(str(base / "no"),),
    )
    assert not gone.look().marks and not gone.look().secrets


def test_secrets_and_sockets_are_hidden_wherever_they_lie_and_links_are_not(place):

    base, scan = place
    (base / "ws/sub/deep").mkdir()
    (base / "ws/sub/deep/key.pem").write_text("fake")
    (base / "ws/sub/secrets").mkdir()
    (base / "ws/sub/link.pem").symlink_to("deep/key.pem")
    for folder in ("ws/node_modules/x", "ws/lib/site-packages"):
        (base / folder).mkdir(parents=True)
        (base / folder / "key.pem").write_text("fake")
    with socket.socket(socket.AF_UNIX) as listening:
        os.chdir(base / "ws")
        listening.bind("sock")
        os.chdir("/")
        seen = replace(scan, is_secret=lambda path: path.endswith((".pem", "/secrets"))).look()
    found = {os.path.relpath(spot.path, base / "ws"): spot.is_folder for spot in seen.secrets}
    assert found == {"sub/deep/key.pem": False, "sub/secrets": True, "sock": False}
    roles = {mark.role for mark in seen.marks.values()}
    assert roles == {Role.REPOSITORY, Role.SETTINGS, Role.HOOK, Role.OURS, Role.PROTECTED}
    shut = {spot.path for spot in seen.masks([str(base / "ws/plain"), str(base / "none")]).unwritable}
    assert (
        str(base / "ws/plain") in shut
        and str(base / "none") not in shut
        and str(base / "ws/r/.git") not in shut
    )
    assert stat.S_IMODE((base / "ws" / HOOK / "pre-commit").stat().st_mode) == 0o755


@pytest.mark.parametrize("mode", [0o111, 0o000, 0o311])
@pytest.mark.parametrize("what", ["a hook", "hooks", "a file of ours", "a part of ours"])
def test_what_may_not_be_read_hides_from_nobody(place, as_nobody, what, mode):
    """A program of the same user takes away the right to read: what is obeyed can still be run."""
    base, scan = place
    with as_nobody(base):
        before = scan.look()
        new = {
            "a hook": base / "ws" / HOOK / "post-merge",
            "hooks": base / "ws/new/.git/hooks/post-merge",
            "a file of ours": base / "ws/sub/.leeward/x",
            "a part of ours": base / "ws/.leeward/part/x",
        }[what]
        for name in ("HEAD", "objects", "refs") if what == "hooks" else ():
            (base / "ws/new/.git" / name).mkdir(parents=True)
        new.parent.mkdir(parents=True, exist_ok=True)
        new.write_text("#!/bin/sh\nevil\n")
        shut = new if what.startswith("a") and "part" not in what else new.parent
        shut.chmod(mode)
        told = undo(changes_to_undo(before.marks, scan.look(before).marks), str(base / "aside"))
    assert not os.path.lexists(new) and len(told) == 1, told


def test_what_is_closed_is_hidden_where_it_could_be_come_by(place, as_nobody):
    """A folder of another user that nobody else gets into needs no exception, which not every sandbox can
    make.
    """
    base, scan = place
    modes = {"ours": 0, "passed": 0o711, "theirs": 0o700, "theirs alone": 0o600}
    for name in modes:
        (base / "ws" / name).mkdir()
    with as_nobody(base):
        (base / "ws/ours").chmod(modes["ours"])
        os.seteuid(0)
        for name in ("passed", "theirs", "theirs alone"):
            os.chown(base / "ws" / name, 0, 0)
            (base / "ws" / name).chmod(modes[name])
        os.seteuid(65_534)
        hidden = {Path(spot.path).name for spot in scan.look().secrets}
    assert hidden & modes.keys() == {"ours", "passed"}


def test_what_the_person_closed_stays_closed(place, as_nobody):
    base, scan = place
    scan = replace(scan, is_secret=lambda path: path.endswith("/.gnupg"))
    closed = (base / "ws/.gnupg/inner", base / "ws/mine")
    with as_nobody(base):
        for folder in closed:
            folder.mkdir(parents=True)
            folder.chmod(0)
        scan.look(scan.look())
    modes = [stat.S_IMODE(folder.stat().st_mode) for folder in closed]
    for folder in closed:
        folder.chmod(0o700)
    assert modes == [0, 0]
