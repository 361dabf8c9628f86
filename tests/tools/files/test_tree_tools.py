"""Create, copy, move and delete: what may be touched; nothing is overwritten or partial."""

from __future__ import annotations

import os
import stat
from dataclasses import replace

import pytest

from leeward.security.outcome import PermanentFailure, PolicyBlocked
from leeward.security.policy import Rule, RuleAction
from leeward.tools.files import Guard, Trees


@pytest.fixture
def trees(policy, named):
    def trees(name, most=100, **fields):
        return named(Trees(Guard(replace(policy, **fields)), most).tools(), name)

    return trees


@pytest.fixture
def tree(workspace):
    for name, content in {
        "a.txt": "a",
        "src/app.py": "app",
        "src/deep/data.bin": "\0data",
        "src/empty.txt": "",
        "env/.env": "SECRET=fake",
        "repo/.git/config": "[core]",
    }.items():
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text(content)
    (workspace / "src" / "link").symlink_to("app.py")
    (workspace / "src" / "run").write_text("#!/bin/sh\n")
    (workspace / "src" / "run").chmod(0o750)
    return workspace


def there(folder) -> dict[str, object]:
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        else:
            found[name] = path.read_bytes() if path.is_file() else stat.S_IMODE(path.stat().st_mode)
    return found


async def test_a_folder_is_created_with_those_above_it(run, trees, workspace, tmp_path):
    assert (await run(trees("create_directory"), {"path": "x/y/z"})).text.startswith("created")
    assert (workspace / "x/y/z").is_dir()
    assert (await run(trees("create_directory"), {"path": "x/y"})).text.startswith("already there")
    (workspace / "file").write_text("")
    with pytest.raises(PermanentFailure, match="not a folder"):
        await run(trees("create_directory"), {"path": "file"})
    for path in (str(tmp_path / "out"), "."):
        with pytest.raises(PolicyBlocked):
            await run(trees("create_directory"), {"path": path})
    assert not (tmp_path / "out").exists()


async def test_a_file_is_copied_with_mode_and_time(run, trees, tree):
    os.utime(tree / "src" / "run", ns=(1_000, 2_000))
    await run(trees("copy_path"), {"source": "src/run", "destination": "new/deep/run"})
    made = tree / "new/deep/run"
    assert (
        made.read_text() == "#!/bin/sh\n"
        and stat.S_IMODE(made.stat().st_mode) == 0o750
        and made.stat().st_mtime_ns == 2_000
    )
    assert made.stat().st_ino != (tree / "src/run").stat().st_ino


async def test_a_folder_is_copied_with_all_that_is_in_it(run, trees, tree):
    (tree / "src").chmod(0o705)
    await run(trees("copy_path"), {"source": "src", "destination": "copy"})
    assert there(tree / "copy") == there(tree / "src") and there(tree / "copy")["link"] == "-> app.py"
    assert stat.S_IMODE((tree / "copy").stat().st_mode) == 0o705


async def test_what_is_moved_is_the_same_afterwards(run, trees, tree):
    before, inode = there(tree / "src"), (tree / "src/app.py").stat().st_ino
    await run(trees("move_path"), {"source": "src", "destination": "lib/src"})
    assert (
        there(tree / "lib/src") == before
        and not (tree / "src").exists()
        and (tree / "lib/src/app.py").stat().st_ino == inode
    )
    await run(trees("move_path"), {"source": "a.txt", "destination": "b.txt"})
    assert (tree / "b.txt").read_text() == "a" and not (tree / "a.txt").exists()


async def test_what_is_deleted_is_gone_and_its_targets_are_not(run, trees, tree, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "f").write_text("kept")
    (tree / "src" / "out").symlink_to(tmp_path / "outside")
    assert "and the 7 entries in it" in (await run(trees("delete_path"), {"path": "src"})).text
    assert not (tree / "src").exists() and (tmp_path / "outside" / "f").read_text() == "kept"
    await run(trees("delete_path"), {"path": "a.txt"})
    assert not (tree / "a.txt").exists()


@pytest.mark.parametrize("tool", ["move_path", "delete_path"])
async def test_of_a_link_the_link_is_touched_and_not_what_it_leads_to(run, trees, tree, tool):
    (tree / "to_file").symlink_to("a.txt")
    (tree / "dangling").symlink_to("nowhere")
    (tree / "to_src").symlink_to("src")
    for name in ("to_file", "dangling", "to_src"):
        more = {"path": name} if tool == "delete_path" else {"source": name, "destination": f"moved_{name}"}
        await run(trees(tool), more)
        assert not (tree / name).is_symlink()
    assert (tree / "a.txt").read_text() == "a" and (tree / "src/app.py").exists()
    if tool == "move_path":
        assert str((tree / "moved_to_src").readlink()) == "src"


async def test_through_a_link_above_it_the_file_itself_is_touched(run, trees, tree):
    (tree / "alias").symlink_to("src")
    await run(trees("delete_path"), {"path": "alias/app.py"})
    assert not (tree / "src/app.py").exists() and (tree / "alias").is_symlink()


@pytest.mark.parametrize("tool", ["copy_path", "move_path"])
@pytest.mark.parametrize(
    ("source", "destination", "why"),
    [
        ("a.txt", "src/app.py", "there is app.py already"),
        ("a.txt", "src", "there is a folder src already; to put it inside, say src/a.txt"),
        ("src", "a.txt", "there is a.txt already"),
        ("a.txt", "src/link", "there is app.py already"),
        ("src", "src/copy", "put into itself"),
        ("src", "src", "put into itself"),
        ("gone", "x", "there is no gone"),
        ("b.txt", "x", "did you mean a.txt"),
        ("a.txt", "src/app.py/x", "app.py is not a folder"),
    ],
)
async def test_nothing_is_written_over(run, trees, tree, tool, source, destination, why):
    before = there(tree)
    with pytest.raises(PermanentFailure, match=why):
        await run(trees(tool), {"source": source, "destination": destination})
    assert there(tree) == before


@pytest.mark.parametrize(
    ("tool", "arguments", "why"),
    [
        ("copy_path", {"source": "env", "destination": "x"}, "env/.env would be: its name says"),
        ("move_path", {"source": "env", "destination": "x"}, "its name says"),
        ("delete_path", {"path": "env"}, "its name says"),
        ("copy_path", {"source": "repo", "destination": "x"}, "repo/.git would be: git runs or obeys it"),
        (
            "copy_path",
            {"source": "repo/.git", "destination": "x"},
            "repo/.git would be: git runs or obeys it",
        ),
        ("move_path", {"source": "repo", "destination": "x"}, "git runs or obeys it"),
        ("delete_path", {"path": "repo"}, "git runs or obeys it"),
        ("delete_path", {"path": "."}, "the workspace itself"),
        ("move_path", {"source": ".", "destination": "../x"}, "outside of the workspace"),
        ("delete_path", {"path": "../other"}, "outside of the workspace"),
        ("move_path", {"source": "../other", "destination": "x"}, "outside of the workspace"),
        ("copy_path", {"source": "a.txt", "destination": "../new"}, "outside of the workspace"),
    ],
)
async def test_what_must_not_be_touched_stays_and_so_does_all_the_rest(
    run, trees, tree, tmp_path, tool, arguments, why
):
    (tmp_path / "other").write_text("other")
    before = there(tmp_path)
    with pytest.raises(PolicyBlocked, match=why):
        await run(trees(tool), arguments)
    assert there(tmp_path) == before


async def test_what_is_copied_need_not_be_what_may_be_changed(run, trees, tree):
    await run(trees("copy_path"), {"source": "repo/.git/config", "destination": "seen"})
    assert (tree / "seen").read_text() == "[core]"
    with pytest.raises(PolicyBlocked, match="git runs or obeys it"):
        await run(trees("move_path"), {"source": "repo/.git/config", "destination": "moved"})
    with pytest.raises(PolicyBlocked, match="git runs or obeys it"):
        await run(trees("copy_path"), {"source": "seen", "destination": "repo/.git/hooks"})


async def test_deny_read_holds_for_what_lies_in_a_folder(run, trees, tree):
    for tool in ("copy_path", "move_path"):
        with pytest.raises(PolicyBlocked, match="deny_read"):
            await run(trees(tool, deny_read=("**/*.bin",)), {"source": "src", "destination": "x"})
        with pytest.raises(PolicyBlocked, match="deny_read"):
            await run(trees(tool, deny_read=("x/app.py",)), {"source": "src", "destination": "x"})
        with pytest.raises(PolicyBlocked, match="a permission rule speaks of it"):
            await run(
                trees(tool, rules=(Rule(tool, RuleAction.DENY, "**/data.bin"),)),
                {"source": "src", "destination": "x"},
            )
    assert not (tree / "x").exists()


async def test_what_would_run_later_only_at_its_new_place_is_moved_by_itself(run, trees, tree):
    (tree / "staged/wrapper").mkdir(parents=True)
    (tree / "staged/wrapper/run.jar").write_text("x")
    (tree / "staged/conftest.py").write_text("x")
    with pytest.raises(PolicyBlocked, match="at its new place a build"):
        await run(trees("move_path"), {"source": "staged", "destination": "gradle"})
    await run(trees("move_path"), {"source": "staged", "destination": "ordinary"})
    assert (tree / "ordinary/conftest.py").exists()


async def test_a_secret_file_is_not_copied_by_another_of_its_names(believed, run, trees, tree, tmp_path):
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "id_rsa").write_text("KEY fake")
    os.link(tmp_path / ".ssh" / "id_rsa", tree / "src" / "notes.txt")
    os.link(tree / "a.txt", tree / "src" / "b.txt")
    with pytest.raises(PolicyBlocked, match="hard link"):
        await trees("copy_path").execute(
            await believed(trees("copy_path"), {"source": "src", "destination": "x"})
        )
    assert not (tree / "x").exists() and not list(tree.glob(".leeward-*"))
    (tree / "src" / "notes.txt").unlink()
    await run(trees("copy_path"), {"source": "src", "destination": "x"})
    assert (tree / "x/b.txt").read_text() == "a"


async def test_there_is_a_bound_to_what_one_call_touches(run, trees, tree):
    for number in range(50):
        (tree / "src" / f"{number}").write_text("")
    for tool, arguments in (
        ("delete_path", {"path": "src"}),
        ("copy_path", {"source": "src", "destination": "x"}),
    ):
        with pytest.raises(PermanentFailure, match="more than 20 entries"):
            await run(trees(tool, most=20), arguments)
    assert len(list((tree / "src").iterdir())) > 50 and not (tree / "x").exists()


async def test_a_copy_that_fails_leaves_nothing_behind(run, trees, tree):
    os.mkfifo(tree / "src" / "deep" / "fifo")
    with pytest.raises(PermanentFailure, match="fifo is a FIFO, which is not copied"):
        await run(trees("copy_path"), {"source": "src", "destination": "new/x"})
    assert not list((tree / "new").iterdir())


@pytest.mark.parametrize("tool", ["copy_path", "move_path"])
async def test_a_target_that_came_to_be_there_is_not_written_over(clear, trees, tree, tool):
    for source in ("a.txt", "src"):
        cleared = await clear(executor := trees(tool), {"source": source, "destination": "new"})
        (tree / "new").mkdir()
        (tree / "new" / "theirs").write_text("theirs")
        with pytest.raises(PermanentFailure, match="there is a folder new already"):
            await executor.execute(cleared)
        assert (tree / "new" / "theirs").read_text() == "theirs" and (tree / source).exists()
        (tree / "new" / "theirs").unlink()
        (tree / "new").rmdir()


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("delete_path", {"path": "src/deep"}),
        ("move_path", {"source": "src/deep", "destination": "x"}),
        ("copy_path", {"source": "src/deep", "destination": "x"}),
    ],
)
async def test_a_link_swapped_in_above_is_not_followed(clear, trees, tree, tmp_path, tool, arguments):
    (tmp_path / "outside/deep").mkdir(parents=True)
    (tmp_path / "outside/deep/f").write_text("kept")
    cleared = await clear(executor := trees(tool), arguments)
    (tree / "src").rename(tree / "moved")
    (tree / "src").symlink_to(tmp_path / "outside")
    with pytest.raises(PolicyBlocked, match="a link appeared"):
        await executor.execute(cleared)
    assert (tmp_path / "outside/deep/f").read_text() == "kept" and not (tree / "x").exists()
