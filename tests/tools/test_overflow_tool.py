from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest

from leeward.memory.linear import BadPattern
from leeward.memory.overflow import Hit, Hits, OverflowNotFound, Page, StoredText
from leeward.security.call import KIND_KEY
from leeward.security.errors import InvalidParameters, PermanentFailure
from leeward.security.label import Origin
from leeward.security.ports import RecordError
from leeward.tools import Overflow

ENTRY = StoredText("abc", 0, 300, 0, 0.0, Origin.WEB)
TEXT = "".join(f"line {number}\n" for number in range(1, 301))


class Store:
    """One text for one session; it keeps what it was asked."""

    def __init__(self, error=None):
        self.asked, self.error = [], error

    async def get(self, session, id, offset, limit):  # noqa: A002 — the store's
        self.asked.append((session, id, offset, limit))
        if self.error or (session, id) != ("s1", "abc"):
            raise self.error or OverflowNotFound("this session has no stored output of that id")
        end = min(offset + limit, len(TEXT))
        return Page(replace(ENTRY, chars=len(TEXT)), TEXT[offset:end], offset, end if end < len(TEXT) else None)

    async def search(self, session, id, pattern, limit):  # noqa: A002 — the store's
        if self.error:
            raise self.error
        lines = TEXT.splitlines()
        found = (Hit(n, TEXT.index(line), line) for n, line in enumerate(lines, 1) if pattern in line)
        return Hits(ENTRY, tuple(islice(found, limit)))


def tool(store, session="s1"):
    (made,) = Overflow(store, lambda: session).tools()
    return made


async def test_a_page_is_returned_with_where_to_go_on(run):
    store = Store()
    output = await run(tool(store), {"id": "abc", "offset": 7, "limit": 6})
    assert (output.text, output.origin) == ("line 2", Origin.WEB)
    assert output.notices == (f"characters 7 to 13 of {len(TEXT)}; go on with offset=13",)
    assert store.asked == [("s1", "abc", 7, 6)]
    output = await run(tool(store), {"id": "abc", "limit": 40_000})
    assert output.text == TEXT and output.notices == (f"characters 0 to {len(TEXT)} of {len(TEXT)}",)


@pytest.mark.parametrize(
    ("pattern", "text", "notice"),
    [("line 300", "300@2583: line 300", "lines that match: 1"), ("zz", "", "no line matches"), ("line 299", "299@2574: line 299", "lines that match: 1")],
)  # fmt: skip
async def test_matching_lines_are_returned_with_where_they_stand(run, pattern, text, notice):
    output = await run(tool(Store()), {"id": "abc", "pattern": pattern})
    assert (output.text, output.notices, output.origin) == (text, (notice,), Origin.WEB)


async def test_many_matches_are_cut_and_told(run):
    output = await run(tool(Store()), {"id": "abc", "pattern": "line"})
    assert output.text.count("\n") == 99 and "the first 100 lines" in output.notices[0]


@pytest.mark.parametrize(
    ("error", "told", "why"),
    [
        (None, PermanentFailure, "this session has no stored output"),
        (RecordError("disk is gone"), PermanentFailure, "could not be read: disk is gone"),
        (BadPattern("missing )"), InvalidParameters, "missing \\)"),
    ],
)
async def test_what_cannot_be_read_is_told(run, error, told, why):
    with pytest.raises(told, match=why):
        await run(tool(Store(error), "another"), {"id": "abc", **({"pattern": "("} if error else {})})


def test_the_id_is_judged_as_one_and_pages_are_bounded():
    (spec,) = tool(Store()).specs()
    assert spec.name == "read_overflow" and spec.schema["properties"]["id"][KIND_KEY] == "resource_id"
    assert spec.check({"id": "a", "offset": -1, "limit": 40_001, "pattern": 5}).problems.__len__() == 3
