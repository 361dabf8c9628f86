"""One reading and one lookup of a call serve judging, showing and recording."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from leeward.security.action import ActionBuilder, without_secrets
from leeward.security.call import Checked
from leeward.security.command.judge import assessment
from leeward.security.kinds import KIND_KEY, Effect, Kind
from leeward.security.ports import Answer
from leeward.security.session import Decided, Egress
from leeward.security.url import Ledger
from masks import kinds

LONG = "x" * 5000


@pytest.fixture
def parsed(monkeypatch) -> list[str]:
    """Every text that is parsed as JSON from here on."""
    texts: list[str] = []
    loads = json.loads

    def counted(text, **how):
        texts.append(text)
        return loads(text, **how)

    monkeypatch.setattr(json, "loads", counted)
    return texts


def login(make, effects=Effect.READ):
    return make.spec("login", effects, kinds={"name": Kind.TEXT, "key": Kind.SECRET})


@pytest.mark.parametrize(
    "arguments",
    [
        '{"name": "ada", "key": "opensesame"}',
        f'{{"name": "{LONG}", "key": "opensesame"}}',
        '{"name": "ada", "key": "opensesame", "more": ["' + '", "'.join("abcdefgh") + '"]}',
        '{"key": "opensesame", "key": "opensesame"}',
        '{"key": "opensesame", "name": NaN}',
        '{"key": "opensesame", "name": "\\ud800"}',
        '{"key": "opensesame"',
        '["opensesame"]',
        '{"key": "opensesame", "name": ' + "[" * 70 + "]" * 70 + "}",
        '{"key": "opensesame", "name": "' + "x" * 1024 * 1024 + '"}',
        "{}",
    ],
    ids="plain long undeclared twice nan surrogate broken list deep huge empty".split(),
)
async def test_arguments_are_parsed_once_to_be_shown_judged_run_and_recorded(make, parsed, arguments):
    tool = login(make)
    desk, call = make.desk(tool), make.call("login", arguments)
    without_secrets(call.arguments, tool, call.once)
    await desk.pipeline.run(call)
    assert parsed == [arguments]
    (decided,) = desk.audit.of(Decided)
    assert "opensesame" not in decided.arguments


async def test_a_question_and_a_second_try_parse_nothing_again(make, parsed):
    desk, call = make.desk(login(make, Effect.WRITE)), make.call("login", '{"key": "opensesame"}')
    desk.says(Answer.YES)
    await desk.pipeline.run(call)
    await desk.pipeline.run(replace(call, id="c2"))
    assert len(desk.ran) == 2 and parsed == [call.arguments]


async def test_facts_of_a_command_line_are_recorded_as_they_were_looked_up(make, parsed):
    shell = make.spec("run", Effect.ALL, kinds={"line": Kind.COMMAND})
    desk = make.desk(shell)
    await desk.run("run", {"line": "cat *.txt"})
    (decided,) = desk.audit.of(Decided)
    assert decided.reading.looked_up["matches"] and parsed == [json.dumps({"line": "cat *.txt"})]


def test_what_a_check_does_to_its_arguments_changes_no_other_reading_of_the_call(make):
    def check(given):
        given.pop("key", None)
        return Checked(given)

    tool = replace(login(make), check=check)
    call = make.call("login", {"name": "ada", "key": "opensesame"})
    first, again = (ActionBuilder.of(call, {tool.name: tool}) for _ in range(2))
    assert [problem.pointer for problem in first.problems] == ["/key"]
    assert again.problems == first.problems
    assert "[secret]" in kinds(without_secrets(call.arguments, tool, call.once))


def test_the_words_of_a_call_with_other_arguments_are_its_own(make):
    tool, call = login(make), make.call("login", '{"key": "opensesame"}')
    assert json.loads(kinds(without_secrets(call.arguments, tool, call.once))) == {"key": "[secret]"}
    other = replace(call, arguments='{"name": "bob", "key": "other"}')
    shown = kinds(without_secrets(other.arguments, tool, other.once))
    assert json.loads(shown) == {"name": "bob", "key": "[secret]"}


def test_a_kind_declared_below_a_reference_is_hidden_by_what_was_parsed(make):
    schema = {"type": "object", "additionalProperties": {"type": "string", KIND_KEY: Kind.SECRET}}
    tool = make.spec("login", schema=schema)
    call = make.call("login", {"a": "opensesame"})
    assert "opensesame" not in without_secrets(call.arguments, tool, call.once)


@pytest.fixture
def looked_up(monkeypatch) -> list[str]:
    """Every URL that the ledger is asked about from here on."""
    urls: list[str] = []
    lookup = Ledger.lookup

    def counted(ledger, url):
        urls.append(url.text)
        return lookup(ledger, url)

    monkeypatch.setattr(Ledger, "lookup", counted)
    return urls


@pytest.mark.parametrize(
    ("url", "answer", "rule"),
    [
        ("https://a.example/x", Answer.NOBODY, "person"),
        ("https://a.example/x?more=1", Answer.YES, "person; the person"),
        ("https://a.example/x?more=1", Answer.NO, "added_query"),
        ("https://other.example/", Answer.NOBODY, "not_provided"),
    ],
)
async def test_what_a_url_stands_on_is_looked_up_once_for_verdict_and_record(
    make, looked_up, url, answer, rule
):
    tool = make.spec("get", Effect.BRING_IN, kinds={"url": Kind.URL})
    desk = make.desk(tool, start=make.session(said=["https://a.example/x"]))
    desk.says(answer)
    await desk.run("get", {"url": url})
    (attempt,) = desk.audit.of(Egress)
    assert attempt.rule == rule
    # A question has the call judged when it is raised, when its turn comes, and after the answer.
    judged = {Answer.NOBODY: 1, Answer.NO: 2, Answer.YES: 3}[answer]
    assert [text for text in looked_up if text == url] == [url] * judged


async def test_a_question_about_a_command_has_its_line_assessed_once_for_each_reading(make, monkeypatch):
    made: list[str] = []
    assessed = assessment.Assessment.__init__

    def counted(found, *given):
        made.append("")
        assessed(found, *given)

    monkeypatch.setattr(assessment.Assessment, "__init__", counted)
    desk = make.desk(make.spec("run", Effect.EXECUTE, kinds={"line": Kind.COMMAND}))
    desk.says(Answer.ALWAYS)
    await desk.run("run", {"line": "make all"})
    (decided,) = desk.audit.of(Decided)
    assert decided.allowed and decided.always
    # Each of the two readings assesses the line to learn what to look up, and with what was found.
    assert len(made) == 4
