"""Escape sequences and hidden characters are removed; nothing else changes."""

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.security.filters import Screened, Source, strip
from leeward.security.text import Stripper, find_invisible
from leeward.security.trust import Origin

SOURCE = Source("shell", Origin.WORKSPACE)
FLAG = "🏴" + "".join(chr(0xE0000 + ord(char)) for char in "gbeng") + "\U000e007f"

UNTOUCHED = [
    "", "plain\n", "tab\there\n", "a_b __init__ _x_\n", "snake_case_", "100% [31m not an escape",
    "\\x1b[31m written out", "C:\\Users\\x",
    "Ünïcödé cafe\u0301 日本語 עברית العربية", "می‌خواهم", "👨‍👩‍👧 ❤️‍🔥 1️⃣ " + FLAG, "│ ├── box └─ ▓▒░ ",
    "\ue0b0 powerline", "x\u00a0y",
]  # fmt: skip

CHANGED = {
    "\x1b[31mred\x1b[0m": "red",
    "\x1b[38;2;1;2;3mx\x1b[m": "x",
    "\x1b[2J\x1b[1;1Hcleared": "cleared",
    "\x1b[?25l\x1b[?1049hx\x1b[!p\x1b[>0c": "x",
    "\x1b]0;title\x07x": "x",
    "\x1b]0;title\x1b\\x": "x",
    "\x1b]8;;https://evil.example/\x1b\\text\x1b]8;;\x1b\\": "text",
    "\x1b]52;c;Y3VybCBldmls\x07x": "x",
    "\x1bP1$r0m\x1b\\x\x1b_Gf=1;AAAA\x1b\\y\x1b^pm\x1b\\z\x1bXsos\x1b\\!": "xyz!",
    "\x9b31mx\x9d0;t\x9cy\x90q\x9cz": "xyz",
    "\x1b(Bx\x1b)0\x1b#8\x1b%G": "x",
    "\x1b7x\x1b8\x1bc\x1bM\x1b=": "x",
    "\x1b]0;never ended\nnext": "0;never ended\nnext",
    "\x1b]0;cut\x1b[31m off": "0;cut off",
    "\x1b[12": "12",
    "\x1b[3\n1m": "3\n1m",
    "\x1b\x1b[31mx": "x",
    "\x1b[31\x1b[31mmx": "31mx",
    "x\x1b": "x",
    "\x1b]" + "a" * 5000 + "\x07": "a" * 5000,
    "a\r\nb\r\n": "a\nb\n",
    "10%\r20%\rdone\n": "10%\n20%\ndone\n",
    "evil\rgood": "evil\ngood",
    "page\x0cnext\x0bline\x85end": "page\nnext\nline\nend",
    "N\x08NA\x08AM\x08ME\x08E": "NAME",
    "b\x08b\x08b\x08bx": "bx",
    "_\x08u_\x08n": "un",
    "u\x08_": "u",
    "evil\x08\x08\x08\x08good": "evilgood",
    "bell\x07 nul\0 del\x7f": "bell nul del",
    "a\u202eb": "a\\u{202e}b",
    "z\u200bw": "z\\u{200b}w",
    "hi\U000e0068\U000e0069": "hi\\u{e0068}\\u{e0069}",
    "😀\U000e0100\U000e0101": "😀\\u{e0100}\\u{e0101}",
    "half \ud83d pair": "half \\u{d83d} pair",
    "\ufefffile with a mark": "file with a mark",
    "Donau\xaddampf": "Donaudampf",
    "👩\x1b[0m\u200d\x1b[1m💻": "👩\u200d💻",
}


def failures(candidate):
    table = CHANGED | {text: text for text in UNTOUCHED}
    found = []
    for text, expected in table.items():
        got = candidate(Screened(text), SOURCE).text
        if got != expected:
            found.append(f"{text[:60]!r}: {got[:60]!r}")
    return found


def test_the_filter_answers_the_table():
    assert failures(strip) == []


def test_the_table_finds_the_obvious_mistake(planted):
    assert failures(planted("strip").strip) != []


@pytest.mark.parametrize("text", UNTOUCHED)
def test_ordinary_text_gets_no_notice(text):
    assert strip(Screened(text, ("kept",)), SOURCE).notices == ("kept",)


def test_a_notice_counts_what_was_done():
    notices = strip(Screened("\x1b[1mx\x1b[0m\0\u202e\u202c", ("kept",)), SOURCE).notices
    assert notices[0] == "kept"
    assert notices[1].split(", ") == [
        "terminal escape sequences removed: 2",
        "control characters removed: 1",
        "invisible characters shown as \\u{…}: 2",
    ]


def in_pieces(text, sizes):
    stripper, out, start = Stripper(), [], 0
    for size in sizes:
        out.append(stripper.feed(text[start : start + size]))
        start += size
    out += [stripper.feed(text[start:]), stripper.flush()]
    return "".join(out), stripper.notices


SNIPPETS = st.sampled_from(
    [
        "\x1b",
        "[",
        "]",
        "0;t",
        "31",
        "m",
        "\x1b\\",
        "\x07",
        "\x9b",
        "\x9c",
        "\x9d",
        "\x1bP",
        "\x1b(",
        "\r",
        "\n",
        "\r\n",
        "\x08",
        "_",
        "a",
        "A",
        "_\x08a",
    ]
    + [
        "\t",
        "\0",
        "\u200d",
        "👩",
        "💻",
        "م",
        "\u200c",
        "\ufe0f",
        "\xad",
        "\ufeff",
        "🏴",
        "\U000e0067",
        "\U000e007f",
        FLAG,
        "\u202e",
        "\ud83d",
        "\x0c",
    ]
)
TEXTS = st.lists(SNIPPETS | st.characters(), max_size=30).map("".join)


@given(TEXTS, st.lists(st.integers(0, 6), max_size=30))
@example("_\x08_\x08a", [1, 1, 1, 1])
@example("\x1b]0;t\x1b\\x", [4, 2, 1])
@example("a\r\n", [2])
def test_the_result_does_not_depend_on_where_the_pieces_are_cut(text, sizes):
    assert in_pieces(text, sizes) == in_pieces(text, [len(text)])


@given(TEXTS)
@example("\x1b\x1b[[31m")
@example("a\x08\x1b[m\x08b")
def test_what_comes_out_is_clean_and_stays_as_it_is(text):
    clean = strip(Screened(text), SOURCE).text
    assert all(char in "\t\n" or char >= " " for char in clean)
    assert not any("\x7f" <= char <= "\x9f" for char in clean)
    assert find_invisible(clean) is None
    clean.encode()
    assert strip(Screened(clean), SOURCE) == Screened(clean)


@given(st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S", "Zs"])))
def test_visible_text_is_never_changed(text):
    visible = text if find_invisible(text) is None else ""
    assert strip(Screened(visible), SOURCE).text == visible


@pytest.mark.parametrize("unit", ["\0", "\x07", "\r", "\x08", "\x1b", "\x9b", "\x1b]", "\x0c", "\r\n"])
def test_a_run_costs_no_more_than_text(unit):
    """Thirty million of them took half a minute when each was looked at by itself."""
    text = unit * (1_000_000 // len(unit))
    began = time.process_time()
    clean, notices = in_pieces(text, [65_536] * 15)
    assert time.process_time() - began < 0.3
    assert clean == ("\n" * (text.count("\r") or text.count("\x0c"))) and bool(notices) is (not clean)


def one_by_one(text):
    """The same, so that no two controls are ever looked at together."""
    return in_pieces(text, [1] * len(text))


@given(st.text(st.sampled_from("\0\a\b\r\n\x1b[]\\m_a\x0c\x85\x9b\x9c\x9d")))
@example("\x1b]\x1b\\")
@example("\x1b\x1b]0;t\x07")
@example("\b\b_\b\b")
def test_a_run_is_what_its_controls_are(text):
    assert in_pieces(text, []) == one_by_one(text)


@pytest.mark.parametrize(
    "begun", ["\x1b]0;", "\x1bP", "\x1b[", "\x1b", "\x9d", "_", "x\u200d", "🏴\U000e0067"]
)
def test_what_waits_for_an_end_is_bounded(begun):
    stripper = Stripper()
    given_length = got_length = 0
    for piece in [begun, *["1" * 100] * 100]:
        got_length += len(stripper.feed(piece))
        given_length += len(piece)
        assert given_length - got_length <= 4100


@pytest.mark.parametrize(
    "unit",
    [
        "\0",
        "\x9c",
        "\x1b",
        "\x0c",
        "\x1b]",
        "\x9d",
        "\x1b[",
        "\x1b[1;",
        "_\x08",
        "\x08",
        "\r",
        "\x1b]a",
        "\u200d",
        "🏴\U000e0061",
        "\x1b]" + "a" * 3999,
    ],
)
def test_hostile_texts_take_linear_time(unit):
    text = unit * (200_000 // len(unit))
    began = time.process_time()
    strip(Screened(text), SOURCE)
    in_pieces(text[:20_000], [7] * 2000)
    assert time.process_time() - began < 3
