"""Prices of the package genai-prices: the person's own go before them, and a service of theirs has none."""

from __future__ import annotations

import sys

import pytest

from leeward.runtime.conversation import prices
from leeward.runtime.conversation.cost import Meter, Price
from leeward.runtime.conversation.prices import listed_price
from leeward.runtime.providers.interface import Usage
from leeward.security.lazy import LazyModule


@pytest.fixture(autouse=True)
def _forgotten():
    listed_price.cache_clear()
    yield
    listed_price.cache_clear()


@pytest.mark.parametrize("model", ["openai:gpt-4o", "anthropic:claude-sonnet-4-5", "gemini:gemini-2.5-pro"])
def test_known_models_have_a_price_and_what_was_cached_costs_less(model):
    price = listed_price(model)
    assert price is not None and not price.is_free
    assert 0 < price.of(Usage(1000, 100, cache_read_tokens=900)) < price.of(Usage(1000, 100))
    assert price.of(Usage(2000, 200)) == pytest.approx(2 * price.of(Usage(1000, 100)))


@pytest.mark.parametrize("model", ["openai:nonesuch-9", "nobody:gpt-4o", "offline", "gpt-4o", ":", "openai:"])
def test_what_nobody_knows_has_none(model):
    assert listed_price(model) is None


def test_a_service_the_person_named_is_none_it_knows():
    assert listed_price("openai:gpt-4o", own=frozenset({"openai"})) is None


def test_without_the_package_there_are_none(monkeypatch):
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    monkeypatch.setattr(prices, "genai_prices", LazyModule("genai_prices"))
    assert listed_price("openai:gpt-4o") is None
    assert "no entry of [[cost.prices]] fits" in Meter(limit=1.0, look_up=listed_price).objection(
        "openai:gpt-4o"
    )


def test_the_persons_own_price_goes_first_and_a_limit_is_kept_by_either():
    meter = Meter([Price("openai:*", 1, 1)], limit=1.0, look_up=listed_price)
    assert meter.add("openai:gpt-4o", Usage(1_000_000, 0)).cost == 1.0
    assert "has cost 1.0000" in meter.objection("openai:gpt-4o")
    meter = Meter(limit=1.0, look_up=listed_price)
    assert meter.objection("openai:gpt-4o") == ""
    assert (meter.add("openai:gpt-4o", Usage(1_000_000, 0)).cost or 0) > 1.0
    assert "has cost" in meter.objection("openai:gpt-4o")
    assert meter.add_untold("openai:gpt-4o", 1000, 10).cost


async def test_a_session_is_charged_by_it(sessions, tmp_path):
    async with sessions.session(tmp_path, says=["hi"]) as runtime:
        assert runtime.talk.meter.price_of("openai:gpt-4o") is not None
    config = '[[llm.providers]]\nname = "openai"\nkind = "openai"\nbase_url = "http://127.0.0.1:9/v1"\n'
    async with sessions.session(tmp_path, config, says=["hi"]) as runtime:
        assert runtime.talk.meter.price_of("openai:gpt-4o") is None
