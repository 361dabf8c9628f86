"""Judge each redirect of a running call, and add the URLs it leads to to the ledger.

A call is cleared for its URLs. A redirect, or a second try, is asked for here: it is judged by the
same gates as the call was, and on record before anything is sent. A redirect is grounded by the URL
that led to it, for this request only; on the same site it becomes known, as exactly that URL. What
pages link to becomes known in the same way. Opening connections is left to the tools.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import field, replace
from functools import partial
from typing import Any, Self, TypeVar

import trio

from .action import canonical_json, thaw
from .call import Action, Asker, Cleared, Exchange, ToolCall, ToolExecutor
from .checks import describe_untrusted
from .connections import Connections
from .judge import Judge
from .kinds import Effect, Kind, Unreadable
from .lazy import dataclass
from .outcome import Output, PolicyBlocked, ToolTimeout
from .output import is_trusted
from .permissions import Asks, is_of_lent
from .ports import RecordError
from .record import redirect_events, response_event
from .session import Decided, Event, Session, UrlsAdded
from .trust import FILE_LABELS, FileWords, Origin
from .url import MAX_BYTES, Provenance, Url, join_url, parse_url, same_site, urls_in
from .verdict import Decision

__all__ = ["MOST_HOPS", "MOST_LINKS", "Redirects"]

_T = TypeVar("_T")
MOST_HOPS = 3
"""Redirects that one request may follow, at most."""

MOST_LINKS = 500
"""Links of one page that become known, at most, in the order of the page."""

_MOST_TRIES = 2
_LONGEST_LINK = 2048


@dataclass(slots=True)
class _Chain:
    """How one URL of a call went on: what was opened in its place, one after another."""

    urls: list[Url]
    hops: int = 0
    tries: int = 1

    def leads_to(self, url: Url, session: Session) -> bool:
        """Whether what was opened so far grounds a URL, for this request."""
        return url == self.urls[-1] or self.stays_on_site(url) or session.ledger.has(self.urls[0])

    def stays_on_site(self, url: Url) -> bool:
        """Whether neither a URL nor any on the way to it left the site that was asked for."""
        return all(same_site(self.urls[0], one) for one in (*self.urls, url))


@dataclass(slots=True)
class Redirects:
    """The ways of one call; the pipeline makes it and enters it while the call runs.

    `is_offline` tells that it ran command lines which could reach nothing but single hosts, and reached none.
    """

    action: Action
    judge: Judge
    is_offline: bool = False
    _ways: dict[str, _Chain] = field(init=False)
    _attempts: int = 0
    _is_over: bool = False

    def __post_init__(self) -> None:
        urls = (atom for atom in self.action.of_kind(Kind.URL) if atom.declared)
        self._ways = {
            atom.pointer: _Chain([atom.canonical]) for atom in urls if isinstance(atom.canonical, Url)
        }

    async def run(self, executor: ToolExecutor, clear: Callable[..., Cleared], decided: Decided) -> Output:
        """Let the call run within its deadline; time-outs of the tool's own are failures of its own.

        A command of it reaches the hosts that were `decided`.
        """
        reached = Connections(self.action, self.judge, decided.hosts, is_lent=bool(decided.lends))
        timeout = self.action.spec.timeout if self.action.spec is not None else 0
        with trio.move_on_after(timeout) as scope, self, reached:
            cleared = clear(deadline=scope.deadline)
            cleared.gatekeeper, cleared.lends = reached, decided.lends
            cleared.words = partial(self._words, reached, decided)
            try:
                return await executor.execute(cleared)
            finally:
                self.is_offline = self._is_offline(reached)
        raise ToolTimeout(f"no answer within {timeout:g} seconds")

    def _is_offline(self, reached: Connections) -> bool:
        by_host = self.action.may_be_tried and self.judge.session.policy.sandbox.by_host
        return by_host and not reached.admitted

    def _words(self, reached: Connections, decided: Decided) -> FileWords:
        """Return whose words the call can have written by now: of what was read, or what it brought."""
        session, tool = self.judge.session, (self.action.of or self.action).call.tool
        brings = self.action.effects & (Effect.BRING_IN | Effect.SEND) and not self._is_offline(reached)
        brought = {Origin.WEB} if brings else set()
        lent = {Origin.SECRET} if decided.lends or is_of_lent(self.action, session) else set()
        labels = FILE_LABELS & {*session.labels, *self.action.file_labels, *brought, *lent}
        return FileWords(
            labels, describe_untrusted(session) if session.is_untrusted else f"the result of `{tool}`"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End here: a `Cleared` that is kept for longer opens nothing more."""
        self._is_over = True

    async def follow(self, reference: str, pointer: str | None = None) -> Url:
        """Return what a reference leads to from the URL at a pointer, once it is judged and on record.

        Raises:
            PolicyBlocked: it may not be opened, for a reason that the message gives.
        """
        place, way = self._way(pointer)
        reference = reference[: MAX_BYTES + 1]
        url = join_url(way.urls[-1], reference)
        self._attempts += 1
        hop, text = self._attempts, url.text if isinstance(url, Url) else reference
        action = await self.judge.read(_led_to(self.action, place, text))
        await _on_record(self.judge.journal.catch_up())
        action = await _on_record(self.judge.with_hook_answers(action, self._view(way, url)))
        session = self._view(way, url)
        found = self.judge.rule(action, session)
        decision, left = found.decision, found.open_asks
        problem = _exhausted(way, url) or _refusal(decision, left)
        events: tuple[Event, ...] = redirect_events(
            action, decision, left, found.approver, session, hop, problem
        )
        is_new = url != way.urls[-1]
        if isinstance(url, Url) and not problem and is_new and way.stays_on_site(url):
            events = (*events, UrlsAdded.of(session.now, (url,), Provenance.REDIRECT))
        await self._record(*events)
        if problem or not isinstance(url, Url):
            raise PolicyBlocked(f"a redirect was not followed: {problem}; it leads to {text}")
        way.urls.append(url)
        return url

    def report(self, exchange: Exchange) -> None:
        """Take down the outcome of an attempt; it is written with the next record of the call."""
        if not self._is_over:
            self.judge.journal.defer(
                response_event(self.action, exchange, self._attempts, self.judge.session)
            )

    def urls_shown_in(self, output: Output, text: str) -> Iterator[Event]:
        """Yield how the links of an opened page, or the results of a search, become known.

        `text` is the output as it was screened.
        """
        session = self.judge.session
        links = [url for url in _read(output.links) if len(url.text) <= _LONGEST_LINK]
        if self.action.call.tool in session.policy.search_tools:
            yield from _given(session, [*links, *urls_in(text)], Provenance.SEARCH)
        elif is_trusted(self.action, session) and len(self._ways) == 1:
            (way,) = self._ways.values()
            near = [link for link in links if same_site(way.urls[-1], link)]
            is_given = session.ledger.has(way.urls[0])
            yield from _given(session, near, Provenance.LINK if is_given else Provenance.DERIVED)
            yield from _given(session, [link for link in links if link not in near], Provenance.FOREIGN)

    def _way(self, pointer: str | None) -> tuple[str, _Chain]:
        if self._is_over:
            raise PolicyBlocked("the call has ended; no further URL is opened for it")
        if pointer is None and len(self._ways) == 1:
            pointer = next(iter(self._ways))
        if pointer is None or pointer not in self._ways:
            raise PolicyBlocked("no URL was judged for this argument, so nothing follows from it")
        return pointer, self._ways[pointer]

    def _view(self, way: _Chain, url: Url | Unreadable) -> Session:
        """Return the session a hop is judged in: what led to it grounds it, and the call is booked."""
        session = self.judge.session
        session = replace(session, pending=session.pending | {self.action.call.id})
        if isinstance(url, Url) and way.leads_to(url, session):
            return replace(session, ledger=session.ledger.with_urls([url], Provenance.REDIRECT))
        return session

    async def _record(self, *events: Event) -> None:
        self.judge.journal.fold(*events)
        await _on_record(self.judge.journal.write(*events))


async def _on_record(step: Awaitable[_T]) -> _T:
    try:
        return await step
    except RecordError as error:
        why = f"the decision could not be recorded, so nothing was opened: {error}"
        raise PolicyBlocked(why) from error


def _exhausted(way: _Chain, url: Url | Unreadable) -> str:
    """Count a hop or a second try, and say so where it is one too many."""
    if url == way.urls[-1]:
        way.tries += 1
        return f"one request is tried {_MOST_TRIES} times at most" if way.tries > _MOST_TRIES else ""
    way.hops += 1
    return f"{MOST_HOPS} redirects are followed at most" if way.hops > MOST_HOPS else ""


def _refusal(decision: Decision, left: Asks) -> str:
    if decision.denial is not None:
        gate, denial = decision.denial
        return f"{gate} refused it ({denial.rule}): {denial.reason}"
    return "; ".join(f"{gate} would ask about it: {ask.question}" for gate, ask in left)


def _led_to(action: Action, pointer: str, text: str) -> ToolCall:
    """Return the call as if it had been made for what one of its URLs led to.

    Nobody typed that, so it is judged as a model's words, even in a call that the person asked for.
    """
    arguments: Any = thaw(action.arguments)
    *path, last = (part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])
    node = arguments
    for part in path:
        node = node[int(part) if isinstance(node, list) else part]
    node[int(last) if isinstance(node, list) else last] = text
    return replace(action.call, arguments=canonical_json(arguments), asker=Asker.MODEL)


def _read(texts: Iterable[str]) -> Iterator[Url]:
    for text in dict.fromkeys(texts):
        url = parse_url(text)
        if isinstance(url, Url):
            yield url


def _given(session: Session, urls: Iterable[Url], provenance: Provenance) -> Iterator[UrlsAdded]:
    """Yield the event by which URLs become known in this way, without those that are already."""
    known = {entry.text for entry, how in session.ledger.entries() if how is provenance}
    new = [url for url in dict.fromkeys(urls) if url.text not in known]
    if new:
        yield UrlsAdded.of(session.now, new[:MOST_LINKS], provenance)
