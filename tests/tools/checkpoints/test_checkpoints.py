"""Steps: any change of a tree, undone and redone, is identical byte for byte."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path

import pytest
import trio
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from leeward.memory.checkpoints import CheckpointStore, Version
from leeward.memory.database import AsyncioThread, Database
from leeward.security.action import ActionBuilder
from leeward.security.call import ToolCall
from leeward.security.kinds import Effect
from leeward.security.outcome import Output
from leeward.security.policy import Policy
from leeward.tools.checkpoints import Checkpoints, Conflict, NothingToUndo, SnapshotLimits
from leeward.tools.checkpoints.restore import RestoreTarget, restore
from leeward.tools.checkpoints.snapshot import stamp_of
from leeward.tools.declare import schema_tool
from leeward.tools.files import Guard

NAMES = ("a", "b", "d", "d/a", "d/e", "d/e/f", "caf\udce9", "d/ü")
EDIT = st.tuples(
    st.sampled_from(["write", "remove", "folder", "link", "mode", "move", "hard", "append"]),
    st.sampled_from(NAMES),
    st.sampled_from(NAMES),
    st.integers(0, 3),
)


class Clock:
    time = 1_000_000.0

    def now(self) -> float:
        return self.time


def edit(root: Path, what: str, name: str, other: str, number: int) -> None:
    """Do something to a tree, if it can be done."""
    path = root / name
    try:
        match what:
            case "write":
                path.write_bytes((b"", b"x", b"\0\1" * 40_000, os.urandom(200_000))[number])
            case "append":
                with path.open("ab") as file:
                    file.write(b"more")
            case "remove":
                path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
            case "folder":
                path.mkdir()
            case "link":
                path.symlink_to(("a", "nowhere", str(root.parent / "outside"), "..")[number])
            case "mode":
                None if path.is_symlink() else path.chmod((0o755, 0o644, 0o700, 0o777)[number])
            case "move":
                path.rename(root / other)
            case "hard":
                os.link(path, root / other)
    except OSError:
        return


def state(root: Path) -> dict[str, tuple]:
    found = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(folder, name)
            info = path.lstat()
            if stat.S_ISLNK(info.st_mode):
                held: object = path.readlink()
            else:
                held = path.read_bytes() if stat.S_ISREG(info.st_mode) else None
            mode = 0 if stat.S_ISLNK(info.st_mode) else stat.S_IMODE(info.st_mode)
            found[str(path.relative_to(root))] = (stat.S_IFMT(info.st_mode), mode, held)
    return found


async def nothing(*_: object) -> None:
    """Nobody records here."""


@asynccontextmanager
async def opened(folder: Path, most: int = 1 << 20, total: int = 1 << 30):
    root = folder / "ws"
    root.mkdir(exist_ok=True)
    policy = Policy(str(root.resolve()), str(folder.resolve()))
    async with (
        AsyncioThread.open("test") as asyncio_thread,
        Database.open(folder / "store.db", asyncio_thread) as database,
    ):
        store = CheckpointStore(database, Clock(), total)
        yield root, Checkpoints(store, Guard(policy), SnapshotLimits(most), lambda: "s", lambda _: None)


def command(number: str = "1"):
    tool = schema_tool("shell", "runs", {"type": "object", "properties": {}}, nothing, effects=Effect.ALL)
    return ActionBuilder.of(ToolCall(number, "shell", json.dumps({})), {"shell": tool.specs()[0]}).read(
        Policy("/w", "/h"), {}
    )


def write(root: Path, name: str):
    """Build the call that writes one file, as the tool declares it."""
    properties = {"path": {"type": "string", "x-leeward-kind": "path"}}
    tool = schema_tool(
        "write", "writes", {"type": "object", "properties": properties}, nothing, effects=Effect.WRITE
    )
    call = ToolCall(f"write {name}", "write", json.dumps({"path": name}))
    draft, policy = ActionBuilder.of(call, {"write": tool.specs()[0]}), Policy(str(root.resolve()), "/h")
    return draft.read(policy, {path: path for path in draft.paths(policy)})


async def step(points: Checkpoints, root: Path, edits) -> None:
    async with points.around(command()) as came:
        for one in edits:
            edit(root, *one)
        came(Output(""))


async def scenario(steps, walk) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with opened(Path(folder)) as (root, points):
            states = [state(root)]
            for edits in steps:
                await step(points, root, edits)
                if state(root) != states[-1]:
                    states.append(state(root))
            at = len(states) - 1
            for undo in walk:
                try:
                    turned = await points.turn(undo=undo, force=False, record=nothing)
                except NothingToUndo:
                    assert at == (0 if undo else len(states) - 1)
                    continue
                at += -1 if undo else 1
                assert not turned.left and state(root) == states[at]


@settings(max_examples=settings().max_examples * 2 // 5, suppress_health_check=list(HealthCheck))
@given(st.lists(st.lists(EDIT, max_size=6), max_size=4), st.lists(st.booleans(), max_size=10))
@example(
    [[("write", "a", "a", 1)], [("remove", "a", "a", 0), ("folder", "a", "a", 0)]], [True, True, False, False]
)
@example(
    [[("folder", "d", "d", 0), ("write", "d/a", "a", 3)], [("move", "d", "b", 0)]], [True, True, False, False]
)
@example(
    [[("write", "a", "a", 1), ("hard", "a", "b", 0)], [("append", "a", "a", 0)]], [True, True, False, False]
)
@example([[("write", "caf\udce9", "a", 2), ("mode", "caf\udce9", "a", 0)]], [True, False, True])
def test_any_sequence_of_changes_is_undone_and_done_again(steps, walk) -> None:
    trio.run(scenario, steps, walk)


async def test_a_change_that_keeps_size_and_times_is_seen(tmp_path) -> None:
    async with opened(tmp_path) as (root, points):
        path = root / "a"
        path.write_text("1234")
        os.utime(path, ns=(10**18, 10**18))
        await step(points, root, [])
        async with points.around(command()):
            path.write_text("5678")
            os.utime(path, ns=(10**18, 10**18))
        await points.turn(undo=True, force=False, record=nothing)
        assert path.read_text() == "1234"


async def test_no_more_is_kept_than_may_be_the_smallest_first(tmp_path) -> None:
    async with opened(tmp_path, most=1000) as (root, points):
        for name, size in (("big", 900), ("middle", 600), ("small", 300)):
            (root / name).write_bytes(name.encode() * (size // len(name)))
        async with points.around(command()):
            for name in ("big", "middle", "small"):
                (root / name).write_text("changed")
        turned = await points.turn(undo=True, force=False, record=nothing)
        assert turned.paths == ("middle", "small") and [path for path, _ in turned.left] == ["big"]
        assert (root / "small").read_bytes().startswith(b"small") and (root / "big").read_text() == "changed"


async def test_the_budget_of_all_states_is_kept_and_what_is_gone_is_said(tmp_path) -> None:
    async with opened(tmp_path, total=500_000) as (root, points):
        for number in range(12):
            async with points.around(command()):
                (root / "a").write_bytes(os.urandom(100_000))
            Clock.time += 100
        ((total,),) = await points.store._database.read("SELECT total(length(body)) FROM content_chunk")
        assert total <= 500_000 + 200_000 and 0 < len(await points.steps()) < 12
        before = (root / "a").read_bytes()
        await points.turn(undo=True, force=False, record=nothing)
        assert (root / "a").read_bytes() != before
        Clock.time += 40 * 86_400
        await points.store.prune()
        assert await points.steps() == []
        assert await points.store._database.read(
            "SELECT (SELECT count(*) FROM content), (SELECT count(*) FROM content_chunk)"
        ) == [(0, 0)]


async def test_a_content_another_process_cleaned_up_is_told_as_not_kept(tmp_path) -> None:
    async with opened(tmp_path) as (root, points):
        (root / "a").write_text("one")
        async with points.around(command()):
            (root / "a").write_text("two")
            await points.store._database.write(
                [("DELETE FROM content_chunk", ()), ("DELETE FROM content", ())]
            )
        turned = await points.turn(undo=True, force=False, record=nothing)
        assert turned.left == (("a", "its previous content was not saved"),)


async def test_where_not_all_is_looked_at_nothing_old_is_taken_for_new(tmp_path) -> None:
    async with opened(tmp_path) as (root, points):
        points.limits = SnapshotLimits(1 << 20, max_entries=10)
        for number in range(30):
            (root / f"f{number}").write_text("old")
        before = state(root)
        async with points.around(command()):
            for number in range(15):
                (root / f"f{number}").unlink()
        await points.turn(undo=True, force=False, record=nothing)
        assert {name for name in before if int(name[1:]) >= 15} <= set(state(root))


async def test_what_is_not_kept_is_not_deleted(tmp_path) -> None:
    async with opened(tmp_path, most=100) as (root, points):
        (root / "node_modules").mkdir()
        (root / "node_modules" / "big").write_bytes(b"x" * 1000)
        async with points.around(command()):
            (root / "node_modules" / "big").rename(root / "big")
        turned = await points.turn(undo=True, force=False, record=nothing)
        assert turned.left == (("big", "its content was not saved, so it is not deleted"),)
        assert (root / "big").stat().st_size == 1000


@pytest.mark.parametrize("is_job", [True, False])
async def test_what_another_call_changed_meanwhile_is_its_own_step(tmp_path, is_job) -> None:
    """Whichever is written down first: the one that names a path, or the one that looks at all of them."""
    async with opened(tmp_path) as (root, points):
        held, add = trio.Event(), points.store.add

        async def adding(session, folder, call, tool, changes):
            if call == "write ours":
                writing.set()
                await held.wait()
            await add(session, folder, call, tool, changes)

        points.store.add = adding
        async with trio.open_nursery() as nursery:
            begun, goes_on, writing = trio.Event(), trio.Event(), trio.Event()

            async def run() -> None:
                async with points.around(command()) as came:
                    (root / "theirs").write_text("theirs")
                    begun.set()
                    if not is_job:
                        await goes_on.wait()
                    came(Output("", goes_on=is_job))
                if is_job:
                    await goes_on.wait()
                    await points.job_ended("1")
                held.set()

            async def edit_ours() -> None:
                async with points.around(write(root, "ours")) as came:
                    (root / "ours").write_text("ours")
                    came(Output(""))

            nursery.start_soon(run)
            await begun.wait()
            async with points.around(write(root, "early")) as came:
                (root / "early").write_text("early")
                came(Output(""))
            nursery.start_soon(edit_ours)
            await writing.wait()
            goes_on.set()
        found = {
            one.call: [os.fsdecode(change.path) for change in await points.store.revisions(one.id)]
            for one in await points.steps()
        }
        assert found == {"1": ["theirs"], "write early": ["early"], "write ours": ["ours"]}
        assert not points._claims and not points._at_work


async def test_a_conflict_touches_nothing(tmp_path) -> None:
    async with opened(tmp_path) as (root, points):
        await step(points, root, [("write", "a", "a", 1), ("write", "b", "b", 1)])
        (root / "b").write_text("mine")
        with pytest.raises(Conflict, match="changed since by somebody else: b"):
            await points.turn(undo=True, force=False, record=nothing)
        assert (root / "a").exists()


@pytest.mark.parametrize("version", ["product", "planted"])
async def test_what_follows_a_link_is_found_out(tmp_path, planted, version) -> None:
    root, outside = tmp_path / "ws", tmp_path / "outside"
    (root / "sub").mkdir(parents=True)
    outside.mkdir()
    (root / "sub" / "a").write_text("now")
    stamp = stamp_of((root / "sub" / "a").lstat())
    (root / "sub").rename(root / "was")
    (root / "sub").symlink_to(outside)
    guard = Guard(Policy(str(root), str(tmp_path)))
    wanted = [RestoreTarget("sub/a", Version("file", 0o644, 6, "d"), stamp)]
    put_back = restore if version == "product" else planted("restore").restore
    left = list(
        await trio.to_thread.run_sync(lambda: list(put_back(str(root), wanted, guard, lambda _: b"before")))
    )
    assert (list(outside.iterdir()) == []) is (version == "product") and bool(left) is (version == "product")


@pytest.mark.parametrize("name", [".git/config", ".leeward/config.toml", ".env", "id_rsa"])
async def test_what_is_protected_or_secret_stays(tmp_path, name) -> None:
    root = tmp_path / "ws"
    (root / name).parent.mkdir(parents=True)
    (root / name).write_text("now")
    stamp = stamp_of((root / name).lstat())
    guard = Guard(Policy(str(root), str(tmp_path)))
    for version in (Version("file", 0o644, 6, "d"), None):
        left = await trio.to_thread.run_sync(
            lambda: list(
                restore(str(root), [RestoreTarget(name, version, stamp)], guard, lambda _: BytesIO(b"x"))
            )
        )  # noqa: B023
        assert [path for path, _ in left] == [name] and (root / name).read_text() == "now"
