"""The table of REQ-F-045, in both directions, and the properties that hold for any text."""

import time

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from leeward.security.checks import PATTERNS, rejected_pattern
from leeward.security.checks.arguments import climbs
from leeward.security.kinds import Kind, Unreadable
from leeward.security.paths import ResolvedPath
from leeward.security.url import parse_destination, parse_url
from loading import rows_beside

ROWS = rows_beside(__file__)

ID, PATH, DESTINATION, TEXT = Kind.RESOURCE_ID, Kind.PATH, Kind.DESTINATION, Kind.TEXT

REJECTED_IDS = {
    "path_traversal": ["../etc/passwd", "..\\", "..", "a/../b", "a\\..\\b", "../%2e%2e", "../x?y"],
    "double_encoding": [
        "a%252e%252e", "%252e%252e%252f", "%25%32%65", "%%32e%%32e", "％252e", "a%2540", "%2e%2e%252f",
    ],
    "encoded_traversal": [
        "..%2f", "..%5c", "%2e%2e/", "%2E%2e/x", ".%2e/x", "%2e%2e", "..%2Fetc", "a%2f..%2fb", "．．/x",
        "．．／x",
        "․․/x", "‥/x", "..∕etc", "..⁄etc", "..⧸etc", "..＼x", "%c0%ae%c0%ae/", "..%c0%af",
        "%e0%80%ae%e0%80%ae/",
        "%u002e%u002e/", "%uff0e%uff0e/", "%ef%bc%8e%ef%bc%8e/", "％2e％2e/", ".\u200b./x", "..¥x", "。。/x",
    ],
    "percent_encoded_separator": ["files%2fetc%2fpasswd", "a%2Fb", "a%5cb", "a%5Cb", "a%c0%afb", "a%u2215b"],
    "encoded_shell_metachar": [
        f"a%{code}b"
        for code in ("3b", "7c", "26", "24", "60", "28", "29", "3c", "3e", "0a", "3B", "0A")
    ],
    "percent_encoded_segment": [
        "user%40host", "%41", "a%20b", "%00", "100%25", "%e4%bd%a0", "a%0d", "%u0041",
    ],
    "embedded_query": ["id?foo=bar", "a&b", "?", "abc?x#y", "id?x=<y>"],
    "fragment_identifier": ["abc#section", "#", "a#;b"],
    "userinfo": ["https://user:pw@host/x", "ftp://me@host"],
    "unexpected_scheme": [
        "file:///etc/passwd", "https://host/x", "javascript:alert", "s3://bucket/key", " http://x",
        "ｆｉｌｅ:///x", "data:text/html,x",
    ],
    "placeholder": [
        "<id>", "{id}", "YOUR_ID", "${ID}", "{{ user.id }}", "<your-id>", "your_api_key", "YOUR-PROJECT",
        "INSERT_ID_HERE", "xxxx", "XXX-XXX", "[id]", ":id", "CHANGE_ME", "TODO", "some-id-here",
        "example_id_here", "your-name-here", "put-the-api-key-here",
    ],
    "control_character": ["a\0b", "abc\n", "a\tb", "\x1b[2J", "a\x7fb", "a\x85b", "a\r\nb"],
    "invisible_character": [
        "a\u202eb", "a\u200bb", "a\u200db", "\ufeffabc", "می\u200cخ", "❤\ufe0f", "a\U000e0041", "a\xadb",
    ],
    "shell_metachar": [
        "a;b", "a|b", "$HOME", "$(id)", "a`b`", "a>b", "a*", "'a'", '"a"', "a\\b", "{}", "a[0]", "hi!",
    ],
    "literal_null": ["null", "undefined", "None", "NaN", "NULL", "none", "ｎｕｌｌ", "Ｎｏｎｅ", "undeﬁned"],
    "type_pattern_mismatch": [
        "", " ", "a b", " a", "/etc/passwd", "~/x", "~", "~root/x", "~www-data/x", "-rf", "--help",
        "-oProxyCommand=x", "--output=/x", "-o", "-recursive", "-n5", "C:/x", ".", "./a", "....//x", "---",
        "a" * 5000, "a；b", "🎉", "\ud800x", "a\u2260b",
    ],
}  # fmt: skip

GOOD_IDS = [*ROWS["good_ids"], "deadbeef" * 8]

REJECTED_PATHS = {
    "path_traversal": ["..\\..\\x", "a\\..\\b", "a/..\\b"],
    "double_encoding": ["a%252e", "%252e%252e/x", "a%2520b"],
    "encoded_traversal": [
        "%2e%2e/x", "a/%2E%2E/b", "..%2fx", "a/..%2f..%2fx", "．．/x", "‥/x", "%c0%ae%c0%ae/x", ".\u200b./x",
        "a∕..∕b",
    ],
    "unexpected_scheme": [
        "file:///etc/passwd", "file:/etc", "http://x/y", "HTTPS:/x", "ftp:/x", "http:\\x", "sftp://h/x",
        " file:///x", "javascript:x", "foo+bar://x",
    ],
    "control_character": ["a\0b", "a\nb", "a\tb", "a\x1b[0m", "a\x9bb"],
    "invisible_character": ["a\u202eb.txt", "a\u200bb", "a\u200db", "a\xadb", "x\ufeff", "a\U000e0061"],
    "type_pattern_mismatch": ["a\udc80b"],
}  # fmt: skip

GOOD_PATHS = ROWS["good_paths"]

REJECTED_DESTINATIONS = {
    "path_traversal": ["../other.git"],
    "percent_encoded_separator": ["host%2fx"],
    "embedded_query": ["https://h/x?y"],
    "fragment_identifier": ["team#general", "##general"],
    "userinfo": ["https://user:pw@host/x", "https://token@host/x", "ssh://git:pw@host/x"],
    "unexpected_scheme": ["file:///srv/x", "ext::sh", "javascript:x"],
    "placeholder": ["<host>", "YOUR_HOST"],
    "control_character": ["host\n"],
    "invisible_character": ["ho\u200bst"],
    "shell_metachar": ["host;id", "$(id).example", "*.example.com"],
    "literal_null": ["undefined"],
    "type_pattern_mismatch": ["-oProxyCommand=x", "", "a b", "/srv/x.git"],
}  # fmt: skip

GOOD_DESTINATIONS = [
    "example.com", "example.com:8443", "bob@example.com", "git@github.com:owner/name.git",
    "ssh://git@host:22/x.git", "https://index.example/simple/",
    "[::1]:80", "fe80::1", "2001:db8::1", "10.0.0.1", "s3://bucket/key", "xn--bcher-kva.example",
    "bücher.example", "mailto:a@b.c", "+4915112345678", "host/~user/x",
]  # fmt: skip


def flat(table):
    return [(text, pattern) for pattern, texts in table.items() for text in texts]


def name(kind, text, **more):
    rejection = rejected_pattern(kind, text, **more)
    return rejection.pattern if rejection else None


@pytest.mark.parametrize(("text", "pattern"), flat(REJECTED_IDS))
def test_identifiers_made_up(text, pattern):
    assert name(ID, text) == pattern


def test_every_name_has_an_example_and_the_order_is_the_requirements():
    assert tuple(REJECTED_IDS) == PATTERNS


@pytest.mark.parametrize("text", GOOD_IDS)
def test_identifiers_in_use(text):
    assert name(ID, text) is None
    if text[0] != "-" and "::" not in text:
        assert name(DESTINATION, text) is None


@pytest.mark.parametrize(("text", "pattern"), flat(REJECTED_PATHS))
def test_paths_made_up(text, pattern):
    assert name(PATH, text) == pattern


@pytest.mark.parametrize("text", GOOD_PATHS)
def test_paths_in_use(text):
    assert name(PATH, text, canonical=ResolvedPath("/w/x", "/w/x")) is None


@pytest.mark.parametrize(("text", "pattern"), flat(REJECTED_DESTINATIONS))
def test_destinations_made_up(text, pattern):
    assert name(DESTINATION, text) == pattern


@pytest.mark.parametrize("text", GOOD_DESTINATIONS)
def test_destinations_in_use(text):
    assert name(DESTINATION, text) is None


def test_a_relative_path_is_traversal_only_where_it_leaves():
    outside = ResolvedPath("/etc/passwd", "/etc/passwd", escaped=True)
    rejection = rejected_pattern(PATH, "../etc/passwd", outside)
    assert (rejection.pattern, rejection.suggestion) == ("path_traversal", "/etc/passwd")
    assert rejected_pattern(PATH, "../w/x", ResolvedPath("/w/x", "/w/x")) is None
    doubly = rejected_pattern(PATH, "../a%252e", ResolvedPath("/a%252e", "/a%252e", escaped=True))
    assert (doubly.pattern, doubly.suggestion) == ("path_traversal", None)


FREE_TEXT = [
    ("two\nlines\r\n\tindented", None), ("null", None), ("<b>{x}</b> & $y; `z` %2e%2e", None),
    ("\x1b[31m", None), ("a\u202eb", None),
    ("🏴󠁧󠁢󠁥󠁮󠁧󠁿", None), ("a\0b", "control_character"), ("hi\U000e0068\U000e0069", "invisible_character"),
    ("\ud800", "type_pattern_mismatch"),
]  # fmt: skip


@pytest.mark.parametrize("kind", [TEXT, Kind.COMMAND, Kind.SECRET, Kind.UNDECLARED])
@pytest.mark.parametrize(("text", "pattern"), FREE_TEXT)
def test_free_text_is_judged_for_what_is_hidden_in_it(kind, text, pattern):
    assert name(kind, text) == pattern


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("../../x", "path_traversal"), ("%2e%2e/x", "encoded_traversal"), ("．．／x", "encoded_traversal"),
        ("%252e%252e%252fx", "double_encoding"),
        ("what is new? (a & b)", None), ("/clear forgets %252e #1?", None), ("see http://x", None),
        (".\nfile: x\0", None), ("...", None),
    ],
)  # fmt: skip
def test_of_what_could_be_a_path_only_traversal_is_judged(text, pattern):
    place = ResolvedPath("/x", "/x", escaped=text == "../../x")
    assert name(PATH, text, canonical=place, declared=False) == pattern


def test_an_undeclared_string_that_climbs_when_decoded_is_refused_as_such():
    assert name(Kind.UNDECLARED, "．．／etc／passwd") == "encoded_traversal"
    assert name(Kind.UNDECLARED, "%252e%252e%252fx") == "double_encoding"
    assert name(Kind.UNDECLARED, "50% off ..%2f is how one writes it") is None


@pytest.mark.parametrize(
    "text",
    ["https://u:p@h.example/", "https://h.example/%2e%2e/x", "https://h.example/\u202e", "ftp://h.example/"],
)
def test_urls_are_judged_by_their_reader(text):
    canonical = parse_url(text)
    assert isinstance(canonical, Unreadable)
    assert name(Kind.URL, text, canonical=canonical) == canonical.pattern
    good = "https://h.example/a?b=c&d=e#f"
    assert name(Kind.URL, good, canonical=parse_url(good)) is None


SUGGESTED = [
    (ID, "id?x=1&y", "id"), (ID, "id#top", "id"), (ID, "a%40b", "a@b"), (ID, "abc\n", "abc"),
    (ID, " abc ", "abc"), (ID, "a\u200bbc", "abc"),
    (ID, '"abc"', "abc"), (ID, "?x", None), (ID, "a%ffb", None), (ID, "<id>", None), (ID, "../x", None),
    (ID, "%2e%2e/x", None), (ID, "%20", None),
    (DESTINATION, "team#general", "team"), (PATH, "file:///home/u/x", "/home/u/x"),
    (PATH, "a.txt\n", "a.txt"), (PATH, "a\u202eb", "ab"),
    (PATH, "..\n", None), (PATH, "file:///../x", None), (TEXT, "a\0b\n", "ab\n"),
    (TEXT, "hi\U000e0068 👩‍💻", "hi 👩‍💻"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "text", "suggestion"), SUGGESTED)
def test_what_is_refused_is_suggested_in_a_form_that_passes(kind, text, suggestion):
    assert rejected_pattern(kind, text).suggestion == suggestion


def test_a_url_with_a_stray_line_end_is_suggested_without_it():
    text = "https://h.example/x\n"
    assert rejected_pattern(Kind.URL, text, parse_url(text)).suggestion == "https://h.example/x"


NOISY = st.text(
    st.sampled_from("ab/.\\%25eEfFcC0?&#<>{}:@ \n\0\u200b\u202e．／‥;$'\"~-_é\U000e0041") | st.characters(),
    max_size=40,
)


@given(st.sampled_from([ID, PATH, DESTINATION, TEXT, Kind.UNDECLARED]), NOISY)
@example(ID, "%2525")
@example(PATH, "..\n")
@example(ID, "a%2500")
def test_a_suggestion_passes_the_check_it_comes_from(kind, text):
    rejection = rejected_pattern(kind, text)
    assume(rejection is not None)
    assert rejection.pattern in PATTERNS
    if rejection.suggestion is not None:
        assert rejected_pattern(kind, rejection.suggestion) is None


@given(
    st.text(st.sampled_from("../\\%2e2f5cA"), max_size=12),
    st.sampled_from(["%2e%2e/", "..%2f", "..\\", "．．／", "%252e%252e/"]),
)
def test_no_identifier_with_a_spelling_of_dot_dot_passes(text, climb):
    assert rejected_pattern(ID, climb + text) is not None
    assert rejected_pattern(ID, f"a/{climb}{text}") is not None


@given(st.from_regex(r"[A-Za-z0-9]{4}[A-Za-z0-9_.-]{0,60}[A-Za-z0-9]", fullmatch=True))
def test_tokens_of_letters_and_digits_pass(text):
    assume(not text.startswith("YOUR") and text.strip("xX"))
    assume(
        not text.lower().startswith(
            ("your", "insert", "replace", "enter", "change", "placeholder", "undefined")
        )
    )
    assume("YOUR" not in text and "_HERE" not in text)
    assert rejected_pattern(ID, text) is None


@pytest.mark.parametrize(
    "text",
    [
        unit * 200_000
        for unit in (
            "a",
            "../",
            "%",
            "%25",
            "%2",
            "<",
            "{",
            " ",
            "a://",
            ":",
            "a:",
            "x",
            "x-",
            "your_",
            "\u0301\u0316",
            "．",
        )
    ]
    + [
        "a://" + ":" * 200_000,
        " " * 200_000 + "x",
        "insert_" * 100_000,
        "\u0316" * 100_000 + "\u0301" * 100_000,
    ],
)
def test_every_check_takes_linear_time(text):
    began = time.process_time()
    for kind in (ID, PATH, DESTINATION, TEXT):
        rejected_pattern(kind, text)
    assert time.process_time() - began < 4
    assert climbs(text) >= 0


def test_an_address_with_a_name_before_it_is_named_without() -> None:
    written = "Ann Lee <ann@good.example>"
    rejection = rejected_pattern(DESTINATION, written, parse_destination(written) or "")
    assert rejection is not None and rejection.suggestion == "ann@good.example"
