"""Convert a web page to readable text with its links, or extract the parts a CSS selector names.

HTML becomes Markdown-like text: headings, lists, tables, code, links with their canonical URLs. What
a reader of the page would not see (scripts, hidden elements) is left out. Whether a link may be
opened is the ledger's business. A selector comes from a model and the page chose itself, so selectors whose
cost grows faster than the page are refused before anything is opened.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import field
from typing import Any, TypeAlias

from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from leeward.security.lazy import dataclass, regex
from leeward.security.outcome import InvalidParameters, PermanentFailure
from leeward.security.url import Url, join_url

__all__ = [
    "MOST_MATCHES",
    "HtmlPage",
    "Links",
    "Selection",
    "Selector",
    "base_of",
    "is_tame",
    "read_page",
    "readable",
]


Tree: TypeAlias = LexborHTMLParser

_MOST_LINKS = 500
_LINK_CHARACTERS = 64 * 1024
_LONGEST_LINK = 2048

# Beyond these, the parser's time grows with the square of what it reads.
_DEEPEST = 400
_MOST_WORDS = 20_000

_TAG = regex(r"<(/?)([a-zA-Z][a-zA-Z0-9-]*)")
_MARKUP = regex(
    r"<(?:script|style)\b.*?(?:</(?:script|style)\s*>|\Z)|<!--.*?(?:-->|\Z)|<[^<>]*>",
    re.DOTALL | re.IGNORECASE,
)
_BLANKS = regex(r"[ \t\n\r\f]+")
_EDGES = " \t\n\r\f"
_HIDING = regex(r"display:none|visibility:hidden")

_VOID = frozenset("area base br col embed hr img input link meta source track wbr".split())
# Their end tags may be left out, so that what stays open of them says nothing about nesting.
_ENDED_BY_OTHERS = frozenset("p li dt dd option optgroup tr td th thead tbody tfoot html head body".split())
_UNSEEN = frozenset(
    "head script style noscript template svg math iframe object canvas audio video select datalist".split()
)
_PARAGRAPHS = frozenset(
    "p h1 h2 h3 h4 h5 h6 ul ol dl table blockquote pre article section header footer main nav aside "
    "figure form fieldset details hr address".split()
)
_LINES = frozenset("div li dt dd tr caption figcaption summary legend body".split())
_LISTS = frozenset({"ul", "ol"})
_DEEPEST_MARGIN = 8


@dataclass(frozen=True, slots=True)
class HtmlPage:
    """What a page says, and the canonical URLs it links to, in order, each once."""

    text: str
    links: tuple[str, ...] = ()


@dataclass(slots=True)
class Links:
    """Collects where the links of a page lead; bounded, however often a page repeats a long address."""

    base: Url
    found: dict[str, None] = field(default_factory=dict)
    _read: dict[str, str | None] = field(default_factory=dict)
    _left: int = _LINK_CHARACTERS

    def add(self, reference: str | None) -> str | None:
        """Return the canonical URL of a reference, or None where it is not one that could be opened."""
        reference = (reference or "").strip(_EDGES)
        is_full = self._left <= 0 or len(self.found) >= _MOST_LINKS
        if not reference or reference.startswith("#") or (is_full and reference not in self._read):
            return None
        if reference not in self._read:
            url = join_url(self.base, reference)
            found = url.text if isinstance(url, Url) else ""
            self._read[reference] = found if 0 < len(found) <= _LONGEST_LINK else None
        text = self._read[reference]
        if text is None or self._left <= 0:
            return None
        self.found[text] = None
        self._left -= len(text)
        return text


def is_tame(source: str) -> bool:
    """Whether a page nests as pages do; a parser takes very long over thousands of open elements."""
    open_now: Counter[str] = Counter()
    depth = 0
    for tag in _TAG.finditer(source):
        name = tag[2].lower()
        if name in _VOID or name in _ENDED_BY_OTHERS:
            continue
        if not tag[1]:
            open_now[name] += 1
            depth += 1
        elif open_now[name]:
            open_now[name] -= 1
            depth -= 1
        if depth > _DEEPEST:
            return False
    return all(len(piece.split(maxsplit=_MOST_WORDS)) < _MOST_WORDS for piece in source.split("<"))


def read_page(source: str, url: Url) -> HtmlPage:
    """Return what the HTML that was read from a URL says, and its links."""
    if not is_tame(source):
        return HtmlPage(_BLANKS.sub(" ", html.unescape(_MARKUP.sub(" ", source))).strip())
    tree = LexborHTMLParser(source)
    links = base_of(tree, url)
    title = tree.css_first("head > title")
    heading = _BLANKS.sub(" ", title.text()).strip() if title is not None else ""
    text = readable(tree.body, links) if tree.body is not None else ""
    starts = text.removeprefix("# ").partition("\n")[0]
    return HtmlPage(
        text if heading in ("", starts) else f"# {heading}\n\n{text}".rstrip(), tuple(links.found)
    )


def base_of(tree: Tree, url: Url) -> Links:
    """Return the links of a page, none yet, with what its relative ones begin at."""
    base = tree.css_first("base[href]")
    named = join_url(url, (base.attributes.get("href") or "").strip(_EDGES)) if base is not None else url
    return Links(named if isinstance(named, Url) else url)


def readable(node: LexborNode, links: Links) -> str:
    """Return the content of an element as Markdown-like text; the links in it are added to `links`."""
    writer = _Writer(links)
    for step, inner in _walk(node):
        if inner.mem_id == node.mem_id and inner.tag != "pre":
            continue
        if step == "enter":
            writer.enter(inner)
        elif step == "leave":
            writer.leave(inner)
        else:
            writer.say(inner.text_content or "")
    return writer.finish()


def _walk(root: LexborNode) -> Iterator[tuple[str, LexborNode]]:
    """Yield the steps of a walk through an element, without recursion: a page chooses how deep it nests."""
    waiting: list[tuple[str, LexborNode]] = [("enter", root)]
    while waiting:
        step, node = waiting.pop()
        if step == "leave" or node.tag == "-text":
            yield ("leave" if step == "leave" else "say"), node
        elif _is_seen(node):
            yield "enter", node
            waiting.append(("leave", node))
            waiting.extend(("enter", child) for child in reversed(list(node.iter(include_text=True))))


def _is_seen(node: LexborNode) -> bool:
    if node.tag in _UNSEEN or (node.tag or "-").startswith("-"):
        return False
    attributes: dict[str, Any] = node.attributes
    if not attributes:
        return True
    hiding = _HIDING.search(_BLANKS.sub("", attributes.get("style") or "").lower())
    return not ("hidden" in attributes or attributes.get("aria-hidden") == "true" or hiding)


class _Writer:
    """Writes lines as the walk through an element goes on."""

    def __init__(self, links: Links) -> None:
        self._links = links
        self._lines: list[str] = []
        self._line: list[str] = []
        self._mark = ""
        self._anchors: list[tuple[int, int]] = []
        self._lists: list[int | None] = []
        self._quotes = 0
        self._verbatim = 0

    def enter(self, node: LexborNode) -> None:
        """Begin an element."""
        tag = node.tag or ""
        if tag in _PARAGRAPHS or tag in _LINES:
            self._break(blank=tag in _PARAGRAPHS and not (tag in _LISTS and self._lists))
        match tag:
            case "h1" | "h2" | "h3" | "h4" | "h5" | "h6":
                self._mark = "#" * int(tag[1]) + " "
            case "ul" | "ol":
                self._lists.append(1 if tag == "ol" else None)
            case "li":
                self._mark = self._bullet()
            case "blockquote":
                self._quotes += 1
            case "pre":
                self._verbatim += 1
                self._lines.append("```")
            case "a":
                self._anchors.append((len(self._line), len(self._lines)))
            case "td" | "th" if self._line:
                self._line.append(" | ")
            case "br":
                self._break(blank=False)
            case _:
                self._inline(node, tag)

    def leave(self, node: LexborNode) -> None:
        """End an element."""
        tag = node.tag or ""
        match tag:
            case "a":
                self._link(node.attributes.get("href"))
            case "code" | "kbd" | "samp":
                self._inline(node, tag)
            case "hr":
                self._lines.append("---")
            case "pre":
                self._break(blank=False)
                self._verbatim -= 1
                self._lines.append("```")
        if tag in _PARAGRAPHS or tag in _LINES:
            self._break(blank=tag in _PARAGRAPHS and not (tag in _LISTS and len(self._lists) > 1))
        if tag in _LISTS and self._lists:
            self._lists.pop()
        self._quotes -= tag == "blockquote"

    def say(self, text: str) -> None:
        """Add the text of an element."""
        if not self._verbatim:
            text = _BLANKS.sub(" ", text)
            if not self._line or self._line[-1].endswith(" "):
                text = text.removeprefix(" ")
        if text:
            self._line.append(text)

    def finish(self) -> str:
        """Return all that was written."""
        self._break(blank=False)
        return "\n".join(self._lines).strip("\n")

    def _inline(self, node: LexborNode, tag: str) -> None:
        if tag in {"code", "kbd", "samp"} and not self._verbatim:
            self._line.append("`")
        elif tag == "img" and (alt := (node.attributes.get("alt") or "").strip()):
            self._line.append(f"[image: {_BLANKS.sub(' ', alt)}]")

    def _link(self, reference: str | None) -> None:
        start, line = self._anchors.pop()
        url = self._links.add(reference)
        if url is None:
            return
        text = "".join(self._line[start:]) if line == len(self._lines) else ""
        if text.strip():
            self._line[start:] = [f"[{text.strip()}]({url})", " " if text.endswith(" ") else ""]
        else:
            self._line.append(f"<{url}>")

    def _bullet(self) -> str:
        number = self._lists[-1] if self._lists else None
        if number is None:
            return "- "
        self._lists[-1] = number + 1
        return f"{number}. "

    def _break(self, *, blank: bool) -> None:
        """End the line, if it is not empty; a blank one separates paragraphs."""
        text = "".join(self._line)
        self._line = []
        margin = "> " * min(self._quotes, _DEEPEST_MARGIN)
        if self._verbatim:
            self._lines.extend(margin + line for line in text.strip("\n").split("\n") if text)
        elif text.strip():
            indent = "  " * min(max(len(self._lists) - 1, 0), _DEEPEST_MARGIN)
            self._lines.append(f"{margin}{indent}{self._mark}{text.strip()}")
            self._mark = ""
        if blank and self._lines and self._lines[-1]:
            self._lines.append("")


MOST_MATCHES = 100
"""Elements that one call returns, at most."""

_LONGEST = 300
_MOST_COMMAS = 10
_COSTLY = regex(r":has\b|\bof\b|\\[0-9a-f]", re.IGNORECASE)
_ATTRIBUTE = regex(r"attr:([A-Za-z_:][A-Za-z0-9_.:-]{0,63})")
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
            # An address is written in the form in which it would have to be opened.
            yield (links.add(value) if self._attribute in _ADDRESSES else None) or value
