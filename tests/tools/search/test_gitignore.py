"""`.gitignore` is read as git reads it, and never leads a search outside."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import trio
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.security.outcome import PermanentFailure
from leeward.tools.files import Guard
from leeward.tools.search import Search
from leeward.tools.search.gitignore import IgnoreFile
from leeward.tools.search.glob import glob_expression
from leeward.tools.search.grep import LinePattern, literal_in
from loading import rows_beside

ROWS = rows_beside(__file__)

FILES = [
    "a.log",
    "b.txt",
    "keep.log",
    "build/x",
    "build/deep/y",
    "src/build/z",
    "src/a.log",
    "src/app.py",
    "docs/a/b/c.md",
    "docs/c.md",
    "we[i]rd",
    "#hash",
    "!bang",
    "trail ",
    "{a}",
    "x/build.py",
    ".hidden/h",
    "a/b/c/d",
    "tmp/keep/k",
    "naïve.é",
]

RULES = ROWS["rules"]


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = Path(os.path.realpath(tmp_path_factory.mktemp("repository")))
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("needle\n")
    return folder


@pytest.fixture
def found(clear, policy):
    async def found(folder: Path, **arguments) -> set[str]:
        held = type(policy)(str(folder), str(folder))
        executor = Search(Guard(held)).tools()[1]
        arguments = {"pattern": "needle", "path": str(folder / arguments.pop("path", "")), **arguments}
        output = await executor.execute(await clear(executor, arguments))
        return {line.partition(":")[0] for line in output.text.split("\n") if line}

    return found


@pytest.mark.skipif(
    shutil.which("git") is None, reason="git is not installed, so nobody can be asked how it reads it"
)
@pytest.mark.parametrize("rules", RULES)
async def test_what_is_left_out_is_what_git_leaves_out(found, repository, rules):
    (repository / ".gitignore").write_text(rules)
    shutil.rmtree(repository / ".git", ignore_errors=True)
    environment = {"PATH": os.environ["PATH"], "HOME": str(repository), "GIT_CONFIG_NOSYSTEM": "1"}
    await trio.run_process(["git", "init", "-q", str(repository)], env=environment)
    said = await trio.run_process(
        ["git", "-C", str(repository), "ls-files", "-z", "--others", "--exclude-standard"],
        env=environment,
        capture_stdout=True,
    )
    kept = {name for name in said.stdout.decode().split("\0") if name and name != ".gitignore"}
    assert await found(repository) - {".gitignore"} == kept


async def test_files_of_folders_above_and_below_hold_too(found, tmp_path):
    for name, text in {
        ".gitignore": "*.log\n/only_here\n",
        "sub/.gitignore": "!keep.log\ndata/\n",
        "sub/deep/.gitignore": "*.txt\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for name in (
        "a.log",
        "only_here",
        "sub/only_here",
        "sub/keep.log",
        "sub/a.log",
        "sub/data/x",
        "sub/deep/a.txt",
        "sub/deep/keep.log",
        "sub/a.txt",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("needle\n")
    everything = {"sub/only_here", "sub/keep.log", "sub/deep/keep.log", "sub/a.txt"}
    assert await found(tmp_path) == everything
    assert await found(tmp_path, path="sub") == {name.removeprefix("sub/") for name in everything}
    assert await found(tmp_path, path="sub/deep") == {"keep.log"}
    assert await found(tmp_path, path="sub/data") == {"x"}, "what was asked for by name is searched"
    assert await found(tmp_path, path="a.log") == {"a.log"}
    assert len(await found(tmp_path, include_ignored=True)) == 9


async def test_a_repository_inside_another_goes_by_its_own(found, tmp_path):
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / "inner" / ".git").mkdir(parents=True)
    (tmp_path / "inner" / "a.log").write_text("needle\n")
    assert await found(tmp_path) == set()
    assert await found(tmp_path, path="inner") == {"a.log"}


async def test_what_was_left_out_is_told(clear, policy, workspace):
    (workspace / ".gitignore").write_text("*.log\n")
    (workspace / "a.log").write_text("needle")
    executor = Search(Guard(policy)).tools()[1]
    output = await executor.execute(await clear(executor, {"pattern": "needle"}))
    assert (
        output.text == ""
        and "1 names were left out by .gitignore; include_ignored searches them" in output.notices
    )


@pytest.mark.parametrize("content", [b"*.log\n" * 50_000, b"[z-a]\n*.log", b"x" * 1_000_000, b"\xff\xfe\n"])
async def test_a_file_that_is_too_much_or_none_says_nothing(found, tmp_path, content):
    (tmp_path / ".gitignore").write_bytes(content)
    (tmp_path / "a.log").write_text("needle")
    assert "a.log" in await found(tmp_path)


async def test_a_link_in_its_place_is_not_read(found, tmp_path):
    (tmp_path / "rules").write_text("*.log\n")
    (tmp_path / ".gitignore").symlink_to("rules")
    (tmp_path / "a.log").write_text("needle")
    assert await found(tmp_path) == {"a.log"}


@given(st.text(alphabet="ab*?[]!/\\#{}. \n-^", max_size=30), st.sampled_from(["a", "a/b", "b/a.b", "a b"]))
def test_any_text_can_be_read(text, path):
    read = IgnoreFile.of(text, "")
    assert read is None or read.decides(path, is_folder=False) in (True, False, None)


# ------------------------------------------------------------------ the quick look before a search

PIECES = st.lists(
    st.sampled_from(
        [
            "a",
            "b",
            "ab",
            "\\.",
            ".",
            "a*",
            "b+",
            "a?",
            "[ab]",
            "[^a]",
            "\\d",
            "a{2}",
            "b{0,1}",
            "^",
            "$",
            "(a)",
            "(a|b)",
            "a|b",
            "(?i)a",
            "\\x61",
            "\\n",
            "é",
            "{",
            "\\Qa\\E",
            "[[:alpha:]]",
            "b+?",
        ]
    ),
    min_size=1,
    max_size=6,
)


@given(PIECES, st.text(alphabet="abAB.1é{", max_size=10))
@example(["a", "b{0,1}", "a"], "aa")
@example(["(?i)a", "b"], "AB")
@example(["a|b", "b"], "a")
def test_every_match_holds_the_literal(pieces, text):
    pattern = "".join(pieces)
    try:
        wanted = LinePattern.of(pattern)
    except Exception as error:  # noqa: BLE001
        assert "RE2" in str(error)
        return
    if wanted.expression.search(text.encode()):
        assert literal_in(pattern) in text.encode()


@pytest.mark.parametrize(
    ("pattern", "literal"),
    [
        ("needle", b"needle"),
        ("def \\w+\\(self", b"(self"),
        ("[a-z]+_needle[0-9]", b"_needle"),
        ("ab+c", b"ab"),
        ("a|b", b""),
        ("(?i)x", b""),
        ("a\\.b", b"a.b"),
        ("x{3}yz", b"yz"),
        ("", b""),
        ("é", b""),
    ],
)
def test_the_longest_certain_text_is_looked_for(pattern, literal):
    assert literal_in(pattern) == literal


async def test_a_utf16_file_is_searched_as_text(found, tmp_path):
    (tmp_path / "a.txt").write_bytes("first\r\nthe needle ä\r\n".encode("utf-16"))
    (tmp_path / "b.bin").write_bytes(b"needle\0")
    assert await found(tmp_path) == {"a.txt"}
    with pytest.raises(PermanentFailure):
        await found(tmp_path, path="gone")


def test_a_bracket_of_backslashes_is_read_once():
    """In a pattern of the model's or in a file of the project's: it could be read in two ways for
    each pair.
    """
    for text in ("[" + "\\a" * 500, "[" + "\\]" * 500, "[!" + "[:x:]" * 500, "[\\]"):
        glob_expression(text)
