"""Write and edit: what is preserved, what is refused, and the preview."""

from __future__ import annotations

import os
import stat
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.security.outcome import InvalidParameters, PermanentFailure, PolicyBlocked
from leeward.security.text import new_nonce
from leeward.tools.files import Files, FileVersions, Guard, WriteTools, unified
from leeward.tools.files.edits import Edit, edited, written

KEY = "ghp_FAKEfakeFAKEfakeFAKEfakeFAKEfake1234"


@pytest.fixture
def files(policy, named):
    guard, seen = Guard(policy), FileVersions()
    tools = [*Files(guard, seen).tools(), *WriteTools(guard, seen).tools()]
    return lambda name: named(tools, name)


async def changed(run, files, workspace, before: bytes, tool: str, **arguments) -> bytes:
    (workspace / "f").write_bytes(before)
    await run(files(tool), {"path": "f", **arguments})
    return (workspace / "f").read_bytes()


# ------------------------------------------------------------------ line ends and encodings


@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        (b"a\r\nb\r\n", "x\ny\n", b"x\r\ny\r\n"),
        (b"a\r\nb\n", "x\ny\n", b"x\ny\n"),  # mixed: nobody knows which is meant
        (b"a\nb\n", "x\r\ny\n", b"x\r\ny\n"),
        (b"a\r\n", "x\r\ny\n", b"x\r\ny\n"),
        (b"", "x\n", b"x\n"),
        (BOM_UTF8 + b"a\n", "x\n", BOM_UTF8 + b"x\n"),
        (BOM_UTF8 + b"a\r\n", "\ufeffx\n", BOM_UTF8 + b"x\r\n"),
        (BOM_UTF16_LE + "a\r\n".encode("utf-16-le"), "ä😀\n", BOM_UTF16_LE + "ä😀\r\n".encode("utf-16-le")),
        (BOM_UTF16_BE + "a\n".encode("utf-16-be"), "x", BOM_UTF16_BE + "x".encode("utf-16-be")),
        (BOM_UTF16_LE + b"a", "x", b"x"),  # broken before, so there is nothing to keep
        ("größe\r\n".encode("latin-1"), "ö\n", "ö\r\n".encode()),
        (b"\x89PNG\0\r\n", "x\n", b"x\n"),
    ],
)
async def test_what_replaces_a_file_is_stored_as_it_was(run, files, workspace, before, content, after):
    assert await changed(run, files, workspace, before, "write", content=content) == after


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (BOM_UTF8 + b"a b", "a", "x", BOM_UTF8 + b"x b"),
        (
            BOM_UTF16_LE + "ä\r\nb".encode("utf-16-le"),
            "ä\nb",
            "ö\n😀",
            BOM_UTF16_LE + "ö\r\n😀".encode("utf-16-le"),
        ),
        ("größe x".encode("latin-1"), "x", "y", "größe y".encode("latin-1")),
        (b"a\xff\xfeb", "b", "c", b"a\xff\xfec"),
    ],
)
async def test_an_edit_leaves_every_other_byte_as_it_was(run, files, workspace, before, old, new, after):
    assert await changed(run, files, workspace, before, "edit", old_string=old, new_string=new) == after


@pytest.mark.parametrize(
    ("before", "old", "new", "why"),
    [
        ("größe x".encode("latin-1"), "x", "ö", "not UTF-8, so only ASCII text can be put into it"),
        ("größe x".encode("latin-1"), "größe", "x", "not UTF-8; name a passage that is plain ASCII"),
        (BOM_UTF16_LE + b"a", "a", "b", "not whole UTF-16"),
        (BOM_UTF16_LE + b"\x00\xd8a\0", "a", "b", "not whole UTF-16"),
        (b"\0bin", "bin", "b", "binary"),
        (f"k = {KEY}\n".encode(), "k = …\n", "x", "does not occur in the file; white"),
        (f"k = '{KEY}'\x1b[31m red".encode(), "' red", "x", "what was shown, but the file differs"),
        ("a\u200bb".encode(), "a\\u{200b}b", "x", "what was shown, but the file differs"),
    ],
)
async def test_what_cannot_be_edited_without_loss_is_told(run, files, workspace, before, old, new, why):
    with pytest.raises(PermanentFailure, match=why):
        await changed(run, files, workspace, before, "edit", old_string=old, new_string=new)
    assert (workspace / "f").read_bytes() == before


@given(
    st.text(alphabet="ab\näö\r😀", max_size=30),
    st.sampled_from(["utf-8", "utf-16-le", "utf-16-be"]),
    st.booleans(),
    st.text(alphabet="xß\n", max_size=5),
)
@example("\r\n", "utf-16-le", True, "\n")
def test_a_passage_put_in_and_taken_out_again_leaves_the_file_as_it_was(text, encoding, marked, new):
    marks = {"utf-8": BOM_UTF8 if marked else b"", "utf-16-le": BOM_UTF16_LE, "utf-16-be": BOM_UTF16_BE}
    before = marks[encoding] + (text + "‹here›").encode(encoding)
    there = edited(before, [Edit("‹here›", f"‹{new}›")]).data
    assert there.startswith(marks[encoding])
    assert edited(there, [Edit(f"‹{new}›", "‹here›")]).data == before or "\r\n" in text
    assert written(before, text) is not None


# ------------------------------------------------------------------ several passages


async def test_every_occurrence_is_replaced_if_that_is_asked_for(run, files, workspace):
    (workspace / "f").write_text("a b a\nba\n")
    output = await run(
        files("edit"), {"path": "f", "old_string": "a", "new_string": "xx", "replace_all": True}
    )
    assert (workspace / "f").read_text() == "xx b xx\nbxx\n" and "at 3 places from line 1" in output.text


async def test_several_edits_are_made_in_order_each_in_what_the_one_before_left(run, files, workspace):
    edits = [
        {"old_string": "one", "new_string": "two"},
        {"old_string": "two", "new_string": "3", "replace_all": True},
        {"old_string": "end", "new_string": "END"},
    ]
    assert await changed(run, files, workspace, b"one two\r\nend", "multi_edit", edits=edits) == b"3 3\r\nEND"


@pytest.mark.parametrize(
    ("second", "error", "why"),
    [
        ({"old_string": "gone", "new_string": "x"}, PermanentFailure, "edit 2: old_string does not occur"),
        ({"old_string": "b", "new_string": "x"}, PermanentFailure, "edit 2: old_string occurs 2 times"),
        ({"old_string": "", "new_string": "x"}, InvalidParameters, "edit 2: old_string is empty"),
        ({"old_string": "c", "new_string": "c"}, InvalidParameters, "edit 2: .*nothing would change"),
    ],
)
async def test_if_one_edit_fails_none_is_made(run, files, workspace, second, error, why):
    with pytest.raises(error, match=why):
        await changed(
            run,
            files,
            workspace,
            b"a b b c",
            "multi_edit",
            edits=[{"old_string": "a", "new_string": "x"}, second],
        )
    assert (workspace / "f").read_bytes() == b"a b b c" and [path.name for path in workspace.iterdir()] == [
        "f"
    ]


async def test_a_file_that_is_not_there_is_not_edited(run, files, workspace):
    (workspace / "abc.txt").write_text("x")
    with pytest.raises(PermanentFailure, match="there is no abd.txt .* did you mean abc.txt"):
        await run(files("edit"), {"path": "abd.txt", "old_string": "a", "new_string": "b"})


# ------------------------------------------------------------------ marks of ours


@pytest.mark.parametrize(
    "text", ["[REDACTED:github-token:a1b2]", "x «END:00112233445566778899aabbccddeeff» y", "NONCE"]
)
def test_no_argument_may_carry_a_mark_of_ours(files, policy, text):
    text = new_nonce() if text == "NONCE" else text
    calls = {
        "write": [{"path": "f", "content": text}],
        "edit": [
            {"path": "f", "old_string": text, "new_string": "x"},
            {"path": "f", "old_string": "x", "new_string": text},
        ],
        "multi_edit": [
            {
                "path": "f",
                "edits": [{"old_string": "a", "new_string": "b"}, {"old_string": "x", "new_string": text}],
            }
        ],
    }
    for name, several in calls.items():
        for arguments in several:
            spec = files(name).specs()[0]
            (problem,) = spec.check(arguments).problems
            assert problem.pointer.startswith("/") and "it holds" in problem.message
    assert files("write").specs()[0].check({"path": text, "content": "ordinary"}).problems == ()


def test_the_problem_says_which_argument_and_why(files):
    (problem,) = (
        files("multi_edit")
        .specs()[0]
        .check({"path": "f", "edits": [{"old_string": "a", "new_string": "[REDACTED:jwt:a1b2]"}]})
        .problems
    )
    assert problem.pointer == "/edits/0/new_string" and "replaces a secret" in problem.message


# ------------------------------------------------------------------ what was judged is what is changed


@pytest.mark.parametrize("tool", ["write", "edit", "multi_edit"])
@pytest.mark.parametrize("meanwhile", ["changed", "gone", "replaced", "link"])
async def test_a_file_that_is_not_the_one_that_was_judged_stays(clear, files, workspace, tool, meanwhile):
    (workspace / "f").write_text("old")
    (workspace / "other").write_text("old too")
    more = {
        "write": {"content": "new"},
        "edit": {"old_string": "old", "new_string": "new"},
        "multi_edit": {"edits": [{"old_string": "old", "new_string": "new"}]},
    }
    cleared = await clear(executor := files(tool), {"path": "f", **more[tool]})
    match meanwhile:
        case "changed":
            (workspace / "f").write_text("old and theirs")
        case "gone":
            (workspace / "f").unlink()
        case "replaced":
            (workspace / "other").rename(workspace / "f")
        case "link":
            (workspace / "f").unlink()
            (workspace / "f").symlink_to("other")
    before = (workspace / "f").read_text() if meanwhile != "gone" else None
    with pytest.raises((PolicyBlocked, PermanentFailure)):
        await executor.execute(cleared)
    assert ((workspace / "f").read_text() if meanwhile != "gone" else None) == before
    assert not list(workspace.glob(".leeward-*"))


async def test_the_same_text_in_another_file_is_the_one_that_was_judged(clear, files, workspace):
    (workspace / "f").write_text("old")
    cleared = await clear(executor := files("edit"), {"path": "f", "old_string": "old", "new_string": "new"})
    (workspace / "g").write_text("old")
    (workspace / "g").rename(workspace / "f")
    await executor.execute(cleared)
    assert (workspace / "f").read_text() == "new"


async def test_a_file_that_came_to_be_there_is_not_written_over(clear, files, workspace, monkeypatch):
    cleared = await clear(executor := files("write"), {"path": "f", "content": "mine"})
    (workspace / "f").write_text("theirs")
    with pytest.raises(PolicyBlocked, match="has come to be there"):
        await executor.execute(cleared)
    real_sync = os.fsync

    def somebody_writes(descriptor):
        (workspace / "g").write_text("theirs")
        real_sync(descriptor)

    monkeypatch.setattr("leeward.tools.files.atomic.os.fsync", somebody_writes)
    with pytest.raises(PermanentFailure, match="somebody else"):
        await executor.execute(await clear(executor, {"path": "g", "content": "mine"}))
    assert (workspace / "f").read_text() == (workspace / "g").read_text() == "theirs"


def touch(path):
    os.utime(path, ns=(1, 1))


@pytest.mark.parametrize(
    ("read", "meanwhile", "is_stale"),
    [
        ({}, lambda path: path.write_text("theirs"), True),
        ({"limit": 1}, lambda path: path.write_text("theirs"), True),
        ({}, touch, False),  # it was seen whole, and is the same text
        ({"limit": 1}, touch, True),  # nobody knows what the rest was
        (None, lambda path: path.write_text("theirs"), False),
        ({}, lambda path: path.chmod(0o600), False),
    ],
)
async def test_what_changed_since_it_was_read_is_not_written_over(
    run, files, workspace, read, meanwhile, is_stale
):
    (workspace / "f").write_text("one\ntwo\n")
    if read is not None:
        await run(files("read"), {"path": "f", **read})
    meanwhile(workspace / "f")
    if is_stale:
        with pytest.raises(PermanentFailure, match="changed since it was read"):
            await run(files("write"), {"path": "f", "content": "mine"})
        await run(files("read"), {"path": "f"})
    await run(files("write"), {"path": "f", "content": "mine"})
    await run(files("write"), {"path": "f", "content": "mine again"})
    assert (workspace / "f").read_text() == "mine again"


async def test_an_edit_keeps_what_others_changed_elsewhere_in_the_file(run, files, workspace):
    (workspace / "f").write_text("one\ntwo\n")
    await run(files("read"), {"path": "f"})
    (workspace / "f").write_text("1\ntwo\n")
    await run(files("edit"), {"path": "f", "old_string": "two", "new_string": "2"})
    assert (workspace / "f").read_text() == "1\n2\n"


def test_what_was_seen_belongs_to_one_session_and_is_bounded():
    session = ["a"]
    seen = FileVersions(lambda: session[0])
    seen.note("/f", (1,), "mark")
    assert (
        seen.is_stale("/f", (2,), "other")
        and not seen.is_stale("/f", (1,), "")
        and not seen.is_stale("/f", (2,), "mark")
    )
    session[0] = "b"
    assert not seen.is_stale("/f", (2,), "other")
    for number in range(5_000):
        seen.note(f"/{number}", (1,), "")
    session[0] = "a"
    assert not seen.is_stale("/f", (2,), "other")


# ------------------------------------------------------------------ what a person is shown


async def preview(clear, executor, arguments):
    return (await clear(executor, arguments)).action.preview()


async def test_the_difference_is_shown_and_stands_for_the_arguments(clear, files, workspace):
    (workspace / "f").write_text("1\n2\n3\n4\n5\nold\n7\n8\n9\n")
    told = await preview(clear, files("edit"), {"path": "f", "old_string": "old", "new_string": "new"})
    assert (
        told.text
        == "changed file: 9 lines before, now 9 lines\n@@ -3,7 +3,7 @@\n 3\n 4\n 5\n-old\n+new\n 7\n 8\n 9"
    )
    assert set(told.instead_of) == {"old_string", "new_string", "replace_all"}
    told = await preview(clear, files("write"), {"path": "new/f", "content": "a\nb"})
    assert told.text.split("\n") == [
        "new file: 2 lines",
        "@@ -0,0 +1,2 @@",
        "+a",
        "+b",
        "+\\ no line end at the end of the file",
    ]
    told = await preview(
        clear,
        files("multi_edit"),
        {
            "path": "f",
            "edits": [
                {"old_string": "1\n", "new_string": ""},
                {"old_string": "9\n", "new_string": "9\n10\n"},
            ],
        },
    )
    assert "-1\n" in told.text and "+10" in told.text and told.instead_of == ("edits",)


async def test_a_change_that_would_fail_is_told_before_anybody_says_yes(clear, run, files, workspace):
    told = await preview(clear, files("edit"), {"path": "gone", "old_string": "a", "new_string": "b"})
    assert told.name == "would fail" and not told.instead_of
    (workspace / "f").write_text("text")
    told = await preview(clear, files("edit"), {"path": "f", "old_string": "other", "new_string": "b"})
    assert told.name == "would fail" and "does not occur" in told.text
    await run(files("read"), {"path": "f"})
    (workspace / "f").write_text("theirs")
    assert "changed since" in (await preview(clear, files("write"), {"path": "f", "content": "b"})).text


async def test_what_cannot_be_shown_in_full_is_not_said_to_be(clear, files, workspace):
    with (workspace / "big").open("wb") as file:
        file.truncate(2_000_000)
    assert await preview(clear, files("write"), {"path": "big", "content": "x"}) is None
    os.mkfifo(workspace / "fifo")
    assert await preview(clear, files("write"), {"path": "fifo", "content": "x"}) is None
    (workspace / "bin").write_bytes(b"\0" * 10)
    assert (
        "replaces a binary file of 10 bytes"
        in (await preview(clear, files("write"), {"path": "bin", "content": "x"})).text
    )
    (workspace / "latin").write_bytes("ö\n".encode("latin-1"))
    assert (
        await preview(clear, files("write"), {"path": "latin", "content": "x\n"})
    ).name == "what changes, roughly"


LINES = st.lists(st.sampled_from(["a", "b", "}", ""]), max_size=12).map(
    lambda lines: "".join(f"{line}\n" for line in lines)
)


def patched(before: str, diff: str) -> str:
    """Apply a diff, to see that it says all there is to say."""
    old, new, at = before.split("\n"), [], 0
    for line in diff.split("\n")[1:]:
        if line.startswith("@@"):
            start, _, count = line.split()[1].removeprefix("-").partition(",")
            first = int(start) - (count != "0")
            new += old[at:first]
            at = first
            continue
        if line[0] in " -":
            assert old[at] == line[1:]
            at += 1
        if line[0] in " +":
            new.append(line[1:])
    return "\n".join([*new, *old[at:]])


@given(LINES, LINES)
@example("a\n" * 12, "a\n" * 11)
@example("", "a\n")
def test_a_diff_applied_gives_the_new_text(before, after):
    diff = unified(before.encode(), after.encode())
    if before == after:
        assert diff == "changes nothing"
    else:
        assert patched(before, diff) == after


@pytest.mark.parametrize("lines", [900, 5_000, 200_000])
def test_no_pair_of_texts_takes_long_to_compare(lines):
    before = b"".join(b"%d\n}\n" % (number % 7) for number in range(lines))
    after = b"".join(b"%d\n}\n" % (number % 5) for number in range(lines))
    assert unified(before, after).count("\n") > 500


def test_the_difference_between_line_ends_is_told_as_such():
    assert unified(b"a\n", b"a\n") == "changes nothing"
    assert unified(BOM_UTF8 + b"a\n", b"a\n") == "changes nothing but how the text is stored"


async def test_what_a_yes_was_to_is_part_of_what_is_judged_again(clear, files, workspace):
    (workspace / "f").write_text("old")
    first = (await clear(files("write"), {"path": "f", "content": "new"})).action
    touch(workspace / "f")
    assert (await clear(files("write"), {"path": "f", "content": "new"})).action.atoms == first.atoms
    (workspace / "f").write_text("theirs")
    assert (await clear(files("write"), {"path": "f", "content": "new"})).action.atoms != first.atoms
    assert (await clear(files("read"), {"path": "f"})).action.preview() is None


async def test_a_secret_by_another_name_is_not_edited(believed, files, workspace):
    (workspace / ".env").write_text("PASSWORD=fake")
    os.link(workspace / ".env", workspace / "notes")
    with pytest.raises(PolicyBlocked, match="hard link"):
        await files("edit").execute(
            await believed(files("edit"), {"path": "notes", "old_string": "fake", "new_string": "x"})
        )
    assert (workspace / ".env").read_text() == "PASSWORD=fake"


async def test_several_edits_keep_the_mode(run, files, workspace):
    (workspace / "run").write_text("old")
    (workspace / "run").chmod(0o741)
    await run(files("multi_edit"), {"path": "run", "edits": [{"old_string": "old", "new_string": "new"}]})
    assert stat.S_IMODE((workspace / "run").stat().st_mode) == 0o741
