"""Host patterns, exact or with subdomains, and two lists combined."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leeward.security.url import covers_domain, domain_pattern, in_domains, listed_problem

READ = [
    ("docs.example.com", "docs.example.com"),
    ("Docs.EXAMPLE.com.", "docs.example.com"),
    ("*.Example.com", "*.example.com"),
    ("münchen.de", "xn--mnchen-3ya.de"),
    ("*.xn--mnchen-3ya.de", "*.xn--mnchen-3ya.de"),
    ("0x7f.1", "127.0.0.1"),
]
UNREAD = [
    "", "*", "*.", "*.*", "*example.com", "docs.*.com", "example.*", "**.example.com", "https://example.com",
    "example.com/",
    "example.com:443", "user@example.com", "exa mple.com", "example..com", "*.10.0.0.1", "a" * 64 + ".com",
    "[::1]",
]  # fmt: skip


@pytest.mark.parametrize(("text", "pattern"), READ)
def test_a_pattern_is_read_once_into_its_canonical_form(text: str, pattern: str) -> None:
    assert domain_pattern(text) == pattern == domain_pattern(pattern)


@pytest.mark.parametrize("text", UNREAD)
def test_anything_else_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        domain_pattern(text)


COVERED = [
    ("example.com", "example.com", True),
    ("example.com", "www.example.com", False),
    ("example.com", "badexample.com", False),
    ("*.example.com", "www.example.com", True),
    ("*.example.com", "a.b.example.com", True),
    ("*.example.com", "example.com", False),
    ("*.example.com", "badexample.com", False),
    ("*.example.com", "example.com.evil.net", False),
    ("*.0.0.1", "127.0.0.1", False),
    ("127.0.0.1", "127.0.0.1", True),
]


@pytest.mark.parametrize(("pattern", "host", "covered"), COVERED)
def test_what_a_pattern_covers(pattern: str, host: str, covered: bool) -> None:
    assert in_domains(host, ["other.org", pattern]) is covered
    assert covers_domain(pattern, host) is covered


LABELS = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3).map(".".join)
PATTERNS = st.tuples(st.sampled_from(["", "*."]), LABELS).map("".join)


@given(PATTERNS, PATTERNS, LABELS)
def test_what_a_covered_pattern_covers_is_covered(wide: str, narrow: str, host: str) -> None:
    if covers_domain(wide, narrow) and in_domains(host, [narrow]):
        assert in_domains(host, [wide])


LISTED = [
    ((), (), "example.com", None),
    ((), (), "1.1.1.1", None),
    ((), ("example.com",), "example.com", "domain_denylist"),
    ((), ("*.example.com",), "example.com", None),
    ((), ("1.1.1.1",), "1.1.1.1", "domain_denylist"),
    (("example.com",), (), "example.com", None),
    (("example.com",), (), "other.com", "domain_allowlist"),
    (("*.example.com",), ("bad.example.com",), "bad.example.com", "domain_denylist"),
    (("example.com",), (), "1.1.1.1", "domain_allowlist"),
    (("1.1.1.1",), (), "1.1.1.1", "domain_allowlist"),
    (("*.com",), (), "2606:4700::1", "domain_allowlist"),
]


@pytest.mark.parametrize(("allowed", "denied", "host", "rule"), LISTED)
def test_what_the_lists_make_of_a_host(allowed, denied, host, rule) -> None:
    found = listed_problem(host, allowed, denied)
    assert (found[0] if found else None) == rule
    if rule == "domain_allowlist":
        assert "not in allowlist" in found[1]
