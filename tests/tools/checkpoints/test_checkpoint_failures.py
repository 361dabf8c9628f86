"""Failures around steps: no call starts that could not be undone, and the failure is reported."""

from __future__ import annotations

import errno
import json
import os
import shutil
import threading
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from leeward.memory.checkpoints import CheckpointStore
from leeward.memory.database import AsyncioThread, Database
from leeward.security.action import ActionBuilder
from leeward.security.call import ToolCall
from leeward.security.kinds import Effect
from leeward.security.outcome import Output, PermanentFailure
from leeward.security.policy import Policy
from leeward.security.ports import RecordError
from leeward.tools.checkpoints import Checkpoints, NothingToUndo, SnapshotLimits, snapshot
from leeward.tools.checkpoints.snapshot import Look
from leeward.tools.declare import schema_tool
from leeward.tools.files import Guard


class Clock:
    def now(self) -> float:
        return 1_000_000.0


async def nothing(*_: object) -> None:
    """Nobody records here."""


@asynccontextmanager
async def opened(folder: Path, most: int = 1 << 20):
    """A workspace with its steps, what was told to the person, and the database below."""
    root, told = folder / "ws", []
    root.mkdir(exist_ok=True)
    policy = Policy(str(root), str(folder))
    async with (
        AsyncioThread.open("test") as asyncio_thread,
        Database.open(folder / "store.db", asyncio_thread) as database,
    ):
        store = CheckpointStore(database, Clock(), 1 << 30)
        yield (
            root,
            Checkpoints(store, Guard(policy), SnapshotLimits(most), lambda: "s", told.append),
            told,
            database,
        )


def command(root: Path, effects: Effect = Effect.ALL, **paths: str):
    """A call of a tool: with paths, one that names all it touches."""
    properties = {name: {"type": "string", "x-leeward-kind": "path"} for name in paths}
    tool = schema_tool("tool", "does", {"type": "object", "properties": properties}, nothing, effects=effects)
    draft = ActionBuilder.of(ToolCall("1", "tool", json.dumps(paths)), {"tool": tool.specs()[0]})
    policy = Policy(str(root), str(root.parent))
    return draft.read(policy, {path: path for path in draft.paths(policy)})


async def changes_of(points: Checkpoints) -> list[set[str]]:
    return [
        {os.fsdecode(change.path) for change in await points.store.revisions(step.id)}
        for step in await points.steps()
    ]


# ------------------------------------------------------------------ before


async def test_a_call_that_could_not_be_kept_does_not_begin(tmp_path) -> None:
    async with opened(tmp_path) as (root, points, told, database):
        (root / "a").write_bytes(os.urandom(300_000))
        await database.read(f"PRAGMA max_page_count = {(await database.read('PRAGMA page_count'))[0][0] + 4}")
        has_begun = False
        with pytest.raises(PermanentFailure, match="could not be saved for /undo: .*the disk is full"):
            async with points.around(command(root)):
                has_begun = True
        assert not has_begun and await points.steps() == []
        await database.read("PRAGMA max_page_count = 100000")
        async with points.around(command(root)):
            (root / "a").write_text("other")
        assert await changes_of(points) == [{"a"}] and not told


async def test_a_workspace_that_cannot_be_looked_at_is_told_and_keeps_nobody_from_working(tmp_path) -> None:
    async with opened(tmp_path) as (root, points, told, _):
        root.rmdir()
        assert "nothing of it: there is no folder" in await points.uncovered(command(root))
        async with points.around(command(root)):
            root.mkdir()
            (root / "a").write_text("x")
        assert len(told) == 1 and told[0].startswith(
            "/undo will not know what tool changes: there is no folder"
        )
        with pytest.raises(NothingToUndo):
            await points.turn(undo=True, force=False, record=nothing)


async def test_what_only_reads_is_not_looked_at(tmp_path, monkeypatch) -> None:
    async with opened(tmp_path) as (root, points, _, _):
        monkeypatch.setattr(Look, "_taken", lambda *_, **__: pytest.fail("nothing was to be looked at"))
        async with points.around(command(root, Effect.READ | Effect.BRING_IN)):
            pass
        assert await points.uncovered(command(root, Effect.READ)) == ""


# ------------------------------------------------------------------ what is not covered


async def test_what_cannot_be_undone_is_said_before_and_once(tmp_path, monkeypatch, as_nobody) -> None:
    async with opened(tmp_path, most=1000) as (root, points, told, _):
        for name, size in {
            "big": 5000,
            "bigger": 6000,
            "biggest": 7000,
            "small": 10,
            "most": 9000,
            ".env": 5,
            "shut/x": 5,
        }.items():
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_bytes(b"x" * size)
        (root / "node_modules").mkdir()
        (root / "shut" / "x").chmod(0o600)
        with as_nobody(root):
            action = command(root)
            said = await points.uncovered(action)
            assert said == (
                "too big: most (9000 bytes), biggest (7000 bytes), bigger (6000 bytes) and 1 more; "
                "secret files: 1; left out: node_modules/"
            )
            async with points.around(action):
                pass
        assert told == [
            f"/undo does not cover: {said.replace('; secret', '; unreadable: shut/x; secret')}"
        ], "what was not said before"
        with as_nobody(root):
            async with points.around(action):
                pass
        assert len(told) == 1
        monkeypatch.setattr(points, "limits", SnapshotLimits(1000, max_entries=2))
        assert "there are too many files to look at all of them" in await points.uncovered(action)


async def test_paths_outside_and_folders_to_be_made_are_known_for_what_they_are(tmp_path) -> None:
    async with opened(tmp_path) as (root, points, told, _):
        (root / "there").mkdir()
        action = command(root, Effect.WRITE, path="there/new/deep/file", other=str(tmp_path / "elsewhere"))
        assert points._paths(action) == ("there/new",)
        assert await points.uncovered(action) == f"outside of the workspace: {tmp_path / 'elsewhere'}"
        async with points.around(action):
            (root / "there/new/deep").mkdir(parents=True)
            (root / "there/new/deep/file").write_text("x")
            (root / "beside").write_text("x")
        assert await changes_of(points) == [{"there/new", "there/new/deep", "there/new/deep/file"}]
        await points.turn(undo=True, force=False, record=nothing)
        assert sorted(path.name for path in root.rglob("*")) == ["beside", "there"] and not told


# ------------------------------------------------------------------ afterwards


@pytest.mark.parametrize("how", ["raises", "is cancelled"])
async def test_what_a_call_changed_before_it_broke_can_be_undone(tmp_path, how) -> None:
    async with opened(tmp_path) as (root, points, _, _):
        with trio.CancelScope() as scope:
            try:
                async with points.around(command(root)):
                    (root / "a").write_text("half")
                    if how == "raises":
                        raise PermanentFailure("it broke")
                    scope.cancel()
                    await trio.sleep_forever()
            except PermanentFailure:
                pass
        assert await changes_of(points) == [{"a"}]
        await points.turn(undo=True, force=False, record=nothing)
        assert not (root / "a").exists()


async def test_changes_that_cannot_be_written_down_are_told(tmp_path) -> None:
    async with opened(tmp_path) as (root, points, told, database):
        async with points.around(command(root)):
            (root / "a").write_text("x")
            await database.read("PRAGMA query_only = ON")
        assert len(told) == 1 and told[0].startswith("/undo does not know what tool changed: ")
        await database.read("PRAGMA query_only = OFF")
        async with points.around(command(root)):
            shutil.rmtree(root)
        assert "there is no folder" in told[1] and len(told) == 2
        root.mkdir()
        async with points.around(command(root)):
            (root / "b").write_text("x")
        assert (await changes_of(points))[-1] == {"b"} and len(told) == 2


async def test_a_call_that_goes_on_is_written_down_when_it_ends_without_what_others_changed(tmp_path) -> None:
    async with opened(tmp_path) as (root, points, _, _):
        async with points.around(command(root)) as came:
            came(Output("started", goes_on=True))
        (root / "of_the_job").write_text("x")
        async with points.around(command(root, Effect.WRITE, path="of_a_call")):
            (root / "of_a_call").write_text("x")
        assert await changes_of(points) == [{"of_a_call"}]
        await points.job_ended("1")
        await points.job_ended("1")
        await points.job_ended("of nobody")
        assert await changes_of(points) == [{"of_a_call"}, {"of_the_job"}]
        await points.turn(undo=True, force=False, record=nothing)
        assert not (root / "of_the_job").exists() and (root / "of_a_call").exists()


async def test_nothing_is_touched_that_could_not_be_put_on_record(tmp_path) -> None:
    async with opened(tmp_path) as (root, points, _, _):
        async with points.around(command(root)):
            (root / "a").write_text("x")

        async def full(*_: object) -> None:
            raise RecordError("the disk is full")

        with pytest.raises(RecordError):
            await points.turn(undo=True, force=False, record=full)
        assert (root / "a").exists() and not (await points.steps())[0].undone and points.take_turned() == ()
        with trio.CancelScope() as scope:

            async def cancelled(*_: object) -> None:
                scope.cancel()

            await points.turn(undo=True, force=False, record=cancelled)
        assert not (root / "a").exists() and (await points.steps())[0].undone, (
            "what was begun is done to its end"
        )
        assert [one.paths for one in points.take_turned()] == [("a",)] and points.take_turned() == ()


# ------------------------------------------------------------------ a look, while others are at work


@pytest.mark.parametrize("what", ["vanishes", "became a link", "became a folder", "grew", "may not be read"])
async def test_a_file_that_changes_under_the_look_is_never_taken_for_another(
    tmp_path, monkeypatch, what
) -> None:
    (tmp_path / "outside").write_text("CANARY")
    async with opened(tmp_path) as (root, points, _, database):
        (root / "a").write_text("one")
        (root / "b").write_text("two")
        real = snapshot.DirHandle.open_known_file

        def meanwhile(folder, name):
            if name == "a":
                path = root / "a"
                match what:
                    case "may not be read":
                        raise OSError(errno.EACCES, "Permission denied")
                    case "grew":
                        path.write_text("one and much more")
                    case _:
                        path.unlink(missing_ok=True)
                if what == "became a link":
                    path.symlink_to(tmp_path / "outside")
                elif what == "became a folder":
                    path.mkdir(exist_ok=True)
            return real(folder, name)

        monkeypatch.setattr(snapshot.DirHandle, "open_known_file", meanwhile)
        look = Look(str(root), points.guard, points.limits, Kept())
        found = await trio.to_thread.run_sync(look.whole, {})
        assert found.nodes["b"].version.digest is not None
        if what == "grew":
            assert Kept.held[found.nodes["a"].version.digest] == 3, "no more is taken than was seen of it"
        else:
            assert found.nodes["a"].version.digest is None and found.uncovered.unreadable == ["a"]


class Kept:
    """Takes what it is given, and remembers how much that was."""

    held: dict[str, int] = {}

    def missing(self, digests) -> set[str]:
        return set(digests)

    def put(self, contents) -> None:
        self.held.update((one.digest, one.size) for one in contents)


async def test_a_look_goes_by_folders_that_vanish_and_stops_when_it_is_cancelled(
    tmp_path, monkeypatch
) -> None:
    async with opened(tmp_path) as (root, points, _, _):
        for name in ("d/e/f", "x/y"):
            (root / name).parent.mkdir(parents=True)
            (root / name).write_text("x")
        look = Look(str(root), points.guard, points.limits)
        begun, go_on, real = threading.Event(), threading.Event(), snapshot._entries

        def gone(top, folder, *more):
            if folder == "d/e":
                shutil.rmtree(root / "d" / "e", ignore_errors=True)
            return real(top, folder, *more)

        monkeypatch.setattr(snapshot, "_entries", gone)
        found = await trio.to_thread.run_sync(look.whole, {})
        assert {"d", "d/e", "x", "x/y"} == found.nodes.keys()
        found = await trio.to_thread.run_sync(lambda: look.at(["d/e", "d", "x/y", "nowhere/z"], is_deep=True))
        assert found.nodes.keys() == {"d", "x/y"}

        def slow(*arguments):
            begun.set()
            assert go_on.wait(30)
            return real(*arguments)

        monkeypatch.setattr(snapshot, "_entries", slow)
        with trio.fail_after(30), trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(points.uncovered, command(root))
                await trio.to_thread.run_sync(begun.wait, 30)
                scope.cancel()
                go_on.set()
        assert scope.cancelled_caught
