"""A program's changes are read exactly from its upper layer."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from leeward.tools.files import DirHandle
from leeward.tools.sandbox import ChangeLimits, Changes, changes_of
from leeward.tools.sandbox import changes as changes_module

PYTHON = sys.executable


@pytest.fixture
def upper_of(script):
    upper = script("tools/sandbox/trial_upper.py")
    if why := upper.why_not():
        pytest.skip(why)
    return upper.upper_of


@pytest.fixture
def look(upper_of, workspace):
    def look(*lines: str, real: tuple[str, ...] = (), limits: ChangeLimits | None = None) -> Changes:
        with upper_of(workspace, *lines, real=real) as upper:
            return changes_of(upper.handle, upper.lower, upper.began, limits)

    return look


def kinds(changes: Changes) -> dict[str, tuple[str | None, str | None]]:
    return {
        one.path: (one.before and one.before.kind, one.after and one.after.kind) for one in changes.changes
    }


def test_new_changed_and_removed_are_told_apart(workspace, look):
    for name in ("changed", "removed", "appended", "saved", "same"):
        (workspace / name).write_text(name)
    found = look(
        "echo x >changed", "rm removed", "echo x >>appended", "echo y >t; mv t saved", "echo n >new",
        "mkdir d; ln -s /etc l"
    )  # fmt: skip
    assert kinds(found) == {
        "appended": ("file", "file"),
        "changed": ("file", "file"),
        "d": (None, "folder"),
        "l": (None, "link"),
        "new": (None, "file"),
        "removed": ("file", None),
        "saved": ("file", "file"),
    }
    assert (found.conflicts, found.refused, found.is_cut) == ((), (), False)


@pytest.mark.parametrize(
    "line",
    [
        ": >>f", "chmod 644 f", "cp -p f g; cat g >f; rm g", "touch d", "touch d/x; rm d/x", "flock f true",
        "mkdir n; rmdir n", "mv f g; mv g f", "cp -a d e; rm -r e", "rm l; ln -s nowhere l", "exec 3<>f",
    ],
)  # fmt: skip
def test_what_comes_to_the_same_is_nothing(workspace, look, line):
    (workspace / "f").write_text("f")
    (workspace / "f").chmod(0o644)
    (workspace / "d").mkdir()
    (workspace / "l").symlink_to("nowhere")
    assert look(line).changes == ()


def test_a_removed_folder_is_listed_with_all_it_held(workspace, look):
    (workspace / "d/e/f").mkdir(parents=True)
    (workspace / "d/e/f/x").write_text("x")
    (workspace / "d/l").symlink_to("/etc")
    assert list(kinds(look("rm -r d"))) == ["d", "d/e", "d/e/f", "d/e/f/x", "d/l"]


def test_what_a_folder_made_anew_hides_is_removed_at_any_depth(workspace, look):
    (workspace / "d/e/f").mkdir(parents=True)
    for name in ("d/a", "d/e/b", "d/e/f/c"):
        (workspace / name).write_text(name)
    found = look("rm -r d; mkdir -p d/e; echo n >d/e/n; echo 2 >d/a")
    assert kinds(found) == {
        "d/a": ("file", "file"),
        "d/e/b": ("file", None),
        "d/e/f": ("folder", None),
        "d/e/f/c": ("file", None),
        "d/e/n": (None, "file"),
    }


def test_a_folder_in_the_place_of_a_file_and_the_other_way_round(workspace, look):
    (workspace / "f").write_text("f")
    (workspace / "d").mkdir()
    (workspace / "d/x").write_text("x")
    found = look("rm f; mkdir f; echo n >f/n", "rm -r d; echo n >d")
    assert kinds(found) == {
        "d": ("folder", "file"),
        "d/x": ("file", None),
        "f": ("file", "folder"),
        "f/n": (None, "file"),
    }


def test_a_mode_alone_is_a_change(workspace, look):
    (workspace / "f").write_text("f")
    (workspace / "f").chmod(0o644)
    (workspace / "d").mkdir(mode=0o755)
    found = look("chmod 755 f; chmod 700 d")
    assert [(one.path, one.after and one.after.mode, one.is_mode_only) for one in found.changes] == [
        ("d", 0o700, False),
        ("f", 0o755, True),
    ]


def test_what_a_program_made_unreadable_is_read_and_stays_as_it_left_it(workspace, upper_of):
    (workspace / "d/e").mkdir(parents=True)
    (workspace / "d/e/old").write_text("old")
    line = (
        "rm -r d; mkdir -p d/e; echo n >d/e/n; chmod 000 d/e/n d/e d; "
        "mkdir -p n/m; echo s >n/m/s; chmod 000 n/m n"
    )
    with upper_of(workspace, line) as upper:
        first = changes_of(upper.handle, upper.lower, upper.began)
        again = changes_of(upper.handle, upper.lower, upper.began)
    assert first == again
    assert first.digest == again.digest
    assert {path: kind for path, kind in kinds(first).items() if "/e/" in path} == {
        "d/e/n": (None, "file"),
        "d/e/old": ("file", None),
    }
    modes = {one.path: one.after.mode for one in first.changes if one.after}
    assert modes == {"d": 0, "d/e": 0, "d/e/n": 0, "n": 0, "n/m": 0, "n/m/s": 0o644}


def test_marks_of_the_overlay_that_a_program_sets_are_not_believed(workspace, look):
    (workspace / "d").mkdir()
    (workspace / "d/x").write_text("x")
    (workspace / "f").write_text("f")
    marks = ("opaque", "origin", "whiteout", "redirect", "metacopy")
    sets = "; ".join(f"s(p, 'user.overlay.{mark}', b'y')" for mark in marks)
    found = look(
        f"""{PYTHON} -c "
import os
def s(p, n, v):
    try: os.setxattr(p, n, v)
    except OSError: pass
os.mkdir('new'); open('new/file', 'w').close()
for p in ('d', 'f', 'new', 'new/file'): {sets}
" """
    )
    assert list(kinds(found)) == ["new", "new/file"]
    assert (found.refused, found.conflicts) == ((), ())


def test_names_stay_what_they_are(workspace, look):
    names = [b"caf\xe9", b"new\nline", b"\x1b[31m", "ü".encode(), b"-rf", b" ", b"\xff" * 255]
    for name in names[::2]:
        (workspace / os.fsdecode(name)).write_text("x")
    found = look(
        'for f in *; do rm -- "$f"; done; printf n >"new\nline"; printf n >ü; '
        'printf n >./"$(printf "\\033")[31m"'
    )
    assert {os.fsencode(one.path) for one in found.changes} == {*names[::2], names[1], "ü".encode()}


def test_what_is_no_file_folder_or_link_is_never_kept(workspace, look):
    (workspace / "f").write_text("f")
    found = look(
        f"mkfifo p; rm f; mkfifo f; {PYTHON} -c \"import socket as s; s.socket(s.AF_UNIX).bind('s')\"; "
        "mkdir d; mkfifo d/p"
    )
    assert dict(found.refused) == {
        "d/p": "a FIFO is never kept",
        "f": "a FIFO is never kept",
        "p": "a FIFO is never kept",
        "s": "a socket is never kept",
    }
    assert list(kinds(found)) == ["d"]


def test_a_fifo_of_the_workspace_holds_its_folder(workspace, look):
    (workspace / "d/e").mkdir(parents=True)
    os.mkfifo(workspace / "d/e/p")
    (workspace / "d/x").write_text("x")
    os.mkfifo(workspace / "q")
    found = look("rm -r d; rm q; mkdir q; echo n >q/n")
    assert kinds(found) == {"d/x": ("file", None)}
    assert {path for path, _ in found.refused} == {"d", "d/e", "d/e/p", "q", "q/n"}


def test_what_would_run_as_somebody_else_is_named_and_not_kept(workspace, look):
    (workspace / "old").write_text("x")
    found = look("echo x >new; chmod 4755 new; chmod 2755 old; mkdir d; chmod 3777 d")
    modes = {one.path: one.after.mode for one in found.changes if one.after}
    assert modes == {"d": 0o3777, "new": 0o755, "old": 0o755}
    assert {path for path, _ in found.refused} == {"new", "old"}


def test_foreign_attributes_are_named_and_those_that_were_there_are_not(workspace, look):
    (workspace / "had").write_text("x")
    try:
        os.setxattr(workspace / "had", "user.mine", b"1")
    except OSError:
        pytest.skip("the file system of the workspace has no user attributes")
    found = look(
        "echo y >>had", f"echo n >new; {PYTHON} -c \"import os; os.setxattr('new', 'user.evil', b'1')\""
    )
    assert dict(found.refused) == {"new": "extended attributes are not kept: user.evil"}
    assert list(kinds(found)) == ["had", "new"]


def test_another_name_of_a_changed_file_is_named(workspace, look):
    (workspace / "a").write_text("x")
    os.link(workspace / "a", workspace / "b")
    found = look("echo y >>a")
    assert list(kinds(found)) == ["a"]
    assert dict(found.refused)["a"].startswith("hard link: 1 other")
    assert look("rm a").refused == ()


@pytest.mark.parametrize(
    ("line", "real", "conflict"),
    [
        ("echo x >>f", "echo theirs >>f", "f"),
        ("rm f", "echo theirs >>f", "f"),
        ("echo x >f2; mv f2 f", "touch f", "f"),
        ("rm -r d", "echo theirs >d/new", "d"),
        ("rm -r d", "echo theirs >>d/x", "d/x"),
        ("echo n >new", "echo theirs >new", "new"),
        ("echo x >>f", "rm f", "f"),
        ("echo x >>d/x", "mv d gone; mv other d", "d"),
        ("echo n >d/n", "mv d gone; ln -s other d", "d"),
        ("echo n >d/n", "rm -r d", "d"),
        ("chmod 700 f", "mv other/x f", "f"),
    ],
)
def test_what_somebody_else_changed_meanwhile_is_a_conflict(workspace, look, line, real, conflict):
    (workspace / "f").write_text("f")
    for folder in ("d", "other"):
        (workspace / folder).mkdir()
        (workspace / folder / "x").write_text("x")
    assert conflict in look(line, real=(real,)).conflicts


@pytest.mark.parametrize(
    "real", ["echo theirs >d/y", "rm d/z", "echo theirs >>g", "mkdir d/n; echo t >d/n/t"]
)
def test_what_others_do_beside_it_is_none(workspace, look, real):
    (workspace / "d").mkdir()
    for name in ("f", "g", "d/x", "d/z"):
        (workspace / name).write_text("x")
    found = look("echo x >>f; echo x >>d/x; echo n >d/new", real=(real,))
    assert found.conflicts == ()
    assert list(kinds(found)) == ["d/new", "d/x", "f"]


def test_a_digest_is_of_paths_kinds_modes_and_contents(workspace, look):
    (workspace / "f").write_text("f")
    lines = [
        "echo a >n", "echo b >n", "echo a >m", "echo a >n; chmod 600 n", "mkdir n", "ln -s a n", "ln -s b n",
        "echo a >n; rm f", "echo a >n; echo f >>f", "mkdir n; echo a >n/n",
    ]  # fmt: skip
    digests = [look(f"umask 022; {line}").digest for line in lines]
    assert len(set(digests)) == len(lines)
    assert look("umask 022; echo a >n; touch -d 2001-01-01 n").digest == digests[0]


@pytest.mark.parametrize("limits", [ChangeLimits(max_entries=5), ChangeLimits(max_bytes=3)])
def test_work_is_bounded_and_says_when_it_is_cut(workspace, look, limits):
    (workspace / "d").mkdir()
    for number in range(10):
        (workspace / f"d/{number}").write_text("x")
    assert look("echo four >f; rm -r d", limits=limits).is_cut
    assert not look("echo x >f", limits=limits).is_cut


def test_what_lies_deep_counts_for_the_steps_to_it(workspace, look):
    """Each folder is opened from the top: thousands, one in the other, would take minutes."""
    few, deep, flat = ChangeLimits(max_entries=5_000), "d/" * 150, " ".join(f"d/{n}" for n in range(150))
    assert look(f"mkdir -p {deep}", limits=few).is_cut
    assert not look(f"mkdir -p {flat}", limits=few).is_cut
    (workspace / deep).mkdir(parents=True)
    assert look("rm -r d", limits=few).is_cut


def test_a_path_longer_than_the_kernel_takes_is_not_looked_at(look, monkeypatch):
    """Not even a test could name such a path, so here fewer characters are too many."""
    monkeypatch.setattr(changes_module, "_LONGEST_PATH", 300)
    assert look(f"mkdir -p {'d' * 200}/{'d' * 200}").is_cut
    assert not look(f"mkdir -p {'d' * 100}/{'d' * 100}").is_cut


def test_a_folder_of_any_depth_takes_a_few_handles(workspace, look):
    deep = "; ".join(f"mkdir -p {'d/' * 40}; cd {'d/' * 40}" for _ in range(20))
    found = look(f"{deep}; echo n >n")
    assert len(found.changes) == 801


def test_no_link_is_followed_and_nothing_outside_is_named(workspace, look, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/x").write_text("x")
    (workspace / "l").symlink_to(tmp_path / "outside")
    (workspace / "d").mkdir()
    found = look("rm l; mkdir l; echo n >l/x", f"rmdir d; ln -s {tmp_path}/outside d")
    assert kinds(found) == {"d": ("folder", "link"), "l": ("link", "folder"), "l/x": (None, "file")}


@contextmanager
def forged(upper: Path, lower: Path):
    """A folder in the place of an upper, for what no kernel would make."""
    handle, below = (os.open(path, os.O_RDONLY | os.O_DIRECTORY) for path in (upper, lower))
    try:
        yield handle, DirHandle(below)
    finally:
        os.close(handle)
        os.close(below)


@pytest.mark.skipif(os.getuid() != 0, reason="only root makes devices")
def test_a_device_that_is_no_whiteout_is_refused(workspace, tmp_path):
    (tmp_path / "u").mkdir()
    (tmp_path / "u").chmod(stat.S_IMODE(workspace.stat().st_mode))
    os.mknod(tmp_path / "u/null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    with forged(tmp_path / "u", workspace) as (handle, lower):
        assert changes_of(handle, lower, 1 << 62).refused == (("null", "a device is never kept"),)
