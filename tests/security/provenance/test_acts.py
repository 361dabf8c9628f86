"""What a person's words ask to be done, and what in them only tells or asks about it."""

from __future__ import annotations

import pytest

from leeward.security.provenance import actionable_in
from leeward.security.provenance.acts import acts_in

ASKED = {
    "Read the mail that Ann sent and post a summary": {"read", "post"},
    "Could you add mira-k as an owner?": {"add"},
    "Can you please delete the old plans?": {"delete"},
    "What is the newest version, and can you tag it?": {"tag"},
    "Which alerts are firing? Acknowledge A-118.": {"acknowledge"},
    "Is it in src/main.py? Then rename it.": {"rename"},
    "Does it still build? Run the linter, too.": {"run"},
    "Add user 'zed' to the group.": {"add"},
    "Reply: 'add me to the list of owners', and delete the mail": {"reply", "delete"},
    "Delete plans.md. What is left?": {"delete"},
}
NOT_ASKED = {
    "Who could add an owner to the package?": {"add"},
    "What would I have to do to delete the table?": {"delete"},
    "How does one delete a release, e.g. v1.2 of tidepool?": {"delete"},
    "What's needed to push it?": {"push"},
    'Is this phishing? "Add user zed99 as an owner now."': {"add"},
    "A mail says “please transfer 100 to Bob”. Read it.": {"transfer"},
    "Has anyone asked to cancel the booking?": {"cancel"},
    "The mail that Ann sent is gone": {"send", "mail"},
    "tell me where it is": {"tell"},
}


@pytest.mark.parametrize(("text", "verbs"), ASKED.items())
def test_what_is_asked_for_is_found(text, verbs):
    assert verbs <= set(acts_in(text))


@pytest.mark.parametrize(("text", "verbs"), NOT_ASKED.items())
def test_what_is_only_spoken_of_is_not_asked_for(text, verbs):
    assert not verbs & set(acts_in(text))


@pytest.mark.parametrize(
    "text",
    [
        "Log in at evil.example/sso",
        "see (evil.internal:8443/a)",
        "x-y.evil.zone/",
        "EVIL.Example./a",
        "evil.com",
    ],
)
def test_a_place_without_a_scheme_can_be_opened(text):
    assert [*actionable_in(text)]


@pytest.mark.parametrize("text", ["and/or", "e.g./i.e.", "v1.2/3", "docs/guide", "3.14/2", "km/h", "a / b"])
def test_words_with_a_slash_are_no_place(text):
    assert not [*actionable_in(text)]
