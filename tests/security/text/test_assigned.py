"""Secrets without a shape of their own are found by their names, and code about secrets is left alone."""

import random
import string
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leeward.security import text as package
from leeward.security.text import Redactor, mask_form, mask_of, redact_text
from loading import ROOT, load_module, rows_beside
from masks import masked

ROWS = rows_beside(__file__)
CORPUS = load_module(ROOT / "bench" / "redaction.py")
RULES = Path(package.__file__).with_name("secrets.toml")
PREFIXED = tomllib.loads(RULES.read_text(encoding="utf-8"))["prefixed"]
CLASSES = {
    "0-9": string.digits,
    "A-Z": string.ascii_uppercase,
    "a-z": string.ascii_lowercase,
    "a-f": "abcdef",
    "A-F": "ABCDEF",
}


def chars_of(expression):
    """Return the characters of the inside of a character class."""
    chars = ""
    while expression:
        known = CLASSES.get(expression[:3])
        chars += known or expression[0]
        expression = expression[3 if known else 1 :]
    return chars


def made(line, length, seed=1):
    """Return characters of a rule's kind, one of those it needs among them."""
    chance = random.Random(seed)
    chars = "".join(char for char in chars_of(line["chars"]) if char.isalnum())
    needed = chance.choice(chars_of(line["needs"])) if "needs" in line else chance.choice(chars)
    return needed + "".join(chance.choices(chars, k=length - 1))


@pytest.mark.parametrize("line", ROWS["secret"])
def test_what_is_assigned_to_the_name_of_a_secret_is_masked(line):
    assert mask_form().search(redact_text(line))


@pytest.mark.parametrize("line", ROWS["ordinary"])
def test_code_and_words_about_secrets_are_left_alone(line):
    assert redact_text(line) == line


def test_the_rows_find_the_obvious_mistake(planted):
    wrong = planted("assigned").redact_text
    assert any(wrong(line) == line for line in ROWS["secret"])
    assert any(wrong(line) != line for line in ROWS["ordinary"])


@pytest.mark.parametrize("name", sorted(PREFIXED))
def test_every_prefix_has_a_length_from_which_on_it_is_a_credential(name):
    line = PREFIXED[name]
    for prefix in line["prefix"]:
        value = made(line, line["min"])
        assert mask_form().search(redact_text(f"see {prefix}{value} there"))
        assert f"[{name}]" not in masked(f"see {prefix}{value[:-1]} there")


def test_of_secrets_written_in_every_form_few_are_left():
    lines = list(CORPUS.secret_lines(seed=7))
    left = [line for _, line, secret in lines if secret in redact_text(line)]
    assert len(lines) > 800
    assert len(left) <= 0.15 * len(lines), left[:20]


def test_of_hashes_ids_and_placeholders_none_is_altered():
    lines = [line for _, line in CORPUS.other_lines(seed=7)]
    assert len(lines) > 1300
    assert [line for line in lines if redact_text(line) != line] == []


def test_only_the_value_is_masked_and_all_of_it():
    value = "k3J9xQ2mZ7vB4nL8" * 40
    assert masked(f'api_key = "{value}"') == 'api_key = "[secret]"'
    assert masked(f"DB_PASSWORD={value}\nnext") == "DB_PASSWORD=[password]\nnext"


def test_a_known_value_is_found_in_hex_and_backwards():
    known = "fake-known+Value 9"
    for form in (known.encode().hex(), known.encode().hex().upper(), known[::-1]):
        assert redact_text(f"<{form}>", [known]) == f"<{mask_of('known-secret', known)}>"


LINES = st.sampled_from([*ROWS["secret"], *ROWS["ordinary"], "", "x" * 400, "ghp_" + "Fake" * 9])


@given(
    st.lists(LINES, max_size=6), st.sampled_from(["\n", " ", ", "]), st.lists(st.integers(0, 90), max_size=30)
)
def test_the_result_does_not_depend_on_where_the_pieces_are_cut(lines, joint, sizes):
    text = joint.join(lines)
    redactor, out, start = Redactor(), [], 0
    for size in sizes:
        out.append(redactor.feed(text[start : start + size]))
        start += size
    assert "".join([*out, redactor.flush(text[start:])]) == redact_text(text)


@pytest.mark.parametrize(
    "unit",
    [
        "token=a1b2c3d4 ",
        "password: ",
        "key=",
        'secret("',
        "api_key",
        "the token is ",
        "datadog: ",
        "a=b;pwd=",
        "ab_cd-",
        "redis-cli ",
        "x.login(a,",
        "bob:x | chpasswd",
    ],
)
def test_hostile_texts_cost_work_that_grows_with_their_length(unit, monkeypatch):
    """Each place is read once: twice the text is twice the looks."""
    from leeward.security.text import masking  # noqa: PLC0415 — the private walk is counted

    looks = []
    before = masking._Walk._at
    monkeypatch.setattr(
        masking._Walk, "_at", lambda self, place, start: looks.append(1) or before(self, place, start)
    )
    counts = []
    for size in (20_000, 40_000):
        looks.clear()
        redact_text(unit * (size // len(unit)))
        counts.append(len(looks))
    assert counts[1] <= 2.2 * counts[0] + 50
