"""The file tools against a dictionary model, under any order of operations.

Undone and done again at any point, with somebody else at work in between: a step puts back its own paths,
or nothing at all.
"""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import trio
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from leeward.memory.checkpoints import CheckpointStore
from leeward.memory.database import AsyncioThread, Database
from leeward.security.action import canonical_json
from leeward.security.call import Cleared, ToolCall
from leeward.security.judge import read_call
from leeward.security.outcome import ToolError
from leeward.security.policy import Policy
from leeward.tools.checkpoints import Checkpoints, Conflict, NothingToUndo, SnapshotLimits
from leeward.tools.composite import CompositeExecutor
from leeward.tools.files import Files, FileVersions, Guard, Trees, WriteTools
from leeward.tools.survey import Surveyor

NAMES = ("a", "b", "d", "d/a", "d/e", "d/e/f")
TEXTS = ("", "x\n", "one\ntwo\n", "one one\n", "two\n")
NAME, TEXT = st.sampled_from(NAMES), st.sampled_from(TEXTS)
PASSAGE = st.sampled_from(["one", "two\n", "x", "", "absent"])
STEP = st.one_of(
    st.tuples(st.just("write"), NAME, TEXT),
    st.tuples(st.just("edit"), NAME, PASSAGE, PASSAGE, st.booleans()),
    st.tuples(st.sampled_from(["read", "create_directory", "delete_path"]), NAME),
    st.tuples(st.sampled_from(["copy_path", "move_path"]), NAME, NAME),
    st.tuples(st.sampled_from(["undo", "redo"]), st.booleans()),
    st.tuples(st.just("somebody"), NAME, st.sampled_from([*TEXTS, None])),
)
ARGUMENTS = {
    "write": ("path", "content"),
    "edit": ("path", "old_string", "new_string", "replace_all"),
    "read": ("path",),
    "create_directory": ("path",),
    "delete_path": ("path",),
    "copy_path": ("source", "destination"),
    "move_path": ("source", "destination"),
}

# What stands at a path: permissions with what a file holds, None for a folder.
Tree = dict[str, tuple[int, str | None]]


class Refused(Exception):
    """The tool should have said no, and nothing is changed."""


@dataclass
class Model:
    """The tree as it should be, the steps taken, and what the session saw of which file."""

    tree: Tree = field(default_factory=dict)
    steps: list[dict[str, tuple]] = field(default_factory=list)
    undone: int = 0
    seen: dict[str, tuple[int, str]] = field(default_factory=dict)
    # Which file it is, whatever it holds: every new one has another number.
    files: dict[str, int] = field(default_factory=dict)
    _made: int = 0

    def do(self, what: str, *arguments) -> None:
        before = dict(self.tree)
        getattr(self, what)(*arguments)
        changes = diff(before, self.tree)
        if changes:
            del self.steps[len(self.steps) - self.undone :]
            self.steps.append(changes)
            self.undone = 0

    def put(self, path: str, text: str, mode: int = 0o644) -> None:
        self._made += 1
        self.tree[path], self.files[path] = (mode, text), self._made

    def holds(self, path: str) -> str:
        if self.tree.get(path, (0, None))[1] is None:
            raise Refused
        return self.tree[path][1]

    def parents(self, path: str) -> None:
        *folders, _ = path.split("/")
        above = ["/".join(folders[: end + 1]) for end in range(len(folders))]
        if any(self.tree.get(folder, (0, None))[1] is not None for folder in above):
            raise Refused
        for folder in above:
            self.tree.setdefault(folder, (0o755, None))

    def below(self, path: str) -> list[str]:
        return [name for name in self.tree if name == path or name.startswith(f"{path}/")]

    def write(self, path: str, text: str) -> None:
        mode, held = self.tree.get(path, (0o644, ""))
        file, seen = self.files.get(path), self.seen.get(path)
        if held is None or (path in self.tree and seen and seen[0] != file and seen[1] != held):
            raise Refused
        self.parents(path)
        self.put(path, text, mode)
        self.seen[path] = self.files[path], text

    def edit(self, path: str, old: str, new: str, everywhere: bool) -> None:
        text = self.holds(path)
        if not old or old == new or old not in text or (text.count(old) > 1 and not everywhere):
            raise Refused
        self.put(path, text.replace(old, new), self.tree[path][0])
        self.seen[path] = self.files[path], self.tree[path][1]

    def read(self, path: str) -> None:
        # Of an empty file nothing was seen that could be known again.
        text = self.holds(path) or "\0"
        self.seen[path] = self.files[path], text

    def create_directory(self, path: str) -> None:
        if self.tree.get(path, (0, None))[1] is not None:
            raise Refused
        self.parents(path)
        self.tree.setdefault(path, (0o755, None))

    def delete_path(self, path: str) -> None:
        if path not in self.tree:
            raise Refused
        for name in self.below(path):
            del self.tree[name]

    def copy_path(self, source: str, target: str) -> None:
        if source not in self.tree or target in self.tree or target.startswith(f"{source}/"):
            raise Refused
        self.parents(target)
        for name in self.below(source):
            mode, text = self.tree[name]
            self.tree[target + name[len(source) :]] = (mode, None)
            if text is not None:
                self.put(target + name[len(source) :], text, mode)

    def move_path(self, source: str, target: str) -> None:
        files = {target + name[len(source) :]: self.files.get(name) for name in self.below(source)}
        self.copy_path(source, target)
        self.delete_path(source)
        self.files.update({name: file for name, file in files.items() if file is not None})

    def somebody(self, path: str, text: str | None) -> bool:
        """Somebody else writes or deletes a file, where a file can be."""
        parent = path.rpartition("/")[0]
        if (parent and self.tree.get(parent, (0, ""))[1] is not None) or (
            path in self.tree and self.tree[path][1] is None
        ):
            return False
        if text is None:
            return self.tree.pop(path, None) is not None
        self.put(path, text, self.tree.get(path, (0o644,))[0])
        return True

    def turn(self, *, undo: bool, force: bool) -> dict[str, tuple]:
        """Which paths are put back, and to what; the step that is turned is changed to what it was found to
        be.
        """
        at = len(self.steps) - self.undone - (1 if undo else 0)
        if not 0 <= at < len(self.steps):
            raise NothingToUndo
        step, goal = self.steps[at], 0 if undo else 1
        wanted = {path: two[goal] for path, two in step.items() if self.tree.get(path) != two[goal]}
        theirs = {path: self.tree.get(path) for path in wanted if self.tree.get(path) != step[path][1 - goal]}
        if theirs and not force:
            raise Conflict(sorted(theirs))
        for path, now in theirs.items():
            step[path] = (step[path][0], now) if undo else (now, step[path][1])
        self.undone += 1 if undo else -1
        return wanted


def diff(before: Tree, after: Tree) -> dict[str, tuple]:
    paths = before.keys() | after.keys()
    return {
        path: (before.get(path), after.get(path)) for path in paths if before.get(path) != after.get(path)
    }


def stands(root: Path) -> Tree:
    found: Tree = {}
    for path in root.rglob("*"):
        mode = stat.S_IMODE(path.lstat().st_mode)
        found[str(path.relative_to(root))] = (mode, path.read_text() if path.is_file() else None)
    return found


@contextmanager
def plain_modes():
    before = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(before)


class Clock:
    def now(self) -> float:
        return 1_000_000.0


@asynccontextmanager
async def opened(folder: Path):
    root = folder / "ws"
    root.mkdir()
    policy = Policy(str(root), str(folder))
    async with (
        AsyncioThread.open("test") as asyncio_thread,
        Database.open(folder / "store.db", asyncio_thread) as database,
    ):
        guard, seen = Guard(policy), FileVersions()
        points = Checkpoints(
            CheckpointStore(database, Clock(), 1 << 30),
            guard,
            SnapshotLimits(1 << 20),
            lambda: "s",
            lambda _: None,
        )
        tools = [*Files(guard, seen).tools(), *WriteTools(guard, seen).tools(), *Trees(guard).tools()]
        yield root, policy, points, CompositeExecutor(tools, around=points.around)


async def call(policy: Policy, executor: CompositeExecutor, tool: str, arguments: dict) -> str:
    specs = {spec.name: spec for spec in executor.specs()}
    text = canonical_json(arguments)
    action = await read_call(ToolCall("1", tool, text), specs, policy, Surveyor(policy=policy))

    async def nowhere(_: str) -> None:
        pass

    return (await executor.execute(Cleared(action, trio.current_time() + 30, nowhere))).text


async def record(*_: object) -> None:
    """Nobody keeps a record here."""


async def turned(points: Checkpoints, model: Model, root: Path, *, undo: bool, force: bool) -> None:
    expected: object
    try:
        expected = model.turn(undo=undo, force=force)
    except (NothingToUndo, Conflict) as error:
        expected = error
    try:
        done = await points.turn(undo=undo, force=force, record=record)
    except (NothingToUndo, Conflict) as error:
        assert type(error) is type(expected), f"{error!r} where {expected!r} was due"
        assert (
            not isinstance(error, Conflict)
            or list(error.paths) == expected.paths
            or set(error.paths) == set(expected.paths)
        )
        assert stands(root) == model.tree
        return
    assert isinstance(expected, dict), f"it was done where {expected!r} was due"
    left = {path for path, _ in done.left}
    assert set(done.paths) | left == expected.keys()
    for path in sorted(expected.keys() - left):
        if expected[path] is None:
            del model.tree[path]
        elif expected[path][1] is None:
            model.tree[path] = expected[path]
        else:
            model.put(path, expected[path][1], expected[path][0])
    # What stays is a folder in which somebody else has something by now, or what could not stand in such a
    # place.
    for path in left:
        assert path in model.tree or expected[path] is not None


async def scenario(steps) -> None:
    with tempfile.TemporaryDirectory() as folder, plain_modes():
        async with opened(Path(os.path.realpath(folder))) as (root, policy, points, executor):
            model = Model()
            for what, *arguments in steps:
                if what in ("undo", "redo"):
                    await turned(points, model, root, undo=what == "undo", force=arguments[0])
                elif what == "somebody":
                    path, text = arguments
                    if model.somebody(path, text):
                        # Never in place, so that it is another file to whoever had seen the one before.
                        (root / path).unlink(missing_ok=True)
                        None if text is None else (root / path).write_text(text)
                else:
                    before = dict(model.tree)
                    try:
                        model.do(what, *arguments)
                        is_refused = False
                    except Refused:
                        model.tree, is_refused = before, True
                    try:
                        said = await call(
                            policy, executor, what, dict(zip(ARGUMENTS[what], arguments, strict=True))
                        )
                        assert not is_refused, f"{what} {arguments} was done: {said}"
                        assert what != "read" or said == model.tree[arguments[0]][1]
                    except ToolError as error:
                        assert is_refused, f"{what} {arguments} was refused: {error}"
                assert stands(root) == model.tree, (what, arguments)


@settings(
    max_examples=settings().max_examples // 5, suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)  # fmt: skip
@given(st.lists(STEP, max_size=14))
@example(
    [
        ("write", "d/e/f", "x\n"),
        ("move_path", "d", "b"),
        ("undo", False),
        ("undo", False),
        ("redo", False),
        ("redo", False),
    ]
)
@example(
    [("write", "d/a", "x\n"), ("somebody", "d/e", "two\n"), ("undo", False), ("redo", False), ("undo", True)]
)
@example(
    [
        ("write", "a", "x\n"),
        ("somebody", "a", "two\n"),
        ("write", "a", "one\n"),
        ("read", "a"),
        ("write", "a", ""),
    ]
)
@example(
    [
        ("write", "a", "x\n"),
        ("somebody", "a", "two\n"),
        ("undo", False),
        ("undo", True),
        ("redo", False),
        ("undo", False),
    ]
)
@example(
    [
        ("write", "a", "x\n"),
        ("undo", False),
        ("write", "b", "x\n"),
        ("redo", False),
        ("undo", False),
        ("undo", False),
    ]
)
@example(
    [
        ("write", "d/a", "one one\n"),
        ("edit", "d/a", "one", "x", True),
        ("copy_path", "d", "b"),
        ("delete_path", "d"),
        ("undo", False),
        ("undo", False),
    ]
)
@example(
    [
        ("write", "a", "x\n"), ("move_path", "a", "d/a"), ("write", "d/a", "two\n"), ("undo", False),
        ("write", "d/a", ""),
    ]
)  # fmt: skip
@example(
    [
        ("create_directory", "d/e"),
        ("somebody", "d/e/f", "x\n"),
        ("undo", False),
        ("delete_path", "d"),
        ("undo", True),
    ]
)
def test_tools_and_model_agree_after_every_step(steps) -> None:
    trio.run(scenario, steps)
