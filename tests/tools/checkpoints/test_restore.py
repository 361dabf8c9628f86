"""Restore: a path becomes its earlier version or keeps somebody's later edit; nothing is lost."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
import tempfile
from io import BytesIO
from pathlib import Path

import pytest
import trio
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from leeward.memory.checkpoints import Version
from leeward.security.policy import Policy
from leeward.tools.checkpoints.restore import RestoreTarget, restore
from leeward.tools.checkpoints.snapshot import stamp_of
from leeward.tools.files import Guard

NAMES = ("a", "b", "d", "d/a", "d/e", "d/e/f", "caf\udce9")
NODE = st.one_of(
    st.none(),
    st.tuples(
        st.just("file"), st.sampled_from([b"", b"one", b"two", b"longer"]), st.sampled_from([0o644, 0o700])
    ),
    st.tuples(st.just("folder"), st.none(), st.sampled_from([0o755, 0o750])),
    st.tuples(st.just("link"), st.sampled_from([b"a", b"nowhere", b".."]), st.none()),
)
TREES = st.dictionaries(st.sampled_from(NAMES), NODE, max_size=7)


def make(root: Path, nodes: dict) -> None:
    for name, node in sorted(nodes.items()):
        path = root / name
        if node is None or not path.parent.is_dir() or path.parent.resolve() != path.parent:
            continue
        kind, held, mode = node
        if kind == "file":
            path.write_bytes(held)
            path.chmod(mode)
        elif kind == "folder":
            path.mkdir(mode=0o755)
        else:
            path.symlink_to(os.fsdecode(held))
    for name, node in nodes.items():
        if (
            node is not None
            and node[0] == "folder"
            and (root / name).is_dir()
            and not (root / name).is_symlink()
        ):
            (root / name).chmod(node[2])


def look(root: Path) -> dict[str, tuple[Version, tuple[int, ...]]]:
    found = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(folder, name)
            status = path.lstat()
            mode = stat.S_IMODE(status.st_mode)
            if stat.S_ISLNK(status.st_mode):
                version = Version("link", 0, target=os.fsencode(path.readlink()))
            elif stat.S_ISDIR(status.st_mode):
                version = Version("folder", mode)
            else:
                content = path.read_bytes()
                version = Version("file", mode, len(content), hashlib.sha256(content).hexdigest())
            found[str(path.relative_to(root))] = (version, stamp_of(status))
    return found


CONTENTS = {hashlib.sha256(held).hexdigest(): held for held in (b"", b"one", b"two", b"longer")}


def put_back(root: Path, wanted: list[RestoreTarget], content=CONTENTS.get) -> dict[str, str]:
    guard = Guard(Policy(str(root), str(root.parent)))

    def opened(digest: str) -> BytesIO | None:
        return None if (held := content(digest)) is None else BytesIO(held)

    return dict(trio.run(trio.to_thread.run_sync, lambda: list(restore(str(root), wanted, guard, opened))))


@settings(suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate])
@given(
    TREES,
    TREES,
    st.lists(
        st.tuples(st.sampled_from(NAMES), st.sampled_from(["write", "remove", "link", "touch"])), max_size=3
    ),
)
@example({"d": ("folder", None, 0o750), "d/a": ("file", b"one", 0o644)}, {"d": ("file", b"two", 0o644)}, [])
@example(
    {"d": ("file", b"one", 0o644)},
    {"d": ("folder", None, 0o750), "d/e": ("folder", None, 0o755), "d/e/f": ("link", b"..", None)},
    [],
)
@example({"a": ("file", b"one", 0o644)}, {"a": ("link", b"nowhere", None)}, [("a", "touch")])
@example({"d": ("folder", None, 0o755)}, {}, [("d/a", "write")])
@example({"a": ("file", b"one", 0o644)}, {}, [("a", "remove")])
@example({}, {"d": ("folder", None, 0o755), "d/a": ("file", b"one", 0o700)}, [("d", "write")])
def test_a_path_is_put_back_or_as_somebody_left_it(now, goal, meanwhile):  # fmt: skip
    with tempfile.TemporaryDirectory() as temporary:
        base = Path(os.path.realpath(temporary))
        for name, nodes in (("ws", now), ("goal", goal)):
            (base / name).mkdir()
            make(base / name, nodes)
        root, seen, target = base / "ws", look(base / "ws"), look(base / "goal")
        wanted = [
            RestoreTarget(path, target.get(path, (None,))[0], seen.get(path, (None, None))[1])
            for path in seen.keys() | target.keys()
            if target.get(path, (None,))[0] != seen.get(path, (None,))[0]
        ]
        for name, what in meanwhile:
            disturb(root / name, what)
        before = look(root)
        left = put_back(root, wanted)
        after = {path: version for path, (version, _) in look(root).items()}
        assert not list(root.rglob(".leeward-*"))
        asked = {one.path for one in wanted}
        for path in before.keys() | target.keys() | after.keys():
            if path in asked and path not in left:
                assert after.get(path) == target.get(path, (None,))[0], path
            elif path not in asked:
                assert path not in before or after.get(path) == before[path][0], (
                    f"{path} was nobody's to touch"
                )
            elif path in before and before[path][0].kind != "folder":
                assert after.get(path) == before[path][0], f"{path} was left and is another all the same"
        if not meanwhile:
            assert not left and after == {path: version for path, (version, _) in target.items()}
        for folder in (base / "ws", base / "goal"):
            for path in folder.rglob("*"):
                None if path.is_symlink() or not path.is_dir() else path.chmod(0o700)


def disturb(path: Path, what: str) -> None:
    """Somebody else is at work between the look and the putting back."""
    try:
        match what:
            case "write" if not path.is_symlink():
                path.write_bytes(b"somebody's own")
            case "remove":
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
            case "link":
                path.unlink(missing_ok=True)
                path.symlink_to("../outside")
            case "touch":
                os.utime(path, ns=(1, 1), follow_symlinks=False)
    except OSError:
        return


# ------------------------------------------------------------------ what the system refuses


@pytest.fixture
def root(workspace):
    (workspace / "d").mkdir()
    for name in ("a", "d/b"):
        (workspace / name).write_bytes(b"two")
    return workspace


def wanted_of(root: Path, name: str, version: Version | None) -> RestoreTarget:
    path = root / name
    return RestoreTarget(name, version, stamp_of(path.lstat()) if os.path.lexists(path) else None)


ONE = Version("file", 0o640, 3, hashlib.sha256(b"one").hexdigest())


@pytest.mark.parametrize("broken", ["open", "fchmod", "fsync", "rename"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_what_cannot_be_written_keeps_what_it_held_and_hinders_no_other(root, monkeypatch, broken, number):
    real, names = getattr(os, broken), []

    def fail(*arguments, **named):
        if broken != "open" or arguments[1] & os.O_CREAT:
            names.append(arguments)
            if len(names) == 1:
                raise OSError(number, os.strerror(number))
        return real(*arguments, **named)

    monkeypatch.setattr(os, broken, fail)
    left = put_back(root, [wanted_of(root, name, ONE) for name in ("a", "d/b")])
    monkeypatch.undo()
    assert left == {"a": os.strerror(number)} and not list(root.rglob(".leeward-*"))
    assert ((root / "a").read_bytes(), (root / "d/b").read_bytes()) == (b"two", b"one")
    assert stat.S_IMODE((root / "d/b").stat().st_mode) == 0o640


@pytest.mark.parametrize(
    ("name", "version", "now", "why"),
    [
        ("a", ONE, "gone", None),
        ("a", ONE, "other", "it was changed by something else meanwhile"),
        ("a", None, "other", "it was changed by something else meanwhile"),
        ("a", None, "folder", "it was changed by something else meanwhile"),
        ("a", ONE, "folder", "it was changed by something else meanwhile"),
        ("a", None, "gone", None),
        ("new", ONE, "came", "it was changed by something else meanwhile"),
        ("new", Version("folder", 0o755), "came", "it was changed by something else meanwhile"),
        ("new", Version("link", 0, target=b"x"), "came", "it was changed by something else meanwhile"),
        ("d", None, "kept", "Directory not empty"),
        ("d/b", ONE, "parent gone", "there is no folder"),
        ("d/b", ONE, "parent a file", "is not a folder"),
        ("d/b", ONE, "parent a link", "a link appeared where there was none"),
        ("d/b", None, "parent a link", "a link appeared where there was none"),
        ("a", Version("file", 0o644, 9, "0" * 64), "kept", "its previous content was not saved"),
        ("a", Version("file", 0o644, 9), "kept", "its previous content was not saved"),
        ("d", Version("folder", 0o700), "a link", "it was changed by something else meanwhile"),
    ],
)
def test_why_a_path_stays(root, name, version, now, why):
    one = wanted_of(root, name, version)
    path, outside = root / name, root.parent / "outside"
    outside.mkdir()
    (outside / "b").write_bytes(b"theirs")
    match now:
        case "gone":
            path.unlink()
        case "other":
            path.write_bytes(b"six")
        case "folder":
            path.unlink()
            path.mkdir()
        case "came":
            path.write_bytes(b"theirs")
        case "parent gone":
            shutil.rmtree(path.parent)
        case "parent a file":
            shutil.rmtree(path.parent)
            path.parent.write_bytes(b"x")
        case "parent a link":
            shutil.rmtree(path.parent)
            path.parent.symlink_to(outside)
        case "a link":
            shutil.rmtree(path)
            path.symlink_to(outside)
    before = {found: version for found, (version, _) in look(root).items()}
    left = put_back(root, [one])
    after = {found: version for found, (version, _) in look(root).items()}
    if why is None:
        assert not left and after.get(name) == version
    else:
        assert list(left) == [name] and why in left[name] and after == before
    assert (outside / "b").read_bytes() == b"theirs" and stat.S_IMODE(outside.stat().st_mode) == 0o755


def test_what_was_not_kept_is_not_deleted_and_nothing_comes_back_as_somebody_else(root):
    one = wanted_of(root, "a", None)
    assert put_back(root, [RestoreTarget("a", None, one.stamp, is_kept=False)]) == {
        "a": "its content was not saved, so it is not deleted"
    }
    strong = Version("file", 0o6755, 3, ONE.digest)
    assert not put_back(
        root, [wanted_of(root, "a", strong), RestoreTarget("s", Version("folder", 0o4755), None)]
    )
    assert (
        stat.S_IMODE((root / "a").stat().st_mode) == 0o755
        and stat.S_IMODE((root / "s").stat().st_mode) == 0o755
    )
