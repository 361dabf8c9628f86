"""The tool `read_overflow`: what is in an output that was too big to show?

The store keeps texts and knows which session may read which (`memory/overflow.py`); here a page or the
matching lines of one become a result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Protocol

from pydantic import Field

from leeward.memory import BadPattern, Hits, OverflowNotFound, Page
from leeward.security import (
    Effect,
    InvalidParameters,
    Output,
    PermanentFailure,
    RecordError,
    ResourceNotFound,
    ToolExecutor,
)

from .declare import tool
from .kinds import ResourceId, Text

__all__ = ["Overflow", "OverflowReader"]

# Below the default threshold, so that a page is not itself stored as an overflow.
_LONGEST_PAGE = 40_000
_PAGE = 10_000
_HITS = 100


class OverflowReader(Protocol):
    """The reading half of the overflow store."""

    async def get(self, session: str, id: str, offset: int, limit: int) -> Page:  # noqa: A002 — the store's
        """Return `limit` characters of a text from `offset` on."""
        ...

    async def search(
        self,
        session: str,
        id: str,  # noqa: A002 — the store's
        pattern: str,
        limit: int,
    ) -> Hits:
        """Return the first `limit` lines of a text that match an RE2 pattern."""
        ...


@dataclass(frozen=True, slots=True)
class Overflow:
    """Reads what a store keeps for the current session, whose id `session` tells."""

    store: OverflowReader
    session: Callable[[], str]

    def tools(self) -> list[ToolExecutor]:
        """Return the tool `read_overflow`."""
        return [tool(effects=Effect.READ, idempotent=True)(self.read_overflow)]

    async def read_overflow(
        self,
        id: ResourceId,  # noqa: A002 — it is what models are told to give
        offset: Annotated[int, Field(ge=0, description="first character to return, counted from 0")] = 0,
        limit: Annotated[int, Field(ge=1, le=_LONGEST_PAGE, description="how many characters")] = _PAGE,
        pattern: Text | None = None,
    ) -> Output:
        """Read an output that was too long to show, by the id its result named.

        Returns the characters from `offset` on or, with `pattern` (RE2 syntax), the lines of the whole
        text that match, as `line@offset: text`.
        """
        try:
            if pattern is not None:
                return _hits(await self.store.search(self.session(), id, pattern, _HITS + 1))
            return _page(await self.store.get(self.session(), id, offset, limit))
        except OverflowNotFound as error:
            raise ResourceNotFound(str(error)) from error
        except BadPattern as error:
            raise InvalidParameters(str(error)) from error
        except RecordError as error:
            raise PermanentFailure(f"the stored output could not be read: {error}") from error


def _page(page: Page) -> Output:
    end = page.offset + len(page.text)
    notice = f"characters {page.offset} to {end} of {page.entry.chars}"
    if page.next is not None:
        notice += f"; go on with offset={page.next}"
    return Output(page.text, page.entry.origin, notices=(notice,))


def _hits(hits: Hits) -> Output:
    lines = [f"{hit.line}@{hit.offset}: {hit.text}" for hit in hits.lines[:_HITS]]
    if not lines:
        notice = "no line matches"
    elif len(hits.lines) > _HITS:
        notice = f"the first {_HITS} lines that match; narrow the pattern to see others"
    else:
        notice = f"lines that match: {len(lines)}"
    return Output("\n".join(lines), hits.entry.origin, notices=(notice,))
