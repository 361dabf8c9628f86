"""Pages as text: what a reader sees, where links lead, and pages that were made to hurt."""

from __future__ import annotations

import time

import pytest

from leeward.security.url import parse_url
from leeward.tools.http.fetch import pretty_json
from leeward.tools.http.html import is_tame, read_page

HERE = parse_url("https://docs.example.com/guide/intro")

TEXT = [
    ("<p>one<p>two", "one\n\ntwo"),
    ("a<br>b &amp; &lt;c&gt;", "a\nb & <c>"),
    ("<h1>T</h1>x<h3>s</h3>", "# T\n\nx\n\n### s"),
    ("<ul><li>a<li>b<ul><li>c</ul></ul>", "- a\n- b\n  - c"),
    ("<ol><li>a</li><li>b</li></ol>", "1. a\n2. b"),
    ("<pre><code>def f():\n    pass\n</code></pre>", "```\ndef f():\n    pass\n```"),
    ("use <code>pip  x</code> now", "use `pip x` now"),
    ("<table><tr><th>a<th>b<tr><td>1<td>2</table>", "a | b\n1 | 2"),
    ("<blockquote><p>a</p><p>b</p></blockquote>", "> a\n\n> b"),
    ("a<hr>b", "a\n\n---\n\nb"),
    ("<img alt='a  cat' src=x>", "[image: a cat]"),
    ("  a \n <b> b </b>\t c ", "a b c"),
    ("<div>a</div><div>b</div>", "a\nb"),
    ("<title>Top</title><body>x", "# Top\n\nx"),
    ("<title> Same  words</title><h1>Same words</h1>x", "# Same words\n\nx"),
    ("x<script>evil()</script><style>p{}</style><noscript>n</noscript><template>t</template>", "x"),
    (
        "<p hidden>h</p><p aria-hidden=true>a</p><p style='Display : none'>d</p><p style='visibility:hidden'>v</p>x",
        "x",
    ),
    ("<!-- c -->x<![CDATA[y]]>", "x"),
    ("<select><option>o</select><textarea>t</textarea>", "t"),
    ("", ""),
    ("just text", "just text"),
]


@pytest.mark.parametrize(("source", "text"), TEXT, ids=range(len(TEXT)))
def test_a_page_reads_as_text(source, text) -> None:
    assert read_page(source, HERE).text == text


LINKED = [
    ("<a href='/x'>go</a>", "[go](https://docs.example.com/x)", ["https://docs.example.com/x"]),
    ("<a href='../x?a=1&amp;b=2#c'>go</a>", "[go](https://docs.example.com/x?a=1&b=2#c)", ["https://docs.example.com/x?a=1&b=2#c"]),
    ("<a href=' //other.example/y '>go</a>", "[go](https://other.example/y)", ["https://other.example/y"]),
    ("<a href='x'><h2>Big</h2></a>", "## Big\n\n<https://docs.example.com/guide/x>", ["https://docs.example.com/guide/x"]),
    ("<a href='x'><img src=i></a>", "<https://docs.example.com/guide/x>", ["https://docs.example.com/guide/x"]),
    ("a <a href='x'>b </a>c", "a [b](https://docs.example.com/guide/x) c", ["https://docs.example.com/guide/x"]),
    ("<base href='https://other.example/d/'><a href='x'>b</a>", "[b](https://other.example/d/x)", ["https://other.example/d/x"]),
    ("<a href='x'>1</a> <a href='./x'>2</a>", "[1](https://docs.example.com/guide/x) [2](https://docs.example.com/guide/x)", ["https://docs.example.com/guide/x"]),
    ("<a href='http://docs.example.com/x'>h</a>", "[h](http://docs.example.com/x)", ["http://docs.example.com/x"]),
    ("<a href='#top'>top</a> <a>none</a> <a href=''>self</a>", "top none self", []),
    ("<a href='javascript:x()'>js</a> <a href='mailto:a@b.c'>m</a> <a href='file:///etc'>f</a> <a href='data:,x'>d</a>", "js m f d", []),
    ("<a href='https://user@evil.net/'>u</a> <a href='https:\\\\evil.net'>b</a> <a href='https://a b/'>s</a>", "u b s", []),
    ("<p hidden><a href='/secret'>x</a></p>y", "y", []),
]  # fmt: skip


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
