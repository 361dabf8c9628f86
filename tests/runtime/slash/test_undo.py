"""/undo, /redo and /diff on a real workspace, by real calls."""

from __future__ import annotations

import os
import stat
import zlib
from pathlib import Path

import pytest
import trio

from leeward.runtime.slash import dispatch, parse
from leeward.security.call import Status
from leeward.security.ports import Answer, RecordError
from loading import rows_beside

ROWS = rows_beside(__file__)


async def said(runtime, line: str) -> str:
    return (await dispatch(runtime, parse(line))).text


async def call(runtime, tool: str, **arguments):
    result = await runtime.call(tool, arguments)
    assert result.outcome.status is Status.OK, result.shown
    return result


async def shell(runtime, command: str):
    return await call(runtime, "shell", command=command)


def state(root: Path) -> dict[str, tuple]:
    """Everything below a folder: kinds, modes, contents, targets."""
    found = {}
    for path in sorted(root.rglob("*")):
        info = path.lstat()
        if stat.S_ISLNK(info.st_mode):
            found[str(path.relative_to(root))] = ("link", str(path.readlink()))
        else:
            held = path.read_bytes() if stat.S_ISREG(info.st_mode) else None
            found[str(path.relative_to(root))] = (stat.S_IFMT(info.st_mode), stat.S_IMODE(info.st_mode), held)
    return found


@pytest.fixture
def yes(sessions):
    return sessions.Answers(Answer.YES)


@pytest.fixture
def workspace(tmp_path) -> Path:
    folder = tmp_path / "ws"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_text("one\ntwo\n")
    (folder / "sub" / "b.txt").write_text("b")
    (folder / "sub" / "run").write_bytes(bytes(range(256)))
    (folder / "sub" / "run").chmod(0o755)
    (folder / "link").symlink_to("a.txt")
    return folder


CHANGES = ROWS["changes"]


@pytest.mark.parametrize(("tool", "arguments"), CHANGES)
async def test_what_a_call_changed_is_undone_and_done_again(
    tmp_path, workspace, sessions, yes, tool, arguments
) -> None:
    before = state(workspace)
    async with sessions.session(tmp_path, approver=yes) as runtime:
        await call(runtime, tool, **arguments)
        after = state(workspace)
        assert after != before
        for _ in range(2):
            assert (await said(runtime, "/undo")).startswith(f"undone: {tool} (call_")
            assert state(workspace) == before
            assert (await said(runtime, "/redo")).startswith(f"done again: {tool} (call_")
            assert state(workspace) == after
        rows = [row.body for row in await sessions.rows(runtime, "snapshot")]
        assert [(row["direction"], row["done"]) for row in rows] == [
            ("undo", False),
            ("undo", True),
            ("redo", False),
            ("redo", True),
        ] * 2


async def test_steps_are_taken_back_one_by_one_and_after_a_restart(
    tmp_path, workspace, sessions, yes
) -> None:
    states = [state(workspace)]
    async with sessions.session(tmp_path, approver=yes) as runtime:
        await runtime.turn("hello")
        for tool, arguments in (CHANGES[0], CHANGES[1], CHANGES[10]):
            await call(runtime, tool, **arguments)
            states.append(state(workspace))
        await shell(runtime, "cat a.txt; true")
        assert await said(runtime, "/undo") != "" and state(workspace) == states[2]
    async with sessions.session(tmp_path, approver=yes) as runtime:
        assert "nothing is left to undo" in await said(runtime, "/undo")
        await runtime.resume()
        for expected in (states[1], states[0]):
            await said(runtime, "/undo")
            assert state(workspace) == expected
        assert "nothing is left to undo" in await said(runtime, "/undo")
        for expected in states[1:]:
            await said(runtime, "/redo")
            assert state(workspace) == expected
        assert "nothing was undone" in await said(runtime, "/redo")
        await said(runtime, "/undo")
        await call(runtime, "write", path="z", content="z")
        assert "nothing was undone" in await said(runtime, "/redo")


async def test_what_others_changed_is_refused_unless_insisted_on_and_not_lost_then(
    tmp_path, workspace, sessions, yes
) -> None:
    async with sessions.session(tmp_path, approver=yes) as runtime:
        await shell(runtime, "echo theirs > a.txt; echo new > n; rm sub/b.txt")
        after = state(workspace)
        (workspace / "a.txt").write_text("mine\n")
        mine = state(workspace)
        result = await dispatch(runtime, parse("/undo"))
        assert result.failed and "changed since by somebody else: a.txt; nothing was touched" in result.text
        assert state(workspace) == mine != after
        assert "undone" in await said(runtime, "/undo force")
        assert (workspace / "a.txt").read_text() == "one\ntwo\n" and (workspace / "sub" / "b.txt").exists()
        await said(runtime, "/redo")
        assert state(workspace) == mine
        rows = [row.body for row in await sessions.rows(runtime, "snapshot")]
        assert [row["forced"] for row in rows] == [True, True, False, False]


async def test_a_folder_that_holds_something_of_others_stays(tmp_path, workspace, sessions, yes) -> None:
    async with sessions.session(tmp_path, approver=yes) as runtime:
        await call(runtime, "write", path="new/c.txt", content="c")
        (workspace / "new" / "mine").write_text("mine")
        text = await said(runtime, "/undo")
        assert "not new: Directory not empty" in text
        assert (
            not (workspace / "new" / "c.txt").exists() and (workspace / "new" / "mine").read_text() == "mine"
        )


ATTACKS = {
    "the folder": lambda ws, out: ((ws / "sub").rename(ws / "was"), (ws / "sub").symlink_to(out)),
    "the file": lambda ws, out: (
        (ws / "sub" / "b.txt").unlink(missing_ok=True), (ws / "sub" / "b.txt").symlink_to(out / "b.txt"),
    ),
    "a hard link": lambda ws, out: (
        (ws / "sub" / "b.txt").unlink(missing_ok=True), os.link(out / "b.txt", ws / "sub" / "b.txt"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("command", ["echo x > sub/b.txt", "rm sub/b.txt", "rm -r sub"])
async def test_nothing_outside_is_touched_whatever_was_swapped_in(
    tmp_path, workspace, sessions, yes, attack, command
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "b.txt").write_text("outside")
    async with sessions.session(tmp_path, approver=yes) as runtime:
        await shell(runtime, command)
        (workspace / "sub").mkdir(exist_ok=True)
        ATTACKS[attack](workspace, outside)
        for line in ("/undo", "/undo force", "/redo", "/redo force", "/undo force"):
            await said(runtime, line)
            assert state(outside) == {"b.txt": (stat.S_IFREG, 0o644, b"outside")}


async def test_a_folder_swapped_back_and_forth_while_undoing_leads_nowhere(
    tmp_path, workspace, sessions, yes
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    for number in range(40):
        (workspace / "sub" / f"f{number}").write_text("before")
    stop = False

    def swap() -> None:
        while not stop:
            (workspace / "sub").rename(workspace / "was")
            (workspace / "sub").symlink_to(outside)
            (workspace / "sub").unlink()
            (workspace / "was").rename(workspace / "sub")

    async with sessions.session(tmp_path, approver=yes) as runtime:
        await shell(runtime, "for f in sub/f*; do echo after > $f; done")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, swap)
            for _ in range(6):
                await said(runtime, "/undo force")
                await said(runtime, "/redo force")
            stop = True
    assert list(outside.iterdir()) == []


async def test_what_is_not_kept_is_said_before_and_never_stored(tmp_path, workspace, sessions, yes) -> None:
    secret = "a-value-that-is-secret"
    (workspace / ".env").write_text(secret)
    os.link(workspace / ".env", workspace / "harmless.txt")
    os.mkfifo(workspace / "fifo")
    with (workspace / "disk.img").open("wb") as file:
        file.truncate(2 << 30)
    (workspace / "node_modules").mkdir()
    (workspace / "node_modules" / "m.js").write_text("m")
    (workspace / "unreadable").write_text("x")
    (workspace / "unreadable").chmod(0)
    with trio.fail_after(60):
        async with sessions.session(tmp_path, approver=yes) as runtime:
            await shell(runtime, "echo x > a.txt; printf y >> disk.img")
            told = yes.questions[0].uncovered
            assert (
                "too big: disk.img (2147483648 bytes)" in told
                and "left out: node_modules/" in told
                and "secret files: 1" in told
            )
            assert secret not in told and ".env" not in told
            if os.geteuid():
                assert "unreadable: unreadable" in told or "unreadable" in str(runtime.heard)
            rows = await runtime.checkpoints.store._database.read("SELECT packed, body FROM content_chunk")
            kept = [zlib.decompress(body) if packed else body for packed, body in rows]
            assert b"one\ntwo\n" in kept and not [one for one in kept if secret.encode() in one]
            text = await said(runtime, "/undo")
            assert (
                "not disk.img: its previous content was not saved" in text
                and (workspace / "a.txt").read_text() == "one\ntwo\n"
            )


async def test_what_was_not_kept_is_not_overwritten_once_the_person_changed_it(
    tmp_path, workspace, sessions, yes
) -> None:
    config = "[tools.shell]\ncheckpoint_bytes = 100000\n"
    async with sessions.session(tmp_path, config, approver=yes) as runtime:
        big = workspace / "a.txt"
        await shell(runtime, "head -c 200000 /dev/zero > a.txt")
        assert "1 path" in await said(runtime, "/undo") and big.read_text() == "one\ntwo\n"
        await shell(runtime, "head -c 200001 /dev/zero > a.txt")
        big.write_bytes(b"\1" * 200_001)
        assert "changed since by somebody else: a.txt; nothing was touched" in await said(runtime, "/undo")
        assert big.read_bytes() == b"\1" * 200_001


async def test_without_a_question_it_is_said_once(tmp_path, workspace, sessions) -> None:
    (workspace / "node_modules").mkdir()
    config = '[tools.shell]\nallowed_commands = ["touch *"]\n'
    async with sessions.session(tmp_path, config) as runtime:
        for name in ("x", "y"):
            await shell(runtime, f"touch {name}")
        alerts = [event.message for event in runtime.heard if type(event).__name__ == "Alert"]
        assert [alert for alert in alerts if "/undo" in alert] == [
            "/undo does not cover: left out: node_modules/"
        ]


async def test_nothing_is_undone_that_is_not_on_record_first(
    tmp_path, workspace, sessions, yes, monkeypatch
) -> None:
    async with sessions.session(tmp_path, approver=yes) as runtime:
        await shell(runtime, "echo x > a.txt")

        async def full(*_: object) -> None:
            raise RecordError("the disk is full")

        with monkeypatch.context() as patched:
            patched.setattr(runtime.audit, "append", full)
            result = await dispatch(runtime, parse("/undo"))
        assert (
            result.failed and "the disk is full" in result.text and (workspace / "a.txt").read_text() == "x\n"
        )
        await said(runtime, "/undo")
        assert (workspace / "a.txt").read_text() == "one\ntwo\n"


async def test_reading_costs_no_step_and_switched_off_it_keeps_nothing(
    tmp_path, workspace, sessions, yes
) -> None:
    async with sessions.session(tmp_path, approver=yes) as runtime:
        await shell(runtime, "ls -la; cat a.txt")
        await call(runtime, "read", path="a.txt")
        assert await runtime.checkpoints.store._database.read("SELECT 1 FROM content") == []
    async with sessions.session(tmp_path, "[tools.shell]\ncheckpoints = false\n", approver=yes) as runtime:
        await shell(runtime, "echo x > a.txt")
        for line in ("/undo", "/redo", "/diff"):
            assert "checkpoints are off" in await said(runtime, line)


async def test_a_failed_and_a_cancelled_command_can_be_undone_too(tmp_path, workspace, sessions, yes) -> None:
    before = state(workspace)
    async with sessions.session(tmp_path, approver=yes) as runtime:
        await runtime.call("shell", {"command": "echo x > a.txt; nosuchprogram_"})
        with trio.move_on_after(60) as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(runtime.call, "shell", {"command": "rm -r sub; touch made; sleep 60"})
                while not (workspace / "made").exists():
                    await trio.sleep(0.02)
                nursery.cancel_scope.cancel()
        assert not scope.cancelled_caught
        for _ in range(2):
            await said(runtime, "/undo")
        assert state(workspace) == before


async def test_a_job_is_a_step_without_what_others_did_meanwhile(tmp_path, workspace, sessions, yes) -> None:
    async with sessions.session(tmp_path, approver=yes) as runtime:
        await call(
            runtime,
            "shell",
            command="echo 1 > j1; while [ ! -e go ]; do sleep 0.05; done; echo 2 > j2",
            background=True,
        )
        while not (workspace / "j1").exists():
            await trio.sleep(0.02)
        await call(runtime, "write", path="mine", content="mine")
        await call(runtime, "write", path="go", content="")
        await runtime.jobs.all()[0].over.wait()
        text = await said(runtime, "/diff")
        assert "j1: new file" in text and "j2: new file" in text and "mine" not in text
        await said(runtime, "/undo")
        assert not (workspace / "j1").exists() and (workspace / "mine").exists()


async def test_the_model_is_told_and_the_difference_is_shown(tmp_path, workspace, sessions, yes) -> None:
    async with sessions.session(tmp_path, says=["one", "two"], approver=yes) as runtime:
        assert (await dispatch(runtime, parse("/diff"))).failed
        await shell(runtime, "echo three >> a.txt; chmod 700 sub/run; rm sub/b.txt; ln -s x $'\\e[31mred'")
        text = await said(runtime, "/diff")
        assert "a.txt: changed file\n" in text and "  +three" in text and "mode 755 became 700" in text
        assert (
            "sub/b.txt: deleted file\n" in text
            and "  -b" in text
            and "new link" in text
            and "\x1b" not in text
        )
        await said(runtime, "/undo")
        await runtime.turn("go on")
        words = runtime.provider.requests[-1].messages[-1].text
        assert (
            "undone by the person, what shell had changed:" in words
            and "a.txt" in words
            and "«UNTRUSTED:" in words
        )
        for line in ("/undo all", "/redo 2", "/diff x"):
            result = await dispatch(runtime, parse(line))
            assert result.failed and "usage" in result.text
