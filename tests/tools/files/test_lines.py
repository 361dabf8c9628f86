"""Reading lines gives the same result for any chunking of the input."""

from __future__ import annotations

import codecs
import os
import re
import tempfile
import threading
from itertools import groupby

import pytest
import re2
import trio
from hypothesis import example, given, settings
from hypothesis import strategies as st

from leeward.security.outcome import PermanentFailure
from leeward.tools.files import as_utf8, encoding_of
from leeward.tools.files import lines as lines_module
from leeward.tools.files.encoding import PLAIN, is_binary, with_line_ends_of
from leeward.tools.files.lines import Window, in_window
from leeward.tools.process.output import HeadAndTail
from leeward.tools.search import grep as matches_module
from leeward.tools.search.grep import LinePattern

# Bytes with all that makes cutting hard: line ends of both kinds, characters of several bytes, halves of
# such.
BYTES = st.lists(
    st.sampled_from(
        [b"a", b"bc", b"\n", b"\r\n", b"\r", "ö".encode(), "😀".encode(), b"\xf0\x9f", b"\xff", b" \n\n"]
    ),
    max_size=30,
).map(b"".join)  # fmt: skip
CUTS = st.lists(st.integers(1, 9), min_size=1, max_size=8)


def pieces(data: bytes, sizes: list[int]) -> list[bytes]:
    """Cut into pieces of these sizes, over and over; none is empty, as no read of a file is."""
    found, at, number = [], 0, 0
    while at < len(data):
        size = sizes[number % len(sizes)]
        found.append(data[at : at + size])
        at, number = at + size, number + 1
    return found


# ------------------------------------------------------------------ a window of lines


def wanted_of(data: bytes, window: Window) -> tuple[str, int, bool]:
    """What stands in the window, how many lines that is, and whether more follows: worked out on
    the whole.
    """
    lines = re.findall(rb"[^\n]*\n|[^\n]+\Z", data)
    chosen, size = [], 0
    for line in lines[window.first - 1 : window.first - 1 + window.lines]:
        if size + len(line) > window.size:
            break
        chosen.append(line)
        size += len(line)
    return (
        b"".join(chosen).decode("utf-8", "replace"),
        len(chosen),
        len(lines) > window.first - 1 + len(chosen),
    )


@settings(max_examples=settings().max_examples * 3)
@given(BYTES, CUTS, st.integers(1, 6), st.integers(1, 6), st.integers(1, 40))
@example("ö\nö\n".encode(), [1], 1, 1, 2)
@example(b"a\n", [2], 1, 1, 2)
@example(b"a\nb", [1], 2, 1, 1)
@example(b"a\n\n", [1], 3, 1, 5)
def test_a_window_does_not_depend_on_how_the_file_was_read(data, cuts, first, count, size):
    window = Window(first, count, size)
    whole = in_window(iter([data] if data else []), PLAIN, window)
    assert in_window(iter(pieces(data, cuts)), PLAIN, window) == whole
    text, lines, more = wanted_of(data, window)
    told = " ".join(whole.notices)
    if lines:
        assert whole.text == text
        assert (f"lines {first} to {first + lines - 1}; more follows" in told) is more
    elif not data and first == 1:
        assert told == "the file is empty"
    elif not more:
        assert told == f"line {first} is past the end of the file"
    else:
        assert f"line {first} is longer than {size} bytes" in told and len(whole.text.encode()) <= 3 * size


@pytest.mark.parametrize("name", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@settings(max_examples=settings().max_examples * 3 // 5)
@given(text=st.text("aö😀\n\ufeff", max_size=20), cuts=CUTS, rest=st.binary(max_size=3))
def test_an_encoding_of_several_bytes_is_not_torn_by_any_cut(name, text, cuts, rest):
    mark = {
        "utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE, "utf-32-le": codecs.BOM_UTF32_LE,
        "utf-32-be": codecs.BOM_UTF32_BE,
    }[name]  # fmt: skip
    encoding = encoding_of(mark + "x".encode(name))
    assert (encoding.name, is_binary(mark + text.encode(name))) == (name, False)
    data = text.encode(name) + rest
    assert b"".join(as_utf8(iter(pieces(data, cuts)), encoding)) == data.decode(name, "replace").encode()
    whole = mark + text.encode(name)
    assert encoding.packed(encoding.unpacked(whole)) == whole
    if data.decode(name, "replace").encode(name) != data:
        with pytest.raises(PermanentFailure, match="not whole UTF-"):
            encoding.unpacked(mark + data)


@pytest.mark.parametrize(
    ("before", "text", "after"),
    [
        (b"a\r\nb\r\n", b"1\n2\n", b"1\r\n2\r\n"),
        (b"a\r\nb\n", b"1\n2\n", b"1\n2\n"),
        (b"a\r\nb", b"1\n2", b"1\r\n2"),
        (b"a\nb\n", b"1\n2\n", b"1\n2\n"),
        (b"a\r\n", b"1\r\n2\n", b"1\r\n2\n"),
        (b"a\r\n", b"1\r2\n", b"1\r2\n"),
        (b"", b"1\n", b"1\n"),
        (b"a\rb\r", b"1\n", b"1\n"),
        (b"a\r\r\n", b"1\n", b"1\r\n"),
    ],
)
def test_line_ends_are_those_of_the_file_if_it_has_one_kind(before, text, after):
    assert with_line_ends_of(before, text) == after


# ------------------------------------------------------------------ lines that match


def matching(data: bytes, pattern: str) -> list[tuple[int, bytes]]:
    """Number and text of each line that matches, each line looked at by itself."""
    lines = data.replace(b"\r\n", b"\n").split(b"\n")
    lines = lines[:-1] if lines[-1] == b"" else lines
    compiled = re2.compile(pattern)
    return [(n, line) for n, line in enumerate(lines, 1) if compiled.search(line)]


def lines_of(data: bytes, pattern: str, cuts: list[int]) -> list[tuple[int, bytes]]:
    """The same as the tool does it, from a pipe that hands out a few bytes at a time."""
    read, write = os.pipe()

    def feed() -> None:
        with os.fdopen(write, "wb", buffering=0) as file:
            for piece in pieces(data, cuts):
                file.write(piece)

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        return list(LinePattern.of(pattern).lines_of(read))
    finally:
        os.close(read)
        feeder.join()


def in_thread(function, *arguments):
    return trio.run(trio.to_thread.run_sync, function, *arguments)


@given(
    BYTES.filter(lambda data: b"\xff" not in data and b"\xf0\x9f\n" not in data),
    st.sampled_from(
        ["a", "^a", "a$", "^$", "bc|ö", "a+b", "[^a]", ".", "x*", "(?i)BC", " $", "^a?$", "😀$", "a\\b"]
    ),
    st.integers(1, 7),
    CUTS,
)  # fmt: skip
@example(b"a\r\n", "a$", 2, [1])
@example(b"\n\n", "^$", 1, [1])
@example(b"bc\nbc", "bc|\xf6", 3, [2])
def test_matching_lines_do_not_depend_on_how_the_file_was_read(data, pattern, block, cuts):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matches_module, "_BLOCK", block)
        patch.setattr(lines_module, "_BLOCK", block)
        assert in_thread(lines_of, data, pattern, cuts) == matching(data, pattern)


def test_a_line_beyond_all_measure_is_searched_in_parts_and_keeps_its_number():
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryFile() as file:
        for module in (matches_module, lines_module):
            patch.setattr(module, "_BLOCK", 16)
        patch.setattr(matches_module, "_LONGEST_LINE", 64)
        file.write(b"first\n" + b"x" * 200 + b"needle" + b"x" * 200 + b"\nneedle\n")
        file.seek(0)
        found = in_thread(lambda: list(LinePattern.of("needle").lines_of(file.fileno())))
    # A match may be where a part ends; the line behind it is counted right whatever became of that.
    assert found[-1] == (3, b"needle") and {number for number, _ in found} <= {2, 3}
    assert all(len(line) <= 80 for _, line in found)


# ------------------------------------------------------------------ what a program prints


@settings(max_examples=settings().max_examples * 2)
@given(st.lists(st.tuples(BYTES, st.booleans()), max_size=12), st.integers(0, 60))
@example([(b"\xf0\x9f", False), (b"x", True), (b"\x98\x80", False)], 100)
@example([("😀".encode() * 3, True)], 9)
@example([(b"a", True), (b"\n", False), (b"b", True)], 10)
def test_output_is_kept_from_both_ends_and_counted_in_full(fed, bound):
    heard: list[str] = []

    async def run() -> HeadAndTail:
        async def hear(text: str) -> None:
            heard.append(text)

        collected = HeadAndTail(bound, hear)
        ends = {is_error: collected.output(is_error=is_error) for is_error in (False, True)}
        for chunk, is_error in fed:
            await ends[is_error].feed(chunk)
        for end in ends.values():
            await end.feed(b"", final=True)
        return collected

    kept = trio.run(run)
    everything = "".join(heard)
    for is_error in (False, True):
        printed = b"".join(chunk for chunk, error in fed if error is is_error).decode("utf-8", "replace")
        if not kept.dropped:
            assert "".join(text for text, error in kept.pieces() if error is is_error) == printed
    shown = "".join(text for text, _ in kept.pieces())
    if kept.dropped:
        head, tail = shown.split(f"\n[... {kept.dropped} bytes left out ...]\n")
        assert everything.startswith(head) and everything.endswith(tail)
        sizes = len(head.encode()), len(tail.encode())
        assert sizes[0] <= bound // 2 and sizes[1] <= bound - bound // 2
        assert sum(sizes) + kept.dropped == len(everything.encode())
    else:
        assert shown == everything
    assert kept.error_lines == lines_with_errors(fed)[:20]


def lines_with_errors(fed: list[tuple[bytes, bool]]) -> list[tuple[int, int]]:
    """The runs of lines in which something was printed as an error, character by character."""
    decoders = {error: codecs.getincrementaldecoder("utf-8")("replace") for error in (False, True)}
    line, found = 1, set()
    ends = [(b"", False, True), (b"", True, True)]
    for chunk, is_error, is_last in [*((*one, False) for one in fed), *ends]:
        for char in decoders[is_error].decode(chunk, final=is_last):
            found |= {line} if is_error else set()
            line += char == "\n"
    runs = groupby(sorted(found), lambda number: number - sorted(found).index(number))
    return [(group[0], group[-1]) for group in (list(run) for _, run in runs)]
