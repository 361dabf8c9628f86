"""`!expect file`: what a path may lead to, and what of a file is shown where an expectation fails."""

from __future__ import annotations

import os
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from leeward.runtime.script.expect import Happened, found_instead, read_expectation
from leeward.runtime.script.named_files import found_file
from leeward.security.policy import Policy

OFFLINE = ("--model", "offline")
KEY = "AKIA" + "IOSFODNN7EXAMPLF"
SECRET = f"[default]\naws_access_key_id = {KEY}\n"
A_LINK_OUT = "a link in this path leads out of the workspace"


@pytest.fixture
def places(tmp_path):
    """A workspace with a home and a folder beside it."""
    made = [tmp_path / name for name in ("work", "home", "beside")]
    for folder in made:
        folder.mkdir()
    (tmp_path / "home/.aws").mkdir()
    (tmp_path / "home/.aws/credentials").write_text(SECRET)
    (tmp_path / "beside/log.txt").write_text("all tests passed\n")
    return made


@pytest.fixture
def instead(places):
    """Return what is found instead of what a line expects."""
    policy = Policy(workspace=str(places[0]), home=str(places[1]))

    def compare(line, secrets=frozenset()):
        expected = read_expectation(line, 1)
        files = {expected.value: found_file(expected.value, policy, secrets)}
        return found_instead(expected, Happened(files=files))

    return compare


@pytest.mark.parametrize(
    "target",
    ["../home/.aws/credentials", "/proc/self/environ", "/proc/self/mem", "../beside/log.txt", "/dev/zero"],
)
def test_no_link_leads_out_of_the_workspace(places, instead, target):
    (places[0] / "report.txt").symlink_to(target)
    (places[0] / "out").symlink_to(Path(target).parent)
    for path in ("report.txt", f"out/{Path(target).name}"):
        for line in (f"file {path}", f'file {path} "all tests passed"', f"no-file {path}"):
            assert instead(line) == A_LINK_OUT


def test_a_link_that_stays_in_the_workspace_is_followed(places, instead):
    (places[0] / "logs").mkdir()
    (places[0] / "logs/1.txt").write_text("all tests passed\n")
    (places[0] / "report.txt").symlink_to("logs/1.txt")
    (places[0] / "latest").symlink_to(places[0] / "logs")
    for path in ("report.txt", "latest/1.txt", "logs/../report.txt", str(places[0] / "report.txt")):
        assert instead(f'file {path} "tests passed"') is None
        assert instead(f"no-file {path}") == "there is one"
        assert instead(f'file {path} "tests failed"') == "all tests passed"


def test_a_link_to_nothing_is_neither_a_file_nor_none(places, instead):
    (places[0] / "lost").symlink_to("nowhere")
    (places[0] / "loop").symlink_to("loop")
    for path, found in (
        ("lost", "a link that leads to nothing"),
        ("lost/x", "a link that leads to nothing"),
        ("loop", "it cannot be followed to a file"),
    ):
        assert instead(f"file {path}") == instead(f"no-file {path}") == found
    for path in ("nowhere", "no/where"):
        assert (instead(f"file {path}"), instead(f"no-file {path}")) == ("there is none", None)


def test_a_path_outside_is_taken_letter_by_letter(places, instead):
    (places[1] / "log.txt").write_text("all tests passed\n")
    for path in ("../beside/log.txt", str(places[2] / "log.txt"), "~/log.txt"):
        assert instead(f'file {path} "tests passed"') is None
        assert instead(f'file {path} "failed"') == "all tests passed"
    (places[2] / "link.txt").symlink_to("log.txt")
    (places[2] / "folder").symlink_to(".")
    for path in ("../beside/link.txt", str(places[2] / "folder/log.txt")):
        assert instead(f"file {path}") == A_LINK_OUT
    for path in ("~nosuchuser/x", "~root/x"):
        assert instead(f"file {path}") == "the path names another user's home"


def test_secret_files_are_not_read_under_any_name(places, instead):
    (places[0] / ".env").write_text(f"KEY={KEY}\n")
    os.link(places[0] / ".env", places[0] / "notes.txt")
    (places[0] / "link.txt").symlink_to(".env")
    for path in (".env", "notes.txt", "link.txt", "~/.aws/credentials", f"/proc/{os.getpid()}/environ"):
        found = instead(f'file {path} "KEY"')
        assert found is not None and found.startswith("not read: "), path
        assert KEY not in found
        # That it exists says nothing of what it holds.
        assert instead(f"file {path}") is None
        assert instead(f"no-file {path}") == "there is one"


def test_what_is_shown_is_stripped_and_redacted(places, instead):
    (places[0] / "out.txt").write_text(
        f"{' ' * 70_000}\x1b[31mred\x1b[0m key {KEY} token our-own-value {'x' * 70_000}"
    )
    assert instead(f'file out.txt "{KEY}"') is None, "compared is what the file holds"
    shown = instead("file out.txt nothing-like-it", frozenset({"our-own-value"}))
    assert shown.startswith("red key [REDACTED:")
    assert KEY not in shown and "our-own-value" not in shown and "\x1b" not in shown
    assert len(shown) <= 301


def test_what_cannot_be_read_fails_the_expectation_of_a_text(places, instead):
    (places[0] / "folder").mkdir()
    os.mkfifo(places[0] / "pipe")
    for path in ("folder", "pipe", ".", "/"):
        assert instead(f"file {path}") is None
        assert instead(f"file {path} x").startswith("not read: ")
        assert instead(f"no-file {path}") == "there is one"
    memory = f"/proc/{os.getpid()}/mem"
    assert instead(f"file {memory} x").startswith("not read: ")


def test_no_secret_comes_into_any_answer(leeward):
    """What a hostile workspace points to is in no object, no message and no report."""
    (leeward.home / ".aws").mkdir()
    (leeward.home / ".aws/credentials").write_text(SECRET)
    (leeward.workspace / "report.txt").symlink_to(leeward.home / ".aws/credentials")
    report = leeward.home / "report.xml"
    path = leeward.script('/help\n!expect file report.txt "all tests passed"\n')
    for form in ("json", "jsonl", "text"):
        ran = leeward("--script", path, *OFFLINE, "--output", form, "--report", str(report))
        assert ran.code == 1
        assert KEY not in ran.out + ran.err + report.read_text()
        assert A_LINK_OUT in ran.out + ran.err
    assert ET.parse(report).find(".//failure") is not None
