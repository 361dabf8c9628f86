"""How much may a session do, try again and cost? The keys of [agent], [cost] and [tools.retry].

What all keys have in common is said in `config_models.py`.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from .narrowing import LOWER, LOWER_FROM_ENDLESS
from .types import Expected, ModelGlob, Section

__all__ = ["Agent", "Cost", "Price", "Retry"]

_WEEK = 7 * 24 * 3600


class Agent(Section):
    """How much a session may do."""

    max_turns: Annotated[
        int, Field(ge=1, le=1000, description="Replies of the model to one message of yours, at most."), LOWER
    ] = 25
    max_tool_calls_per_turn: Annotated[
        int, Field(ge=1, le=10_000, description="Tool calls for one message of yours, at most."), LOWER
    ] = 50
    max_tool_calls_per_session: Annotated[
        int, Field(ge=1, le=1_000_000, description="Tool calls in one session, at most."), LOWER
    ] = 500
    timeout: Annotated[
        float,
        Field(ge=0, le=_WEEK, description="Seconds a turn may take, your answers included; 0: no limit."),
        LOWER_FROM_ENDLESS,
    ] = 0.0
    context_tokens: Annotated[
        int,
        Field(ge=0, le=100_000_000, description="Tokens a model reads at once, its reply included; 0: any."),
        LOWER_FROM_ENDLESS,
    ] = 128_000


class Price(Section):
    """What a million tokens cost, in a currency of your choice; the first entry that fits a model counts."""

    model: Annotated[ModelGlob, Field(description="PROVIDER:NAME; * and ? are wildcards.")]
    input: Annotated[float, Field(ge=0, description="What is sent.")]
    output: Annotated[float, Field(ge=0, description="What is answered.")]
    cache_read: Annotated[
        float | None,
        Field(ge=0, description="What is sent and was in the service's cache; without it, as input."),
        Expected("a number, at least 0"),
    ] = None
    cache_write: Annotated[
        float | None,
        Field(ge=0, description="What is sent and put into that cache; without it, as input."),
        Expected("a number, at least 0"),
    ] = None


class Cost(Section):
    """What a session may cost. The offline model and scripts cost nothing."""

    max_session: Annotated[
        float,
        Field(ge=0, description="What a session may cost, by the prices below; 0: no limit."),
        LOWER_FROM_ENDLESS,
    ] = 0.0
    prices: Annotated[
        tuple[Price, ...], Field(strict=False, description="What models cost. No price is built in.")
    ] = ()


class Retry(Section):
    """Calls that failed in passing are made again, where their tool says that this does no harm."""

    retries: Annotated[int, Field(ge=0, le=2, description="Further tries of one call, at most."), LOWER] = 2
    first_wait: Annotated[
        float, Field(ge=0, le=60, description="Seconds before the first, at most; then twice as many.")
    ] = 0.5
    longest_wait: Annotated[
        float, Field(ge=0, le=600, description="Seconds before any of them, at most.")
    ] = 8.0
