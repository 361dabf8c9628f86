"""Parsing URLs: one meaning each, or an error."""

from __future__ import annotations

import ada_url
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.security.kinds import Unreadable
from leeward.security.url import MAX_BYTES, Url, join_url, parse_url, same_site

CANONICAL = [
    ("https://example.com", "https://example.com/"),
    ("HTTPS://Example.COM/Path", "https://example.com/Path"),
    ("https://example.com.", "https://example.com/"),
    ("https://example.com:443/", "https://example.com/"),
    ("http://example.com:80/", "http://example.com/"),
    ("https://example.com:00443/", "https://example.com/"),
    ("https://example.com:/", "https://example.com/"),
    ("https://example.com:8443/x", "https://example.com:8443/x"),
    ("https://münchen.de/", "https://xn--mnchen-3ya.de/"),
    ("https://faß.de/", "https://xn--fa-hia.de/"),
    ("https://例え.jp/", "https://xn--r8jz45g.jp/"),
    ("https://ｅｘ．com/", "https://ex.com/"),
    ("https://good。com/", "https://good.com/"),
    ("https://under_score.example.com/", "https://under_score.example.com/"),
    ("http://2130706433/", "http://127.0.0.1/"),
    ("http://0x7f.1/", "http://127.0.0.1/"),
    ("http://0177.0.0.1./", "http://127.0.0.1/"),
    ("https://①②⑦.0.0.1/", "https://127.0.0.1/"),
    ("https://[::FFFF:1.2.3.4]:8443/", "https://[::ffff:102:304]:8443/"),
    ("https://ex.com/%61%7e%2f%c3%a9", "https://ex.com/a~%2F%C3%A9"),
    ("https://ex.com/é", "https://ex.com/%C3%A9"),
    ("https://ex.com/100%", "https://ex.com/100%25"),
    ("https://ex.com/%zz", "https://ex.com/%25zz"),
    ("https://ex.com/a/./b/", "https://ex.com/a/b/"),
    ("https://ex.com/a//b", "https://ex.com/a//b"),
    ("https://ex.com/?", "https://ex.com/"),
    ("https://ex.com/#", "https://ex.com/"),
    ("https://ex.com?q=a%2fb&c=%7E#%41", "https://ex.com/?q=a%2Fb&c=~#A"),
    ("https://ex.com/?next=../a", "https://ex.com/?next=../a"),
    ("https://ex.com/v1...v2", "https://ex.com/v1...v2"),
    ("https://ex.com/.well-known/x", "https://ex.com/.well-known/x"),
    (
        "https://gitlab.com/api/v4/projects/group%2fproject",
        "https://gitlab.com/api/v4/projects/group%2Fproject",
    ),
    ("https://medium.com/@user", "https://medium.com/@user"),
    ("https://web.archive.org/web/2020/https://ex.com/", "https://web.archive.org/web/2020/https://ex.com/"),
    (
        "https://fa.example/می\u200cخواهم",
        "https://fa.example/%D9%85%DB%8C%E2%80%8C%D8%AE%D9%88%D8%A7%D9%87%D9%85",
    ),
    ("https://ex.com/❤\ufe0f", "https://ex.com/%E2%9D%A4%EF%B8%8F"),
]

REFUSED = [
    *[
        (raw, "type_pattern_mismatch")
        for raw in ("", "example.com", "example.com/a", "//example.com", "/etc")
    ],
    *[(raw, "type_pattern_mismatch") for raw in ("localhost:8080", "example.com:80/a", "https", "https:")],
    *[
        (f"{raw}:x//ex.com", "unexpected_scheme")
        for raw in ("file", "ftp", "data", "javascript", "httpss", "ws")
    ],
    ("file:///etc/passwd", "unexpected_scheme"),
    ("mailto:me@example.com", "unexpected_scheme"),
    ("view-source:https://ex.com", "unexpected_scheme"),
    *[
        (raw, "type_pattern_mismatch")
        for raw in ("https:ex.com", "https:/ex.com", "https:///ex.com", "https:////x.y")
    ],
    *[
        (raw, "type_pattern_mismatch")
        for raw in ("https:\\\\ex.com", "https:/\\ex.com", "https://ex.com\\@evil.net")
    ],
    ("https://ex.com/a\\..\\b", "path_traversal"),
    *[
        (raw, "type_pattern_mismatch")
        for raw in (" https://ex.com", "https://ex.com ", "https://ex.com/a b", "https://e x.com")
    ],
    *[
        (raw, "type_pattern_mismatch")
        for raw in ("https://ex.com/\u3000", "https://ex.com/\u00a0x", "https://ex.com/\ud800")
    ],
    *[(f"https://ex.com/{c}x", "control_character") for c in "\t\n\r\0\x1b\x7f\x85\u2028\u2029"],
    *[
        (f"https://ex{c}.com/", "invisible_character")
        for c in "\u200b\u200d\u200c\u00ad\u034f\u2060\ufe0f\U000e0041"
    ],
    *[
        (f"https://ex.com/a{c}b", "invisible_character")
        for c in "\u200b\u202e\u2066\ufeff\u200d\u3164\U000e0041\U000e0100"
    ],
    *[
        (f"https://{raw}", "userinfo")
        for raw in ("a@ex.com", "a:b@ex.com", "@ex.com", "good.com@evil.net/", "a＠ex.com", "a﹫ex.com")
    ],
    ("https://good.com%40evil.net/", "percent_encoded_segment"),
    ("https://ex%61mple.com/", "percent_encoded_segment"),
    ("https://[fe80::1%25eth0]/", "percent_encoded_segment"),
    *[
        (f"https://{raw}", "type_pattern_mismatch")
        for raw in ("/", "?x", "#x", ":443/", ".", "..", "a..b", ".a", "ex.com../")
    ],
    *[
        (f"https://ex.com{raw}", "type_pattern_mismatch")
        for raw in (":0/", ":65536/", ":a/", ":4４3/", ":-1/")
    ],
    *[(f"https://good.com{c}.evil.net/", "type_pattern_mismatch") for c in "／⁄∕⧸＼？＃：℀"],
    *[(f"https://good.com{c}.evil.net/", "type_pattern_mismatch") for c in "'\"(),;*!$&+=^|~`{}<>"],
    *[
        (f"https://{raw}/", "type_pattern_mismatch")
        for raw in ("256.1.1.1", "1.2.3.4.5", "09.1.1.1", "[::1", "[::g]", "::1")
    ],
    ("https://" + "a" * 64 + ".com/", "type_pattern_mismatch"),
    ("https://" + "a." * 127 + "com/", "type_pattern_mismatch"),
    *[
        (f"https://ex.com{raw}", "path_traversal")
        for raw in ("/..", "/a/../b", "/a/..?x", "/a/..#x", "/..;/admin", "/a/..;x=1/b")
    ],
    *[
        (f"https://ex.com/{raw}", "encoded_traversal")
        for raw in ("%2e%2e/x", "%2E%2e", ".%2e/x", "%2e./x", "a%2e%2eb", "%2e/x")
    ],
    *[
        (f"https://ex.com/{raw}", "encoded_traversal")
        for raw in (
            "..%2f..%2fx", "a%2F..%2fx", "..%5cx", "..%c0%afx", "%c0%ae%c0%ae/", "．．/x", "‥/x", "..／x",
            "..∕x", "%EF%BC%8E./x",
        )
    ],
    *[
        (f"https://ex.com/{raw}", "double_encoding")
        for raw in ("%252e%252e/x", "a%252fb", "%255c", "%25252e", "%%32e", "..%2525252f")
    ],
    *[(f"https://ex.com/{raw}", "control_character") for raw in ("%00", "a%0d%0aHost:x", "%0A", "%7f")],
    ("https://ex.com/" + "a" * MAX_BYTES, "type_pattern_mismatch"),
    ("https://ex.com/" + "é" * (MAX_BYTES // 4), "type_pattern_mismatch"),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "text"), CANONICAL)
def test_what_is_read_has_one_canonical_form(raw: str, text: str) -> None:
    url = parse_url(raw)
    assert isinstance(url, Url)
    assert (url.text, str(url)) == (text, text)
    assert parse_url(text) == url


@pytest.mark.parametrize(("raw", "pattern"), REFUSED)
def test_what_would_need_a_repair_is_refused(raw: str, pattern: str) -> None:
    refused = parse_url(raw)
    assert isinstance(refused, Unreadable)
    assert refused.pattern == pattern
    assert "ex.com" not in refused.reason
    assert "evil" not in refused.reason


def test_the_parts_are_those_of_the_text() -> None:
    url = parse_url("https://[2001:DB8::1]:8443/a/%62//c/?q=1#top")
    assert url == Url(
        "https://[2001:db8::1]:8443/a/b//c/?q=1#top",
        "https",
        "2001:db8::1",
        8443,
        ("a", "b", "", "c"),
        "q=1",
        "top",
    )
    assert url.target == "/a/b//c/?q=1"
    root = parse_url("http://ex.com#top")
    assert isinstance(root, Url)
    assert (root.segments, root.port, root.query, root.target) == ((), 80, None, "/")


PIECES = [
    "https://",
    "http:",
    "a",
    "ex.com",
    ".",
    "..",
    "/",
    "%",
    "2e",
    "%2e",
    "25",
    "é",
    "。",
    "?",
    "#",
    "@",
    ":",
    "443",
]
PIECES += [
    "0",
    "\\",
    "；",
    ";",
    "[",
    "]",
    "::1",
    "～",
    "|",
    "^",
    "{",
    "‥",
    "／",
    "\u200d",
    "ß",
    "%c3",
    "XN--",
    "'",
    "\t",
    " ",
]
URLISH = st.lists(st.sampled_from(PIECES), max_size=9).map("".join)


@given(st.one_of(URLISH, URLISH.map("https://ex.com/".__add__), URLISH.map("https://".__add__), st.text()))
@example("https://ex.com/./。")
@example("https://ex.com/%%32%65")
@example("https://ex.com/%25%36%31")
@example("https://ex.com./%2E.a")
def test_a_canonical_form_is_a_fixed_point_and_is_what_a_client_sends(raw: str) -> None:
    url = parse_url(raw)
    if isinstance(url, Unreadable):
        return
    assert parse_url(url.text) == url
    sent = ada_url.URL(url.text)
    assert sent.href == url.text
    assert (sent.pathname + sent.search, sent.hostname.strip("[]")) == (url.target, url.host)
    assert url.text.isascii()
    assert not {".", ".."} & set(url.segments)
    assert "@" not in url.text.split("/")[2]


@given(st.text(max_size=30))
@example("good.com@evil.net")
@example("good.com\\.evil.net")
@example("good.com\n.evil.net")
@example("good.com／.evil.net")
def test_the_host_read_is_the_host_a_browser_opens(host: str) -> None:
    url = parse_url(f"https://{host}")
    if isinstance(url, Url):
        assert url.host == ada_url.URL(f"https://{host}").hostname.removesuffix(".").strip("[]")


BASE = "https://h.example:8443/b/c/d;p?q#f"
REFERENCES = [
    ("", BASE), ("g", "/b/c/g"), ("./g", "/b/c/g"), ("g/", "/b/c/g/"), ("/g", "/g"), ("?y", "/b/c/d;p?y"),
    ("g?y", "/b/c/g?y"),
    ("#s", "/b/c/d;p?q#s"), ("g#s", "/b/c/g#s"), ("g?y#s", "/b/c/g?y#s"), (";x", "/b/c/;x"), (".", "/b/c/"),
    ("./", "/b/c/"),
    ("..", "/b/"), ("../", "/b/"), ("../g", "/b/g"), ("../..", "/"), ("../../g", "/g"), ("../../../g", "/g"),
    ("/./g", "/g"),
    ("/../g", "/g"), ("g.", "/b/c/g."), ("..g", "/b/c/..g"), ("g/./h", "/b/c/g/h"), ("g/../h", "/b/c/h"),
    ("g?y/../x", "/b/c/g?y/../x"),
    ("//g.example/x", "https://g.example/x"), ("https://g.example", "https://g.example/"),
    ("HTTP://g.example", "http://g.example/"),
    ("javascript:x()", None), ("mailto:a@b.c", None), ("file:///x", None), ("https:g", None),
    ("https://g.example/../x", None), ("a b", None),
    ("\\x", None), ("/%2e%2e/x", None), ("//u@g.example/", None), ("///g.example", None), ("//", None),
    ("g\n", None), ("h.example:80/x", None),
]  # fmt: skip


@pytest.mark.parametrize(("reference", "target"), REFERENCES)
def test_references_are_read_as_rfc_3986_has_it_and_nothing_is_repaired(
    reference: str, target: str | None
) -> None:
    base = parse_url(BASE)
    assert isinstance(base, Url)
    found = join_url(base, reference)
    if target is None:
        assert isinstance(found, Unreadable)
    else:
        assert isinstance(found, Url)
        assert found.text == (target if "://" in target else f"https://h.example:8443{target}")


@given(URLISH)
@example("../%2e")
@example("//h.example/..")
def test_what_a_reference_leads_to_is_canonical(reference: str) -> None:
    base = parse_url(BASE)
    assert isinstance(base, Url)
    found = join_url(base, reference)
    assert isinstance(found, Unreadable) or parse_url(found.text) == found


SITES = [
    ("https://a.example/", "https://a.example/x?y", True),
    ("https://a.example/", "https://www.a.example/", True),
    ("https://a.example/", "https://www.www.a.example/", False),
    ("https://a.example/", "https://b.a.example/", False),
    ("https://a.example/", "http://a.example/", False),
    ("https://a.example/", "https://a.example:8443/", False),
    ("https://a.example/", "https://wwwa.example/", False),
    ("https://example/", "https://www.example/", True),
]


@pytest.mark.parametrize(("one", "other", "same"), SITES)
def test_what_is_one_site(one: str, other: str, same: bool) -> None:
    first, second = parse_url(one), parse_url(other)
    assert isinstance(first, Url) and isinstance(second, Url)
    assert same_site(first, second) is same_site(second, first) is same
