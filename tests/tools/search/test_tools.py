from __future__ import annotations

import os
import threading
from dataclasses import replace

import pytest
import trio
from hypothesis import assume, example, given
from hypothesis import strategies as st

from leeward.security.outcome import InvalidParameters, PermanentFailure, PolicyBlocked
from leeward.security.policy import Rule, RuleAction
from leeward.tools.files import Guard
from leeward.tools.search import Search
from leeward.tools.search.glob import glob_pattern
from loading import rows_beside

ROWS = rows_beside(__file__)

TREE = {
    "README.md": "# Title\nHello world\n",
    "src/app.py": "import os\n\ndef main():\n    return 'hello'\n",
    "src/deep/er/mod.py": "HELLO = 1\r\nx = HELLO\r\n",
    "src/deep/data.json": '{"hello": 1}',
    ".hidden/notes.txt": "hello from the dark",
    ".git/config": "hello",
    "node_modules/x/index.js": "hello",
    "sub/.venv/lib.py": "hello",
    "bin/tool": "hello\0binary",
    "we[i]rd {name}.txt": "hello",
    "empty": "",
}


@pytest.fixture
def tree(workspace, tmp_path):
    for name, content in TREE.items():
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode())
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.py").write_text("hello outside")
    (workspace / "link").symlink_to(tmp_path / "outside")
    (workspace / "secret_link.py").symlink_to(tmp_path / "outside" / "secret.py")
    os.mkfifo(workspace / "fifo.py")
    return workspace


@pytest.fixture
def find(run, named, policy):
    async def find(arguments, tool="find_path", max_results=1_000, **fields):
        with trio.fail_after(30):
            search = Search(Guard(replace(policy, **fields)), max_results)
            return await run(named(search.tools(), tool), arguments)

    return find


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("*.py", ".", ["fifo.py", "secret_link.py", "src/app.py", "src/deep/er/mod.py"]),
        ("src/*.py", ".", ["src/app.py"]),
        ("./src/**/*.py", ".", ["src/app.py", "src/deep/er/mod.py"]),
        (
            "src/**",
            ".",
            ["src/app.py", "src/deep/", "src/deep/data.json", "src/deep/er/", "src/deep/er/mod.py"],
        ),
        ("**/*.{json,md}", ".", ["README.md", "src/deep/data.json"]),
        ("de?p", ".", ["src/deep/"]),
        ("[a-e]*", "src", ["app.py", "deep/", "deep/data.json", "deep/er/"]),
        ("[!a-z]*", ".", [".git/", ".hidden/", "README.md", "sub/.venv/"]),
        ("we\\[i\\]rd*", ".", ["we[i]rd {name}.txt"]),
        ("notes.txt", ".", [".hidden/notes.txt"]),
        ("config", ".git", ["config"]),
        ("*", "README.md", ["README.md"]),
        ("*.PY", ".", []),
        ("secret.py", ".", []),
        ("index.js", ".", []),
    ],
)
async def test_names_are_found_by_glob(find, tree, pattern, path, expected):
    output = await find({"pattern": pattern, "path": path})
    assert output.text.split("\n") == (expected or [""])
    assert bool(output.notices) is not bool(expected)


@pytest.mark.parametrize(
    "pattern", ["", "/", "./", "/etc/*", "~/x", "../*", "a/../../b", "\ud800"[:0] + "[z-a]"]
)
async def test_patterns_that_lead_elsewhere_or_say_nothing(find, tree, pattern):
    with pytest.raises(InvalidParameters):
        await find({"pattern": pattern})


@given(st.text(alphabet="ab*?[]{}!,/\\.^&-", min_size=1, max_size=12))
@example("{")
@example("[")
@example("[]]")
@example("[!]")
@example("a}{b")
@example("{a,{b,*}}")
@example("\\")
@example("**")
def test_any_pattern_compiles_or_is_refused(pattern):
    try:
        found = glob_pattern(pattern).fullmatch("a/b/a/b")
    except InvalidParameters as error:
        assert str(error).startswith("the pattern ")
    else:
        is_plain = not {"[", "{", "\\"} & set(pattern) and "**" not in pattern
        assert not (found and is_plain and 0 < pattern.strip("/").count("/") < 3), (
            "a star stays within a name"
        )


@given(st.text(alphabet="ab.-_ äß(+|$^é", min_size=1, max_size=10))
def test_a_plain_name_matches_itself_only(name):
    assume(name != "..")
    wanted = glob_pattern(name)
    assert wanted.fullmatch(name) and wanted.fullmatch(f"deep/er/{name}") and not wanted.fullmatch(name + "x")


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    ROWS["lines_are_found_by_expression"],
)
async def test_lines_are_found_by_expression(find, tree, pattern, path, expected):
    output = await find({"pattern": pattern, "path": path}, "grep")
    found = sorted(output.text.split("\n")) if output.text else []
    assert found == sorted(expected)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(a", "missing \\)"), ("a(?=b)", "\\(\\?="), ("(a)\\1", "escape"), ("a{1001}", "repetition"),
        ("[z-a]", "range"),
    ],
)  # fmt: skip
async def test_a_pattern_that_is_none_is_told_why(find, tree, pattern, why):
    with pytest.raises(InvalidParameters, match=f"no RE2 expression: .*{why}"):
        await find({"pattern": pattern}, "grep")


async def test_no_pattern_takes_exponential_time(find, workspace):
    (workspace / "a").write_text("a" * 50_000 + "!\n")
    assert (await find({"pattern": "^(a+)+(a|aa)+$"}, "grep")).text == ""


async def test_matches_are_capped_and_told(find, workspace):
    (workspace / "a").write_text("x\n" * 100)
    output = await find({"pattern": "x"}, "grep", max_results=10)
    assert output.text.count("\n") == 9 and "stopped after 10 matches" in output.notices[0]
    output = await find({"pattern": "x"}, "grep", max_results=100)
    assert output.text.count("\n") == 99 and output.notices == ()
    for index in range(5):
        (workspace / f"f{index}").write_text("")
    output = await find({"pattern": "f*"}, max_results=3)
    assert output.text == "f0\nf1\nf2" and "stopped after 3" in output.notices[0]


async def test_secret_files_are_named_but_not_searched(find, tree):
    output = await find({"pattern": "hello", "path": "src"}, "grep", deny_read=("src/app.py",))
    assert "app.py" not in output.text and "1 files were left out because they hold secrets" in output.notices
    output = await find({"pattern": "hello", "path": "src/app.py"}, "grep", deny_read=("APP.py",))
    assert output.text == ""


async def test_what_lies_in_a_secret_folder_is_not_named_either(find, tree):
    everything = (await find({"pattern": "**/*"})).text.splitlines()
    output = await find({"pattern": "**/*"}, deny_read=("src/deep/**",))
    shut = {name for name in everything if name.startswith("src/deep/") and name != "src/deep/"}
    assert len(shut) > 2 and set(output.text.splitlines()) == set(everything) - shut
    assert f"{len(shut)} files were left out because they hold secrets" in output.notices


@pytest.mark.parametrize("tool", ["grep", "find_path"])
async def test_what_a_rule_holds_back_is_neither_searched_nor_named(find, tree, tool):
    rules = (Rule(tool, RuleAction.DENY, "**/app.py"),)
    output = await find(
        {"pattern": {"grep": "hello|HELLO", "find_path": "**/*.py"}[tool], "path": "src"}, tool, rules=rules
    )
    assert "app.py" not in output.text and "mod.py" in output.text
    assert "1 names were left out by a permission rule" in output.notices
    output = await find({"pattern": "*", "path": "src"}, rules=(Rule("other", RuleAction.DENY, "**/app.py"),))
    assert "app.py" in output.text


@pytest.mark.parametrize("name", ["alias/app.py", "src/app.py"])
async def test_a_rule_is_asked_by_both_names_of_a_file_below_a_link(find, tree, name):
    (tree / "alias").symlink_to("src")
    output = await find(
        {"pattern": "hello|HELLO", "path": "alias"}, "grep", rules=(Rule("*", RuleAction.DENY, name),)
    )
    assert "app.py" not in output.text and "deep/er/mod.py" in output.text


async def test_long_lines_and_files_are_searched_in_pieces(find, workspace, monkeypatch):
    (workspace / "big").write_bytes(
        b"y" * 3_000_000 + b"needle\n" + b"line\n" * 400_000 + b"needle at the end"
    )
    output = await find({"pattern": "needle"}, "grep")
    first, second = output.text.split("\n")
    assert first == "big:1: " + "y" * 400 + "…" and second == "big:400002: needle at the end"


async def test_a_link_swapped_in_for_the_folder_is_not_followed(clear, named, tree, policy):
    for tool in ("find_path", "grep"):
        executor = named(Search(Guard(policy)).tools(), tool)
        cleared = await clear(executor, {"pattern": "hello", "path": "src/deep"})
        (tree / "src").rename(tree / "moved")
        (tree / "src").symlink_to(tree / "moved")
        with pytest.raises(PolicyBlocked):
            await executor.execute(cleared)
        (tree / "src").unlink()
        (tree / "moved").rename(tree / "src")


async def test_a_folder_that_is_not_there(find, tree):
    for tool in ("find_path", "grep"):
        with pytest.raises(PermanentFailure, match="there is no .*srd.* did you mean src"):
            await find({"pattern": "x", "path": "srd/deep"}, tool)
        with pytest.raises(PermanentFailure, match="there is no"):
            await find({"pattern": "x", "path": "srd"}, tool)


async def test_a_search_stops_when_it_is_cancelled(clear, named, tree, policy):
    began, resume = threading.Event(), threading.Event()

    class Slow(Guard):
        def secret(self, path: str) -> str | None:
            began.set()
            resume.wait(5)
            return None

    executor = named(Search(Slow(policy)).tools(), "grep")
    cleared = await clear(executor, {"pattern": "hello"})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(executor.execute, cleared)
        await trio.to_thread.run_sync(began.wait)
        nursery.cancel_scope.cancel()
        resume.set()
    assert nursery.cancel_scope.cancelled_caught


async def test_a_tree_deeper_than_python_recurses(find, workspace):
    handle = os.open(workspace, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d", dir_fd=handle)
        below = os.open("d", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = below
    os.close(os.open("leaf.txt", os.O_CREAT | os.O_WRONLY, dir_fd=handle))
    os.close(handle)
    assert (await find({"pattern": "leaf.txt"})).text.endswith("d/leaf.txt")
