"""When is a model asked again? After a failure that passes, if nothing of the answer was told yet.

How long to wait follows "full jitter" (Brooker, "Exponential Backoff And Jitter", 2015): anything
between nothing and a bound that doubles, so that clients which failed together do not return together.
A server that names a time is given it. What counts as passing is said by `ModelError.passing`; a server
that falls silent is given up by `transport.py`.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass

import trio

from .interface import (
    CallRequested,
    ModelCatalog,
    ModelError,
    ModelEvent,
    ModelInfo,
    Provider,
    Request,
    Retrying,
    TextDelta,
)

__all__ = ["RetryPolicy", "RetryingProvider", "is_told", "models_of"]

_RANDOM = secrets.SystemRandom()


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """At most `retries` further tries, none begun later than `seconds` after the first failure.

    Waits are drawn between nothing and `first_wait`, doubled with each try up to `longest_wait` seconds.
    """

    retries: int = 4
    seconds: float = 120.0
    first_wait: float = 1.0
    longest_wait: float = 30.0


class RetryingProvider:
    """A provider that is asked again where that can help."""

    def __init__(
        self,
        provider: Provider,
        policy: RetryPolicy | None = None,
        random: Callable[[], float] = _RANDOM.random,
    ) -> None:
        """Wrap a provider; `random` gives numbers from 0 up to 1."""
        self._provider = provider
        self._policy = policy or RetryPolicy()
        self._random = random

    @property
    def name(self) -> str:
        """The name under which the person chose it."""
        return self._provider.name

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncGenerator[AsyncIterator[ModelEvent], None]:
        """Ask, and read the reply as it comes; `Retrying` tells of each wait before it begins.

        Raises:
            ModelError: as the provider's last try, or once a part of the answer was told.
        """
        async with aclosing(self._events(request)) as events:
            yield events

    async def list_models(self) -> tuple[ModelInfo, ...]:
        """Return what the service offers, asked once.

        Raises:
            ModelError: it could not be asked.
        """
        return await models_of(self._provider)

    async def _events(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        tried, gives_up_at = 0, math.inf
        while True:
            told = False
            try:
                async with self._provider.stream(request) as events:
                    async for event in events:
                        told = told or is_told(event)
                        yield event
                return
            except ModelError as error:
                gives_up_at = min(gives_up_at, trio.current_time() + self._policy.seconds)
                wait = self._wait(tried, error)
                too_late = trio.current_time() + wait > gives_up_at
                if told or not error.passing or tried >= self._policy.retries or too_late:
                    raise
                reason = str(error)
            tried += 1
            yield Retrying(reason, wait)
            await trio.sleep(wait)

    def _wait(self, tried: int, error: ModelError) -> float:
        """Return the seconds until the next try; a time the server named is never cut short."""
        policy = self._policy
        drawn = self._random() * min(policy.longest_wait, policy.first_wait * 2**tried)
        return drawn if error.retry_after is None else error.retry_after + self._random() * policy.first_wait


def is_told(event: ModelEvent) -> bool:
    """Whether an event is a part of the answer, after which another try would say things twice."""
    return isinstance(event, (TextDelta, CallRequested))


async def models_of(provider: Provider) -> tuple[ModelInfo, ...]:
    """Return the models a provider's service offers; one without a service offers none.

    Raises:
        ModelError: it could not be asked.
    """
    if isinstance(provider, ModelCatalog):
        return await provider.list_models()
    await trio.lowlevel.checkpoint()
    return ()
