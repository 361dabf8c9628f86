"""The tool `read_overflow`: pages and matching lines of an output that was too long to show.

The store keeps the texts and knows which session may read which (`memory/overflow/store.py`); here a page or
a list of matches becomes a result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Protocol

from pydantic import Field

from leeward.memory.overflow import Hit, Hits, LineQuery, OverflowNotFound, Page
from leeward.memory.patterns import BadPattern
from leeward.security.call import ToolExecutor
from leeward.security.kinds import Effect
from leeward.security.lazy import dataclass
from leeward.security.outcome import InvalidParameters, Output, PermanentFailure, ResourceNotFound
from leeward.security.ports import RecordError

from .declare import ResourceId, Text, tool

__all__ = ["Overflow", "OverflowReader"]

# Below the default threshold, so that a page is not itself stored as an overflow.
_LONGEST_PAGE = 40_000
_PAGE = 10_000
_HITS = 100
_MOST_AROUND = 20


class OverflowReader(Protocol):
    """The reading half of the overflow store."""

    async def get(
        self,
        session: str,
        id: str,  # noqa: A002 — the store's
        offset: int,
        limit: int,
        line: int | None,
    ) -> Page:
        """Return `limit` characters of a text from `offset` on, or from where a line begins."""
        ...

    async def search(
        self,
        session: str,
        id: str,  # noqa: A002 — the store's
        wanted: LineQuery,
        offset: int,
        line: int | None,
    ) -> Hits:
        """Return the lines of a text that match, looking from `offset` on, or from where a line begins."""
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
        id: ResourceId,  # noqa: A002 — the argument's name in the tool's schema
        offset: Annotated[int, Field(ge=0, description="first character, counted from 0")] = 0,
        limit: Annotated[int, Field(ge=1, le=_LONGEST_PAGE, description="how many characters")] = _PAGE,
        pattern: Text | None = None,
        line: Annotated[int, Field(ge=1, description="first line, in place of offset")] | None = None,
        before: Annotated[int, Field(ge=0, le=_MOST_AROUND, description="lines before a match")] = 0,
        after: Annotated[int, Field(ge=0, le=_MOST_AROUND, description="lines after a match")] = 0,
    ) -> Output:
        """Read an output that was too long to show, by the id its result named.

        Returns the text from `offset` or `line` on or, with `pattern` (RE2 syntax), the lines from there on
        that match, as `line@offset: text`, and those around them as `line@offset- text`.
        """
        try:
            if pattern is not None:
                wanted = LineQuery(pattern, _HITS, before, after)
                return _hits(await self.store.search(self.session(), id, wanted, offset, line), limit)
            return _page(await self.store.get(self.session(), id, offset, limit, line))
        except OverflowNotFound as error:
            raise ResourceNotFound(str(error)) from error
        except BadPattern as error:
            raise InvalidParameters(str(error)) from error
        except RecordError as error:
            raise PermanentFailure(f"the stored output could not be read: {error}") from error


def _page(page: Page) -> Output:
    end = page.offset + len(page.text)
    entry = page.entry
    notice = f"characters {page.offset} to {end} of {entry.chars}, from line {page.line} of {entry.lines}"
    if page.next is not None:
        notice += f"; continue with offset={page.next}"
    return Output(page.text, entry.origin, notices=(notice,))


def _hits(hits: Hits, limit: int) -> Output:
    shown, rest = _fitting(hits, limit)
    lines = [f"{hit.line}@{hit.offset}{':' if hit.matched else '-'} {hit.text}" for hit in shown]
    matched = sum(hit.matched for hit in shown)
    notice = f"lines that match: {matched}" if matched else "no line matches"
    if rest is not None:
        notice += f" up to here; continue with offset={rest}, or narrow the pattern"
    return Output("\n".join(lines), hits.entry.origin, notices=(notice,))


def _fitting(hits: Hits, limit: int) -> tuple[tuple[Hit, ...], int | None]:
    """Return as many of the lines as fit, one at least, and where the rest begins."""
    size = 0
    for index, hit in enumerate(hits.lines):
        size += len(hit.text)
        if index and size > limit:
            return hits.lines[:index], hit.start
    return hits.lines, hits.next
