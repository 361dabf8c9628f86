from __future__ import annotations

import gzip
import tracemalloc
import zlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.tools.http.response import Body, BodyError, is_text, media_type
from loading import rows_beside

ROWS = rows_beside(__file__)


def collect(chunks, encodings=(), cap=100):
    body = Body(encodings, cap)
    for chunk in chunks:
        if not body.feed(chunk):
            break
    body.finish()
    return body


def raw_deflate(data):
    compressor = zlib.compressobj(wbits=-15)
    return compressor.compress(data) + compressor.flush()


ENCODERS = {
    "": bytes, "identity": bytes, "gzip": gzip.compress, "x-gzip": gzip.compress, "deflate": zlib.compress,
    "DEFLATE ": raw_deflate,
}  # fmt: skip


@given(st.binary(max_size=300), st.sampled_from(list(ENCODERS)), st.integers(1, 9), st.integers(1, 200))
@example(b"", "gzip", 1, 1)
@example(b"x" * 100, "gzip", 1, 100)
@example(b"x" * 101, "deflate", 9, 100)
@example(b"x", "DEFLATE ", 1, 1)
def test_whatever_the_pieces_the_content_is_the_same_up_to_the_cap(content, encoding, size, cap):
    encoded = ENCODERS[encoding](content)
    chunks = [encoded[at : at + size] for at in range(0, len(encoded), size)]
    body = collect(chunks, [encoding], cap)
    assert (body.content, body.is_truncated) == (content[:cap], len(content) > cap)


@pytest.mark.parametrize(
    "encodings", [["br"], ["gzip, gzip"], ["gzip", "deflate"], ["zstd"], ["gzip;q=1"], ["x"]]
)
def test_only_one_known_layer_is_undone(encodings):
    with pytest.raises(BodyError, match="not asked for"):
        Body(encodings, 10)


@pytest.mark.parametrize(
    ("chunks", "why"),
    [
        ([b"not gzip at all"], "damaged"), ([gzip.compress(b"abc")[:-9]], "too early"),
        ([b"\x1f"], "too early"), ([gzip.compress(b"a" * 50)[:-5] + b"\0" * 5], "damaged|too early"),
    ],
)  # fmt: skip
def test_damage_is_told(chunks, why):
    with pytest.raises(BodyError, match=why):
        collect(chunks, ["gzip"])


def test_a_bomb_costs_what_the_cap_allows():
    bomb = gzip.compress(b"\0" * 200_000_000, compresslevel=1)
    tracemalloc.start()
    body = collect([bomb], ["gzip"], 102_400)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert body.is_truncated and len(body.content) == 102_400 and peak < len(bomb) + 1_000_000


def test_the_members_of_a_gzip_file_are_one_body():
    members = gzip.compress(b"one ") + gzip.compress(b"") + gzip.compress(b"two")
    for size in (1, 7, 1000):
        chunks = [members[start : start + size] for start in range(0, len(members), size)]
        assert collect(chunks, ["gzip"]).content == b"one two"
    assert collect([members + b"\0\0 padding"], ["gzip"]).content == b"one two"
    stacked = collect([gzip.compress(gzip.compress(b"\0" * 9_000_000))], ["gzip"])
    assert len(stacked.content) < 20_000 and stacked.content.startswith(b"\x1f\x8b")


@pytest.mark.parametrize(
    ("content", "content_type", "cap", "text"),
    [
        (b"abc", "text/plain", 3, "abc"),
        (b"abcd", "text/plain", 3, "abc\n\n[truncated at 3 bytes]"),
        ("aä".encode(), "", 2, "a\n\n[truncated at 2 bytes]"),
        ("a😀".encode(), "", 4, "a\n\n[truncated at 4 bytes]"),
        ("ä".encode("latin-1"), "text/html; charset=ISO-8859-1", 9, "ä"),
        ("ä".encode("latin-1"), 'text/html; Charset="windows-1252"', 9, "ä"),
        ("é".encode("shift_jis", "replace"), "text/html; charset=shift_jis", 9, "?"),
        ("ä".encode("utf-16"), "text/plain; charset=utf-16", 9, "ä"),
        (b"+ADw-b+AD4-", "text/html; charset=utf-7", 99, "+ADw-b+AD4-"),
        (b"\\u0041", "text/html; charset=unicode_escape", 99, "\\u0041"),
        (b"abc", "text/html; charset=rot13", 99, "abc"),
        (b"abc", "text/html; charset=no-such-thing", 99, "abc"),
        (b"a\xff", "text/plain", 9, "a\N{REPLACEMENT CHARACTER}"),
        ("ä".encode("utf-16"), "text/html", 9, "ä"),
        (b'<meta charset="latin1">\xe4', "text/html", 99, '<meta charset="latin1">ä'),
        (
            b"<META http-equiv=x content='text/html; charset=koi8-r'>\xc1",
            "text/html",
            99,
            "<META http-equiv=x content='text/html; charset=koi8-r'>а",
        ),
        (
            b'<meta charset="latin1">\xe4',
            "text/plain",
            99,
            '<meta charset="latin1">\N{REPLACEMENT CHARACTER}',
        ),
        (b'<meta charset="latin1">\xc3\xa4', "text/html; charset=utf-8", 99, '<meta charset="latin1">ä'),
    ],
)
def test_text_is_decoded_as_the_type_says_if_that_is_a_character_set(content, content_type, cap, text):
    body = collect([content], cap=cap)
    assert body.text(content_type) + body.marker == text


@pytest.mark.parametrize(
    ("header", "kind", "readable"),
    [*ROWS["types_are_well_formed_or_unknown"], ("text/" + "a" * 200, "unknown type", True)],
)
def test_types_are_well_formed_or_unknown(header, kind, readable):
    assert media_type(header) == kind and is_text(kind, b"abc") is readable
    assert not is_text("unknown type", b"a\0")
