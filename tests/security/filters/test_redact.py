"""Secrets are masked in every encoding and chunking; look-alikes are not."""

import base64
import hashlib
import json
import time
import urllib.parse
import uuid

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from leeward.security.filters import Screened, Source, redact
from leeward.security.text import Redactor, mask_of
from leeward.security.trust import Origin
from masks import kinds, masked

KNOWN = "test-key/+ünder &9081726354"
SOURCE = Source("shell", Origin.WORKSPACE, secrets=frozenset({KNOWN}))
ZEROS = "0" * 64
WORDS = "Fake" * 20
CLAIMS = base64.urlsafe_b64encode(b'{"sub":"nobody","test":true}').decode().rstrip("=")
JWT = f"eyJhbGciOiJub25lIn0.{CLAIMS}.{WORDS}"


def pem(kind="RSA ", lines=6, indent=""):
    body = [f"{indent}{'FAKEKEYFAKE+/00' * 4}FAKE" for _ in range(lines)] + [f"{indent}FAKEend=="]
    return "\n".join(
        [f"-----BEGIN {kind}PRIVATE KEY-----", *body, f"{indent}-----END {kind}PRIVATE KEY-----"]
    )


SECRETS = {
    "anthropic-key": ["sk-ant-api03-" + ZEROS],
    "aws-access-key": ["AKIA" + "EXAMPLE" * 2, "ASIAFAKEFAKEFAKEFAKE", "AKIAIOSFODNN7EXAMPLE"],
    "digitalocean-token": ["dop_v1_" + ZEROS],
    "github-token": [f"{prefix}_{WORDS[:36]}" for prefix in ("ghp", "gho", "ghu", "ghs", "ghr")],
    "github-fine-grained-token": ["github_pat_11FAKE0_" + WORDS],
    "gitlab-token": ["glpat-FAKE-000_FAKE-00000"],
    "google-api-key": ["AIza" + WORDS[:35]],
    "huggingface-token": ["hf_" + WORDS[:34]],
    "npm-token": ["npm_" + WORDS[:36]],
    "openai-key": ["sk-test-" + "0" * 32, "sk-proj-Fake_Fake-" + ZEROS],
    "openai-legacy-key": ["sk-" + WORDS[:48], "sk-" + "0" * 48],
    "pypi-token": ["pypi-AgEIcHlwaS5vcmc" + WORDS],
    "sendgrid-key": [f"SG.{WORDS[:22]}.{WORDS[:43]}"],
    "slack-token": ["xoxb-000000000000-FAKEFAKE", "xoxp-0-0-0-fakefake"],
    "stripe-key": ["sk_live_" + WORDS[:24], "rk_test_" + ZEROS[:24]],
    "telegram-bot-token": ["123456789:AA" + WORDS[:33]],
    "twilio-key": ["SK" + "0f" * 16],
    "jwt": [JWT],
    "private-key": [
        pem(), pem(""), pem("EC ", 2), pem("OPENSSH ", 40), pem("ENCRYPTED "), pem().replace("\n", "\\n"),
        pem(lines=0),
    ],
    "azure-storage-key": ["AccountKey=" + WORDS + "0/+=="],
    "bearer-token": ["Bearer " + WORDS[:15] + "0" * 20, "bearer 0123456789abcdef0123"],
    "authorization-header": ["Authorization: Basic dXNlcjpmYWtl", "AUTHORIZATION: Bearer fake.Fake~00"],
    "aws-secret-key": ["aws_secret_access_key = " + WORDS[:40]],
    "url-password": ["user:hunter2", ":p4ss"],
    "known-secret": [
        KNOWN, json.dumps(KNOWN)[1:-1], urllib.parse.quote(KNOWN, safe=""), urllib.parse.quote(KNOWN).lower(),
        urllib.parse.quote_plus(KNOWN),
        "".join(f"%{byte:02X}" for byte in KNOWN.encode()),
    ],
}  # fmt: skip

ORDINARY = [
    "", "AKIA alone, ASIA too, sk-, ghp_, xoxb-, AIza and eyJ",
    "sk-learn, task-force, risk-adjusted-return-on-capital-employed",
    "sk-learn-contrib-imbalanced-learn-toolkit-2024", "desk-" + WORDS,
    "npm_config_registry npm_lifecycle_event_very_long_name_here_1",
    hashlib.sha1(b"x").hexdigest(), hashlib.sha512(b"x").hexdigest(),
    str(uuid.uuid5(uuid.NAMESPACE_DNS, "x")),
    "sha256-" + base64.b64encode(hashlib.sha256(b"x").digest()).decode(),
    "data:image/png;base64," + base64.b64encode(bytes(range(256)) * 40).decode(),
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + WORDS[:40] + " bob@example.com",
    pem().replace("PRIVATE", "PUBLIC"), pem().replace("RSA PRIVATE KEY", "CERTIFICATE"),
    "pk_live_" + WORDS[:24], "Bearer authentication is documented elsewhere",
    "the bearer of this letter", "Authorization: Bearer authentication", "Authorization: Bearer $TOKEN",
    "Authorization: Bearer <token>", "postgres://user:${PASSWORD}@host/db",
    "https://h.example:8443/a@b?c=d:e@f", "git@github.com:owner/name.git", "http://[::1]:80/x@y",
    "time 12:34:56 @noon", "pypi-package-managers-and-how-to-publish-your-first-one",
    "hf_transformers_and_datasets_integration", "SG.module.submodule", "eyJhbGciOiJub25lIn0",
    '{"eyJ": ".eyJ"}', "00:AA:11:BB:22:CC", "glpat-is-the-prefix-of-gitlab-tokens",
    "secret_key = load_the_secret_key_from_the_environment()", "api-key: your-api-key-goes-here-in-the-file",
    "x" * 5000,
]  # fmt: skip


def failures(candidate):
    found = [
        f"bothered: {text[:60]!r}" for text in ORDINARY if candidate(Screened(text), SOURCE).text != text
    ]
    for name, texts in SECRETS.items():
        for text in texts:
            before, after = ("https://", "@h.example/") if name == "url-password" else ("see (", ") there")
            got = kinds(candidate(Screened(before + text + after), SOURCE).text)
            if got != f"{before}[{name}]{after}":
                found.append(f"{name} {text[:40]!r}: {got[:80]!r}")
    return found


def test_the_filter_answers_the_tables():
    assert failures(redact) == []


def test_the_tables_find_the_obvious_mistake(planted):
    assert failures(planted("redact").redact) != []


def test_a_notice_counts_secrets_by_kind_and_names_none():
    screened = redact(Screened(f"{KNOWN} {JWT}\n{JWT}", ("kept",)), SOURCE)
    assert screened.notices == ("kept", "masked as secret: 2 × jwt, 1 × known-secret")
    assert redact(Screened("nothing"), SOURCE).notices == ()


def test_base64_that_holds_a_known_value_is_masked_from_there_on_in_each_alignment():
    for before in ("", "u", "us", "user:"):
        for encode in (base64.b64encode, base64.urlsafe_b64encode, base64.encodebytes):
            encoded = encode((before + KNOWN * 5 + "!").encode()).decode()
            got = masked(f"<{encoded}> done", [KNOWN])
            assert "[known-secret]" in got
            assert len(got) < len("<[known-secret]\n> done") + 2 * len(before) + 2
            assert got.endswith("> done")


def test_a_known_value_of_many_lines_is_masked_line_by_line():
    got = masked("key: |\n  first line\n  second line\nend", ["first line\nsecond line\n"])
    assert got == "key: |\n  [known-secret]\n  [known-secret]\nend"


def test_a_long_known_value_is_masked_whole():
    value = "".join(chr(97 + index * 7 % 26) for index in range(1000)) + "XYZ"
    got = masked(f"<{value}>", [value])
    assert set(got.split("[known-secret]")) <= {"<", ">", ""}


def test_of_two_known_values_the_longer_is_masked():
    assert masked("hunter2hunter2", ["hunter2", "hunter2hunter2"]) == "[known-secret]"


def test_short_known_values_would_be_found_in_ordinary_words():
    assert masked("a test of it", ["test", "", " it  "]) == "a test of it"


def test_a_known_value_is_masked_within_a_credential_of_another_shape():
    assert "$0123456789" not in masked("Bearer abcdefgh01$0123456789", ["abcdefgh01$0123456789"])


@pytest.mark.parametrize("prefix", ["  {n}\t", "deploy/key.pem:{n}:", "> ", "+", '"', "    "])
def test_a_key_is_masked_whatever_a_tool_writes_before_its_lines(prefix):
    lines = [
        prefix.format(n=number) + line for number, line in enumerate(["before", *pem().split("\n"), "after"])
    ]
    got = masked("\n".join(lines))
    assert "FAKE" not in got
    assert got.startswith(lines[0])
    assert got.endswith(lines[-1])


def test_a_key_that_is_cut_off_is_masked_as_far_as_it_goes_and_no_further():
    text = "\n".join(pem().split("\n")[:4])
    assert (
        masked(f"{text}\n\nordinary words follow here\n") == "[private-key]\n\nordinary words follow here\n"
    )
    assert masked('if "-----BEGIN PRIVATE KEY-----" in text: go()') == 'if "[private-key]" in text: go()'


@pytest.mark.parametrize("name", sorted(set(SECRETS) - {"url-password", "known-secret"}))
def test_an_escape_before_a_secret_is_not_a_part_of_its_name(name):
    for text in SECRETS[name]:
        for before in ("x\\n", "a\\t", "\\u0022", "key%3D", "key=", "'", "TOKEN_"):
            if (name, before) != ("jwt", "TOKEN_"):
                assert masked(f"{before}{text} z") == f"{before}[{name}] z"


def test_a_token_glued_to_its_name_loses_claims_and_signature():
    assert masked(f"session_{JWT} z") == f"session_{JWT.partition('.')[0]}[jwt-claims] z"


def in_pieces(text, sizes, known=(KNOWN,)):
    redactor, out, start = Redactor(known), [], 0
    for size in sizes:
        out.append(redactor.feed(text[start : start + size]))
        start += size
    out += [redactor.feed(text[start:]), redactor.flush()]
    return "".join(out), redactor.notices


EVERYTHING = [text for texts in SECRETS.values() for text in texts] + [
    base64.encodebytes(KNOWN.encode() * 9).decode()
]
SNIPPETS = st.sampled_from(
    [
        *EVERYTHING,
        "https://u:p@h",
        "\n",
        " ",
        "-",
        "a",
        "=",
        "eyJ",
        ".eyJ",
        "-----BEGIN PRIVATE KEY-----",
        WORDS,
        "%",
        "sk-",
        "\u200b",
        "\\",
        "\\u{",
        r"\u{200b}",
        "200b}",
        "m\u0301",
        "\ufe0f",
    ]
)
TEXTS = st.lists(SNIPPETS | st.text(max_size=5), max_size=8).map("".join)


@pytest.mark.parametrize("text", EVERYTHING)
def test_no_cut_hides_a_secret(text):
    whole = in_pieces(f"a {text} b\nc", [])
    step = max(1, len(text) // 40)
    for cut in range(0, len(text) + 4, step):
        assert in_pieces(f"a {text} b\nc", [cut]) == whole


@given(TEXTS, st.lists(st.integers(0, 60), max_size=40))
@example(JWT + "." + JWT, [1] * 40)
@example(pem(), [30, 30, 30])
def test_the_result_does_not_depend_on_where_the_pieces_are_cut(text, sizes):
    assert in_pieces(text, sizes) == in_pieces(text, [])


@given(TEXTS, TEXTS, st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=6, max_size=30))
def test_no_known_value_is_ever_left(before, after, secret):
    assume(
        not any(
            secret in mask_of(name, secret)
            for name in (*SECRETS, "jwt-claims", "openai-short-key", "slack-webhook")
        )
    )
    assume("REDACTED" not in secret and "]" not in secret and "[" not in secret)
    assert secret not in in_pieces(before + secret + after, [], [secret])[0]


@given(
    st.lists(
        st.sampled_from("the quick-brown fox_jumps over 12 lazy: dogs. (and) [more] = {x} / y\n".split(" ")),
        max_size=40,
    ).map(" ".join)
)
def test_words_are_never_masked(text):
    assert masked(text, [KNOWN]) == text


def test_what_waits_is_bounded_and_a_finished_line_does_not_wait():
    redactor = Redactor([KNOWN])
    assert redactor.feed("a line\n") == "a line\n"
    given_length = got_length = 0
    for piece in ["eyJ", *["a" * 100] * 100]:
        got_length += len(redactor.feed(piece))
        given_length += len(piece)
        assert given_length - got_length <= 4096


HIDDEN = [
    "\u200b",
    "\u2060\u200d",
    "\ufe0f",
    "\xad",
    "\U000e0041",
    r"\u{200b}",
    r"\u{e0041}\u{200d}",
    "\u200b" * 300,
]


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("name", sorted(SECRETS))
def test_what_nobody_sees_hides_no_secret(name, hidden):
    """A secret that is spread out with invisible characters, spelled or not, is one all the same."""
    before, after = ("https://", "@h.example/") if name == "url-password" else ("see (", ") there")
    for text in SECRETS[name]:
        spread = (
            hidden.join(text) if len(text) < 200 else text[:60] + hidden + text[60:90] + hidden + text[90:]
        )
        got = masked(f"{before}{spread}{after}", [KNOWN])
        assert got.replace(hidden, "") == f"{before}[{name}]{after}"


@pytest.mark.parametrize("hidden", HIDDEN)
def test_what_nobody_sees_stays_where_there_is_no_secret_and_glues_nothing_together(hidden):
    for text in (
        f"a{hidden}b",
        f"{hidden}x{hidden}",
        f"sk-{hidden}learn, {hidden}AKIA{hidden} alone\n{hidden}",
        f"{hidden}\n{hidden}\n",
    ):
        assert masked(text, [KNOWN]) == text
    for name in ("github-token", "openai-key", "aws-access-key", "twilio-key", "telegram-bot-token"):
        for text in SECRETS[name]:
            assert masked(f"word{hidden}{text} z") in {
                f"word{hidden}[{name}] z",
                f"word[{name}] z",
            }


def test_a_known_value_may_hold_what_nobody_sees():
    for value in ("pass\u200bword-1", "\u06cc\u200c\u06a9\u06cc\u06a9\u06cc\u06a9", r"half\u{200b}word"):
        for form in (
            value,
            value.replace("\u200b", r"\u{200b}"),
            value.replace("\u200b", ""),
            urllib.parse.quote(value),
        ):
            assert masked(f"<{form}>", [value]) == "<[known-secret]>"


@pytest.mark.parametrize(
    "unit",
    [
        "eyJ-", "eyJ.eyJ", "://a:", "-----BEGIN PRIVATE KEY-----", "sk-0", "bearer ",
        "authorization: bearer ", "1234567:AA", "%73", "secret_key = ", "a", "sk-a1" * 9, "\u200b", "a\u200b",
        r"\u{200b}", "g\u200bhp_", "\\u",
    ],
)  # fmt: skip
def test_hostile_texts_take_linear_time(unit):
    text = unit * (200_000 // len(unit))
    began = time.process_time()
    masked(text, [KNOWN])
    in_pieces(text[:20_000], [100] * 200)
    assert time.process_time() - began < 3
