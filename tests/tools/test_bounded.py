"""Lookups for a verdict take a counted number of steps, whatever is on the disk."""

from __future__ import annotations

import os
import sys
from fnmatch import fnmatchcase

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leeward.security.kinds import Wanted
from leeward.security.policy import Policy
from leeward.tools import survey as bounded
from leeward.tools.files import Guard, HardLinks, guard, states
from leeward.tools.survey import NamePattern, TooMuch, Work, followed, looked_up

LONG = "a" * 200


def facts(folder, work=None, **wanted):
    return looked_up(Wanted(**wanted), Policy(str(folder), "/home/ada"), "/usr/bin:/bin", work)


def spent(pattern: str, name: str) -> tuple[bool, int]:
    work = Work()
    return NamePattern(pattern).matches(name, work), bounded.MOST_STEPS - work.left


# Every one of these took minutes or longer where each star was tried at every place.
@pytest.mark.parametrize(
    "pattern",
    [
        "*a" * 6 + "b",
        "*a" * 60 + "b",
        "*a?" * 40 + "*b",
        "?*" * 90 + "b",
        "*[a-z]*" * 30 + "b",
        "*" * 300 + "b",
    ],
)
def test_a_long_name_is_held_against_a_row_of_stars_in_counted_steps(pattern):
    found, steps = spent(pattern, LONG)
    assert not found and steps < 2000
    assert spent(pattern, LONG[:190] + "b" * 10)[0] is fnmatchcase(LONG[:190] + "b" * 10, pattern)


@pytest.mark.parametrize(("piece", "name"), [("[", "["), ("[:", "[:"), ("\\[", "["), ("[][]", "x")])
def test_a_pattern_of_brackets_alone_is_read(piece, name):
    found, steps = spent(piece * (8000 // len(piece)), "x")
    assert not found and steps <= 1000
    assert spent(piece * 20, name * 20)[0] and not spent(piece * 20, name * 20 + "x")[0]


def test_a_set_of_brackets_stands_for_one_character():
    for pattern in ("[!" * 4000 + "]", "[[:a:]" * 1300 + "]"):
        assert [spent(pattern, name)[0] for name in ("x", "xx")] == [True, False]


def test_the_verdict_does_not_wait_for_a_long_name(tmp_path):
    (tmp_path / LONG).touch()
    (tmp_path / "aaaaaab").touch()
    pattern = f"{tmp_path}/*a*a*a*a*a*ab"
    assert facts(tmp_path, matches=(pattern,)).matches == {pattern: (f"{tmp_path}/aaaaaab",)}


def test_all_patterns_of_a_call_share_one_amount_of_work(tmp_path):
    for number in range(50):
        (tmp_path / f"a{number}").touch()
    patterns = tuple(f"{tmp_path}/a{number}*" for number in range(20))
    found = facts(tmp_path, Work(300), matches=patterns).matches
    assert found[patterns[0]] and found[patterns[-1]] is None


def test_the_parts_of_a_pattern_that_are_spelled_out_are_work_too(tmp_path):
    work = Work()
    pattern = f"{tmp_path}/" + "ab/" * 1340
    assert facts(tmp_path, work, matches=(pattern,)).matches == {pattern: ()}
    assert bounded.MOST_STEPS - work.left > 1340


def test_links_are_followed_as_far_as_a_kernel_does(tmp_path):
    """A farm of links, each of which goes through many folders: nothing on a disk may multiply."""
    top = tmp_path.resolve()
    (top / "d").mkdir()
    for number in range(100):
        target = f"l{number + 1}" + "/d/.." * 600 if number < 99 else "d"
        (top / f"l{number}").symlink_to(target)
    work = Work()
    assert followed(f"{top}/l0", work) is None and bounded.MOST_STEPS - work.left < 60_000
    with pytest.raises(OSError):
        (top / "l0").stat()
    assert followed(f"{top}/l99", Work()) == f"{top}/d"
    many = tuple(f"{top}/{'./' * number}l0" for number in range(200))
    assert facts(top, real=(*many, f"{top}/d")).real in ({}, {f"{top}/d": f"{top}/d"})


def test_a_path_longer_than_any_disk_holds_is_not_followed_for_ever():
    with pytest.raises(TooMuch):
        followed("/x" * 500_000, Work())
    assert followed("/x" * 2000, Work()) == "/x" * 2000


def test_links_that_lead_in_circles_lead_nowhere(tmp_path):
    top = tmp_path.resolve()
    for name, target in {"a": "b", "b": "a", "self": "self", "in": "in/x", "up": "."}.items():
        (top / name).symlink_to(target)
    for name in ("a", "b/x", "self", "in", "in/y"):
        assert followed(f"{top}/{name}", Work()) is None
    assert followed(f"{top}/up/up/up/x", Work()) == f"{top}/x"


PARTS = st.lists(st.sampled_from(["d", "f", "out", "in", "gone", "x", "..", ".", "", "deep"]), max_size=7)


@given(PARTS)
@settings(max_examples=settings().max_examples * 3)
def test_where_a_path_leads_is_what_the_library_says(tmp_path_factory, parts):
    top = tmp_path_factory.getbasetemp().resolve() / "followed"
    if not top.exists():
        (top / "d" / "deep").mkdir(parents=True)
        (top / "f").touch()
        for name, target in {"out": "/etc", "in": "d/deep", "gone": "nowhere/x", "d/x": "../f"}.items():
            (top / name).symlink_to(target)
    path = f"{top}/{'/'.join(parts)}"
    assert followed(path, Work()) == os.path.realpath(path)


def test_a_path_in_a_folder_that_may_not_be_entered_leads_nowhere(tmp_path, as_nobody):
    top = tmp_path.resolve() / "ws"
    (top / "shut").mkdir(parents=True)
    (top / "shut").chmod(0)
    with as_nobody(top):
        assert followed(f"{top}/shut/x", Work()) is None


def test_fifos_and_devices_are_looked_at_and_not_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    found = facts(tmp_path, matches=(f"{tmp_path}/*",), real=("/dev/tty",))
    assert found.matches[f"{tmp_path}/*"] == (f"{tmp_path}/pipe",)
    found = states([f"{tmp_path.resolve()}/pipe", "/dev/zero"], Policy(str(tmp_path), "/home/ada"))
    assert all(state.content is None for state in found.values())


def test_folders_without_files_count_where_secret_files_are_looked_for(tmp_path, monkeypatch):
    for number in range(60):
        (tmp_path / str(number) / "sub").mkdir(parents=True)
    listed = []
    monkeypatch.setattr(guard, "MOST_ENTRIES", 40)
    monkeypatch.setattr(
        guard, "_entries", lambda folder, most, real=guard._entries: listed.append(most) or real(folder, most)
    )
    assert list(guard._files(str(tmp_path))) == [str(tmp_path)]
    assert len(listed) <= 40 and max(listed) <= 40
    (tmp_path / "file").touch()
    os.link(tmp_path / "file", tmp_path / "other")
    HardLinks(Guard(Policy(str(tmp_path), str(tmp_path)))).secret_name(os.lstat(tmp_path / "file"))


def test_files_that_are_much_together_are_known_by_size_and_times(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[states.__module__], "_MOST_TOGETHER", 25)
    top = tmp_path.resolve()
    for number in range(4):
        (top / str(number)).write_text("ten bytes.")
    found = states([f"{top}/{number}" for number in range(4)], Policy(str(top), "/home/ada"))
    assert [state.content is not None for state in found.values()] == [True, True, False, False]
    assert all(state.mark for state in found.values())


def test_work_that_is_done_is_done():
    work = Work(2)
    work.spend(2)
    with pytest.raises(TooMuch):
        work.spend()
