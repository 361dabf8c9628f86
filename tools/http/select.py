"""What stands at the places of a page that a CSS selector names?

A selector comes from a model and is held against a page that chose itself, so those whose cost grows
faster than the page are refused before anything is opened.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from leeward.security.outcome import InvalidParameters, PermanentFailure
from leeward.security.url import Url

from .html import Links, base_of, is_tame, readable

__all__ = ["MOST_MATCHES", "Selection", "Selector"]

MOST_MATCHES = 100
"""Elements that one call returns, at most."""

_LONGEST = 300
_MOST_COMMAS = 10
_COSTLY = re.compile(r":has\b|\bof\b|\\[0-9a-f]", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"attr:([A-Za-z_:][A-Za-z0-9_.:-]{0,63})")
_ADDRESSES = frozenset({"href", "src"})


@dataclass(frozen=True, slots=True)
class Selection:
    """What was found: the elements as text, the links in them, and how many there were."""

    text: str
    links: tuple[str, ...]
    notice: str


class Selector:
    """A selector, what is taken of each element, and of how many; checked when it is made."""

    def __init__(self, select: str, extract: str, limit: int) -> None:
        """Check the three.

        Raises:
            InvalidParameters: one of them cannot be used; the message says what would be.
        """
        if not 0 < len(select) <= _LONGEST or _COSTLY.search(select) or select.count(",") > _MOST_COMMAS:
            raise InvalidParameters(
                f"a selector has 1 to {_LONGEST} characters, few alternatives, no :has, `of` or escapes"
            )
        if not 1 <= limit <= MOST_MATCHES:
            raise InvalidParameters(f"limit is a number from 1 to {MOST_MATCHES}")
        attribute = _ATTRIBUTE.fullmatch(extract)
        if attribute is None and extract not in {"text", "html"}:
            raise InvalidParameters('extract is "text", "html" or "attr:NAME"')
        self._select, self._extract, self._limit = select, extract, limit
        self._attribute = attribute[1].lower() if attribute else None
        self._matches(LexborHTMLParser("<p>"))

    def of(self, source: str, url: Url) -> Selection:
        """Return what the HTML that was read from a URL has at these places.

        Raises:
            PermanentFailure: the page nests so deeply that it cannot be searched.
        """
        if not is_tame(source):
            raise PermanentFailure("the page nests too deeply to be searched")
        tree = LexborHTMLParser(source)
        links = base_of(tree, url)
        nodes = self._matches(tree)
        taken = [text for node in nodes[: self._limit] for text in self._taken(node, links)]
        separator = "\n" if self._attribute is not None else "\n\n"
        notice = f"{min(len(nodes), self._limit)} of {len(nodes)} elements that match"
        return Selection(separator.join(taken), tuple(links.found), notice)

    def _matches(self, tree: LexborHTMLParser) -> list[LexborNode]:
        try:
            nodes = tree.css(self._select)
        except (SelectolaxError, ValueError):
            raise InvalidParameters("this is no CSS selector that can be read") from None
        return list({node.mem_id: node for node in nodes}.values())

    def _taken(self, node: LexborNode, links: Links) -> Iterator[str]:
        if self._attribute is None:
            text = readable(node, links)
            yield text if self._extract == "text" else node.html or ""
            return
        value = node.attributes.get(self._attribute)
        if value is not None:
            # An address is told as it would have to be opened.
            yield (links.add(value) if self._attribute in _ADDRESSES else None) or value
