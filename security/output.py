"""What becomes of a tool's output: whose words it is, where long ones are stored, what is returned.

Output that is emitted while a tool runs is screened a piece at a time, shown, and stored once it is long: no
more is held in memory than what is shown of it and a piece. What is stored has passed the same `strip` and
`redact` as everything. The output of a background job is treated the same way and outlives its call; its
latest lines can be had at any time, and pass the filters like any other output.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Self, TypeAlias

import trio

from .action import secrets_in
from .call import Action, Outcome, Status, ToolResult
from .filters import Excerpt, Feeder, Screened, Source, redact, strip
from .kinds import Effect
from .outcome import Output
from .ports import Observer, OverflowStore, RecordError, Spool
from .record import tell
from .session import Session, TextSeen
from .trust import Origin, TrustLevel, integrity
from .url import fingerprints_in

__all__ = [
    "BackgroundOutput",
    "Keep",
    "OutputStream",
    "OverflowWriter",
    "bounded",
    "collect_output",
    "is_trusted",
    "make_result",
    "read_by_model",
    "source_of",
    "told_kept",
    "told_lost",
]


_PIECE = 64 * 1024


def told_kept(key: str, chars: int, lines: int, dropped: int = 0) -> str:
    """Say where a text is kept, and how much of it is not."""
    size = f"{chars} characters in {lines} lines"
    whole = f"the first {size}, are" if dropped else f"the whole text, {size}, is"
    rest = f"; the other {dropped} characters were dropped" if dropped else ""
    return f"{whole} kept as {key}{rest}; read_overflow reads it by page"


def told_lost(why: object) -> str:
    """Say that a text is not kept."""
    return f"the whole text could not be stored: {why}"


class OutputStream:
    """The output of one running call. Left without `finish`, what was stored of it is abandoned."""

    def __init__(
        self, action: Action, source: Source, observer: Observer, store: OverflowStore, session: str
    ) -> None:
        self.id: str | None = None
        self.store = store
        self._call = action.call.id
        self._source = source
        self._observer = observer
        self._begin = partial(store.spool, session)
        self._turn = trio.Lock()
        self._incoming: deque[str] = deque()
        self._feeders: tuple[Feeder, ...] = ()
        self._excerpt = Excerpt(source.threshold)
        self._kept = _ByteBudget(source.max_bytes)
        self._unwritten: list[str] = []
        self._spool: Spool | None = None
        self._problem = ""
        self._is_over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Take nothing more: whoever kept the `Cleared` adds to no text that is finished."""
        self._is_over = True
        if self._spool is not None:
            self._spool.abandon()

    async def emit(self, chunk: str) -> None:
        """Screen a piece, show what is certain of it by now, and store it once there is much."""
        if self._is_over:
            return
        # Taken in before anything is awaited, so that a caller who is cancelled leaves no hole. A
        # subclass of str may turn into another text each time it is looked at.
        text = str.__str__(chunk)
        self._incoming.extend(text[start : start + _PIECE] for start in range(0, len(text), _PIECE))
        async with self._turn:
            await self._drain()

    async def close(self) -> None:
        """Show what was held back."""
        async with self._turn:
            await self._drain()
            rest = ""
            for feeder in self._feeders:
                rest = feeder.feed(rest) + feeder.flush()
            self._add(rest)

    async def finish(self, origin: Origin) -> Screened:
        """Return what is to be shown of all there was, once what is cut is stored; `id` names it then."""
        await self._spill()
        notices = [notice for feeder in self._feeders for notice in feeder.notices]
        notices += self._excerpt.notices
        if self._spool is not None:
            try:
                self.id = await self._spool.finish(origin)
            except RecordError as error:
                self._problem = str(error)
        dropped = self._excerpt.total - self._kept.chars
        if self.id is not None:
            notices.append(told_kept(self.id, self._kept.chars, self._kept.lines, dropped))
        elif self._problem:
            notices.append(told_lost(self._problem))
        return Screened(self._excerpt.text, tuple(notices), is_cut=self._excerpt.is_cut)

    async def _drain(self) -> None:
        # Most calls put nothing out while they run, so what screens it is made when something comes.
        if self._incoming and not self._feeders:
            self._feeders = (strip.start(self._source), redact.start(self._source))
        while self._incoming:
            piece = self._incoming.popleft()
            for feeder in self._feeders:
                piece = feeder.feed(piece)
            self._add(piece)
            await self._spill()
            await trio.lowlevel.checkpoint()

    def _add(self, text: str) -> None:
        self._excerpt.feed(text)
        kept = self._kept.part(text)
        if kept:
            self._unwritten.append(kept)
            tell(partial(self._observer.live, self._call, kept))

    async def _spill(self) -> None:
        """Store what has come by now, if not all of it will be shown."""
        if not self._excerpt.is_cut or not self._unwritten:
            return
        text = "".join(self._unwritten)
        self._unwritten.clear()
        if self._problem:
            return
        try:
            self._spool = self._spool or self._begin()
            await self._spool.write(text)
        except RecordError as error:
            self._problem = str(error)
            if self._spool is not None:
                self._spool.abandon()
                self._spool = None


class _ByteBudget:
    """How much of a text is kept: what is beyond a bound in bytes of UTF-8 is not, from a line's end on."""

    def __init__(self, bound: int) -> None:
        self.chars = 0
        self._room = bound
        self._line_ends = 0
        self._ends_line = True

    @property
    def lines(self) -> int:
        return self._line_ends + (not self._ends_line)

    def part(self, text: str) -> str:
        """Return as much of the next piece as is kept."""
        size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        if size > self._room:
            encoded = text.encode("utf-8", "replace")[: self._room]
            encoded = encoded[: encoded.rfind(b"\n") + 1 or None]
            text, size = encoded.decode("utf-8", "ignore"), self._room
        self._room -= size
        if text:
            self.chars += len(text)
            self._line_ends += text.count("\n")
            self._ends_line = text.endswith("\n")
        return text


Keep: TypeAlias = Callable[[str], Awaitable[str]]
"""Takes the whole of a text that is cut, and says in our words where it is."""


def source_of(action: Action, output: Output, session: Session) -> Source:
    """Return what is known of an output; only a trusted tool can claim better than its effects say."""
    brings = Origin.WEB if action.effects & (Effect.BRING_IN | Effect.SEND) else Origin.WORKSPACE
    origin = output.origin or brings
    if not is_trusted(action, session):
        origin = min(origin, brings, key=lambda found: integrity(frozenset({found})))
    source = Source(
        action.call.tool,
        origin,
        secrets=secrets_in(action),
        is_private=bool(action.effects & (Effect.READ | Effect.EXECUTE)),
    )
    return bounded(source, session)


def bounded(source: Source, session: Session) -> Source:
    """Return a source under a session's bounds, with the session's secrets among its own."""
    policy = session.policy
    return replace(
        source,
        secrets=session.secrets | source.secrets,
        max_bytes=policy.max_bytes,
        threshold=policy.threshold,
    )


def read_by_model(source: Source, text: str, session: Session) -> Iterator[TextSeen]:
    """Yield the event of a text that reaches the model, if it brings a new label or value along."""
    labels = {source.origin} - session.labels
    marks = fingerprints_in(text, session.marks_key) if source.is_private else ()
    new = tuple(mark for mark in marks if mark not in session.seen)
    if labels or new:
        yield TextSeen(session.now, tuple(labels), new)


async def collect_output(
    action: Action, output: Output, live: OutputStream, session: Session
) -> tuple[Screened, Source, OverflowWriter]:
    """Return an output as filters take it, what is known of it, and what keeps the whole where it is cut.

    Raises:
        TypeError: it holds something else than it should.
    """
    source = source_of(action, output, session)
    if output.emitted:
        text = await live.finish(source.origin)
        # It was shortened while it came; what is left of it is shown as it is.
        source = replace(source, threshold=max(source.threshold, len(text.text)))
    else:
        # A subclass of str may turn into another text each time it is looked at.
        text = Screened(str.__str__(output.text))
    keep = OverflowWriter(live.store, session.id, source.origin, live.id)
    return _with_remarks(action, output, text, session), source, keep


def _with_remarks(action: Action, output: Output, text: Screened, session: Session) -> Screened:
    """Add what a tool says of its output; only a trusted tool's words stand outside the fence."""
    if is_trusted(action, session):
        return replace(text, notices=(*output.notices, *text.notices), facts=output.facts)
    facts = (f"{name}: {value}" for name, value in output.facts)
    return replace(text, text="\n".join((text.text, *output.notices, *facts)))


def is_trusted(action: Action, session: Session) -> bool:
    """Whether the tool of an action is trusted now, so that what it says of its output counts."""
    return action.spec is not None and session.trust_in(action.spec) <= TrustLevel.TRUSTED


@dataclass(slots=True)
class OverflowWriter:
    """Stores the whole of a text that is cut, for one session; `id` is that of what was stored last."""

    store: OverflowStore
    session: str
    origin: Origin
    id: str | None = None

    async def __call__(self, text: str) -> str:
        """Store a text and say where it is, or why it is not."""
        try:
            self.id = await self.store.put(self.session, text, self.origin)
        except RecordError as error:
            return told_lost(error)
        return told_kept(self.id, len(text), text.count("\n") + (not text.endswith("\n")))


def make_result(
    action: Action, output: Output, screened: Screened, kept: str | None, failure: ToolResult | None
) -> ToolResult:
    """Return the result of a call that ran to its end, or of a `failure` with the output there was.

    Raises:
        TypeError: the exit code is none.
    """
    code = None if output.exit_code is None else int.__int__(output.exit_code)
    if failure is None:
        outcome = Outcome(Status.OK, exit_code=code)
        told = ToolResult(action.call, outcome, screened.text, screened.plain, overflow_id=kept)
        return replace(told, truncated=screened.is_cut, goes_on=output.goes_on is True)
    return replace(
        failure,
        outcome=replace(failure.outcome, exit_code=code),
        text=f"{failure.text}\n{screened.text}",
        shown=f"{failure.shown}\n{screened.plain}",
        error={**(failure.error or {}), "output": screened.plain},
        overflow_id=kept,
        truncated=screened.is_cut,
    )


_LATEST = 16 * 1024
"""Characters of what came last that are held."""


class BackgroundOutput:
    """The output of one such thing; `origin` is whose words it is, `chars` how much there was by now."""

    def __init__(self, action: Action, session: Session, store: OverflowStore) -> None:
        source = source_of(action, Output(""), session)
        self.origin: Origin = source.origin
        self.chars = 0
        self._live = OutputStream(action, source, self, store, session.id)
        self._latest: deque[str] = deque()
        self._held = 0

    @property
    def id(self) -> str | None:
        """Where the whole is kept, once it is over and if it was long."""
        return self._live.id

    @property
    def latest(self) -> str:
        """What came last, screened."""
        text = "".join(self._latest)[-_LATEST:]
        return text if self.chars <= _LATEST else text.partition("\n")[2] or text

    async def emit(self, chunk: str) -> None:
        """Take a piece in."""
        await self._live.emit(chunk)

    async def finish(self) -> Screened:
        """Take nothing more, and return what is to be shown of all there was."""
        with self._live:
            await self._live.close()
            return await self._live.finish(self.origin)

    def live(self, _call: str, chunk: str) -> None:
        """Hear what is certain of a piece by now."""
        self.chars += len(chunk)
        self._latest.append(chunk)
        self._held += len(chunk)
        while self._held - len(self._latest[0]) >= _LATEST:
            self._held -= len(self._latest.popleft())

    def alert(self, _message: str) -> None:
        """Nothing is told here that the person must see."""
