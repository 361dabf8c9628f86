"""Hosts that a person could mistake for others."""

from __future__ import annotations

import pytest

from leeward.security.url import Url, host_facts, host_warning, parse_url

ODD = [
    ("аррӏе.com", "drawn like apple.com"),
    ("раypal.com", "mixes scripts"),
    ("gооgle.com", "mixes scripts"),
    ("αpple.com", "mixes scripts"),
    ("ɡoogle.com", "drawn like google.com"),
    ("сосо.example.com", "drawn like coco.example.com"),
    ("www.хус.com", "www.xyc.com"),
    ("ցոօց.com", "in letters of another script"),
]
ORDINARY = [
    "apple.com", "münchen.de", "straße.de", "пример.рф", "соч.com", "日本語.jp", "toyota日本ひらカタ.jp",
    "ひらカタカナー.jp",
    "한국.kr", "한국漢字.kr", "中文.cn", "ελλάδα.gr", "हिन्दी.भारत", "ไทย.th", "عربي.com", "xn--0.com",
    "10.1.2.3",
]  # fmt: skip


def host_of(text: str) -> str:
    url = parse_url(f"https://{text}/")
    assert isinstance(url, Url), text
    return url.host


@pytest.mark.parametrize(("host", "said"), ODD)
def test_odd_hosts_are_shown_in_ascii_with_a_warning(host: str, said: str) -> None:
    url = parse_url(f"https://{host}/x")
    assert isinstance(url, Url)
    assert url.text.isascii()
    assert "xn--" in url.text
    warning = host_warning(url.host)
    assert warning is not None
    assert said in warning
    assert host in warning
    assert host_facts(url) == (("warning", warning),)


@pytest.mark.parametrize("host", ORDINARY)
def test_ordinary_hosts_are_not_warned_about(host: str) -> None:
    assert host_warning(host_of(host)) is None
    assert host_warning("xn--zzzz--.com") is None
