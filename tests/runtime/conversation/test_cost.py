"""Costs are counted, and a session over its budget asks no model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leeward.runtime.conversation import cost_lines
from leeward.runtime.conversation.cost import Meter, Price, Spent
from leeward.runtime.events import Alert, EndReason
from leeward.runtime.providers.interface import ErrorKind, ModelError, TextDelta, Usage
from leeward.security.kinds import Effect
from leeward.tools.declare import Text, tool

M = 1_000_000


@pytest.mark.parametrize(
    ("price", "usage", "cost"),
    [
        (Price("*", 3, 15), Usage(M, 0), 3),
        (Price("*", 3, 15), Usage(0, M), 15),
        (Price("*", 3, 15), Usage(M, M, M), 18),
        (Price("*", 3, 15, cache_read=0.3), Usage(M, 0, M), 0.3),
        (Price("*", 3, 15, 0.3, 3.75), Usage(3 * M, 0, M, M), 3 + 0.3 + 3.75),
        (Price("*", 3, 15, cache_read=0), Usage(M, 0, M), 0),
        (Price("*", 3, 15, 0.3), Usage(1, 0, M), 0.3),  # a service that counts what was cached apart
    ],
)
def test_a_reply_has_its_price(price, usage, cost):
    assert price.of(usage) == pytest.approx(cost)


@pytest.mark.parametrize(
    ("model", "found"),
    [
        ("openai:large", 1),
        ("openai:small", 2),
        ("openai:", 2),
        ("other:small", None),
        ("offline", 0),
        ("scripted:/tmp/x.toml", 0),
        ("offline:not", None),
    ],
)
def test_the_first_price_that_fits_counts(model, found):
    meter = Meter([Price("openai:large", 1, 1), Price("openai:*", 2, 2), Price("openai:small", 9, 9)])
    price = meter.price_of(model)
    assert (price and price.input) == found or (price is None and found is None)


def test_turns_and_sessions_are_counted_apart():
    meter = Meter([Price("m", 1, 1)])
    meter.add("m", Usage(M, M, 5))
    meter.begin_turn()
    meter.add("m", Usage(M, 0))
    assert (meter.turn.cost, meter.session.cost) == (1, 3)
    assert (meter.turn.input_tokens, meter.session.input_tokens, meter.session.cache_read_tokens) == (
        M,
        2 * M,
        5,
    )


@given(
    st.lists(st.tuples(st.sampled_from(["m", "x"]), st.integers(0, 10**9), st.integers(0, 10**9)), max_size=8)
)
def test_nothing_that_was_spent_is_forgotten(replies):
    meter = Meter([Price("m", 2, 4)], limit=1.0)
    for model, sent, answered in replies:
        before = meter.session.cost
        meter.add(model, Usage(sent, answered))
        assert meter.session.cost >= before
    assert meter.session.cost == pytest.approx(
        sum((2 * i + 4 * o) / M for model, i, o in replies if model == "m")
    )
    assert (meter.session.known_cost is None) == any(model == "x" for model, *_ in replies)
    assert bool(meter.objection("m")) == (meter.session.cost >= 1.0)


@pytest.mark.parametrize(
    ("limit", "model", "spent", "word"),
    [
        (0, "unpriced", 10**6, ""),
        (1, "unpriced", 0, "no entry of [[cost.prices]] fits it"),
        (1, "m", 0, ""),
        (1, "m", M - 1, ""),
        (1, "m", M, "max_session"),
        (1, "offline", 0, ""),
        (1, "offline", M, "max_session"),
    ],
)
def test_a_limit_that_cannot_be_kept_is_not_passed_over(limit, model, spent, word):
    meter = Meter([Price("m", 1, 1)], limit)
    meter.add("m", Usage(spent, 0))
    assert (word in meter.objection(model)) and bool(meter.objection(model)) == bool(word)


def test_a_reply_of_which_nothing_was_told_is_estimated_and_said_so():
    meter = Meter([Price("m", 1, 1)])
    meter.add_untold("m", M, M)
    meter.add_untold("offline", M, M)
    assert meter.session == Spent(cost=2, untold=1)
    assert "1 replies estimated" in "\n".join(cost_lines(meter))
    meter.add_untold("x", 1, 1)
    assert "at least 2.0000: no price for x" in "\n".join(cost_lines(meter))


PRICES = (
    '[cost]\nmax_session = {limit}\n[[cost.prices]]\nmodel = "says"\ninput = 10\noutput = 20\ncache_read = '
    "1\n"
)


@tool(effects=Effect.READ)
async def peek(word: Text = "") -> str:
    """Look."""
    return word


@pytest.fixture
def talk(sessions, tmp_path):
    def opened(*says, limit="1"):
        return sessions.session(tmp_path, PRICES.format(limit=limit), says, executors=[peek])

    return opened


async def test_over_the_limit_no_further_request_is_made(talk):
    dear = [Usage(60_000, 20_000), ("peek", {"word": "a"})]
    async with talk(dear, "never") as runtime:
        ended = await runtime.turn("go")
        assert (ended.reason, ended.calls, ended.cost) == (EndReason.COST, 1, pytest.approx(1.0))
        assert len(runtime.provider.requests) == 1
        (alert,) = [event.message for event in runtime.heard if isinstance(event, Alert)]
        assert "1.0000 of the 1" in alert and "/new" in alert
        assert (await runtime.turn("again")).reason is EndReason.COST and len(runtime.provider.requests) == 1
        await runtime.new_session()
        assert (await runtime.turn("again")).reason is EndReason.DONE


async def test_cost_and_tokens_are_told_with_the_turn(talk):
    first = [Usage(1000, 10, 500), ("peek", {})]
    async with talk(first, [TextDelta("x"), Usage(2000, 20)], [TextDelta("y"), Usage(1, 1)]) as runtime:
        ended = await runtime.turn("go")
        assert (ended.input_tokens, ended.output_tokens, ended.cache_read_tokens) == (3000, 30, 500)
        assert ended.cost == pytest.approx((2500 * 10 + 500 * 1 + 30 * 20) / M)
        assert (await runtime.turn("and")).input_tokens == 1
        assert runtime.talk.meter.session.input_tokens == 3001


async def test_a_reply_that_broke_off_had_its_price(talk):
    broken = [TextDelta("word " * 1000), ModelError("gone", ErrorKind.UNAVAILABLE)]
    async with talk(broken, [ModelError("no key", ErrorKind.AUTH)]) as runtime:
        first = await runtime.turn("go")
        assert first.reason is EndReason.MODEL_ERROR and first.cost > 1000 * 20 / M
        assert (await runtime.turn("go")).cost == 0, "a request that was refused costs nothing"


async def test_without_a_price_the_cost_is_not_known(sessions, tmp_path):
    async with sessions.session(tmp_path, says=[[Usage(5, 5)]]) as runtime:
        assert (await runtime.turn("go")).cost is None
