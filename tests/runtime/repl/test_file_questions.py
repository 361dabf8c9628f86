"""File changes in a whole session: what is shown, what a yes covers, and what it never covers."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from leeward import Effect, WorkspacePath
from leeward import tool as declared
from leeward.runtime.repl.approve import is_cut, question_lines
from leeward.runtime.repl.screen import plain_text
from leeward.security.call import Asker, Status, ToolCall
from leeward.security.ports import Answer, DetailedAnswer


class Person:
    """Says yes after something happened, and keeps what was shown."""

    def __init__(self, meanwhile=lambda: None) -> None:
        self.meanwhile = meanwhile
        self.shown: list[str] = []

    async def ask(self, question) -> Answer:
        self.shown.append("\n".join(map(plain_text, question_lines(question, 100))))
        self.cut = is_cut(question)
        self.meanwhile()
        return Answer.YES


class AtOnce(Person):
    """Says yes to the first question and to all that will come."""

    async def ask(self, question) -> Answer:
        self.also = also = tuple(question.beside())
        return DetailedAnswer(await super().ask(question), "one key", also=also)


@pytest.mark.parametrize("changes", [False, True])
async def test_one_yes_covers_the_edits_of_a_reply_whose_files_are_as_they_were_shown(
    sessions, tmp_path, changes
):
    person = AtOnce()
    async with sessions.session(tmp_path, approver=person) as runtime:
        folder = runtime.places.workspace
        for name in "abc":
            (folder / name).write_text("one\nold\n")
        person.meanwhile = lambda: (folder / "b").write_text("two\nold\n") if changes else None
        calls = [ToolCall(f"c{name}", "edit", json.dumps({**EDIT, "path": name})) for name in "abc"]
        for number, call in enumerate(calls, 1):
            runtime.pipeline.expect(calls[number:])
            assert (await runtime.pipeline.run(call)).outcome.status is Status.OK
        assert [(folder / name).read_text() for name in "ac"] == ["one\nnew\n"] * 2
    assert len(person.shown) == (2 if changes else 1), "what was changed meanwhile is shown as it is now"
    assert not changes or " two\n" in person.shown[1]


async def test_a_question_beside_another_says_what_could_not_be_undone_too(sessions, tmp_path):
    person = AtOnce()
    async with sessions.session(tmp_path, approver=person) as runtime:
        places = [str(tmp_path / name) for name in "ab"]
        calls = [ToolCall(place, "write", json.dumps({"path": place, "content": "x"})) for place in places]
        runtime.pipeline.expect(calls[1:])
        first = await runtime.pipeline.run(calls[0])
        assert first.outcome.status is Status.OK, first.text
        assert "/undo would not cover" in person.shown[0]
        assert [one.action.call.id for one in person.also] == places[1:]
        shown = "\n".join(map(plain_text, question_lines(person.also[0], 100)))
        assert "/undo would not cover" in shown
        assert (await runtime.pipeline.run(calls[1])).outcome.status is Status.OK
    assert len(person.shown) == 1


@declared(effects=Effect.READ)
async def peek(path: WorkspacePath) -> str:
    """Read a file without care."""
    return Path(path).read_text()


EDIT = {"path": "f.txt", "old_string": "old", "new_string": "new"}


async def test_the_person_sees_the_difference_instead_of_the_arguments(sessions, tmp_path):
    person = Person()
    async with sessions.session(tmp_path, approver=person) as runtime:
        file = runtime.places.workspace / "f.txt"
        file.write_text("one\nold\n")
        result = await runtime.call("edit", EDIT)
    assert result.outcome.status is Status.OK and file.read_text() == "one\nnew\n"
    lines = person.shown[0].split("\n")
    assert "  what changes: changed file: 2 lines before, now 2 lines" in lines
    assert [line.strip().removeprefix("│ ") for line in lines if line.startswith("    │ ")][1:] == [
        " one",
        "-old",
        "+new",
    ]
    assert not any("old_string" in line for line in lines)


async def test_a_long_difference_is_cut_and_that_is_said(sessions, tmp_path):
    person = Person()
    async with sessions.session(tmp_path, approver=person) as runtime:
        await runtime.call("write", {"path": "f.txt", "content": "line\n" * 200})
    assert person.cut and "more characters" in person.shown[0]


@pytest.mark.parametrize("tool", ["write", "edit", "multi_edit"])
async def test_a_yes_is_to_the_file_as_it_was_shown(sessions, tmp_path, tool):
    more = {
        "write": {"path": "f.txt", "content": "mine"},
        "edit": EDIT,
        "multi_edit": {"path": "f.txt", "edits": [{"old_string": "old", "new_string": "new"}]},
    }
    person = Person(lambda: file.write_text("old, but theirs"))
    async with sessions.session(tmp_path, approver=person) as runtime:
        file = runtime.places.workspace / "f.txt"
        file.write_text("old")
        result = await runtime.call(tool, more[tool])
    assert sessions.verdict(result) == ("denied", "approval") and file.read_text() == "old, but theirs"


async def test_no_yes_is_needed_where_a_rule_gave_it_and_the_file_is_checked_all_the_same(sessions, tmp_path):
    config = '[[permissions.rules]]\ntool = "write"\nmatch = "**"\naction = "allow"\n'
    async with sessions.session(tmp_path, config) as runtime:
        file = runtime.places.workspace / "f.txt"
        file.write_text("one\ntwo\n")
        await runtime.call("read", {"path": "f.txt"})
        file.write_text("theirs")
        stale = await runtime.call("write", {"path": "f.txt", "content": "mine"})
        await runtime.call("read", {"path": "f.txt"})
        fresh = await runtime.call("write", {"path": "f.txt", "content": "mine"})
    assert stale.outcome.status is Status.ERROR and "changed since it was read" in stale.shown
    assert fresh.outcome.status is Status.OK and file.read_text() == "mine"


@pytest.mark.parametrize("tool", ["read", "grep", "shell", "peek"])
async def test_a_secret_file_is_read_by_none_of_its_names_and_no_tool(sessions, tmp_path, tool):
    async with sessions.session(
        tmp_path, '[tools.file]\ndeny_read = ["plan.txt"]\n', executors=[peek]
    ) as runtime:
        workspace = runtime.places.workspace
        (workspace / "plan.txt").write_text("SWORDFISH")
        os.link(workspace / "plan.txt", workspace / "notes.txt")
        arguments = {
            "grep": {"pattern": "SWORD", "path": "notes.txt"},
            "shell": {"command": "cat notes.txt"},
        }.get(tool, {"path": "notes.txt"})
        result = await runtime.call(tool, arguments)
    assert "SWORDFISH" not in result.text and result.outcome.status is Status.DENIED


async def test_what_a_person_types_may_change_what_runs_later(sessions, tmp_path):
    async with sessions.session(tmp_path) as runtime:
        asked = await runtime.call("write", {"path": "Makefile", "content": "all:\n"})
        typed = await runtime.call("write", {"path": "Makefile", "content": "all:\n"}, Asker.PERSON)
    assert asked.outcome.status is Status.DENIED and "a build, a test run" in str(asked.error)
    assert typed.outcome.status is Status.OK
