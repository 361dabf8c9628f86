"""Where a path lies, which files are secret, and which must not be changed: both ways."""

from __future__ import annotations

import posixpath
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.security.kinds import Unreadable
from leeward.security.paths import (
    ResolvedPath,
    could_be_path,
    is_inside,
    locate,
    protected_places,
    protected_reason,
    secret_places,
    secret_reason,
)
from loading import rows_beside

ROWS = rows_beside(__file__)

LOCATED = {
    "a.txt": "/ws/a.txt",
    "./a.txt": "/ws/a.txt",
    "src//lib/./x.py": "/ws/src/lib/x.py",
    "src/../a.txt": "/ws/a.txt",
    ".": "/ws",
    "/ws/a": "/ws/a",
    "//etc/passwd": "/etc/passwd",
    "///etc/passwd": "/etc/passwd",
    "/ws/../etc": "/etc",
    "/ws/a/../../etc": "/etc",
    "/../../etc": "/etc",
    "..": "/",
    "../ws-evil/x": "/ws-evil/x",
    "../../../../etc/passwd": "/etc/passwd",
    "~": "/home/ada",
    "~/x": "/home/ada/x",
    "~/../bob/x": "/home/bob/x",
    "a~b": "/ws/a~b",
    "~/~/x": "/home/ada/~/x",
    "~5": "/ws/~5",
    "~ x": "/ws/~ x",
    "$HOME/x": "/ws/$HOME/x",
    "%2e%2e/x": "/ws/%2e%2e/x",
    " /etc/passwd": "/ws/ /etc/passwd",
    "a\\..\\b": "/ws/a\\..\\b",
    "naïve/日本.txt": "/ws/naïve/日本.txt",
}


@pytest.mark.parametrize(("raw", "text"), LOCATED.items(), ids=LOCATED)
def test_a_path_is_located_by_its_text(make, raw: str, text: str) -> None:
    place = locate(raw, make.policy())
    assert place == ResolvedPath(
        text, text, escaped=not raw.startswith(("/", "~")) and not is_inside(text, "/ws")
    )


@pytest.mark.parametrize("raw", ["", "~root/x", "~root", "~bob", "~_x/y", "a\0b", "/etc/passwd\0.txt"])
def test_what_cannot_be_told_is_unreadable(make, raw: str) -> None:
    assert isinstance(locate(raw, make.policy()), Unreadable)


@given(st.text(st.sampled_from("./~a\\%2e \n"), max_size=20))
@example("//..//")
@example("~/..")
def test_a_located_path_is_normal_and_reads_the_same_again(make, raw: str) -> None:
    place = locate(raw, make.policy())
    if isinstance(place, ResolvedPath):
        assert place.text.startswith("/") and not place.text.startswith("//")
        assert posixpath.normpath(place.text) == place.text
        assert locate(place.text, make.policy()) == ResolvedPath(place.text, place.text)
        assert not place.escaped or not is_inside(place.text, "/ws")


@pytest.mark.parametrize(
    ("path", "roots", "inside"),
    [
        ("/ws", ("/ws",), True),
        ("/ws/a", ("/ws",), True),
        ("/ws/a", ("/ws/",), True),
        ("/ws", ("/ws/",), True),
        ("/ws-evil", ("/ws",), False),
        ("/ws-evil/a", ("/ws",), False),
        ("/w", ("/ws",), False),
        ("/", ("/ws",), False),
        ("/a", ("/",), True),
        ("/", ("/",), True),
        ("/a", ("",), False),
        ("/a", (), False),
        ("/b/c", ("/a", "/b"), True),
        ("/wS/a", ("/ws",), False),
    ],
)
def test_inside_means_whole_components(path: str, roots, inside: bool) -> None:
    assert is_inside(path, *roots) is inside


COULD_BE = [
    "/",
    "/etc",
    "~",
    "~/x",
    "~bob/x",
    ".",
    "..",
    "./x",
    ".env",
    "../x",
    "a/../b",
    "a/..",
    "a\\..\\b",
    "..\\x",
    "%2e%2e/x",
    "x/%2E%2e%2fy",
    "a%252f%252e%252e%252fb",
]
COULD_NOT = [
    "",
    "x",
    "a/b",
    "and/or",
    "wait.. what",
    "a...b",
    "1..2",
    "~5 minutes",
    "~ about",
    "http://x",
    "50%",
    "a ..",
    "x..y/z",
    "km/h",
    "-/x",
    "(/x)",
]


@pytest.mark.parametrize("text", COULD_BE)
def test_what_could_be_a_path(text: str) -> None:
    assert could_be_path(text)


@pytest.mark.parametrize("text", COULD_NOT)
def test_what_could_not(text: str) -> None:
    assert not could_be_path(text)


SECRET = ROWS["secret"]
NOT_SECRET = ROWS["not_secret"]
PROTECTED = ROWS["protected"]
NOT_PROTECTED = ROWS["not_protected"]


@pytest.fixture(scope="module")
def held(make):
    return make.policy(secret_paths=("/keys",), protected_paths=("/app",))


@pytest.mark.parametrize("path", SECRET)
def test_secret_files_are_known_by_their_paths(held, path: str) -> None:
    assert secret_reason(path, held)


@pytest.mark.parametrize("path", NOT_SECRET)
def test_files_that_are_not_secret(held, path: str) -> None:
    assert secret_reason(path, held) is None


@pytest.mark.parametrize("path", PROTECTED)
def test_protected_files_are_known_by_their_paths(held, path: str) -> None:
    assert protected_reason(path, held)


@pytest.mark.parametrize("path", NOT_PROTECTED)
def test_files_that_may_be_changed(held, path: str) -> None:
    assert protected_reason(path, held) is None


def test_a_workspace_below_a_system_folder_is_still_a_workspace(make) -> None:
    held = make.policy(workspace="/usr/src/app", home="/root")
    assert protected_reason("/usr/src/app/main.py", held) is None
    assert protected_reason("/usr/src/app/.git/hooks/x", held)
    assert protected_reason("/usr/src/other/main.py", held)
    assert secret_reason("/root/.ssh/id_rsa", held)


@pytest.mark.parametrize(
    "name",
    [
        ".swp" * 60,
        "." * 100 + "x" + ".swp" * 35,
        "~" * 250,
        "#" * 250,
        ".bak" * 63,
        ".key" * 100_000,
        "x" * 200_000 + ".env",
        "a.1" * 80,
    ],
)
def test_no_name_takes_time(held, name: str) -> None:
    began = time.process_time()
    secret_reason(f"/ws/{name}", held)
    assert time.process_time() - began < 0.5


DENIED = {
    "deny_read": ("*.pem", "private/**", "~/diary", "/srv/data"),
    "allow_read": ("tests/**", "docs/sample.key", "private/**"),
}


@pytest.mark.parametrize(
    "path",
    [
        "/ws/a.pem", "/ws/A.PEM", "/srv/x/b.pem", "/ws/private", "/ws/private/a", "/ws/Private/A",
        "/home/ada/diary/x", "/srv/data/x", "/srv/DATA", "/ws/tests/a.pem", "/ws/private/x.key", "/ws/.env",
        "/ws/docs/other.key", "/ws/docs/Sample.key", "/home/ada/.ssh/x", "/keys/x", "/ws/tests/.ssh/id_rsa",
        "/ws/priv\u200bate/a",
    ],
)  # fmt: skip
def test_what_the_person_says_is_not_read(make, path: str) -> None:
    assert secret_reason(path, make.policy(secret_paths=("/keys",), **DENIED))


@pytest.mark.parametrize(
    "path",
    [
        "/ws/tests/server.key",
        "/ws/tests/.env",
        "/ws/tests/deep/id_rsa",
        "/ws/docs/sample.key",
        "/ws/a.pem.md",
        "/ws/privately/a",
        "/srv/database",
        "/home/bob/diary",
        "/home/ada/diaries",
        "/ws/a.txt",
    ],
)
def test_what_the_person_says_is_read(make, path: str) -> None:
    assert secret_reason(path, make.policy(secret_paths=("/keys",), **DENIED)) is None


def test_what_is_lifted_is_never_the_data_folder_nor_what_the_person_denied(make) -> None:
    held = make.policy(
        secret_paths=("/ws/data",), deny_read=("*.key",), allow_read=("**", "*", "/ws/data/**", "*.key")
    )
    assert (
        secret_reason("/ws/data/leeward.db", held)
        and secret_reason("/ws/DATA/x", held)
        and secret_reason("/ws/a.key", held)
    )
    assert (
        secret_reason("/home/ada/.ssh/id_rsa", held)
        and secret_reason("/etc/shadow", held)
        and secret_reason("/proc/self/environ", held)
    )
    assert secret_reason("/ws/.env", held) is None


FOLDED_SECRET = [
    "/KEYS/x",
    "/home/ADA/.SSH/id_rsa",
    "/HOME/ada/.aws/x",
    "/ws/.s\u200bsh/x",
    "/ETC/shadow",
    "/Proc/self/environ",
]
FOLDED_PROTECTED = [
    "/APP/x",
    "/ws/.G\u200cIT/hooks/x",
    "/home/Ada/.BASHRC",
    "/home/ada/.Config/Fish/x",
    "/ETC/hosts",
    "/ws/.leeward\ufeff/x",
]


@pytest.mark.parametrize("path", FOLDED_SECRET)
def test_other_spellings_are_as_secret(held, path: str) -> None:
    assert secret_reason(path, held)


@pytest.mark.parametrize("path", FOLDED_PROTECTED)
def test_other_spellings_are_as_protected(held, path: str) -> None:
    assert protected_reason(path, held)


def test_the_places_that_hold_secrets_or_stay_as_they_are_can_be_listed(held) -> None:
    assert {"/keys", "/home/ada/.ssh", "/home/ada/.mozilla"} <= set(secret_places(held))
    assert {"/app", "/ws/.git", "/ws/.leeward", "/home/ada/.bashrc", "/home/ada/.config/fish"} <= set(
        protected_places(held)
    )
    assert all(secret_reason(f"{place}/x", held) for place in secret_places(held))
    assert all(protected_reason(place, held) for place in protected_places(held))
