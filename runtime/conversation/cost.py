"""Count the tokens and the cost of a turn and a session, and enforce the budget.

Prices are the person's, or those of a package that is kept up to date (`prices.py`): none is built in,
because they change too often. `turn.py` decides when the answer ends a turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from leeward.memory.sessions import Charge
from leeward.security.lazy import dataclass

from ..providers.interface import Usage
from .prices import ListedPrice

__all__ = ["Meter", "Price", "Spent", "cost_lines"]

_MILLION = 1_000_000
_FREE = ("offline", "scripted", "scripted:*")


@dataclass(frozen=True, slots=True)
class Price:
    """What a million tokens cost at the models whose name (PROVIDER:NAME) matches `model`, a glob.

    Tokens read from or put into a service's cache cost what other input does unless a price is given.
    """

    model: str
    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None

    @property
    def is_free(self) -> bool:
        """Whether nothing of it costs anything."""
        return not self.input and not self.output

    def of(self, usage: Usage) -> float:
        """Return what a reply cost."""
        plain = max(usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens, 0)
        read = self.input if self.cache_read is None else self.cache_read
        written = self.input if self.cache_write is None else self.cache_write
        cost = plain * self.input + usage.output_tokens * self.output
        return (cost + usage.cache_read_tokens * read + usage.cache_write_tokens * written) / _MILLION


@dataclass(frozen=True, slots=True)
class Spent:
    """Tokens as reported by the services, and money.

    `cost` is what is known of it: models in `unpriced` answered at no known price. It holds estimates for
    the `untold` replies whose service reported nothing, such as those that broke off.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cost: float = 0.0
    unpriced: frozenset[str] = frozenset()
    untold: int = 0

    @property
    def known_cost(self) -> float | None:
        """The cost, None where it is not known."""
        return None if self.unpriced else self.cost

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cost + other.cost,
            self.unpriced | other.unpriced,
            self.untold + other.untold,
        )


class Meter:
    """What one session spends; `limit` is how much money it may (0: any), by the prices given.

    `look_up` returns the price of a model that fits no pattern, or None.
    """

    def __init__(
        self,
        prices: Sequence[Price] = (),
        limit: float = 0.0,
        look_up: Callable[[str], ListedPrice | None] = lambda _: None,
    ) -> None:
        self._look_up = look_up
        self._prices = (*prices, *(Price(name, 0.0, 0.0) for name in _FREE))
        self.limit = limit
        self.turn: Spent = Spent()
        self.session: Spent = Spent()

    def begin_turn(self) -> None:
        """Count a turn's own spending from here."""
        self.turn = Spent()

    def resume(self, charges: Iterable[Charge]) -> None:
        """Start from what a session has spent before."""
        for charge in charges:
            unpriced = frozenset({charge.model}) if charge.cost is None else frozenset()
            tokens = charge.input_tokens, charge.output_tokens, charge.cache_read_tokens
            self.session += Spent(*tokens, charge.cost or 0.0, unpriced, charge.estimated)

    def add(self, model: str, usage: Usage) -> Charge:
        """Count a reply of a model as its service reported it, and return what it cost."""
        price = self.price_of(model)
        cost = 0.0 if price is None else price.of(usage)
        tokens = usage.input_tokens, usage.output_tokens, usage.cache_read_tokens
        self._count(Spent(*tokens, cost, _missing(model, price)))
        return Charge(model, *tokens, None if price is None else cost)

    def add_untold(self, model: str, input_tokens: int, output_tokens: int) -> Charge:
        """Count what an unreported reply must have cost, and return it."""
        price = self.price_of(model)
        if price is not None and price.is_free:
            return Charge()
        cost = 0.0 if price is None else price.of(Usage(input_tokens, output_tokens))
        self._count(Spent(cost=cost, unpriced=_missing(model, price), untold=1))
        return Charge(model, cost=None if price is None else cost, estimated=1)

    def price_of(self, model: str) -> Price | ListedPrice | None:
        """Return the first price whose pattern fits, else the one that is looked up, or None."""
        own = next((price for price in self._prices if fnmatchcase(model, price.model)), None)
        return own if own is not None else self._look_up(model)

    def objection(self, model: str) -> str:
        """Say why a model must not be asked any more, "" where it may.

        A limit that cannot be kept is not passed over: a model without a price is not asked under one.
        """
        if not self.limit:
            return ""
        if self.session.cost >= self.limit:
            return (
                f"this session has cost {self.session.cost:.4f} of the {self.limit:g} "
                "that [cost] max_session allows; /new begins another"
            )
        if self.price_of(model) is None:
            lists = "no entry of [[cost.prices]] fits it, and leeward[prices] does not list it"
            return f"[cost] max_session cannot be kept for {model}: {lists}"
        return ""

    def _count(self, spent: Spent) -> None:
        self.turn, self.session = self.turn + spent, self.session + spent


def _missing(model: str, price: Price | ListedPrice | None) -> frozenset[str]:
    return frozenset() if price is not None else frozenset({model})


def cost_lines(meter: Meter) -> Iterator[str]:
    """Yield what `/cost` says."""
    for name, spent in (("this turn", meter.turn), ("this session", meter.session)):
        cached = f" ({spent.cache_read_tokens} from the cache)" if spent.cache_read_tokens else ""
        tokens = f"{spent.input_tokens} tokens in{cached}, {spent.output_tokens} out"
        untold = f", {spent.untold} replies estimated" if spent.untold else ""
        yield f"{name:<13} {tokens} · {_money(spent)}{untold}"
    if meter.limit:
        yield f"{'limit':<13} {meter.limit:g} per session"


def _money(spent: Spent) -> str:
    if not spent.unpriced:
        return f"cost {spent.cost:.4f}"
    known = f"at least {spent.cost:.4f}" if spent.cost else "unknown"
    return f"cost {known}: no price for {', '.join(sorted(spent.unpriced))}"
