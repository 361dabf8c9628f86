"""For any spelling of a path, the judged path is the one the system opens."""

from __future__ import annotations

import os
import posixpath
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from leeward.security.action import canonical_json
from leeward.security.call import Action, Cleared, ToolCall
from leeward.security.gates import paths
from leeward.security.judge import read_call
from leeward.security.kinds import Kind
from leeward.security.outcome import Output, ToolError
from leeward.security.paths import ResolvedPath
from leeward.security.policy import Policy
from leeward.security.session import Session
from leeward.security.verdict import Allow
from leeward.tools.files import Files, Guard, Trees, WriteTools
from leeward.tools.search import Search
from leeward.tools.survey import Surveyor
from loading import rows_beside

ROWS = rows_beside(__file__)

CANARY = "outside: nobody may see this"

# Where links lead: to files, folders, outside by several ways, to nothing, to themselves and in a circle.
LINKS = ROWS["links"]
FILES = ("a.txt", "d/f", "d/e/g", "sp ace", "d/ö", "-x", "...", "d/%2e%2e")
COMPONENTS = st.sampled_from(
    [
        *LINKS, *FILES, "d", "e", "f", "g", "up", "top", ".", "..", "", "outside", "ws", "nowhere", "ö",
        "%2e%2e", "tmp",
    ]
)  # fmt: skip
SPELLINGS = st.tuples(
    st.sampled_from(
        ["", "", "./", "/", "//", "///", "{ws}/", "{base}/", "~/", "{ws}/../", "{ws}//./", "/proc/self/cwd/"]
    ),
    st.lists(COMPONENTS, min_size=1, max_size=5).map("/".join),
    st.sampled_from(["", "/", "/.", "//"]),
).map("".join)  # fmt: skip


def made(base: Path) -> Policy:
    """A workspace with files and links, a folder beside it that nobody may reach, and the policy of both."""
    ws, outside = base / "ws", base / "outside"
    for folder in (ws / "d" / "e", outside):
        folder.mkdir(parents=True)
    for name in FILES:
        (ws / name).write_text(f"inside: {name}")
    (outside / "f").write_text(CANARY)
    for name, target in LINKS.items():
        (ws / name).symlink_to(target.format(base=base))
    return Policy(str(ws), str(base))


async def nowhere(_: str) -> None:
    """What is printed is looked at when it is over."""


def executors(policy: Policy) -> dict:
    guard = Guard(policy)
    tools = [*Files(guard).tools(), *Search(guard).tools(), *WriteTools(guard).tools(), *Trees(guard).tools()]
    return {tool.specs()[0].name: tool for tool in tools}


async def asked(policy: Policy, tool: str, arguments: dict[str, object]) -> tuple[Action, Callable]:
    """A call as it is judged, and what runs it."""
    tools = executors(policy)
    specs = {name: one.specs()[0] for name, one in tools.items()}
    action = await read_call(
        ToolCall("1", tool, canonical_json(arguments)), specs, policy, Surveyor(policy=policy)
    )

    async def run() -> Output | ToolError:
        try:
            return await tools[tool].execute(Cleared(action, trio.current_time() + 30, nowhere))
        except ToolError as error:
            return error

    return action, run


def place_of(action: Action) -> ResolvedPath | None:
    found = action.of_kind(Kind.PATH)[0].canonical
    return found if isinstance(found, ResolvedPath) else None


def place_text(policy: Policy, raw: str) -> str:
    """The path that a spelling means: its dots are taken as text, as is judged; links are followed
    afterwards.
    """
    home = policy.home + raw[1:] if raw.startswith("~/") else raw
    return "/" + posixpath.normpath(posixpath.join(policy.workspace, home)).lstrip("/")


READERS = {
    "read": {},
    "grep": {"pattern": "."},
    "find_path": {"pattern": "*"},
    "list_directory": {},
}


@pytest.fixture(scope="module")
def held(tmp_path_factory) -> Policy:
    return made(Path(os.path.realpath(tmp_path_factory.mktemp("spelled"))))


@settings(
    max_examples=settings().max_examples * 3 // 5, suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)  # fmt: skip
@given(SPELLINGS, st.sampled_from(sorted(READERS)))
@example("out/f", "read")
@example("d/up/../out/f", "read")
@example("d/e/top/abs_out", "list_directory")
@example("proc{base}/outside/f", "read")
@example("root{base}/outside", "grep")
@example("gone_out/../outside/f", "read")
@example("{base}/outside/../ws/a.txt", "read")
@example("back/../../outside", "find_path")
@example("self/a.txt", "read")
def test_reading_opens_what_was_judged_and_nothing_outside(held, raw, tool):
    raw = raw.format(base=held.home, ws=held.workspace)

    async def run():
        action, go = await asked(held, tool, {"path": raw, **READERS[tool]})
        place = place_of(action)
        if place is None:
            # What cannot be followed is refused, and only that.
            with pytest.raises(OSError):
                os.path.realpath(place_text(held, raw), strict=True)
            return
        assert place.real == os.path.realpath(place_text(held, raw))
        if not isinstance(paths(action, Session("s", held)), Allow):
            return
        assert place.real == held.workspace or place.real.startswith(held.workspace + "/")
        output = await go()
        told = str(output) if isinstance(output, ToolError) else output.text
        assert CANARY not in told
        if tool == "read" and not isinstance(output, ToolError):
            assert told == Path(place.real).read_text()

    trio.run(run)


CHANGERS = {
    "write": lambda raw: {"path": raw, "content": "changed"},
    "edit": lambda raw: {"path": raw, "old_string": "inside", "new_string": "changed"},
    "create_directory": lambda raw: {"path": raw},
    "delete_path": lambda raw: {"path": raw},
    "move_path": lambda raw: {"source": raw, "destination": "moved"},
    "copy_path": lambda raw: {"source": raw, "destination": "copied"},
    "move_path to": lambda raw: {"source": "a.txt", "destination": raw},
    "copy_path to": lambda raw: {"source": "d", "destination": raw},
}


def everything_but(base: Path, ws: Path) -> dict[str, object]:
    """All that lies beside the workspace, with what it holds."""
    found: dict[str, object] = {}
    for folder, folders, files in os.walk(base):
        folders[:] = [name for name in folders if Path(folder, name) != ws]
        found |= {f"{folder}/{name}": Path(folder, name).read_bytes() for name in files}
        found |= {f"{folder}/{name}": None for name in folders}
    return found


@settings(
    max_examples=settings().max_examples // 3, suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)  # fmt: skip
@given(SPELLINGS, st.sampled_from(sorted(CHANGERS)))
@example("out/new", "write")
@example("gone_out", "write")
@example("out/f", "delete_path")
@example("abs_out", "copy_path")
@example("out/in/it", "move_path to")
@example("gone_out", "create_directory")
@example("d/up/out/f", "edit")
def test_nothing_outside_is_changed_whatever_was_judged(raw, tool):
    """Run even where the gate would have asked: the tools themselves change nothing beyond the workspace."""
    with tempfile.TemporaryDirectory() as folder:
        base = Path(os.path.realpath(folder))
        policy = made(base)
        raw = raw.format(base=base, ws=policy.workspace)
        before = everything_but(base, base / "ws")

        async def run():
            action, go = await asked(policy, tool.split()[0], CHANGERS[tool](raw))
            if all(isinstance(atom.canonical, ResolvedPath) for atom in action.of_kind(Kind.PATH)):
                is_allowed = isinstance(paths(action, Session("s", policy)), Allow)
                # What is wrong here must not cost more than a folder that is thrown away.
                is_safe = all(
                    path.startswith(f"{base}/")
                    for atom in action.of_kind(Kind.PATH)
                    for path in (atom.canonical.text, atom.canonical.real)
                )
                if is_safe and (is_allowed or tool not in ("write", "edit")):
                    await go()
            assert everything_but(base, base / "ws") == before

        trio.run(run)
