"""The second model that reads for a session: no tools, no conversation, no more than one short answer.

It is the model that answers at the time, and what it is asked costs what any answer costs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from leeward.security.lazy import dataclass
from leeward.security.ports import ReaderFailed

from ..providers.interface import Message, ModelError, Request
from .compaction import answered

if TYPE_CHECKING:
    from ..providers.interface import Provider
    from .cost import Meter

__all__ = ["ModelReader"]

_MOST_TOKENS = 400


@dataclass(frozen=True, slots=True)
class ModelReader:
    """Asks the model that `provider` returns, for the session whose cost `meter` counts."""

    provider: Callable[[], Provider]
    meter: Meter

    async def read(self, rules: str, text: str) -> str:
        """Return the model's answer about a text, to one request that holds nothing else.

        Raises:
            ReaderFailed: it could not answer, or must not be asked any more; a call of a tool is no answer.
        """
        provider = self.provider()
        if provider.name == "offline":
            raise ReaderFailed("the offline model reads nothing")
        messages = (Message("system", rules), Message("user", text))
        try:
            return (await answered(provider, self.meter, Request(messages, max_tokens=_MOST_TOKENS))).text
        except ModelError as error:
            raise ReaderFailed(str(error)) from error
