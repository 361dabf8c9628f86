"""The tools fetch and web_scrape.

Each hop is permitted by `Cleared.follow` and made by `client.py`. Status, type, final URL and what was
left out are stated beside the text, in words of ours, for a page can print anything. JSON is laid out token
by token: numbers keep their digits and strings their spelling.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import trio

from leeward.security.call import Cleared, ToolExecutor
from leeward.security.kinds import Effect
from leeward.security.lazy import LazyModule, regex
from leeward.security.outcome import Output, PermanentFailure, RateLimited, ServerError, ToolError
from leeward.security.trust import Origin

from ..declare import Text, Url, tool
from .response import HTML_TYPES, Response, StaleConnection, is_text, media_type

if TYPE_CHECKING:
    from .client import Client

if TYPE_CHECKING:
    from . import html
else:
    html = LazyModule("leeward.tools.http.html")

__all__ = ["DEFAULT_BODY_BYTES", "Fetcher", "pretty_json"]


_TOKEN = regex(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{},:]|[^\s\[\]{},:"]+')
_EMPTY = {"{": "}", "[": "]"}
_DEEPEST = 24  # A document that nests deeper is not indented further, or its margins outgrow it.


def pretty_json(text: str) -> str:
    """Return a JSON text with one value per line, indented; any other text unchanged."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text
    return "".join(_laid_out(_TOKEN.findall(text)))


def _laid_out(tokens: list[str]) -> Iterator[str]:
    depth, before = 0, ""
    for piece in tokens:
        closes = piece in {"}", "]"}
        depth -= closes
        if before and (before in "{[," or closes) and _EMPTY.get(before) != piece:
            yield "\n" + "  " * min(depth, _DEEPEST)
        yield f"{piece} " if piece == ":" else piece
        depth += piece in _EMPTY
        before = piece


DEFAULT_BODY_BYTES = 102_400
"""Default of `[tools.fetch] max_body_bytes`; 0 means the same."""

_QUOTED = 2_000

# The tool's own deadline comes a little later than the client's, which can say what took so long.
_MARGIN = 1.0


class Fetcher:
    """Opens judged URLs over one pool of connections."""

    def __init__(
        self, open_client: Callable[[int, float], Client], *, max_body_bytes: int = 0, timeout: float = 20.0
    ) -> None:
        """Prepare; nothing is connected yet.

        Args:
            open_client: makes what connects, from the bytes it keeps and the seconds it has for one
                answer; called once, for the first page.
            max_body_bytes: how much decoded content is kept; 0 means the default.
            timeout: seconds for one call, from the first name to the last byte, redirects included.
        """
        self._open_client = open_client
        self._client: Client | None = None
        self._cap = max_body_bytes or DEFAULT_BODY_BYTES
        self._timeout = timeout

    def tools(self) -> list[ToolExecutor]:
        """Return `fetch` and `web_scrape`."""
        effects, timeout = Effect.SEND | Effect.BRING_IN, self._timeout + _MARGIN
        declared = tool(effects=effects, timeout=timeout, idempotent=True)
        return [declared(self.fetch), declared(self.web_scrape)]

    async def aclose(self) -> None:
        """Close what is still connected."""
        if self._client is not None:
            await self._client.aclose()

    async def fetch(
        self,
        url: Url,
        cleared: Cleared,
    ) -> Output:
        """Open a URL and return what it answers as text; web pages become Markdown with their links.

        Only URLs the person gave, or links of a page that was opened before, exactly as they stood
        there: never constructed, guessed or inferred from names, brands or domain patterns.
        """
        answer, hops = await self._open(url, cleared)
        text, links = _readable(answer)
        return _output(answer, hops, text + answer.body.marker, links)

    async def web_scrape(
        self,
        url: Url,
        select: Text,
        cleared: Cleared,
        extract: Text = "text",
        limit: int = 20,
    ) -> Output:
        """Open a web page and return the elements that a CSS selector names, `limit` of them at most.

        `extract` is "text", "html", or "attr:NAME" for an attribute of each. Only URLs the person gave,
        or links of a page that was opened before, exactly as they stood there: never constructed,
        guessed or inferred from names, brands or domain patterns.
        """
        selector = html.Selector(select, extract, limit)
        answer, hops = await self._open(url, cleared)
        kind = media_type(answer.content_type)
        if kind not in HTML_TYPES:
            raise PermanentFailure(f"{answer.url} is {kind}, and only web pages have elements to select")
        found = selector.of(answer.body.text(answer.content_type), answer.url)
        return _output(answer, hops, found.text, found.links, found.notice)

    async def _open(self, url: Url, cleared: Cleared) -> tuple[Response, int]:
        """Return what a judged URL answers in the end, and how many redirects led there.

        Raises:
            RateLimited, ServerError, PermanentFailure: the server answered with a failure.
            PolicyBlocked: a redirect may not be followed.
        """
        deadline = min(cleared.deadline, trio.current_time() + self._timeout)
        self._client = self._client or self._open_client(self._cap, self._timeout)
        hops, is_fresh = 0, True
        while True:
            try:
                answer = await self._client.get(url, deadline, cleared.report)
            except StaleConnection:
                if not is_fresh:
                    raise
                url, is_fresh = await cleared.follow(url.text), False
                continue
            if answer.location is None:
                break
            url, hops, is_fresh = await cleared.follow(answer.location), hops + 1, True
        if answer.status >= 400:
            raise _failure(answer)
        return answer, hops


def _readable(answer: Response) -> tuple[str, Sequence[str]]:
    """Return an answer as text to read, and the links in it."""
    kind = media_type(answer.content_type)
    if not is_text(kind, answer.body.content):
        return f"[{_size(answer)}]", ()
    text = answer.body.text(answer.content_type)
    if kind in HTML_TYPES:
        page = html.read_page(text, answer.url)
        return page.text, page.links
    is_json = kind == "application/json" or kind.endswith("+json")
    return (pretty_json(text) if is_json and not answer.body.is_truncated else text), ()


def _size(answer: Response) -> str:
    more = "more than " if answer.body.is_truncated else ""
    return f"{media_type(answer.content_type)}, {more}{len(answer.body.content)} bytes"


def _output(answer: Response, hops: int, text: str, links: Sequence[str], *notices: str) -> Output:
    """Return a text with what there is to say about it; a final URL was chosen by the other side."""
    parts = [f"HTTP {answer.status}, {_size(answer)}"]
    if hops:
        parts.append(f"{hops} {'redirect was' if hops == 1 else 'redirects were'} followed")
    if answer.body.is_truncated:
        parts.append(f"the content was truncated at {answer.body.cap} bytes")
    facts = (("final URL", answer.url.text),) if hops else ()
    return Output(text, Origin.WEB, notices=(*parts, *notices), facts=facts, links=tuple(links))


def _failure(answer: Response) -> ToolError:
    quoted = _readable(answer)[0][:_QUOTED]
    failure: type[ToolError] = ServerError if answer.status >= 500 else PermanentFailure
    if answer.status == 429:
        failure = RateLimited
    return failure(f"{answer.url} answered HTTP {answer.status}, {_size(answer)}\n{quoted}")
