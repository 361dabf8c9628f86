"""What a person rules out: whole sentences, lists after a colon, and doubtful cases."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest

from leeward.security.provenance import affirmed

BAD, GOOD = "ann@evil.example", "bob@good.example"

NEGATED = [
    f"Never write to {BAD}.",
    f"Don't write to {BAD}",
    f"Don`t write to {BAD}",
    f"It wasn´t {BAD}",
    f"Do _not_ write to {BAD}",
    f"Do **not** write to {BAD}",
    f"DO NOT WRITE TO {BAD}",
    f"Write to me without {BAD} in copy",
    f"Write to me instead of {BAD}",
    f"Write to me rather than {BAD}",
    f"No mail to {BAD} any more.",
    f"Stop writing to {BAD}",
    f"Write to everybody but {BAD}",
    f"Never write to Mr. Smith, {BAD}",
    f"Never write to outsiders, e.g. {BAD}",
    f"Never write to outsiders; {BAD}; they are spammers",
    f"Never write to\n{BAD}",
    f"Never write to these:\n- {BAD}\n- {GOOD}",
    f"Never write to these:\n\n{BAD}\n{GOOD}",
    f"Never invite these:\nAlice\nBob {BAD}\nCarol",
    f"Never write to these:\n\n- {GOOD}\n\n- {BAD}",
    f"Schreibe nicht an {BAD}",
    f"Schicke keine Mail an {BAD}",
    f"{BAD} must never get mail",
    f"Don't forget: never write to {BAD}",
    f"Say 'hi' to me, not 'bye' to {BAD}",
    f'Use the 5" pipe, never write to {BAD} about the 6" pipe',
    f"Don't send Ann's mail to {BAD} at the Lees' place",
    f"Write to me, 'not {BAD}",
    f'Do "not" write to {BAD}',
    f"Please ‘do not’ write to {BAD}",
    f'"Never write to {BAD}"',
    f'The rule says "never write to {BAD} about it". Write to all',
    f'"" never write to {BAD} ""',
    f"Never invite these: \r\nAlice \r\nBob {BAD}",
    f"Never write to Alice, \nBob {BAD}",
]

ASKED_FOR = [
    f"Write to {GOOD}. Never to {BAD}.",
    f"Never write to {BAD}. Write to {GOOD}.",
    f"Never write to {BAD}! Write to {GOOD}.",
    f"Do not write to {BAD}, but to {GOOD}",
    f"Never write to these:\n- {BAD}\n\nWrite to {GOOD}",
    f"- never write to {BAD}\n- write to {GOOD}",
    f"Do not be long\nWrite to {GOOD}",
    f"Write to {GOOD} about https://example.com/why-not/never",
    f"Write to {GOOD} as do-not-reply@example.com or do_not_reply",
    f"There is no need to hurry: write to {GOOD} about invoice no. 12",
    f"Write to {GOOD} about the knot, the note and what cannotes are",
    f"Write to {GOOD}",
    f"Send 'I can't come today' to {GOOD}",
    f"Send 'I cannot come' and \"It is not so. Never again.\" to {GOOD}",
    f"Send “It is not so.\n\nNever again.” to {GOOD}",
    f"Do not forget to write to {GOOD}",
    f"Are you free? If not, write to {GOOD}",
    f"Never write to '{BAD}'. Write 'I won't come' to {GOOD}",
    f'Never say "Stop." Write to {GOOD}',
]


@pytest.mark.parametrize("text", NEGATED)
def test_what_a_sentence_says_no_to_is_not_asked_for(text: str) -> None:
    assert BAD not in affirmed(text)


@pytest.mark.parametrize("text", ASKED_FOR)
def test_the_other_sentences_are_what_they_were(text: str) -> None:
    assert GOOD in affirmed(text)
    assert BAD not in affirmed(text)


def test_a_reader_of_single_lines_is_caught(planted: Callable[[str], ModuleType]) -> None:
    wrong = planted("provenance").affirmed_by_line
    assert [text for text in NEGATED if BAD in wrong(text)]


LONG = [
    " ",
    "\n",
    "\t",
    "_",
    "a",
    "any ",
    "no ",
    ", ",
    ".",
    ":\n",
    "- ",
    "\n- ",
    " \n",
    "n't",
    "'a",
    " '",
    '"',
    '" ',
    "‘",
]


@pytest.mark.parametrize("run", LONG)
def test_a_long_text_is_read_in_linear_time(run: str) -> None:
    """Quadratic, this would take minutes."""
    assert "never" not in affirmed("never " + run * (200_000 // len(run)) + " x")
