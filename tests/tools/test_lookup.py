"""Lookups for a command line: resolved words, matched patterns, hidden files."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.security.kinds import Wanted
from leeward.security.policy import Policy
from leeward.tools import survey as lookup
from leeward.tools.process import SEARCH_PATH, find_programs
from leeward.tools.survey import Work, _matches, looked_up

NAMES = ("a", "b.py", ".hidden", "c d", "-e", "x[1]", "tail*", "über", "Z", "sub")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    top = tmp_path_factory.mktemp("lookup").resolve()
    for name in NAMES[:-1]:
        (top / name).write_text("x")
    (top / "sub").mkdir()
    (top / "sub" / "b.py").write_text("x")
    (top / "sub" / ".env").write_text("x")
    return top


def facts(folder, policy=None, path="/usr/bin:/bin", **wanted):
    return looked_up(Wanted(**wanted), policy or Policy(str(folder), "/home/ada"), path)


def matches(folder, pattern):
    return facts(folder, matches=(pattern,)).matches[pattern]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*", {"a", "b.py", "c d", "-e", "x[1]", "tail*", "über", "Z", "sub"}),
        ("*.py", {"b.py"}),
        ("*/*.py", {"sub/b.py"}),
        (".h*", {".hidden"}),
        ("[[]x", set()),
        ("x[[]1]", {"x[1]"}),
        ("tail[*]", {"tail*"}),
        ("?", {"a", "Z"}),
        ("nothing*", set()),
        ("sub/.e*", {"sub/.env"}),
    ],
)
def test_a_pattern_matches_what_the_shell_says(folder, pattern, names) -> None:
    assert set(matches(folder, f"{folder}/{pattern}")) == {f"{folder}/{name}" for name in names}


WORDS = st.lists(
    st.sampled_from(
        [
            "a",
            "b",
            ".",
            "*",
            "?",
            "[a-z]",
            "[!a]",
            "[^b]",
            "[[:alpha:]]",
            "[]x]",
            "-",
            "p",
            "y",
            "sub/",
            "Z",
            "e",
            "[",
            "]",
        ]
    ),
    min_size=1,
    max_size=6,
).map("".join)


@given(WORDS)
@example("[[:lower:]]*")
@example("[a-z]")
@example("[^a]*")
@example("[]")
@example("sub/[.]env")
@example(".*")
def test_whatever_bash_finds_is_among_what_was_found(folder, word) -> None:
    """More may be found, never less: what is not found is not judged."""
    quoted = word.replace("'", "")
    said = subprocess.run(
        ["/bin/bash", "-c", f"shopt -s nullglob; printf '%s\\0' {quoted}"],
        cwd=folder,
        capture_output=True,
        check=True,
        env={"LC_ALL": "C.UTF-8"},
    )
    found = {os.path.normpath(folder / os.fsdecode(name)) for name in said.stdout.split(b"\0") if name}
    mine = matches(folder, f"{folder}/{word}")
    assert mine is not None and {path for path in found if os.path.lexists(path)} <= {
        os.path.normpath(path) for path in mine
    }


@pytest.mark.parametrize("pattern", ["??", "[!a]?", "?*?", "é", "?", "*", "[é]?"])
@pytest.mark.parametrize("shell", ["bash", "dash"])
def test_whatever_a_shell_finds_by_counting_bytes_is_among_what_was_found(tmp_path, pattern, shell) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    for name in ("é", "a", "ab", "日"):
        (tmp_path / name).touch()
    env = {"LC_ALL": "C", "PATH": os.environ["PATH"]}
    line = ["-c", f"for f in {pattern}; do printf '%s\\0' \"$f\"; done"]
    ran = subprocess.run([shell, *line], cwd=tmp_path, env=env, capture_output=True, check=True, timeout=20)
    seen = {f"{tmp_path}/{os.fsdecode(name)}" for name in ran.stdout.split(b"\0") if name}
    real = {path for path in seen if os.path.lexists(path)}
    found = _matches(f"{tmp_path}/{pattern}", Work())
    assert found is not None and real <= set(found)


def test_a_pattern_longer_than_anybody_writes_is_not_worked_out(tmp_path) -> None:
    assert _matches(f"{tmp_path}/{'*a' * 100_000}", Work()) is None


def test_too_many_matches_are_too_many(tmp_path) -> None:
    for number in range(lookup.MOST_MATCHES + 1):
        (tmp_path / str(number)).touch()
    assert matches(tmp_path, f"{tmp_path}/*") is None
    assert len(matches(tmp_path, f"{tmp_path}/1?")) == 10


def test_a_pattern_that_looks_through_half_the_disk_is_given_up(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(lookup, "MOST_ENTRIES", 50)
    for number in range(60):
        (tmp_path / str(number)).mkdir()
    assert matches(tmp_path, f"{tmp_path}/*/nothing") is None


def test_links_are_followed_and_what_cannot_be_is_left_out(tmp_path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "out").symlink_to("/etc")
    found = facts(
        tmp_path,
        real=(f"{tmp_path}/out/passwd", f"{tmp_path}/loop/x", f"{tmp_path}/out/../x", f"{tmp_path}/new"),
    ).real
    assert found == {
        f"{tmp_path}/out/passwd": "/etc/passwd",
        f"{tmp_path}/out/../x": "/x",
        f"{tmp_path}/new": f"{tmp_path}/new",
    }


def test_where_what_others_write_is_taken_from_is_left_out(tmp_path) -> None:
    """Who reads a FIFO takes what was meant for another: that is asked about where it runs for real."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("fifo")
    (tmp_path / "file").write_text("x")
    found = facts(tmp_path, real=tuple(f"{tmp_path}/{name}" for name in ("fifo", "link", "file")))
    assert found.real == {f"{tmp_path}/file": f"{tmp_path}/file"}
    matched = facts(tmp_path, matches=(f"{tmp_path}/fi*",))
    assert matched.real == found.real and len(matched.matches[f"{tmp_path}/fi*"] or ()) == 2


def test_programs_are_those_of_the_given_path_and_nothing_else(tmp_path) -> None:
    (tmp_path / "bin").mkdir()
    for name, mode in (("tool", 0o755), ("plain", 0o644)):
        (tmp_path / "bin" / name).write_text("#!/bin/sh\n")
        (tmp_path / "bin" / name).chmod(mode)
    (tmp_path / "bin" / "dir").mkdir()
    (tmp_path / "bin" / "link").symlink_to("tool")
    wanted = ("tool", "link", "plain", "dir", "missing", "../bin/tool", "", "a\0b", "x" * 300, "x" * 5000)
    found = facts(tmp_path, path=f"/nowhere:{tmp_path}/bin", programs=wanted).programs
    # What a link of the workspace leads to is run by the link's name, so the link is what is judged.
    real = str(tmp_path.resolve() / "bin")
    assert found == {"tool": f"{real}/tool", "link": f"{real}/link"} | dict.fromkeys(wanted[2:])


def test_what_the_system_did_not_put_there_is_none_of_its_programs(tmp_path) -> None:
    (tmp_path / "ws").mkdir()
    (tmp_path / "shims").mkdir()
    (tmp_path / "shims" / "node").write_text("#!/bin/sh\n")
    (tmp_path / "shims" / "node").chmod(0o755)
    (tmp_path / "shims" / "listing").symlink_to("/usr/bin/ls")
    policy = Policy(str(tmp_path / "ws"), "/home/ada")
    path = f"{tmp_path.resolve()}/shims:/usr/bin"
    found = facts(tmp_path, policy, path, programs=("node", "listing", "sort")).programs
    real = {name: os.path.realpath(f"/usr/bin/{name}") for name in ("ls", "sort")}
    assert found == {"node": None, "listing": real["ls"], "sort": real["sort"]}


@pytest.mark.parametrize("name", ["ls", "rg", "python3", "pip"])
def test_what_is_judged_of_an_environment_in_the_workspace_is_what_runs(tmp_path, name) -> None:
    own = tmp_path.resolve() / ".venv" / "bin"
    own.mkdir(parents=True)
    (own.parent / "pyvenv.cfg").write_text("home = /usr/bin\n")
    for planted in ("ls", "rg", "python3", "pip"):
        (own / planted).symlink_to("/bin/sh")
    policy = Policy(str(tmp_path.resolve()), "/home/ada")
    programs = find_programs({"PATH": f"{own}:/usr/bin:/bin"}, policy)
    found = looked_up(Wanted(programs=(name,)), policy, programs).programs[name]
    there = shutil.which(name, path=SEARCH_PATH)
    is_of_workspace = there is None or name in {"python3", "pip"}
    assert found == (str(own / name) if is_of_workspace else os.path.realpath(there))
