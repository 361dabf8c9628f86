"""Which URLs are known and how far each reaches; views are independent of later additions."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leeward.security.url import Ledger, Provenance, Url, parse_url
from leeward.security.url.parse import comparable

PERSON, LINK, HINT = Provenance.PERSON, Provenance.LINK, Provenance.HINT


def url(text: str) -> Url:
    parsed = parse_url(text)
    assert isinstance(parsed, Url), parsed
    return parsed


def knowing(*texts: str, provenance: Provenance = PERSON) -> Ledger:
    return Ledger().with_urls(map(url, texts), provenance)


GOOD = "https://good.com/a/b"

# What is known, what is asked for, and what is added to it (None: it stands on nothing).
REACH = [
    (GOOD, GOOD, ""),
    (GOOD, GOOD + "/", ""),
    (GOOD + "/", GOOD, ""),
    (GOOD, GOOD + "/c/d", ""),
    (GOOD, "https://good.com/a", ""),
    (GOOD, "https://good.com", ""),
    (GOOD, "https://GOOD.com./%61/b", ""),
    ("https://good.com", "https://good.com/any/thing", ""),
    ("https://good.com/a?x=1", "https://good.com/a?x=1", ""),
    ("https://good.com/a?x=1#top", "https://good.com/a/?x=1", ""),
    ("https://good.com/a?x=1#top", "https://good.com/a?x=1#top", ""),
    ("https://good.com/a?x=1", "https://good.com/a", ""),
    ("http://good.com/a", "https://good.com/a", ""),
    ("http://good.com:8080/a", "http://good.com:8080/a/b", ""),
    (GOOD, GOOD + "?x=1", "?x=1"),
    (GOOD, GOOD + "#x", "#x"),
    (GOOD, GOOD + "/c?x=1#y", "?x=1#y"),
    ("https://good.com/a?x=1", "https://good.com/a?x=2", "?x=2"),
    ("https://good.com/a?x=1", "https://good.com/a?x=1&y=2", "&y=2"),
    ("https://good.com/a?x=1", "https://good.com/a?x=12", "?x=12"),
    ("https://good.com/a?x=1", "https://good.com/a/b?x=1", "?x=1"),
    ("https://good.com/a?x=1", "https://good.com/?x=1", "?x=1"),
    (GOOD, "https://good.com/a/c", None),
    (GOOD, "https://good.com/a/bc", None),
    (GOOD, "https://good.com/c", None),
    (GOOD, "https://good.com//a/b", None),
    (GOOD, "https://good.com/A/b", None),
    (GOOD, "https://good.com.evil.net/a/b", None),
    (GOOD, "https://evil.net/https://good.com/a/b", None),
    (GOOD, "https://sub.good.com/a/b", None),
    (GOOD, "https://www.good.com/a/b", None),
    (GOOD, "https://good.com:8443/a/b", None),
    (GOOD, "http://good.com/a/b", None),
    ("http://good.com:8080/a", "https://good.com/a", None),
    ("http://good.com:8443/a", "https://good.com:8443/a", None),
    ("http://good.com/a", "https://good.com:8443/a", None),
    ("https://good.com/wiki/C_(x)", "https://good.com/wiki/C_%28x%29", ""),
    ("https://good.com/wiki/C_%28x%29!", "https://good.com/wiki/C_(x)%21/Talk's*", ""),
    ("https://good.com/s?q=(a)", "https://good.com/s?q=%28a%29", ""),
    ("https://good.com/s?q=(a)", "https://good.com/s?q=%28a%29&x=1", "&x=1"),
    ("https://good.com/a%2Fb", "https://good.com/a/b", None),
    ("https://good.com/a%3Fb", "https://good.com/a?b", None),
    ("https://good.com/C_(x)", "https://good.com/C_x", None),
]


@pytest.mark.parametrize("provenance", [PERSON, Provenance.SLASH, Provenance.CONFIG])
@pytest.mark.parametrize(("known", "asked", "added"), REACH)
def test_what_a_person_gave_reaches_up_and_down(
    known: str, asked: str, added: str | None, provenance: Provenance
) -> None:
    grounding = knowing(known, provenance=provenance).lookup(url(asked))
    if added is None:
        assert grounding.source is None
    else:
        assert (grounding.source, grounding.provenance, grounding.added) == (url(known), provenance, added)


@pytest.mark.parametrize("provenance", [LINK, Provenance.SEARCH, Provenance.REDIRECT])
@pytest.mark.parametrize(("known", "asked", "added"), REACH)
def test_what_was_found_reaches_only_itself(
    known: str, asked: str, added: str | None, provenance: Provenance
) -> None:
    one, other = url(known), url(asked)
    first, second = ([comparable(part) for part in (*u.segments, "?", u.query or "")] for u in (one, other))
    same = added is not None and first == second
    assert (knowing(known, provenance=provenance).lookup(other).source is not None) == same


def test_the_surest_ground_counts() -> None:
    asked = url("https://good.com/a/b?x=1")
    ledger = knowing("https://good.com/a", provenance=HINT)
    assert (ledger.lookup(asked).provenance, ledger.lookup(asked).added) == (HINT, "?x=1")
    ledger = ledger.with_urls([url("https://good.com/a")], PERSON)
    assert (ledger.lookup(asked).provenance, ledger.lookup(asked).added) == (PERSON, "?x=1")
    ledger = ledger.with_urls([asked], LINK)
    assert (ledger.lookup(asked).provenance, ledger.lookup(asked).added) == (LINK, "")


NEAREST = [
    (["https://good.com/x", "https://good.com/a/b"], "https://good.com/a/c", "https://good.com/a/b"),
    (["https://other.org/", "https://good.com/a"], "https://goood.com/b", "https://good.com/a"),
    (["https://other.org/"], "https://www.other.org/x", "https://other.org/"),
    (["https://unlike.io/"], "https://a-thing.com/", None),
    ([], "https://good.com/", None),
]


@pytest.mark.parametrize(("known", "asked", "nearest"), NEAREST)
def test_a_refusal_can_name_the_nearest(known: list[str], asked: str, nearest: str | None) -> None:
    found = knowing(*known).lookup(url(asked)).nearest
    assert (found.text if found else None) == nearest


def test_a_longer_view_is_not_seen_from_a_shorter_one() -> None:
    short = knowing("https://a.com/")
    long = short.with_urls([url("https://b.com/"), url("https://a.com/"), url("https://b.com/")], PERSON)
    fork = short.with_urls([url("https://c.com/")], LINK)
    assert [u.text for u, _ in short.entries()] == ["https://a.com/"]
    assert [u.text for u, _ in long.entries()] == ["https://a.com/", "https://b.com/"]
    assert [u.text for u, _ in fork.entries()] == ["https://a.com/", "https://c.com/"]
    assert short.lookup(url("https://b.com/")).source is None
    assert short.lookup(url("https://b.con/")).nearest != url("https://b.com/")
    assert long.lookup(url("https://c.com/")).source is None
    assert short.with_urls([], PERSON) == short == knowing("https://a.com/")
    assert hash(short) == hash(knowing("https://a.com/"))
    assert (short != long, len(long), Ledger() == knowing()) == (True, 2, True)


URLS = st.sampled_from(
    [url(f"https://{host}.com/{path}") for host in "abc" for path in ("", "x", "x/y", "z?q")]
)


STEPS = st.tuples(st.integers(0, 99), st.lists(URLS, max_size=3), st.sampled_from([*Provenance, None, None]))


@given(st.lists(STEPS, max_size=12), URLS)
def test_views_behave_like_lists_that_are_copied(
    steps: list[tuple[int, list[Url], Provenance | None]], asked: Url
) -> None:
    """Adding and forgetting (no provenance) on any earlier view leaves all others what they were."""
    views: list[tuple[Ledger, dict[tuple[Url, Provenance], None]]] = [(Ledger(), {})]
    for base, urls, provenance in steps:
        ledger, model = views[base % len(views)]
        if provenance is None:
            views.append((ledger.without(urls), {entry: None for entry in model if entry[0] not in urls}))
        else:
            views.append(
                (ledger.with_urls(urls, provenance), model | dict.fromkeys((one, provenance) for one in urls))
            )
    for ledger, model in views:
        assert ledger.entries() == tuple(model) and len(ledger) == len(model)
        assert ledger.has(asked) == any(one == asked and how not in ECHOES for one, how in model)
        fresh = Ledger()
        for one, provenance in model:
            fresh = fresh.with_urls([one], provenance)
        assert (ledger.lookup(asked).source, ledger.lookup(asked).added) == (
            fresh.lookup(asked).source,
            fresh.lookup(asked).added,
        )


EXACT = [
    ("https://good.com/a", "https://good.com/a", True),
    ("https://good.com/a", "https://good.com/a/#x", True),
    ("http://good.com/a", "https://good.com/a", True),
    ("https://good.com/a", "http://good.com/a", False),
    ("https://good.com/a", "https://good.com/a/b", False),
    ("https://good.com/a", "https://good.com/", False),
    ("https://good.com/a", "https://good.com/a?x", False),
    ("https://good.com/a?x", "https://good.com/a", False),
    ("https://good.com/a", "https://www.good.com/a", False),
]


ECHOES = {Provenance.REDIRECT, Provenance.DERIVED}


@pytest.mark.parametrize("provenance", list(Provenance))
@pytest.mark.parametrize(("known", "asked", "exact"), EXACT)
def test_what_is_known_exactly(known: str, asked: str, exact: bool, provenance: Provenance) -> None:
    assert knowing(known, provenance=provenance).has(url(asked)) is (exact and provenance not in ECHOES)


def test_what_lies_below_is_told_from_the_closest_entry() -> None:
    ledger = knowing("https://good.com/", "https://good.com/a/b")
    assert ledger.lookup(url("https://good.com/a/b/c/d")).below == ("c", "d")
    assert ledger.lookup(url("https://good.com/x/y")).below == ("x", "y")
    assert ledger.lookup(url("https://good.com/a")).below == ()


def test_adding_and_looking_up_do_not_slow_down_with_what_is_known_of_others() -> None:
    started = time.process_time()
    ledger = Ledger()
    template = url("https://h.example/x")
    for number in range(20_000):
        host = f"h{number}.example"
        one = Url(f"https://{host}/x", "https", host, 443, template.segments, None, None)
        ledger = ledger.with_urls([one], LINK)
        assert ledger.lookup(one).source is one
    assert time.process_time() - started < 3
