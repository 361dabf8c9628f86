from __future__ import annotations

import base64
import errno
import os
import stat
import tracemalloc

import pytest
import trio
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.security.outcome import InvalidParameters, PermanentFailure, PolicyBlocked
from leeward.security.text import redact_text
from leeward.security.trust import Origin
from leeward.tools.files import Files, FileVersions, Guard, WriteTools
from leeward.tools.files.encoding import PLAIN, Encoding
from leeward.tools.files.lines import Window, in_window

BLOCKED = "a link appeared"


@pytest.fixture
def files(policy, named):
    guard, seen = Guard(policy), FileVersions()
    tools = [
        *Files(guard, seen, max_read=10_000).tools(),
        *WriteTools(guard, seen, max_edit=1_000_000).tools(),
    ]
    return lambda name: named(tools, name)


async def test_a_file_is_read_as_it_is(files, run, workspace):
    text = "one\r\ntwo\n\n  ä😀 \ufeff last without end"
    (workspace / "a.txt").write_bytes(text.encode())
    output = await run(files("read"), {"path": "a.txt"})
    assert (output.text, output.notices) == (text, ())


@pytest.mark.parametrize(
    ("offset", "limit", "text", "notice"),
    [
        (0, 2, "1\n2\n", "lines 1 to 2; more follows, continue with offset=3"),
        (1, 5, "1\n2\n3\n4\n5", None),
        (2, 3, "2\n3\n4\n", "lines 2 to 4; more follows, continue with offset=5"),
        (4, 2, "4\n5", None),
        (5, 100, "5", None),
        (6, 1, "", "line 6 is past the end of the file"),
        (10**9, 1, "", "line 1000000000 is past the end of the file"),
    ],
)
async def test_lines_are_counted_from_one(files, run, workspace, offset, limit, text, notice):
    (workspace / "a").write_text("1\n2\n3\n4\n5")
    output = await run(files("read"), {"path": "a", "offset": offset, "limit": limit})
    assert (output.text, output.notices) == (text, (notice,) if notice else ())


@given(data=st.text(alphabet="ab\nä\r", max_size=60), limit=st.integers(1, 5), size=st.integers(1, 70))
@example(data="\n", limit=1, size=1)
@example(data="a\n\n", limit=2, size=3)
@example(data="äääää" * 12, limit=1, size=7)
def test_reading_on_from_each_notice_gives_the_whole_file(data, limit, size):
    text, first = "", 1
    while True:
        raw = data.encode()
        parts = (raw[at : at + size] for at in range(0, len(raw), size))
        output = in_window(parts, PLAIN, Window(first, limit, 200))
        text += output.text
        following = [notice for notice in output.notices if "offset=" in notice]
        if not following:
            break
        first = int(following[0].rpartition("=")[2])
    assert text == data


async def test_a_huge_file_is_not_loaded(files, run, workspace):
    with (workspace / "huge").open("wb") as file:
        file.write(b"x\n" * 500_000)
        file.truncate(3_000_000_000)
    tracemalloc.start()
    output = await run(files("read"), {"path": "huge", "limit": 1_000_000})
    assert len(output.text) == 10_000 and "continue with offset=5001" in output.notices[0]
    output = await run(files("read"), {"path": "huge", "offset": 499_999, "limit": 2})
    assert output.text == "x\nx\n"
    assert tracemalloc.get_traced_memory()[1] < 8_000_000
    tracemalloc.stop()


async def test_a_line_longer_than_all_that_is_read(files, run, workspace):
    (workspace / "long").write_text("ä" * 6_001 + "\nnext\n")
    output = await run(files("read"), {"path": "long"})
    assert output.text == "ä" * 5_000
    assert output.notices == (
        "line 1 is longer than 10000 bytes; its rest is left out",
        "lines 1 to 1; more follows, continue with offset=2",
    )


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "[binary file: image/png, 16 bytes]"),
        ("a.bin2", b"text then\0NUL", "[binary file: type unknown, 13 bytes]"),
    ],
)
async def test_what_is_no_text_is_told_with_type_and_size(files, run, workspace, name, content, told):
    (workspace / name).write_bytes(content)
    assert (await run(files("read"), {"path": name})).text == told


async def test_other_encodings_are_told(files, run, workspace):
    (workspace / "latin").write_bytes("Größe \N{REPLACEMENT CHARACTER}".encode() + "ö\n".encode("latin-1"))
    output = await run(files("read"), {"path": "latin"})
    assert output.text == "Größe \ufffd\ufffd\n" and "not UTF-8: 1 places" in output.notices[0]
    (workspace / "empty").write_bytes(b"")
    assert (await run(files("read"), {"path": "empty"})).notices == ("the file is empty",)


@pytest.mark.parametrize(
    ("tool", "path", "why"),
    [
        ("read", "REDME.md", "there is no REDME.md in this folder; did you mean README.md\\?"),
        ("read", "zzzzzz", "there is no zzzzzz in this folder$"),
        ("read", "sbu/x", "there is no folder .*/sbu; did you mean sub\\?"),
        ("read", "sub", "a folder, not a file; list_directory"),
        ("read", "README.md/x", "README.md is not a folder"),
        ("read", "/", "root folder"),
        ("read", "n" * 300, "too long"),
        ("list_directory", "README.md", "not a folder"),
        ("list_directory", "sbu", "did you mean sub"),
    ],
)
async def test_what_cannot_be_opened_is_told(files, run, workspace, tool, path, why):
    (workspace / "README.md").write_text("x")
    (workspace / "sub").mkdir()
    with pytest.raises(PermanentFailure, match=why):
        await run(files(tool), {"path": path})


@pytest.mark.parametrize("tool", ["read", "write", "edit"])
async def test_fifos_sockets_and_devices_are_refused_at_once(files, run, workspace, tool):
    os.mkfifo(workspace / "fifo")
    more = {"read": {}, "write": {"content": "x"}, "edit": {"old_string": "a", "new_string": "b"}}[tool]
    for path, kind in ((workspace / "fifo", "FIFO"), ("/dev/zero", "device"), ("/dev/tty", "device")):
        with trio.fail_after(30), pytest.raises(PermanentFailure, match=kind):
            await run(files(tool), {"path": str(path), **more})
    assert stat.S_ISFIFO((workspace / "fifo").lstat().st_mode)


@pytest.mark.parametrize("swap", ["file", "folder", "upper"])
@pytest.mark.parametrize("tool", ["read", "write", "edit", "list_directory"])
async def test_a_link_swapped_in_after_the_judgement_is_not_followed(
    files, clear, workspace, tmp_path, tool, swap
):
    outside = tmp_path / "outside"
    for folder in (outside / "b", workspace / "a" / "b"):
        folder.mkdir(parents=True)
        (folder / "f").write_text("secret" if folder.is_relative_to(outside) else "plain")
    path = "a/b" if tool == "list_directory" else "a/b/f"
    if tool == "list_directory" and swap == "file":
        swap = "folder"
    more = {"write": {"content": "x"}, "edit": {"old_string": "secret", "new_string": "b"}}.get(tool, {})
    cleared = await clear(executor := files(tool), {"path": path, **more})
    victim = {"file": "a/b/f", "folder": "a/b", "upper": "a"}[swap]
    (workspace / victim).rename(tmp_path / "moved")
    (workspace / victim).symlink_to(
        {"file": outside / "b/f", "folder": outside / "b", "upper": outside}[swap]
    )
    with pytest.raises(PolicyBlocked, match=BLOCKED):
        await executor.execute(cleared)
    assert (outside / "b" / "f").read_text() == "secret" and [
        path.name for path in (outside / "b").iterdir()
    ] == ["f"]


async def test_a_link_that_was_there_when_judged_leads_where_it_was_judged(files, run, workspace):
    (workspace / "real").mkdir()
    (workspace / "link").symlink_to("real")
    (workspace / "real" / "f").write_text("x")
    (workspace / "to_f").symlink_to("link/f")
    await run(files("write"), {"path": "to_f", "content": "y"})
    assert (await run(files("read"), {"path": "link/f"})).text == "y"
    assert (workspace / "to_f").is_symlink() and not (workspace / "real" / "f").is_symlink()


@pytest.mark.parametrize("tool", ["read", "write", "edit"])
async def test_a_loop_of_links_is_refused(files, run, workspace, tool):
    (workspace / "loop").symlink_to("loop")
    more = {"write": {"content": "x"}, "edit": {"old_string": "a", "new_string": "b"}}.get(tool, {})
    with pytest.raises(PolicyBlocked, match="no path was judged"):
        await run(files(tool), {"path": "loop", **more})


async def test_a_race_of_swaps_never_leads_out(files, clear, workspace, tmp_path):
    """A folder and a link to a secret one take turns; reading and writing see the folder or nothing."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "f").write_text("secret")
    (workspace / "real").mkdir()
    (workspace / "real" / "f").write_text("plain")
    (workspace / "d").mkdir()
    (workspace / "d" / "f").write_text("plain")
    cleared = [await clear(files("read"), {"path": "d/f"}) for _ in range(100)]
    (workspace / "d").rename(workspace / "kept")
    (workspace / "link").symlink_to(tmp_path / "outside")
    done = False

    def swap():
        while not done:
            for source in ("kept", "link"):
                (workspace / source).rename(workspace / "d")
                (workspace / "d").rename(workspace / source)

    seen: set[str] = set()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, swap)
        for leave in cleared:
            try:
                seen.add((await files("read").execute(leave)).text)
            except (PolicyBlocked, PermanentFailure):
                seen.add("")
        done = True
    assert "secret" not in seen


async def test_writing_creates_folders_inside_the_workspace_only(files, run, workspace, tmp_path):
    output = await run(files("write"), {"path": "new/deep/f.txt", "content": "hä\n"})
    assert (output.text, output.origin) == (f"wrote 4 bytes to {workspace}/new/deep/f.txt", Origin.TOOL)
    assert (workspace / "new/deep/f.txt").read_text() == "hä\n"
    with pytest.raises(PermanentFailure, match="there is no folder"):
        await run(files("write"), {"path": str(tmp_path / "other/f"), "content": "x"})
    assert not (tmp_path / "other").exists()
    await run(files("write"), {"path": str(tmp_path / "f"), "content": "x"})
    assert (tmp_path / "f").read_text() == "x"


async def test_replacing_keeps_the_mode_and_leaves_no_temporary_file(files, run, workspace):
    target = workspace / "run.sh"
    target.write_text("old")
    target.chmod(0o4750)
    await run(files("write"), {"path": "run.sh", "content": "new"})
    assert target.read_text() == "new" and stat.S_IMODE(target.stat().st_mode) == 0o750
    assert [path.name for path in workspace.iterdir()] == ["run.sh"]


async def test_other_names_of_a_file_keep_what_they_had(files, run, workspace):
    (workspace / "a").write_text("old")
    os.link(workspace / "a", workspace / "b")
    await run(files("edit"), {"path": "a", "old_string": "old", "new_string": "new"})
    assert ((workspace / "a").read_text(), (workspace / "b").read_text()) == ("new", "old")


@pytest.mark.parametrize("broken", ["write", "fsync", "rename"])
@pytest.mark.parametrize("tool", ["write", "edit"])
async def test_a_disk_that_fails_leaves_the_old_file(files, run, workspace, monkeypatch, tool, broken):
    (workspace / "a").write_text("old")

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if broken == "write":
        monkeypatch.setattr("leeward.tools.files.atomic._adopt", full)
    else:
        monkeypatch.setattr(f"leeward.tools.files.atomic.os.{broken}", full)
    more = {"write": {"content": "new"}, "edit": {"old_string": "old", "new_string": "new"}}[tool]
    with pytest.raises(PermanentFailure, match="No space left"):
        await run(files(tool), {"path": "a", **more})
    monkeypatch.undo()
    assert (workspace / "a").read_text() == "old" and [path.name for path in workspace.iterdir()] == ["a"]


async def test_a_file_changed_meanwhile_is_not_overwritten(files, run, workspace, monkeypatch):
    (workspace / "a").write_text("old")
    real_sync = os.fsync

    def somebody_writes(descriptor):
        (workspace / "a").write_text("theirs")
        real_sync(descriptor)

    monkeypatch.setattr("leeward.tools.files.atomic.os.fsync", somebody_writes)
    with pytest.raises(PermanentFailure, match="changed by somebody else"):
        await run(files("edit"), {"path": "a", "old_string": "old", "new_string": "new"})
    assert (workspace / "a").read_text() == "theirs" and [path.name for path in workspace.iterdir()] == ["a"]


async def test_a_read_only_file_stays(files, run, workspace, monkeypatch):
    (workspace / "a").write_text("old")
    monkeypatch.setattr("leeward.tools.files.atomic.os.access", lambda *_, **__: False)
    with pytest.raises(PermanentFailure, match="read-only"):
        await run(files("write"), {"path": "a", "content": "new"})
    assert (workspace / "a").read_text() == "old"


@pytest.mark.parametrize(
    ("content", "old", "new", "result"),
    [
        ("a b c", "b", "B", "a B c"),
        ("one\ntwo\nthree\n", "two\n", "", "one\nthree\n"),
        ("one\r\ntwo\r\n", "one\ntwo", "1\n2", "1\r\n2\r\n"),
        ("one\r\ntwo\n", "one\r\n", "1\r\n", "1\r\ntwo\n"),
        ("größe", "öß", "oess", "groesse"),
        ("a.b", ".", "\\1", "a\\1b"),
        ("x", "x", "xx", "xx"),
    ],
)
async def test_the_one_passage_is_replaced(files, run, workspace, content, old, new, result):
    (workspace / "a").write_bytes(content.encode())
    output = await run(files("edit"), {"path": "a", "old_string": old, "new_string": new})
    assert (workspace / "a").read_bytes() == result.encode() and "at line" in output.text


@pytest.mark.parametrize(
    ("content", "old", "new", "error", "why"),
    [
        (b"a b a", "a", "c", PermanentFailure, "occurs 2 times"),
        (b"aaa", "aa", "b", PermanentFailure, "occurs 2 times"),
        (b"a  b", "a b", "c", PermanentFailure, "does not occur"),
        (b"a", "", "c", InvalidParameters, "old_string is empty"),
        (b"a", "a", "a", InvalidParameters, "nothing would change"),
        (b"a\0b", "a", "c", PermanentFailure, "binary"),
        (b"x" * 1_000_001, "x", "c", PermanentFailure, "edit takes up to 1000000"),
    ],
)
async def test_what_is_not_edited_is_told_and_stays(files, run, workspace, content, old, new, error, why):
    (workspace / "a").write_bytes(content)
    with pytest.raises(error, match=why):
        await run(files("edit"), {"path": "a", "old_string": old, "new_string": new})
    assert (workspace / "a").read_bytes() == content


async def test_a_folder_is_listed_as_ls_marks_it(files, run, workspace):
    (workspace / "dir").mkdir()
    (workspace / "b.txt").write_text("x")
    (workspace / ".hidden").write_text("x")
    (workspace / "link").symlink_to("/etc")
    os.mkfifo(workspace / "fifo")
    (workspace / "new\nline\x1b").write_text("x")
    (workspace / os.fsdecode(b"\xff")).write_text("")
    output = await run(files("list_directory"), {})
    assert output.text.split("\n") == [
        ".hidden",
        "\\xff",
        "b.txt",
        "dir/",
        "fifo|",
        "link@",
        "new\\nline\\x1b",
    ]
    (workspace / "dir" / "empty").mkdir()
    assert (await run(files("list_directory"), {"path": "dir/empty"})).notices == ("the folder is empty",)


async def test_a_long_listing_is_cut_and_told(files, run, workspace, monkeypatch):
    monkeypatch.setattr("leeward.tools.files.read_tools._ENTRIES", 3)
    for name in "edcba":
        (workspace / name).write_text("")
    output = await run(files("list_directory"), {})
    assert output.text == "a\nb\nc" and "first 3 of 5" in output.notices[0]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le"])
async def test_other_unicode_encodings_are_read_as_text_and_told(files, run, workspace, encoding):
    text = "".join(f"{number} ä😀\r\n" for number in range(1, 7))
    (workspace / "a").write_bytes(("\ufeff" + text).encode(encoding))
    output = await run(files("read"), {"path": "a", "offset": 2, "limit": 3})
    assert output.text == "2 ä😀\r\n3 ä😀\r\n4 ä😀\r\n"
    assert output.notices == (
        f"the file is stored in {encoding[:6].upper()}",
        "lines 2 to 4; more follows, continue with offset=5",
    )
    assert (await run(files("read"), {"path": "a"})).text == text


@given(text=st.text(alphabet="aä😀\n", max_size=40), size=st.integers(1, 9))
def test_no_character_is_torn_where_blocks_end(text, size):
    raw = text.encode("utf-16-le")
    parts = (raw[at : at + size] for at in range(0, len(raw), size))
    assert in_window(parts, Encoding("utf-16-le", b"", "UTF-16"), Window(1, 1_000, 10_000)).text == text


async def test_lines_are_numbered_if_that_is_asked_for(files, run, workspace):
    (workspace / "a").write_text("one\n\nthree\nfour")
    numbered = {"path": "a", "line_numbers": True}
    assert (await run(files("read"), numbered)).text == "     1\tone\n     2\t\n     3\tthree\n     4\tfour"
    output = await run(files("read"), {**numbered, "offset": 2, "limit": 2})
    assert output.text == "     2\t\n     3\tthree\n" and "offset=4" in output.notices[0]


KEY = (
    "-----BEGIN PRIVATE KEY-----\n"
    + "MIIFakeFakeFakeFakeFakeFakeFakeFakeFakeFakeFakeFakeFakeFakeFake+\n" * 3
    + "-----END PRIVATE KEY-----\n"
)


@pytest.mark.parametrize(
    "secret",
    [KEY, KEY.replace("\n", "\r\n"), "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNk\nZWZnaGlqa2xtbm9wcXJz\n"],
)
async def test_numbers_never_come_between_the_lines_of_a_secret(files, run, workspace, secret):
    (workspace / "a").write_bytes(f"before\n{secret}after\n".encode())
    output = await run(files("read"), {"path": "a", "line_numbers": True})
    assert output.text == f"before\n{secret}after\n" and "lines are not numbered" in output.notices[-1]
    assert "MIIFake" not in redact_text(output.text)


async def test_the_obvious_wrong_way_to_number_and_to_write_is_caught(planted, workspace):
    value = "a value of the configuration that is long enough for two lines of base64"
    *_, last = (encoded := base64.encodebytes(value.encode()).decode()).split()
    assert last not in redact_text(encoded, {value}) and last in redact_text(
        planted("numbered").numbered(encoded), {value}
    )
    (workspace / "a").write_text("old")
    os.link(workspace / "a", workspace / "b")
    planted("numbered").write(workspace / "a", "new")
    assert (workspace / "b").read_text() == "new", (
        "written in place, every other name of the file changes, too"
    )
