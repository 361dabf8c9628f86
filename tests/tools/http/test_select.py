"""Selectors of `web_scrape`: matches, and those refused before anything is opened."""

from __future__ import annotations

import time

import pytest

from leeward.security.outcome import InvalidParameters, PermanentFailure
from leeward.security.url import parse_url
from leeward.tools.http.html import Selector
from loading import rows_beside

ROWS = rows_beside(__file__)

HERE = parse_url("https://docs.example.com/guide/")
PAGE = (
    '<title>T</title><base href="/base/"><div class="item" id="1"><h2>One</h2><a href="one">more</a></div>\n'
    '<div class="item" id="a2"><h2>Two</h2>'
    '<a href="https://other.example/two" data-x="&quot;q&quot;">more</a></div><p>end<pre>a\n'
    "  b</pre>"
)

FOUND = ROWS["found"]


@pytest.mark.parametrize(
    ("select", "extract", "limit", "text", "links", "notice"), FOUND, ids=range(len(FOUND))
)
def test_what_is_found(select, extract, limit, text, links, notice) -> None:
    found = Selector(select, extract, limit).of(PAGE, HERE)
    assert (found.text, list(found.links), found.notice) == (text, links, notice)


@pytest.mark.parametrize(
    ("select", "extract", "limit"),
    [
        ("", "text", 1), (" ", "text", 1), ("a[", "text", 1), ("a{}", "text", 1), ("::x", "text", 1),
        ("a" * 301, "text", 1),
        (",".join(["a"] * 12), "text", 1), ("p:has(a)", "text", 1), (":HAS(~ p ~ b)", "text", 1),
        ("p:nth-child(2 of p)", "text", 1), (":h\\61s(b)", "text", 1),
        ("p", "texts", 1), ("p", "attr:", 1), ("p", "attr:a b", 1), ("p", "text", 0), ("p", "text", 101),
        ("p", "text", -1),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_said_before_anything_is_opened(select, extract, limit) -> None:
    with pytest.raises(InvalidParameters):
        Selector(select, extract, limit)


@pytest.mark.parametrize(
    "select",
    ["* * * * * *", "p ~ p ~ p ~ p", ",".join(["*"] * 11), "p:not(p ~ b ~ p)", ":nth-last-child(2n+1)"],
)
def test_no_selector_takes_long(select) -> None:
    started = time.process_time()
    Selector(select, "text", 100).of("<p>x" * 20_000, HERE)
    assert time.process_time() - started < 5


def test_a_page_that_nests_too_deeply_is_not_searched() -> None:
    with pytest.raises(PermanentFailure):
        Selector("p", "text", 1).of("<div>" * 1_000 + "<p>x", HERE)
