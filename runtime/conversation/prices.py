"""Look up what a model costs in the package genai-prices, where it is installed (`leeward[prices]`).

Its data is that of the installed version: nothing is fetched. The person's own prices go before it, and a
service that the person named is none it knows, whatever it is called.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import TYPE_CHECKING

from leeward.security.lazy import LazyModule, dataclass

from ..providers.interface import Usage

if TYPE_CHECKING:
    import genai_prices
    from genai_prices.types import PriceCalculation
else:
    # An extra, and 0.2 s to load.
    genai_prices = LazyModule("genai_prices")

__all__ = ["ListedPrice", "listed_price"]

_SOME = Usage(1000, 1000)
_PROVIDERS = {"gemini": "google"}
"""Services that the package calls otherwise."""


@dataclass(frozen=True, slots=True)
class ListedPrice:
    """What replies of one model cost, in US dollars, by the package's data."""

    provider: str
    name: str

    @property
    def is_free(self) -> bool:
        """Whether nothing of it costs anything."""
        return not self.of(_SOME)

    def of(self, usage: Usage) -> float:
        """Return what a reply cost."""
        found = _calculated(self, usage)
        return 0.0 if found is None else float(found.total_price)


@cache
def listed_price(model: str, own: Collection[str] = frozenset()) -> ListedPrice | None:
    """Return the price of PROVIDER:NAME, None where nobody knows it; `own` are services the person named."""
    provider, _, name = model.partition(":")
    if not name or provider in own:
        return None
    price = ListedPrice(_PROVIDERS.get(provider, provider), name)
    return price if _calculated(price, _SOME) is not None else None


def _calculated(price: ListedPrice, usage: Usage) -> PriceCalculation | None:
    try:
        counted = genai_prices.Usage(
            input_tokens=usage.input_tokens,
            cache_read_tokens=usage.cache_read_tokens or None,
            cache_write_tokens=usage.cache_write_tokens or None,
            output_tokens=usage.output_tokens,
        )
        return genai_prices.calc_price(counted, price.name, provider_id=price.provider)
    except (ImportError, LookupError, ValueError):
        return None
