"""What a resumed session keeps, and what lapses when it is resumed elsewhere."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from leeward.security.call import Status
from leeward.security.checks.grounding import _carries_value
from leeward.security.session import (
    Decided,
    Finished,
    Grant,
    Granted,
    LevelSet,
    Resumed,
    Scope,
    Session,
    TextSeen,
    UrlsAdded,
    apply_events,
)
from leeward.security.trust import Origin, TrustLevel
from leeward.security.url import Grounding, Ledger, Provenance, fingerprints_in, parse_url

URLS = [f"https://{host}.example/" for host in "abc"]


def fold(session: Session, *events) -> Session:
    for event in events:
        session = apply_events(session, event)
    return session


PAST = (
    UrlsAdded(1, (URLS[0],), Provenance.PERSON),
    UrlsAdded(1, (URLS[1], URLS[0]), Provenance.CONFIG),
    TextSeen(2, (Origin.WEB,), ("06aabbccddee",)),
    LevelSet(3, "raised", TrustLevel.TRUSTED, "the person"),
    LevelSet(3, "blocked", TrustLevel.BLOCKED, "anomaly window"),
    Granted(4, Grant("g_1", "shell", "git status")),
    Granted(4, Grant("g_2", "shell", "make", Scope.WORKSPACE)),
    Decided(5, "ran", "shell", "h", allowed=True),
)


def test_in_the_same_place_all_comes_back_but_what_ran(make) -> None:
    before = fold(make.session(), *PAST)
    now = apply_events(before, Resumed(9, lapsed=False))
    assert (now.ledger, now.labels, now.seen, now.levels, now.breaker, now.anomaly) == (
        before.ledger,
        before.labels,
        before.seen,
        before.levels,
        before.breaker,
        before.anomaly,
    )
    assert (now.running, now.pending, now.calls_this_session) == (frozenset(), frozenset(), 1)
    assert [grant.id for grant in now.grants] == ["g_1"], "one that lasts is taken in anew, if it still holds"
    assert now.now == 9 and not now.capped


def test_the_obvious_way_is_found_wrong(make, planted) -> None:
    before = fold(make.session(), *PAST)
    wrong = planted("resumed").resumed(before, Resumed(9, lapsed=True))
    assert (
        wrong.grants
        and wrong.running
        and wrong.trust_in(make.spec("raised", level=TrustLevel.QUARANTINED)) is TrustLevel.TRUSTED
    )


def test_elsewhere_grants_and_endorsements_lapse_and_what_restricts_stays(make) -> None:
    now = fold(make.session(), *PAST, Resumed(9, lapsed=True))
    assert now.grants == () and now.labels == {Origin.WEB} and "06aabbccddee" in now.seen
    assert [(str(known.text), how) for known, how in now.ledger.entries()] == [(URLS[0], Provenance.PERSON)]
    assert now.level_of("blocked") == (TrustLevel.BLOCKED, "anomaly window")


def test_trust_that_was_raised_elsewhere_counts_no_more_and_trust_that_was_taken_still_does(make) -> None:
    for declared in TrustLevel:
        for said in TrustLevel:
            session = fold(make.session(), LevelSet(1, "tool", said, "the person"))
            spec = make.spec("tool", level=declared)
            assert session.trust_in(spec) is said
            lapsed = apply_events(session, Resumed(2, lapsed=True))
            assert lapsed.trust_in(spec) is max(said, declared)
            again = apply_events(lapsed, LevelSet(3, "tool", said, "the person"))
            assert again.trust_in(spec) is said or said is TrustLevel.BLOCKED, "said again, it counts again"


def test_a_call_that_ran_when_it_broke_off_is_no_failure_and_ends_once(make) -> None:
    now = fold(make.session(), *PAST, Resumed(9, lapsed=False))
    assert apply_events(now, Finished(10, "ran", "shell", "h", Status.ERROR)).anomaly == now.anomaly


def test_a_fork_still_recognises_what_was_read_before_it(make) -> None:
    marks = fingerprints_in("the token=hunter2hunter2", "s_root")
    read = TextSeen(1, (Origin.WORKSPACE,), marks)
    stranger = Session("s_fork", make.policy())
    fork = Session("s_fork", make.policy(), root="s_root")
    url = Grounding(source=parse_url("https://a.example/"))
    assert _carries_value("?x=hunter2hunter2", url, apply_events(fork, read))
    assert not _carries_value("?x=hunter2hunter2", url, apply_events(stranger, read)), (
        "by its own id it could not"
    )


@given(st.lists(st.tuples(st.sampled_from(URLS), st.sampled_from(Provenance)), max_size=8))
def test_what_is_known_otherwise_stays_as_it_was_known(known) -> None:
    ledger = Ledger()
    for url, how in known:
        ledger = ledger.with_urls([parse_url(url)], how)
    kept = ledger.known_otherwise(Provenance.CONFIG)
    assert kept.entries() == tuple(entry for entry in ledger.entries() if entry[1] is not Provenance.CONFIG)
