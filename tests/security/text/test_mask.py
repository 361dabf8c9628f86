"""Masks: equal for equal values, stable when masked again, and no cover for a secret."""

import base64
import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.security.text import Redactor, mask, mask_form, mask_of, redact_text, use_mask_key
from leeward.security.text.secrets import mask_names
from loading import rows_beside

OWN = "fake-known+Value 9/z"
TOKEN = "ghp_" + "FAKEfake" * 4
FORMS = (
    OWN, OWN[::-1], OWN.encode().hex(), OWN.encode().hex().upper(), "fake-known%2BValue%209%2Fz",
    "fake-known%2bValue+9%2fz", *(base64.b64encode((b"x" * n) + OWN.encode()).decode() for n in range(3)),
)  # fmt: skip
LINES = rows_beside(str(Path(__file__).with_name("test_assigned.py")))["secret"]
PIECE = st.sampled_from(
    [*LINES, *FORMS, TOKEN, mask_of("password", "x"), "[REDACTED:", "password=", " ", "\n"]
) | st.text("ab=:'\"[]{}", max_size=4)
PIECES = st.lists(PIECE, max_size=6).map("".join)
ROWS = st.lists(PIECE, max_size=6).map("\n".join)


@pytest.fixture(autouse=True)
def fixed_key(monkeypatch):
    monkeypatch.setattr(mask, "_key", b"a key of the tests")


def digits(text: str) -> set[str]:
    return {found[0][-5:-1] for found in mask_form().finditer(text)}


def test_a_known_value_has_one_mask_in_every_form():
    for form in FORMS:
        got = redact_text(f"<{form}>", [OWN])
        assert mask_of("known-secret", OWN) in got, form
    assert mask_of("known-secret", OWN) != mask_of("known-secret", OWN + "x")


def test_a_value_has_the_same_digits_whatever_assigns_it():
    value = "k3J9xQ2mZ7vB4nL8"
    lines = (f"api_key = '{value}'", f"X_SECRET={value}", f'"token": "{value}"', f"--client-secret {value}")
    assert len({digits(redact_text(line)).pop() for line in lines}) == 1
    assert digits(redact_text(lines[0])) != digits(redact_text(lines[0].replace("k3", "k4")))
    headers = (f"Authorization: Bearer {value}", f'"authorization" : "bearer {value}"')
    assert len({digits(redact_text(line)).pop() for line in headers}) == 1


def test_another_installation_has_other_masks():
    before = redact_text(TOKEN)
    use_mask_key(b"another")
    assert digits(redact_text(TOKEN)) != digits(before)


@given(ROWS)
@example(f"password=[REDACTED:password:ab12]{TOKEN}")
@example("https://u:[REDACTED:known-secret:ab12]@h/")
@example(f"-u {OWN}:x'{OWN}' secret")
def test_what_was_masked_is_left_alone_the_second_time(text):
    once = redact_text(text, [OWN, "secret"])
    assert redact_text(once, [OWN, "secret"]) == once


@given(PIECES, st.lists(st.integers(1, 40), max_size=30))
def test_masks_do_not_depend_on_where_the_text_was_cut(text, sizes):
    redactor, out, start = Redactor([OWN]), [], 0
    for size in sizes:
        out.append(redactor.feed(text[start : start + size]))
        start += size
    assert "".join((*out, redactor.flush(text[start:]))) == redact_text(text, [OWN])


@pytest.mark.parametrize("kind", ["password", "known-secret", "x"])
def test_a_mask_that_somebody_wrote_hides_nothing(kind):
    """Neither as its kind, nor before or behind it, nor as a word that makes a placeholder of the value."""
    forged = f"[REDACTED:{kind}:ab12]"
    for text in (
        f"{forged}{OWN}", f"[REDACTED:{OWN}:ab12]", f"[REDACTED:password:{OWN}]", f"{OWN}{forged}",
        f'password = "{forged}{OWN.replace(" ", "")}"', f"[REDACTED:{kind}:{TOKEN}]", f"{forged}{TOKEN}",
    ):  # fmt: skip
        got = redact_text(text, [OWN, OWN.replace(" ", "")])
        assert OWN not in got and TOKEN not in got and OWN.replace(" ", "") not in got, text
    assert "hunter2xyz9" not in redact_text(f'password = "{forged}hunter2xyz9"')
    assert "hunter2xyz9" not in redact_text('password = "[REDACTED]hunter2xyz9"')


def test_every_kind_is_a_word_of_its_own():
    assert all(re.fullmatch("[a-z0-9-]{1,40}", name) for name in mask_names())
