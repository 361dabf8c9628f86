"""Expectations of a script: parsing, and comparison with a step."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leeward.runtime.script.expect import Happened, found_instead, read_expectation, unnamed_denials
from leeward.security.call import Outcome, Status, ToolCall, ToolResult
from leeward.security.outcome import Category

OK, DENIED, ERROR = Status.OK, Status.DENIED, Status.ERROR


def result(tool, status=OK, category=None, gate=None, exit_code=None, shown=""):
    return ToolResult(ToolCall("c", tool, "{}"), Outcome(status, category, gate, exit_code), shown, shown)


def asked(tool):
    return result(tool, DENIED, Category.CONFIRMATION_REQUIRED, "permissions")


READ, SHELL = result("read", shown="seven"), result("shell", exit_code=0)
REFUSED = result("fetch", DENIED, Category.POLICY_BLOCKED, "grounding")
BROKEN = result("fetch", ERROR, Category.NETWORK_ERROR)
LATE = result("shell", Status.TIMEOUT, Category.TIMEOUT)


@pytest.mark.parametrize(
    ("text", "happened", "met"),
    [
        ("denied fetch", [REFUSED], True),
        ("denied fetch grounding", [READ, REFUSED], True),
        ("denied fetch hosts", [REFUSED], False),
        ("denied read", [REFUSED, READ], False),
        ("denied fetch", [BROKEN], False),
        ("denied shell", [asked("shell")], True),
        ("denied shell permissions", [asked("shell")], True),
        ("denied write approval", [result("write", DENIED, Category.POLICY_BLOCKED, "approval")], True),
        ("denied write audit", [result("write", DENIED, Category.POLICY_BLOCKED, "audit")], True),
        ("asked fetch", [result("fetch", ERROR, Category.CONFIRMATION_REQUIRED)], False),
        ("denied fetch", [], False),
        ("allowed read", [READ], True),
        ("allowed fetch", [BROKEN], True),
        ("allowed fetch", [REFUSED], False),
        ("allowed shell", [asked("shell")], False),
        ("asked shell", [asked("shell")], True),
        ("asked shell", [SHELL], False),
        ("asked fetch", [REFUSED], False),
        ("error network_error", [BROKEN], True),
        ("error timeout", [LATE], True),
        ("error network_error", [REFUSED, READ], False),
        ("error policy_blocked", [REFUSED], False),
        ("exit 0", [SHELL], True),
        ("exit 0", [result("shell", exit_code=1), SHELL], True),
        ("exit 1", [result("shell", exit_code=1), SHELL], False),
        ("exit 0", [READ], False),
        ("exit 0", [], False),
    ],
)
def test_calls_are_held_against_it(text, happened, met):
    found = found_instead(read_expectation(text, 1), Happened(results=happened))
    assert (found is None) is met
    assert found != ""


def test_texts_and_records_are_searched_for_the_exact_words():
    happened = Happened(texts=["the ferry leaves", "at seven"], audit=["denied by grounding"])
    assert found_instead(read_expectation('text "ferry leaves"', 1), happened) is None
    assert found_instead(read_expectation("text seven", 1), happened) is None
    assert found_instead(read_expectation('text "Ferry"', 1), happened) == "the ferry leaves\nat seven"
    assert found_instead(read_expectation('text "grounding"', 1), happened) is not None
    assert found_instead(read_expectation('audit "by grounding"', 1), happened) is None
    assert found_instead(read_expectation("audit seven", 1), happened) == "denied by grounding"
    assert found_instead(read_expectation("text x", 1), Happened()) == "nothing"


def test_what_was_found_is_told_in_the_same_words():
    found = found_instead(
        read_expectation("allowed write", 1), Happened(results=[READ, REFUSED, asked("shell"), BROKEN])
    )
    assert (
        found
        == "allowed read; denied fetch grounding; asked shell permissions; allowed fetch, error network_error"
    )
    assert found_instead(read_expectation("exit 1", 1), Happened(results=[SHELL])) == "exit 0"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "expected one of denied"),
        ("deny fetch", "did you mean denied"),
        ("denied", "takes 1 or 2"),
        ("denied fetch grounding twice", "takes 1 or 2"),
        ("denied fetch groundng", "did you mean grounding"),
        ("allowed read paths", "takes 1 word"),
        ("text two words", "quotes"),
        ('text ""', "empty"),
        ('text "open', "not closed"),
        ("error network", "did you mean network_error"),
        ("error 5", "expected one of"),
        ("exit one", "number"),
        ("exit -1", "number"),
        ("exit ٣", "number"),
    ],
)
def test_what_cannot_be_read_is_told(text, named):
    with pytest.raises(ValueError, match=named):
        read_expectation(text, 1)


@given(st.text(max_size=80))
def test_no_text_breaks_the_reader(text):
    try:
        read = read_expectation(text, 3)
    except ValueError as error:
        assert str(error)
    else:
        assert read.line == 3 and read.value


def test_a_refusal_is_no_surprise_only_if_its_step_named_it():
    results = [READ, REFUSED, asked("shell"), BROKEN]
    read = lambda *texts: [read_expectation(text, 1) for text in texts]
    assert unnamed_denials(results, []) == [REFUSED, results[2]]
    assert unnamed_denials(results, read("denied fetch", "asked shell")) == []
    assert unnamed_denials(results, read("denied fetch grounding")) == [results[2]]
    assert unnamed_denials(results, read("denied fetch hosts", "denied shell")) == [REFUSED]
    assert unnamed_denials(results, read("text fetch", "error network_error", "allowed fetch")) == [
        REFUSED,
        results[2],
    ]
