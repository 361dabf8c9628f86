"""Who answers when a model cannot? The next of a list, if nothing of the answer was told yet.

Each provider writes the conversation down in its own dialect, so nothing has to be translated here. A
request that was understood and refused goes to nobody else: it would be the same request.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager

import trio

from .interface import ErrorKind, FellBack, ModelError, ModelEvent, ModelInfo, Provider, Request
from .retry import is_told, models_of

__all__ = ["FallbackProvider"]

_RETURN_AFTER = 300.0  # seconds until a model that failed is tried first again


class FallbackProvider:
    """Several providers, asked in order; one that stood in goes on for a while before the first is tried."""

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

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncGenerator[AsyncIterator[ModelEvent], None]:
        """Ask, and read the reply as it comes; `FellBack` tells who stands in and why, each time.

        Raises:
            ModelError: no provider could answer, or one failed after a part of its answer was told.
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
            told = False
            if why is not None:
                yield FellBack(provider.name, str(why))
            elif index != 0:
                yield FellBack(provider.name, self._reason, again=True)
            try:
                async with provider.stream(request) as events:
                    async for event in events:
                        told = told or is_told(event)
                        yield event
            except ModelError as error:
                if told or error.kind is ErrorKind.BAD_REQUEST:
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
    """Return the error of the preferred one, with what hindered the one that was to stand in."""
    return first.reworded(f"{first}; {name} could not stand in: {then}")
