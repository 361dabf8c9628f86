"""Keep: the workspace becomes what the program saw or stays unchanged, under failures, edits and kills."""

from __future__ import annotations

import errno
import os
import sqlite3
import subprocess
import sys
import time
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path

import pytest
import trio

from leeward.memory.checkpoints import CheckpointStore
from leeward.memory.database import AsyncioThread, Database
from leeward.security.policy import Policy
from leeward.security.ports import RecordError
from leeward.tools.checkpoints import Checkpoints, Conflict, SnapshotLimits
from leeward.tools.files import Guard
from leeward.tools.sandbox import ChangeLimits, Keeping, NotKept, changes_of

# The front hands on a function of the same name.
RESTORE = sys.modules["leeward.tools.checkpoints.restore"]


class Clock:
    def now(self) -> float:
        return time.time()


@pytest.fixture
def made(script):
    made = script("tools/sandbox/trial_upper.py")
    if why := made.why_not():
        pytest.skip(why)
    return made


@pytest.fixture
def opened(tmp_path, workspace):
    """Open the store of a workspace: what keeps, and what undoes."""

    @asynccontextmanager
    async def opened(budget: int = 10_000):
        async with AsyncioThread.open("t") as thread, Database.open(tmp_path / "k.db", thread) as database:
            store = CheckpointStore(database, Clock(), 1 << 28)
            guard = Guard(Policy(str(workspace), str(tmp_path)))
            points = Checkpoints(store, guard, SnapshotLimits(budget), lambda: "s", print)
            yield Keeping(store, guard, budget, tmp_path / "journal"), points

    return opened


async def keep(keeping: Keeping, upper) -> None:
    changes = changes_of(upper.handle, upper.lower, upper.began)
    await keeping.keep(upper.handle, upper.lower, changes, session="s", call="c", tool="shell")


async def turn(points: Checkpoints, *, undo: bool):
    async def nothing(*_) -> None:
        await trio.lowlevel.checkpoint()

    return await points.turn(undo=undo, force=False, record=nothing)


def plant(workspace: Path) -> None:
    for name in ("changed", "removed", "d/x", "d/e/y", "gone/z"):
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text(name)
        os.utime(workspace / name, ns=(1, 1_000_000_000_000_000_001))


LINES = (
    "echo more >>changed; touch -d 2001-02-03T04:05:06.123456789 changed",
    (
        "rm removed; rm -r gone; rm -r d; mkdir d; echo n >d/n; chmod 500 d; "
        "mkdir -p a/b; ln -s /etc a/b/l; chmod 755 a/b"
    ),
)


def untimed(view):
    return {path: entry[:3] for path, entry in view.items()}


def left_behind(tmp_path: Path) -> list[Path]:
    inside = [path for path in tmp_path.rglob(".leeward-*") if "ws" in path.parts]
    return inside + [
        path for path in (tmp_path / "journal").rglob("*") if path.is_file() and path.name != "lock"
    ]


async def test_the_workspace_becomes_what_the_program_saw_and_undo_takes_it_back(
    workspace, tmp_path, made, opened
):
    plant(workspace)
    before = made.view(str(workspace))
    with made.upper_of(workspace, *LINES) as upper:
        async with opened() as (keeping, points):
            await keep(keeping, upper)
            assert made.view(str(workspace)) == upper.view
            turned = await turn(points, undo=True)
            assert turned.left == ()
            assert untimed(made.view(str(workspace))) == untimed(before)
            assert (await turn(points, undo=False)).left == ()
            assert untimed(made.view(str(workspace))) == untimed(upper.view)
    assert left_behind(tmp_path) == []


async def test_what_is_undone_is_newer_than_what_was_built_of_it(workspace, made, opened):
    """Else make would take what was built of the undone version for one that is up to date."""
    plant(workspace)
    with made.upper_of(workspace, "echo more >>changed") as upper:
        async with opened() as (keeping, points):
            await keep(keeping, upper)
            built = (workspace / "changed").stat().st_mtime_ns
            await turn(points, undo=True)
            assert (workspace / "changed").stat().st_mtime_ns >= built


async def test_discarded_is_untouched(workspace, made, opened):
    plant(workspace)
    before = made.view(str(workspace))
    with made.upper_of(workspace, *LINES) as upper:
        changes_of(upper.handle, upper.lower, upper.began)
    assert made.view(str(workspace)) == before


async def test_contents_over_the_budget_are_applied_and_undo_says_what_it_cannot_restore(
    workspace, tmp_path, made, opened
):
    (workspace / "old").write_bytes(b"o" * 50_000)
    (workspace / "small").write_text("s")
    line = "head -c 60000 /dev/zero >old; head -c 70000 /dev/zero >new; echo t >>small"
    with made.upper_of(workspace, line) as upper:
        async with opened() as (keeping, points):
            await keep(keeping, upper)
            assert made.view(str(workspace)) == upper.view
            assert left_behind(tmp_path) == []
            turned = await turn(points, undo=True)
    assert dict(turned.left) == {"old": "its previous content was not saved"}
    assert not (workspace / "new").exists()
    assert (workspace / "small").read_text() == "s"


async def test_a_new_file_over_the_budget_that_somebody_changed_is_not_undone(workspace, made, opened):
    with made.upper_of(workspace, "head -c 70000 /dev/zero >new") as upper:
        async with opened() as (keeping, points):
            await keep(keeping, upper)
            await trio.sleep(0.02)
            (workspace / "new").write_bytes(b"t" * 70_000)
            turned = await turn(points, undo=True)
    assert [path for path, _ in turned.left] == ["new"]
    assert (workspace / "new").read_bytes() == b"t" * 70_000


async def test_undo_removes_a_folder_that_a_look_at_the_workspace_leaves_out(workspace, made, opened):
    with made.upper_of(workspace, "mkdir -p node_modules/m; echo n >node_modules/m/i.js") as upper:
        async with opened() as (keeping, points):
            await keep(keeping, upper)
            assert (await turn(points, undo=True)).left == ()
    assert list(workspace.iterdir()) == []


@pytest.mark.parametrize(
    "real", ["echo theirs >>changed", "rm -r d; ln -s /tmp d", "echo theirs >d/e/new", "echo t >a"]
)
async def test_a_conflict_before_changes_nothing(workspace, tmp_path, made, opened, real):
    plant(workspace)
    with made.upper_of(workspace, *LINES) as upper:
        changes = changes_of(upper.handle, upper.lower, upper.began)
        async with opened() as (keeping, points):
            # After it was looked at, and before it is kept: that it was found no conflict is of no use.
            subprocess.run(real, shell=True, cwd=workspace, check=True)
            theirs = made.view(str(workspace))
            with pytest.raises((Conflict, NotKept)):
                await keeping.keep(upper.handle, upper.lower, changes, session="s", call="c", tool="shell")
            assert await points.steps() == []
    assert made.view(str(workspace)) == theirs
    assert left_behind(tmp_path) == []


async def test_an_edit_in_the_very_instant_gets_its_name_back(workspace, tmp_path, made, opened, monkeypatch):
    """Between the last look at a file and the exchange of names nobody can lock it."""
    plant(workspace)
    real = RESTORE.exchange_names
    edited = []

    def edit(folder: int, name: str, other: str) -> bool:
        if not edited:
            edited.append(other)
            (workspace / "changed").write_text("theirs")
        return real(folder, name, other)

    monkeypatch.setattr(RESTORE, "exchange_names", edit)
    with made.upper_of(workspace, *LINES) as upper:
        before = untimed(made.view(str(workspace)))
        async with opened() as (keeping, _):
            with pytest.raises((Conflict, NotKept)) as raised:
                await keep(keeping, upper)
    assert "changed" in str(raised.value)
    after = untimed(made.view(str(workspace)))
    assert (workspace / "changed").read_text() == "theirs"
    assert {path: entry for path, entry in after.items() if path != "changed"} == {
        path: entry for path, entry in before.items() if path != "changed"
    }
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize("path", [".env", "keys/id_rsa", ".leeward/config.toml", ".git/hooks/pre-commit"])
async def test_secret_and_protected_paths_are_refused_and_nothing_is_changed(workspace, made, opened, path):
    with made.upper_of(workspace, f"mkdir -p ./$(dirname {path}); echo x >{path}; echo x >harmless") as upper:
        async with opened() as (keeping, _):
            with pytest.raises(NotKept):
                await keep(keeping, upper)
    assert list(workspace.iterdir()) == []


async def test_what_was_cut_is_not_kept(workspace, made, opened):
    with made.upper_of(workspace, "touch a b c") as upper:
        changes = changes_of(upper.handle, upper.lower, upper.began, ChangeLimits(max_entries=2))
        async with opened() as (keeping, _):
            with pytest.raises(NotKept, match="more than can be looked at"):
                await keeping.keep(upper.handle, upper.lower, changes, session="s", call="c", tool="shell")
    assert list(workspace.iterdir()) == []


@pytest.mark.parametrize("broken", ["fsync", "rename", "mkdir", "open", "symlink"])
@pytest.mark.parametrize("at", [0, 1, 2])
async def test_a_full_disk_in_the_middle_leaves_all_as_it_was(
    workspace, tmp_path, made, opened, monkeypatch, broken, at
):
    plant(workspace)
    before = made.view(str(workspace))
    with made.upper_of(workspace, *LINES) as upper:
        changes = changes_of(upper.handle, upper.lower, upper.began)
        async with opened() as (keeping, points):
            real, calls = getattr(os, broken), []
            begun = keeping.store.begin

            def fail(*arguments, **named):
                calls.append(arguments)
                if len(calls) == at + 1 and (broken != "open" or arguments[1] & os.O_CREAT):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                return real(*arguments, **named)

            async def begin(*arguments):
                step = await begun(*arguments)
                monkeypatch.setattr(os, broken, fail)
                return step

            monkeypatch.setattr(keeping.store, "begin", begin)
            try:
                await keeping.keep(upper.handle, upper.lower, changes, session="s", call="c", tool="shell")
                is_kept = True
            except NotKept as failure:
                is_kept = False
                assert "No space left" in str(failure)
            monkeypatch.undo()
            assert len(await points.steps()) == is_kept
            assert await keeping.store.pending(str(workspace)) == []
        assert made.view(str(workspace)) == (upper.view if is_kept else before)
    assert left_behind(tmp_path) == []


async def test_what_cannot_be_written_down_is_not_done(workspace, made, opened, monkeypatch):
    with made.upper_of(workspace, "echo n >new") as upper:
        async with opened() as (keeping, _):

            async def fails(*_) -> int:
                await trio.lowlevel.checkpoint()
                raise RecordError("the disk is full")

            monkeypatch.setattr(keeping.store, "begin", fails)
            with pytest.raises(RecordError):
                await keep(keeping, upper)
    assert list(workspace.iterdir()) == []


async def test_what_a_killed_process_left_is_finished_by_the_next(
    workspace, tmp_path, made, opened, monkeypatch
):
    plant(workspace)
    with made.upper_of(workspace, *LINES, "head -c 70000 /dev/zero >big") as upper:
        async with opened() as (keeping, _):
            with pytest.raises(RuntimeError):
                await half_kept(keeping, upper, monkeypatch)
        assert made.view(str(workspace)) != upper.view
        async with opened() as (keeping, points):
            (line,) = await keeping.finish_pending()
            assert "are complete" in line
            assert await keeping.finish_pending() == ()
            assert len(await points.steps()) == 1
        assert made.view(str(workspace)) == upper.view
    assert left_behind(tmp_path) == []


async def test_what_a_killed_process_left_is_taken_back_where_somebody_changed_it_since(
    workspace, tmp_path, made, opened, monkeypatch
):
    plant(workspace)
    before = made.view(str(workspace))
    with made.upper_of(workspace, *LINES) as upper:
        async with opened() as (keeping, _):
            with pytest.raises(RuntimeError):
                await half_kept(keeping, upper, monkeypatch)
    (workspace / "removed").write_text("theirs")
    async with opened() as (keeping, points):
        (line,) = await keeping.finish_pending()
        assert "taken back" in line
        assert "removed" in line
        assert await points.steps() == []
    found = made.view(str(workspace))
    assert (workspace / "removed").read_text() == "theirs"
    assert {**found, "removed": before["removed"]} == before
    assert left_behind(tmp_path) == []


async def half_kept(keeping: Keeping, upper, monkeypatch) -> None:
    """Keep something, and stop as if killed when some of it is done."""
    real, calls = RESTORE._take_name, []

    def stop(*arguments) -> None:
        calls.append(arguments)
        if len(calls) == 2:
            raise RuntimeError("killed")
        real(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(RESTORE, "_take_name", stop)
        await keep(keeping, upper)


async def test_two_processes_do_not_finish_at_once(workspace, tmp_path, made, opened, monkeypatch):
    plant(workspace)
    with made.upper_of(workspace, *LINES) as upper:
        async with opened() as (keeping, _):
            with pytest.raises(RuntimeError):
                await half_kept(keeping, upper, monkeypatch)
            async with keeping._locked():
                with trio.move_on_after(0.1) as waited:
                    await keeping.finish_pending()
            assert waited.cancelled_caught
            lines = []

            async def finish() -> None:
                lines.extend(await keeping.finish_pending())

            async with trio.open_nursery() as nursery:
                nursery.start_soon(finish)
                nursery.start_soon(finish)
        assert len(lines) == 1
        assert made.view(str(workspace)) == upper.view


async def test_a_step_that_is_being_applied_is_neither_undone_nor_forgotten(
    workspace, tmp_path, made, opened, monkeypatch
):
    plant(workspace)
    with made.upper_of(workspace, *LINES) as upper:
        async with opened() as (keeping, points):
            with pytest.raises(RuntimeError):
                await half_kept(keeping, upper, monkeypatch)
            assert await points.steps() == []
            monkeypatch.setattr(keeping.store, "max_total", 0)
            await keeping.store.prune()
            assert len(await keeping.store.pending(str(workspace))) == 1
            assert (await keeping.finish_pending())[0].startswith("changes")
        assert made.view(str(workspace)) == upper.view


async def test_attributes_of_a_file_stay_with_its_new_content(workspace, made, opened):
    (workspace / "f").write_text("f")
    try:
        os.setxattr(workspace / "f", "user.mine", b"1")
    except OSError:
        pytest.skip("the file system of the workspace has no user attributes")
    with made.upper_of(workspace, "echo x >>f") as upper:
        async with opened() as (keeping, _):
            await keep(keeping, upper)
    assert os.listxattr(workspace / "f") == ["user.mine"]


async def test_a_link_swapped_in_is_not_followed(workspace, tmp_path, made, opened):
    plant(workspace)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("outside")
    with made.upper_of(workspace, "echo more >>d/x; echo n >d/n") as upper:
        changes = changes_of(upper.handle, upper.lower, upper.began)
        (workspace / "d").rename(workspace / "was")
        (workspace / "d").symlink_to(outside)
        async with opened() as (keeping, _):
            with pytest.raises((Conflict, NotKept)):
                await keeping.keep(upper.handle, upper.lower, changes, session="s", call="c", tool="shell")
    assert [path.name for path in outside.iterdir()] == ["x"]
    assert (outside / "x").read_text() == "outside"


async def test_a_version_8_file_with_steps_opens_and_undoes(workspace, tmp_path, made, opened):
    """Times of files are not known of steps that were written before."""
    plant(workspace)
    with made.upper_of(workspace, "echo more >>changed") as upper:
        async with opened() as (keeping, _):
            await keep(keeping, upper)
    with closing(sqlite3.connect(tmp_path / "k.db")) as database, database:
        for table in ("call_change", "file_label", "content_label", "keyed_run", "keyed_step"):
            database.execute(f"DROP TABLE {table}")
        database.execute("DROP INDEX checkpoint_pending")
        for column in ("was_mtime", "became_mtime"):
            database.execute(f"ALTER TABLE checkpoint_change DROP COLUMN {column}")
        for column in ("command", "files", "mark", "effect"):
            database.execute(f"ALTER TABLE lasting_grant DROP COLUMN {column}")
        database.execute("PRAGMA user_version = 8")
    async with opened() as (_, points):
        assert (await turn(points, undo=True)).left == ()
    assert (workspace / "changed").read_text() == "changed"


@pytest.mark.parametrize("calls", range(5))
async def test_what_has_no_name_for_an_instant_is_not_taken_for_removed_by_others(
    workspace, tmp_path, made, opened, monkeypatch, calls
):
    """A file has to go before a folder can be there, and the reverse: a kill may come in between."""
    plant(workspace)
    before = made.view(str(workspace))
    lines = (
        "rm changed; mkdir changed; echo n >changed/n",
        "rm -r gone; echo f >gone",
        "rm removed; ln -s d removed",
    )
    with made.upper_of(workspace, *lines) as upper:
        changes = changes_of(upper.handle, upper.lower, upper.began)
        async with opened() as (keeping, _):
            begin, count = keeping.store.begin, 0

            def stop(*arguments, real, **named):
                nonlocal count
                count += 1
                if count > calls:
                    raise RuntimeError("killed")
                return real(*arguments, **named)

            async def begun(*arguments):
                step = await begin(*arguments)
                for name in ("mkdir", "symlink", "rename", "rmdir"):
                    monkeypatch.setattr(os, name, partial(stop, real=getattr(os, name)))
                return step

            monkeypatch.setattr(keeping.store, "begin", begun)
            with pytest.raises(RuntimeError, match="killed"):
                await keeping.keep(upper.handle, upper.lower, changes, session="s", call="c", tool="shell")
            monkeypatch.undo()
        async with opened() as (keeping, points):
            assert "are complete" in (await keeping.finish_pending())[0]
            assert made.view(str(workspace)) == upper.view
            assert (await turn(points, undo=True)).left == ()
            assert untimed(made.view(str(workspace))) == untimed(before)
    assert left_behind(tmp_path) == []


async def test_a_kill_while_it_is_marked_as_done_leaves_what_the_next_needs(
    workspace, made, opened, monkeypatch
):
    (workspace / "big").write_bytes(b"b" * 50_000)
    with made.upper_of(workspace, "head -c 60000 /dev/zero >big; echo n >new") as upper:
        async with opened() as (keeping, _):
            written = keeping.store._database.write

            async def write(statements, drafts=()):
                if len(statements) > 1 and any("undone = ?" in sql for sql, _ in statements):
                    raise RuntimeError("killed")
                await written(statements, drafts)

            with monkeypatch.context() as patched:
                patched.setattr(keeping.store._database, "write", write)
                with pytest.raises(RuntimeError):
                    await keep(keeping, upper)
        async with opened() as (keeping, points):
            assert "are complete" in (await keeping.finish_pending())[0]
            assert len(await points.steps()) == 1
        assert made.view(str(workspace)) == upper.view


async def test_a_secret_file_by_another_name_is_not_kept(workspace, tmp_path, made, opened):
    (workspace / ".env").write_text("TOKEN=not-a-real-one")
    os.link(workspace / ".env", workspace / "notes")
    with made.upper_of(workspace, "echo more >>notes; echo n >new") as upper:
        async with opened() as (keeping, _):
            with pytest.raises(NotKept, match="secret file by another name"):
                await keep(keeping, upper)
    assert sorted(path.name for path in workspace.iterdir()) == [".env", "notes"]
    with closing(sqlite3.connect(tmp_path / "k.db")) as database:
        assert database.execute("SELECT count(*) FROM content").fetchone() == (0,)
