"""A git index is parsed as git parses it, or not at all."""

from __future__ import annotations

import hashlib
import random
import subprocess
from pathlib import Path

import pytest

from leeward.security.sandbox import OddIndex, is_like_git, read_index

ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "LC_ALL": "C.UTF-8",
}


def git(folder: Path, *words: str, code: int | None = 0) -> bytes:
    done = subprocess.run(
        ["git", *words], cwd=folder, env=ENVIRONMENT, capture_output=True, timeout=60, check=False
    )
    assert code is None or done.returncode == code, done.stderr
    return done.stdout if done.returncode == 0 else b"!"


def listed(content: bytes, folder: Path) -> bytes:
    """What git lists of an index, as `ls-files -s -z` has it."""
    (folder / ".git" / "index").write_bytes(content)
    return git(folder, "ls-files", "-s", "-z", code=None)


def read(content: bytes) -> bytes:
    found = read_index(content).entries.values()
    return b"".join(b"%o %s %d\t%s\0" % (one.mode, one.oid.encode(), one.stage, one.path) for one in found)


@pytest.fixture(scope="module", params=["2", "3", "4"])
def index(request, tmp_path_factory) -> tuple[Path, bytes]:
    """A repository and its index, of one version, with folders, links, modes and what git keeps beside."""
    folder = tmp_path_factory.mktemp("repository")
    git(folder, "init", "-q")
    for number in range(12):
        path = folder / f"d{number % 3}" / f"name {number}"
        path.parent.mkdir(exist_ok=True)
        path.write_text(str(number))
    (folder / "run").write_text("x")
    (folder / "run").chmod(0o755)
    (folder / "link").symlink_to("run")
    git(folder, "update-index", "--index-version", request.param)
    git(folder, "add", ".")
    git(folder, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x")
    (folder / "later").write_text("x")
    git(folder, "add", "-N", "later")
    if request.param != "2":
        git(folder, "update-index", "--skip-worktree", "run")
    return folder, (folder / ".git" / "index").read_bytes()


def test_what_git_wrote_is_read_as_git_lists_it(index) -> None:
    folder, content = index
    assert read(content) == listed(content, folder) != b"!"


def test_whatever_is_read_of_a_changed_index_git_lists_the_same(index) -> None:
    """Bytes are changed with the checksum made anew: what is taken then must be what git takes."""
    folder, content = index
    chance, taken = random.Random(7), 0
    for _ in range(250):
        changed = bytearray(content[:-20])
        for _ in range(chance.choice((1, 1, 2, 4))):
            at = chance.randrange(len(changed))
            changed[at] = chance.choice((changed[at] ^ (1 << chance.randrange(8)), chance.randrange(256)))
        if chance.random() < 0.2:
            del changed[chance.randrange(len(changed)) :]
        whole = bytes(changed) + hashlib.sha1(changed, usedforsecurity=False).digest()
        try:
            found = read(whole)
        except OddIndex:
            continue
        taken += 1
        assert listed(whole, folder) in {found, b"!"}
    assert taken > 5


@pytest.mark.parametrize("path", [b".git/hooks/x", b"a/../b", b"/x", b"a//b", b".GIT/x", b"git~1/x", b"./x"])
def test_a_path_that_lies_in_no_working_tree_is_refused(path) -> None:
    entry = (
        bytes(24)
        + (0o100644).to_bytes(4, "big")
        + bytes(12)
        + b"\1" * 20
        + len(path).to_bytes(2, "big")
        + path
    )
    body = b"DIRC" + (2).to_bytes(4, "big") + (1).to_bytes(4, "big") + entry
    body += bytes(8 - (len(entry) % 8))
    with pytest.raises(OddIndex):
        read_index(body + hashlib.sha1(body, usedforsecurity=False).digest())


@pytest.mark.parametrize(
    "name", [".git", ".GIT", "GIT~1", ".git ", ".git.", ".gi\u200ct", ".git::$INDEX_ALLOCATION"]
)
def test_names_that_some_file_system_takes_for_git_are_known(name) -> None:
    assert is_like_git(name)


@pytest.mark.parametrize("name", [".github", ".gitignore", "git", "agit", ".git2"])
def test_other_names_are_not(name) -> None:
    assert not is_like_git(name)
