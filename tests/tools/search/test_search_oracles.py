"""Searches agree with `grep`, `git` and the shell on generated trees and patterns."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
import trio
from hypothesis import HealthCheck, Phase, assume, example, given, settings
from hypothesis import strategies as st

from leeward.security.action import ActionBuilder, canonical_json
from leeward.security.call import Cleared, ToolCall
from leeward.security.policy import Policy
from leeward.tools.files import Guard
from leeward.tools.search import Search

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
needs_grep = pytest.mark.skipif(
    "GNU grep" not in subprocess.run(["grep", "-V"], capture_output=True, text=True, check=False).stdout,
    reason="grep is not GNU's, which is the one held against",
)
ENV = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
QUICK = settings(
    max_examples=settings().max_examples // 4,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)


def searched(root: str, tool: str, **arguments: object) -> tuple[list[str], tuple[str, ...]]:
    """What a search tool returns for a folder: its lines and what it tells beside them."""

    async def run():
        policy = Policy(root, root)
        executor = next(one for one in Search(Guard(policy)).tools() if one.specs()[0].name == tool)
        call = ToolCall("1", tool, canonical_json({"path": root, **arguments}))
        draft = ActionBuilder.of(call, {tool: executor.specs()[0]})
        action = draft.read(policy, {root: root})

        async def nowhere(_: str) -> None:
            pass

        return await executor.execute(Cleared(action, trio.current_time() + 30, nowhere))

    output = trio.run(run)
    return output.text.split("\n") if output.text else [], output.notices


def planted_in(root: str, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        path = Path(root, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


# ------------------------------------------------------------------ grep

# What RE2 and POSIX's extended expressions both have, and read alike.
PIECES = st.recursive(
    st.sampled_from(["a", "b", "ab", "ö", ".", "[ab]", "[^a]", " ", "^", "$", "[[:digit:]]", "\\."]),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.tuples(
            inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}"]),
        ).map(lambda two: f"({two[0]}){two[1]}"),
        st.tuples(inner, inner).map(lambda two: f"({two[0]}|{two[1]})"),
    ),
    max_leaves=6,
)  # fmt: skip
LINES = st.lists(st.text("ab öc1.", max_size=6), max_size=6)
TREE = st.dictionaries(
    st.sampled_from(["x", "y.txt", "d/x", "d/e/z", "d/é.py", ".h/x"]), st.tuples(LINES, st.booleans()),
    max_size=5
)  # fmt: skip


@needs_grep
@QUICK
@given(TREE, PIECES)
@example({"x": (["a", "", "b"], True)}, "^$")
@example({"x": (["ab"], False), "d/x": (["ba", "ab"], True)}, "(a|b)$")
@example({"x": (["a.b"], True)}, "a\\.b")
def test_lines_that_match_are_those_grep_finds(files, pattern):
    with tempfile.TemporaryDirectory() as folder:
        root = os.path.realpath(folder)
        contents = {
            name: "\n".join(lines).encode() + (b"\n" if lines and ends else b"")
            for name, (lines, ends) in files.items()
        }
        planted_in(root, contents)
        said = subprocess.run(
            ["grep", "-rnE", "--binary-files=without-match", "-e", pattern, "."],
            cwd=root, env=ENV, capture_output=True, check=False,
        )  # fmt: skip
        assume(said.returncode < 2)
        lines = said.stdout.decode().split("\n")[:-1]
        expected = sorted(
            line.removeprefix("./").replace(":", ": ", 2).replace(": ", ":", 1) for line in lines
        )
        found, _ = searched(root, "grep", pattern=pattern)
        assert sorted(found) == expected


# ------------------------------------------------------------------ .gitignore

NAMES = st.sampled_from(["a", "b", "ab", "a.c", "build", "x y", "é", "[z]", "!q", "#h"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
GLOBS = st.lists(
    st.sampled_from(
        [
            "a", "b", "*", "?", "**", "[ab]", "[!a]", "[ -~]", "[[:alpha:]\\]]", ".c", "build", "\\[", "x y",
            "é", "\\", "[", "]",
        ]
    ),
    min_size=1, max_size=3,
).map("".join)  # fmt: skip
RULE = st.tuples(
    st.sampled_from(["", "!", "/", "!/", "**/", "\\"]),
    st.lists(GLOBS, min_size=1, max_size=3).map("/".join),
    st.sampled_from(["", "/", "/*", "/**", " ", "\\ ", "\t"]),
).map("".join)
RULES = st.lists(RULE, max_size=4).map(lambda rules: "".join(f"{rule}\n" for rule in rules))


def gits_choice(root: str, paths: list[str]) -> set[str]:
    """Which of the paths git does not ignore."""
    subprocess.run(["git", "init", "-q", root], env=ENV, check=True)
    listed = "".join(f"{path}\0" for path in paths).encode()
    said = subprocess.run(
        ["git", "-C", root, "check-ignore", "--no-index", "-z", "--stdin"],
        input=listed, env=ENV, capture_output=True, check=False,
    )  # fmt: skip
    assert said.returncode in (0, 1), said.stderr
    return set(paths) - set(said.stdout.decode().split("\0"))


@needs_git
@QUICK
@given(st.sets(PATHS, min_size=1, max_size=8), RULES, RULES, st.sampled_from(["a", "build", "ab"]))
@example({"a/b/x y", "a/x y"}, "x y\n!a/x y\n", "", "a")
@example({"build/a", "ab/build/b", "build/ab"}, "build/*\n!build/ab\n", "", "ab")
@example({"a/ab", "b/ab"}, "/ab\n", "/ab\n", "a")
@example({"a/b/ab"}, "a/**/ab\n!**/b/\n", "!ab\n", "a")
@example({"[z]", "a"}, "\\[z]\n", "", "b")
@example({"build/[z]/a", "a", "ab/a"}, "/**a\n", "", "b")
@example({"#h/b", "ab", "a.c"}, "/*[ -~]b\n/a[[:punct:]]c\n", "", "b")
@example({"[z]", "a", "b"}, "[\\]\\[]z\\]\n", "", "b")
@example({"é", "a", "ab"}, "?\n", "", "b")
@example({"é", "x y", "ab"}, "??\n!ab\n", "", "b")
def test_what_is_left_out_is_what_git_would_ignore(paths, above, below, where):
    with tempfile.TemporaryDirectory() as folder:
        root = os.path.realpath(folder)
        kept: dict[str, bytes] = {}
        for path in sorted(paths):
            # A name cannot be a file and a folder at once; the first to come is what it is.
            parents = {str(parent) for parent in Path(path).parents}
            if not parents & kept.keys() and not any(name.startswith(f"{path}/") for name in kept):
                kept[path] = b"needle\n"
        rules = {".gitignore": above.encode()}
        if where not in kept:
            rules[f"{where}/.gitignore"] = below.encode()
        planted_in(root, kept | rules)
        found, _ = searched(root, "grep", pattern="needle")
        assert {line.rpartition(":1:")[0] for line in found} == gits_choice(root, list(kept))


@pytest.mark.parametrize(
    ("rules", "kept"),
    [
        (b"*.log\n", {"caf\\xe9", "plain"}),
        (b"caf?\n", {"plain"}),
        (b"caf\xe9\n", {"plain"}),
        ("café\n".encode(), {"caf\\xe9", "plain"}),
        (b"caf[\xe0-\xef]\n", {"plain"}),
        (b"*\n!plain\n", {"plain"}),
    ],
)
def test_a_name_that_is_no_utf8_hinders_no_search(rules, kept):
    with tempfile.TemporaryDirectory() as folder:
        root = os.path.realpath(folder)
        planted_in(root, {os.fsdecode(b"caf\xe9"): b"needle\n", "plain": b"needle\n", ".gitignore": rules})
        found, notices = searched(root, "grep", pattern="needle")
        assert {line.partition(":")[0] for line in found} == kept and "failed" not in " ".join(notices)
        assert {line.partition(":")[0] for line in searched(root, "find_path", pattern="[a-z]*")[0]} == {
            "caf\\xe9",
            "plain",
        }


# ------------------------------------------------------------------ find_path

SHELL_GLOBS = st.lists(
    st.sampled_from(["a", "b", "*", "?", "[ab]", "[!a]", "{a,b}", "{a,ab}", "\\*", "d", "é", ".h"]),
    min_size=1, max_size=3,
).map("".join)  # fmt: skip
GLOB_PATHS = st.lists(st.one_of(SHELL_GLOBS, st.just("**")), min_size=1, max_size=3).map("/".join)
FOUND = st.sets(
    st.lists(
        st.sampled_from(["a", "b", "ab", "d", "*", "é", ".h", "ba"]), min_size=1, max_size=3,
    ).map("/".join),
    max_size=8,
)  # fmt: skip


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@QUICK
@given(FOUND, GLOB_PATHS)
@example({"a/b", "d/a/b", "b"}, "**/b")
@example({"*", "a"}, "\\*")
@example({".h/a", "d/.h"}, "**/.h")
def test_what_a_pattern_names_is_what_bash_finds(paths, pattern):
    # A pattern of one name is looked for at any depth, unlike in a shell; bash has no braces without a
    # choice.
    assume("/" in pattern and not pattern.endswith("**"))
    with tempfile.TemporaryDirectory() as folder:
        root = os.path.realpath(folder)
        for path in sorted(paths, reverse=True):
            if not Path(root, path).exists():
                Path(root, path).parent.mkdir(parents=True, exist_ok=True)
                Path(root, path).write_text("")
        script = (
            'shopt -s globstar dotglob nullglob extglob; eval "for f in $1; do printf \'%s\\0\' \\"\\$f\\"; '
            'done"'
        )
        said = subprocess.run(
            ["bash", "-c", script, "-", pattern.replace("\\*", "'*'")], cwd=root, env=ENV,
            capture_output=True, check=True
        )  # fmt: skip
        expected = {
            name for name in said.stdout.decode().split("\0") if name and os.path.lexists(f"{root}/{name}")
        }
        found, _ = searched(root, "find_path", pattern=pattern)
        assert {name.rstrip("/") for name in found} == expected
