"""Pages as text: visible text, link targets, and hostile pages."""

from __future__ import annotations

import time

import pytest

from leeward.security.url import parse_url
from leeward.tools.http.fetch import pretty_json
from leeward.tools.http.html import is_tame, read_page
from loading import rows_beside

ROWS = rows_beside(__file__)

HERE = parse_url("https://docs.example.com/guide/intro")

TEXT = ROWS["text"]


@pytest.mark.parametrize(("source", "text"), TEXT, ids=range(len(TEXT)))
def test_a_page_reads_as_text(source, text) -> None:
    assert read_page(source, HERE).text == text


LINKED = ROWS["linked"]


@pytest.mark.parametrize(("source", "text", "links"), LINKED, ids=range(len(LINKED)))
def test_links_are_told_with_where_they_lead(source, text, links) -> None:
    page = read_page(source, HERE)
    assert (page.text, list(page.links)) == (text, links)


HOSTILE = {
    "deep": "<div>" * 20_000 + "x &lt; y",
    "deep lists": "<li><ul>" * 12_000,
    "deep, closed by others": "<div></b>" * 11_000,
    "deep inline": "<span>" * 16_000,
    "unclosed": "<script" * 14_000,
    "comments": "<!--" * 25_000,
    "attributes": "<a " + " ".join(f"a{n}" for n in range(16_000)) + ">x",
    "cells": "<table><tr>" + "<td>x" * 20_000,
    "links": "".join(f"<a href={n}>b</a>" for n in range(6_000)),
    "one long base": f"<base href='/{'x' * 2_000}/'>" + "<a href=a>b</a>" * 6_000,
    "quotes": "<blockquote>" * 390 + "<p>x" * 20_000,
    "entities": "&notit;" * 14_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_page_that_was_made_to_hurt_costs_little(name) -> None:
    source = HOSTILE[name][: 102_400 + 5]
    started = time.process_time()
    page = read_page(source, HERE)
    assert time.process_time() - started < 2
    assert len(page.text) < 6 * len(source)
    assert len(page.links) <= 500 and sum(map(len, page.links)) <= 64 * 1024


def test_what_nests_too_deeply_is_read_without_its_markup() -> None:
    page = read_page("<div>" * 1_000 + "<script>evil()</script>x &lt; <b>y</b><a href=/z>z</a>", HERE)
    assert (page.text, page.links) == ("x < y z", ())
    assert is_tame("<p>" * 5_000 + "<br>" * 5_000 + "<li>" * 5_000)
    assert is_tame("<div><b></b></div>" * 5_000)


JSON = [
    ("[]", "[]"),
    ('{"a":{}}', '{\n  "a": {}\n}'),
    ('{"a" : [1,2.50,{"b":null}]}', '{\n  "a": [\n    1,\n    2.50,\n    {\n      "b": null\n    }\n  ]\n}'),
    ('{"a":1,"a":2}', '{\n  "a": 1,\n  "a": 2\n}'),
    ('["\\u00e9", "{[,:]}", "\\""]', '[\n  "\\u00e9",\n  "{[,:]}",\n  "\\""\n]'),
    ("123456789012345678901234567890.10", "123456789012345678901234567890.10"),
    ("{not json", "{not json"),
    ("[" * 100_000, "[" * 100_000),
    ("", ""),
]


@pytest.mark.parametrize(("text", "laid_out"), JSON, ids=range(len(JSON)))
def test_json_is_laid_out_and_no_value_is_changed(text, laid_out) -> None:
    assert pretty_json(text) == laid_out


def test_deep_json_is_not_all_margin() -> None:
    text = "[" * 900 + "]" * 900
    assert len(pretty_json(text)) < 60 * len(text)
