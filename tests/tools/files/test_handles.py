"""The judged file is the opened file: with both ways of opening, while links are swapped, by every name."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import threading
from contextlib import contextmanager, suppress
from dataclasses import replace

import pytest
import trio

from leeward.security.outcome import PermanentFailure, PolicyBlocked, ToolError
from leeward.security.policy import Policy
from leeward.tools.files import Files, Guard, HardLinks, Trees, WriteTools
from leeward.tools.files import handles as beneath
from leeward.tools.linux import has_openat2, open_beneath, rename_to_new
from leeward.tools.search import Search
from leeward.tools.survey import Surveyor

FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_PATH
_HERE = ctypes.c_int(-100)
WAYS = ["openat2", "step by step"]


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    """Both ways to open a path beneath a handle; the kernel may not have the first."""
    if request.param == "openat2" and not has_openat2():
        pytest.skip("this kernel, or what confines this process, has no openat2")
    monkeypatch.setattr("leeward.tools.linux.has_openat2", lambda: request.param == "openat2")
    return request.param


@pytest.fixture
def outside(tmp_path):
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "f").write_text("secret")
    return folder


@contextmanager
def swapping(folder, target):
    """Let a folder and a link to another take turns under one name, as fast as that goes."""
    link = folder.parent / "link"
    link.symlink_to(target)
    done = threading.Event()

    def swap():
        while not done.is_set():
            exchange(folder, link)
            exchange(folder, link)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        link.unlink()


def exchange(one, other):
    """Let two paths take each other's place, so that neither is ever missing."""
    paths = [ctypes.c_char_p(os.fsencode(path)) for path in (one, other)]
    library = ctypes.CDLL(None, use_errno=True)
    if library.renameat2(_HERE, paths[0], _HERE, paths[1], 2):
        raise OSError(ctypes.get_errno(), "the two could not take each other's place")


def raced(workspace, outside, attempt, times=400):
    """Attempt something again and again while links are swapped in; returns how often it worked."""
    (workspace / "d").mkdir(exist_ok=True)
    (workspace / "d" / "f").write_text("plain")
    worked = 0
    with swapping(workspace / "d", outside):
        for number in range(times):
            with suppress(ToolError, OSError):
                attempt(os.path.realpath(workspace), number)
                worked += 1
    return worked


def read(root, _):
    with (
        beneath.opened_parent(f"{root}/d/f") as (folder, name),
        os.fdopen(folder.open_file(name), "rb") as file,
    ):
        assert file.read() != b"secret"


def create(root, number):
    with beneath.opened_parent(f"{root}/d/new/{number}", create_below=root) as (folder, name):
        os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, dir_fd=folder.handle))


def descend(root, _):
    with beneath.open_folder(root) as top:
        below = top.descend("d")
        try:
            with below.entries() as entries:
                assert all(entry.stat().st_size != len("secret") for entry in entries)
        finally:
            below.close()


@pytest.mark.parametrize("attempt", [read, create, descend], ids=lambda attempt: attempt.__name__)
def test_no_swap_leads_out(way, workspace, outside, attempt):
    raced(workspace, outside, attempt)
    assert [path.name for path in outside.iterdir()] == ["f"] and (outside / "f").read_text() == "secret"


def test_the_obvious_wrong_way_is_caught(planted, monkeypatch, workspace, outside):
    monkeypatch.setattr(beneath, "opened_parent", planted("beneath").opened_parent)
    with pytest.raises(AssertionError):
        # Beside load the race may be lost for long; the first that is won ends it.
        for _ in range(1000):
            raced(workspace, outside, read)


TOOLS = {
    "read": ({"path": "d/f"}, None), "write": ({"path": "d/f", "content": "mine"}, None),
    "edit": ({"path": "d/f", "old_string": "plain", "new_string": "mine"}, None),
    "list_directory": ({"path": "d"}, None), "grep": ({"path": "d", "pattern": "."}, None),
    "copy_path": ({"source": "d/f", "destination": "copy"}, "copy"),
    "delete_path": ({"path": "d/f"}, None), "move_path": ({"source": "d/f", "destination": "moved"}, "moved"),
}  # fmt: skip


def every_tool(policy):
    guard = Guard(policy)
    made = [*Files(guard).tools(), *WriteTools(guard).tools(), *Trees(guard).tools(), *Search(guard).tools()]
    return {executor.specs()[0].name: executor for executor in made}


@pytest.mark.parametrize("tool", TOOLS)
async def test_no_tool_is_led_out_by_a_swap(way, clear, policy, workspace, outside, tool):
    arguments, made = TOOLS[tool]
    executor = every_tool(policy)[tool]
    (workspace / "d").mkdir()
    told = set()
    for _ in range(6):
        (workspace / "d" / "f").write_text("plain")
        cleared = [await clear(executor, arguments) for _ in range(8)]
        with swapping(workspace / "d", outside):
            for leave in cleared:
                with suppress(ToolError, OSError):
                    told.add((await executor.execute(leave)).text)
                    if made is not None and (workspace / made).exists():
                        assert (workspace / made).read_text() == "plain"
                        (workspace / made).unlink()
    assert not any("secret" in text for text in told)
    assert [path.name for path in outside.iterdir()] == ["f"] and (outside / "f").read_text() == "secret"


LED_OUT = ["proc/self/root/etc", "proc/self/cwd", "proc/self/fd", "proc/thread-self/root"]


@pytest.mark.parametrize("path", LED_OUT)
def test_links_of_the_system_are_not_followed_either(way, path):
    with pytest.raises((PolicyBlocked, PermanentFailure)), beneath.open_folder(f"/{path}"):
        pass


@pytest.mark.skipif(not has_openat2(), reason="this kernel, or what confines this process, has no openat2")
@pytest.mark.parametrize(
    ("path", "number"),
    [
        ("link", errno.ENOTDIR),
        ("link/x", errno.ELOOP),
        ("..", errno.EXDEV),
        ("a/../..", errno.EXDEV),
        ("/etc", errno.EXDEV),
        ("gone", errno.ENOENT),
        ("file", errno.ENOTDIR),
    ],
)
def test_the_kernel_itself_refuses_what_leads_out(tmp_path, path, number):
    (tmp_path / "a").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to("a")
    handle = os.open(tmp_path, FOLDER)
    try:
        with pytest.raises(OSError) as failed:
            os.close(open_beneath(handle, path, FOLDER))
        assert failed.value.errno == number
        with pytest.raises(ValueError, match="null"):
            open_beneath(handle, "a\0b", FOLDER)
    finally:
        os.close(handle)


@pytest.mark.parametrize("kernel", [True, False])
def test_a_name_that_something_has_is_not_taken(tmp_path, monkeypatch, kernel):
    if not kernel:
        monkeypatch.setattr("leeward.tools.linux._RENAMEAT2", None)
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    (tmp_path / "dangling").symlink_to("nowhere")
    handle = os.open(tmp_path, FOLDER)
    try:
        for name in ("b", "dangling"):
            with pytest.raises(FileExistsError):
                rename_to_new(handle, "a", handle, name)
        rename_to_new(handle, "a", handle, "c")
    finally:
        os.close(handle)
    assert (
        sorted(path.name for path in tmp_path.iterdir()) == ["b", "c", "dangling"]
        and (tmp_path / "c").read_text() == "a"
    )


def test_a_path_longer_than_the_system_takes_at_once(way, tmp_path):
    handle = os.open(tmp_path, os.O_RDONLY)
    for _ in range(30):
        os.mkdir("d" * 200, dir_fd=handle)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = below
    os.close(os.open("leaf", os.O_CREAT | os.O_WRONLY, dir_fd=handle))
    os.close(handle)
    with beneath.opened_parent(f"{os.path.realpath(tmp_path)}{('/' + 'd' * 200) * 30}/leaf") as (
        folder,
        name,
    ):
        assert folder.stat(name) is not None


# ------------------------------------------------------------------ other names of secret files


@pytest.fixture
def linked(workspace, tmp_path):
    """Files of the workspace that are secret ones by another name, and one that is like them."""
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "id_rsa").write_text("secret of the home")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "leeward.db").write_text("secret of ours")
    (workspace / "deep").mkdir()
    (workspace / "deep" / ".env").write_text("secret of the project")
    (workspace / "deep" / "plan.txt").write_text("secret of the person")
    (workspace / "a.txt").write_text("ordinary")
    names = {
        "home": tmp_path / ".ssh" / "id_rsa",
        "ours": tmp_path / "data" / "leeward.db",
        "project": workspace / "deep" / ".env",
        "person": workspace / "deep" / "plan.txt",
    }
    for name, target in names.items():
        os.link(target, workspace / f"{name}.txt")
    os.link(workspace / "a.txt", workspace / "b.txt")
    return names


@pytest.fixture
def held(policy, tmp_path):
    return replace(policy, secret_paths=(str(tmp_path.resolve() / "data"),), deny_read=("deep/plan.txt",))


async def test_another_name_of_a_secret_file_leads_to_the_name_it_is_secret_by(held, linked, workspace):
    root = os.path.realpath(workspace)
    found = await Surveyor(policy=held).resolve([f"{root}/{name}.txt" for name in (*linked, "a", "b")])
    assert {path.removeprefix(f"{root}/"): real for path, real in found.items()} == {
        **{f"{name}.txt": os.path.realpath(target) for name, target in linked.items()},
        "a.txt": f"{root}/a.txt", "b.txt": f"{root}/b.txt",
    }  # fmt: skip


async def test_a_secret_file_is_opened_by_none_of_its_names(believed, held, linked, workspace):
    tools = every_tool(held)
    for name in linked:
        for tool, more in (
            ("read", {"path": f"{name}.txt"}),
            ("edit", {"path": f"{name}.txt", "old_string": "secret", "new_string": "x"}),
            ("copy_path", {"source": f"{name}.txt", "destination": "copy"}),
        ):
            with pytest.raises(PolicyBlocked, match="hard link"):
                await tools[tool].execute(await believed(tools[tool], more))
    output = await tools["grep"].execute(await believed(tools["grep"], {"pattern": "secret|ordinary"}))
    assert sorted(output.text.split("\n")) == ["a.txt:1: ordinary", "b.txt:1: ordinary"]
    assert f"{len(linked) + 2} files were left out because they hold secrets" in output.notices
    assert (await tools["read"].execute(await believed(tools["read"], {"path": "b.txt"}))).text == "ordinary"
    assert (
        all("secret" in target.read_text() for target in linked.values())
        and not (workspace / "copy").exists()
    )


async def test_writing_to_another_name_leaves_the_secret_file_as_it_was(believed, held, linked, workspace):
    executor = every_tool(held)["write"]
    await executor.execute(await believed(executor, {"path": "home.txt", "content": "mine"}))
    assert (
        linked["home"].read_text() == "secret of the home" and (workspace / "home.txt").read_text() == "mine"
    )


async def test_what_is_no_file_is_neither_opened_nor_waited_for(policy, believed, workspace):
    os.mkfifo(workspace / "fifo")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(workspace / "socket"))
    tools = every_tool(policy)
    for name in ("fifo", "socket"):
        for tool, more in (
            ("read", {"path": name}),
            ("write", {"path": name, "content": "x"}),
            ("copy_path", {"source": name, "destination": "x"}),
            ("grep", {"path": name, "pattern": "."}),
        ):
            with trio.fail_after(20), suppress(PermanentFailure):
                assert (await tools[tool].execute(await believed(tools[tool], more))).text == ""
    listener.close()
    assert sorted(path.name for path in workspace.iterdir()) == ["fifo", "socket"]


def test_the_obvious_wrong_look_at_links_is_caught(planted, held, linked, workspace):
    status = {name: (workspace / f"{name}.txt").stat() for name in ("home", "b")}
    ours = HardLinks(Guard(held)).is_secret
    assert {name: ours(found) for name, found in status.items()} == {"home": True, "b": False}
    assert {name: planted("hard_links").is_secret(found) for name, found in status.items()} == {
        "home": True,
        "b": True,
    }


def test_a_workspace_full_of_links_is_no_reason_to_look_twice(tmp_path, monkeypatch):
    looked = []
    monkeypatch.setattr(
        "leeward.tools.files.guard._identities", lambda guard: looked.append(guard) or iter(())
    )
    guard = Guard(Policy(str(tmp_path), str(tmp_path)))
    (tmp_path / "a").write_text("")
    guard.must_be_no_link((tmp_path / "a").stat())
    assert looked == []
    os.link(tmp_path / "a", tmp_path / "b")
    guard.must_be_no_link((tmp_path / "a").stat())
    assert len(looked) == 1
