"""Retry a model, and fall back to the next one, as long as nothing of an answer has been shown.

The wait follows "full jitter" (Brooker, "Exponential Backoff And Jitter", 2015): anything between nothing and
a bound that doubles, so that clients which failed together do not return together. A server that names a time
is given it. `ModelError.passing` decides what counts as passing; a silent server is given up by
`transport.py`. A request that was understood and refused is sent to no other model: it would be the same
request.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager

import trio

from leeward.security.lazy import dataclass

from .interface import (
    CallRequested,
    ErrorKind,
    FellBack,
    ModelCatalog,
    ModelError,
    ModelEvent,
    ModelInfo,
    Provider,
    Request,
    Retrying,
    TextDelta,
    takes_pictures,
    without_pictures,
)

__all__ = ["FallbackProvider", "RetryPolicy", "RetryingProvider", "is_shown", "models_of"]


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

    @property
    def takes_pictures(self) -> bool:
        """Whether it is given the pictures of a message."""
        return takes_pictures(self._provider)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncGenerator[AsyncIterator[ModelEvent], None]:
        """Ask, and read the reply as it comes; `Retrying` tells of each wait before it begins.

        Raises:
            ModelError: as the provider's last try, or once a part of the answer was sent on.
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
            shown = False
            try:
                async with self._provider.stream(request) as events:
                    async for event in events:
                        shown = shown or is_shown(event)
                        yield event
                return
            except ModelError as error:
                gives_up_at = min(gives_up_at, trio.current_time() + self._policy.seconds)
                wait = self._wait(tried, error)
                too_late = trio.current_time() + wait > gives_up_at
                if shown or not error.passing or tried >= self._policy.retries or too_late:
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


def is_shown(event: ModelEvent) -> bool:
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


_RETURN_AFTER = 300.0  # seconds until a model that failed is tried first again


class FallbackProvider:
    """Several providers, asked in order; a substitute goes on for a while before the first is tried again."""

    def __init__(self, providers: Sequence[Provider], return_after: float = _RETURN_AFTER) -> None:
        """Take providers, the preferred one first; `return_after` is in seconds.

        Raises:
            ValueError: there is none.
        """
        if not providers:
            raise ValueError("a list of providers needs at least one")
        self._providers = tuple(providers)
        self._return_after = return_after
        self._first = 0
        self._until = 0.0
        self._reason = ""

    @property
    def name(self) -> str:
        """The name of the preferred one, which the person chose."""
        return self._providers[0].name

    @property
    def takes_pictures(self) -> bool:
        """Whether the preferred one is given pictures; a substitute may get the text alone."""
        return takes_pictures(self._providers[0])

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncGenerator[AsyncIterator[ModelEvent], None]:
        """Ask, and read the reply as it comes; `FellBack` names each substitute and the reason.

        Raises:
            ModelError: no provider could answer, or one failed after a part of its answer was sent on.
        """
        async with aclosing(self._events(request)) as events:
            yield events

    async def list_models(self) -> tuple[ModelInfo, ...]:
        """Return what the preferred provider's service offers.

        Raises:
            ModelError: it could not be asked.
        """
        return await models_of(self._providers[0])

    async def _events(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        if trio.current_time() >= self._until:
            self._first = 0
        why: ModelError | None = None
        for index in (*range(self._first, len(self._providers)), *range(self._first)):
            provider = self._providers[index]
            shown = False
            sent = request if takes_pictures(provider) else without_pictures(request)
            note = "" if sent is request else "; it is sent no pictures"
            if why is not None:
                yield FellBack(provider.name, f"{why}{note}")
            elif index != 0:
                yield FellBack(provider.name, f"{self._reason}{note}", again=True)
            try:
                async with provider.stream(sent) as events:
                    async for event in events:
                        shown = shown or is_shown(event)
                        yield event
            except ModelError as error:
                if shown or error.kind is ErrorKind.BAD_REQUEST:
                    raise
                why = error if why is None else _both(why, error, provider.name)
            else:
                self._stay_with(index, why)
                return
        assert why is not None
        raise why

    def _stay_with(self, index: int, why: ModelError | None) -> None:
        """Ask this one first for a while, so that not every request waits for the one that failed."""
        if index != self._first:
            self._first, self._until = index, trio.current_time() + self._return_after
            self._reason = str(why)


def _both(first: ModelError, then: ModelError, name: str) -> ModelError:
    """Return the error of the preferred one, with what kept the substitute from answering."""
    return first.reworded(f"{first}; {name} could not answer in its place: {then}")
