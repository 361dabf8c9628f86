"""Process a tool's output: assign its origin, store what is long, screen it, and return the result.

Output that is emitted while a tool runs is screened a piece at a time, shown, and stored once it is long: no
more is held in memory than what is shown of it, what its output filters hold, and a piece. What is stored has
passed the same `strip` and `redact` as everything. The output of a background job is treated the same way and
outlives its call; its latest lines can be had at any time, and pass the filters like any other output.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Self, TypeAlias

import trio

from .action import secrets_in, texts_of
from .call import Action, Asker, Outcome, Status, ToolResult
from .checks import is_confidential
from .filters import Distillation, Distilled, Excerpt, Feeder, Screened, Source, redact, strip, suspicion_in
from .kinds import CommandLine, Effect, Kind
from .lazy import dataclass, regex
from .outcome import Output, Picture
from .permissions import reads_lent
from .ports import Distiller, Observer, OverflowStore, RecordError, Spool
from .provenance import text_marks
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
    "describe_kept",
    "describe_lost",
    "failure_read",
    "is_trusted",
    "make_result",
    "read_by_model",
    "source_of",
]


_PIECE = 64 * 1024
_OTHERS = frozenset({Origin.WEB, Origin.MCP})
_APART = regex(r"[\W_]+")


def describe_kept(key: str, chars: int, lines: int, dropped: int = 0) -> str:
    """Say where a text is kept, and how much of it is not."""
    size = f"{chars} characters in {lines} lines"
    whole = f"the first {size}, are" if dropped else f"the whole text, {size}, is"
    rest = (
        f"; the other {dropped} characters were dropped ([tools.overflow] max_overflow_bytes)"
        if dropped
        else ""
    )
    return f"{whole} kept as {key}{rest}; read_overflow reads it by page"


def describe_lost(why: object) -> str:
    """Say that a text is not kept."""
    return f"the whole text could not be stored: {why}"


class OutputStream:
    """The output of one running call. Left without `finish`, what was stored of it is abandoned."""

    def __init__(
        self, action: Action, source: Source, observer: Observer, store: OverflowStore, session: str
    ) -> None:
        self.id: str | None = None
        self.store = store
        self.begin: Callable[[], Distillation] | None = source.begin
        self._call = action.call.id
        self._source = source
        self._observer = observer
        self._begin = partial(store.spool, session)
        self._turn = trio.Lock()
        self._incoming: deque[str] = deque()
        self._feeders: tuple[Feeder, ...] = ()
        self._distillation: Distillation | None = None
        self._excerpt = Excerpt(source.threshold)
        self._kept = _ByteBudget(source.max_bytes)
        self._unwritten: list[str] = []
        self._spool: Spool | None = None
        self._problem = ""
        self._is_over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Take nothing more: a `Cleared` that is kept for longer adds to no text that is finished."""
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

    async def finish(self, origin: Origin, exit_code: int | None = None) -> Screened:
        """Return what is to be shown of all there was, once what is cut is stored; `id` names it then."""
        distilled = await self._distilled(exit_code)
        await self._spill(is_cut=distilled.text is not None)
        if self._spool is not None:
            try:
                self.id = await self._spool.finish(origin)
            except RecordError as error:
                self._problem = str(error)
        if distilled.text is not None and self.id is None:
            # What nobody could read back is not left out.
            distilled = Distilled(None)
        excerpt = self._excerpt
        if distilled.text is not None:
            excerpt = Excerpt(self._source.threshold)
            excerpt.feed(distilled.text)
        notices = [notice for feeder in self._feeders for notice in feeder.notices]
        notices += (*distilled.notices, *excerpt.notices)
        if self.id is not None:
            dropped = self._excerpt.total - self._kept.chars
            notices.append(describe_kept(self.id, self._kept.chars, self._kept.lines, dropped))
        elif self._problem:
            notices.append(describe_lost(self._problem))
        is_cut, sizes = self.id is not None or excerpt.is_cut, (self._excerpt.total, 0)
        return Screened(excerpt.text, tuple(notices), is_cut=is_cut, sizes=sizes)

    async def _distilled(self, exit_code: int | None) -> Distilled:
        if self._distillation is None:
            return Distilled(None)
        finish = partial(self._distillation.finish, exit_code, self._source.threshold)
        # Up to that many characters it takes less time than a thread does.
        is_short = self._excerpt.total <= _PIECE
        found = finish() if is_short else await trio.to_thread.run_sync(finish)
        return found or Distilled(None)

    async def _drain(self) -> None:
        # Most calls put nothing out while they run, so what screens it is made when something comes.
        if self._incoming and not self._feeders:
            self._feeders = (strip.start(self._source), redact.start(self._source))
            self._distillation = self.begin() if self.begin is not None else None
        while self._incoming:
            piece = self._incoming.popleft()
            for feeder in self._feeders:
                piece = feeder.feed(piece)
            self._add(piece)
            await self._spill()
            await trio.lowlevel.checkpoint()

    def _add(self, text: str) -> None:
        self._excerpt.feed(text)
        if self._distillation is not None:
            # What is beyond the bound on what is kept, too: the end tells how it went.
            self._distillation.feed(text)
        kept = self._kept.part(text)
        if kept:
            self._unwritten.append(kept)
            tell(partial(self._observer.live, self._call, kept))

    async def _spill(self, *, is_cut: bool = False) -> None:
        """Store what has come by now, if not all of it will be shown."""
        if not (is_cut or self._excerpt.is_cut) or not self._unwritten:
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
        self.chars: int = 0
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


def source_of(
    action: Action,
    output: Output,
    session: Session,
    distiller: Distiller | None = None,
    *,
    is_offline: bool = False,
) -> Source:
    """Return what is known of an output; only a trusted tool can claim better than its effects say.

    What a program printed can hold all it could read, so it is no better than what the session had read. With
    `is_offline` it reached no host, whatever its line could have done.
    """
    may_bring = not is_offline and action.effects & (Effect.BRING_IN | Effect.SEND)
    brings = Origin.WEB if may_bring else Origin.WORKSPACE
    declared = action.spec.result if action.spec is not None else None
    bounds = {brings} if not is_trusted(action, session) else set()
    bounds |= action.file_labels & _OTHERS
    if Effect.EXECUTE in action.effects:
        bounds |= session.labels & _OTHERS
    parts = tuple((str.__str__(part.text), _weakest({part.origin, *bounds})) for part in output.parts)
    origins = {origin for _, origin in parts} or {output.origin or declared or brings}
    origin = _weakest(origins | bounds)
    source = Source(
        action.call.tool,
        origin,
        secrets=secrets_in(action),
        is_private=bool(action.effects & (Effect.READ | Effect.EXECUTE)),
        begin=_filters_of(action, distiller),
        shows=_shows_values(action, origin, session),
        call=action.call.id,
        echoes=_brought_along(action),
        parts=parts,
        is_confidential=_is_confidential(action, session),
    )
    return bounded(source, session)


def _is_confidential(action: Action, session: Session) -> bool:
    if Origin.SECRET in action.file_labels or is_confidential(action, session.policy):
        return True
    return reads_lent(action, session)


def _filters_of(action: Action, distiller: Distiller | None) -> Callable[[], Distillation] | None:
    """Return what starts the output filters of a command; no other tool's output has any."""
    if distiller is None or not action.is_command or len(action.atoms) > 1:
        return None
    line = action.atoms[0].canonical
    return partial(distiller.begin, line if isinstance(line, CommandLine) else None)


def _weakest(origins: set[Origin]) -> Origin:
    """Return the least trusted, the same one each time."""
    return min(origins, key=lambda origin: (integrity(frozenset({origin})), origin.value))


def _shows_values(action: Action, origin: Origin, session: Session) -> bool:
    """Whether a result makes values known: it is no output of what a model ran, and no text of a model."""
    declared = action.spec.effects if action.spec is not None else Effect.ALL
    runs = Effect.EXECUTE in declared or action.of_kind(Kind.COMMAND)
    if runs or origin is Origin.MODEL or action.of is not None:
        return False
    paths = dict.fromkeys(path for place in action.places for path in (place.text, place.real))
    names = (atom.raw for atom in action.atoms)
    return session.values.may_show(paths, names, session.values_key)


def failure_read(source: Source, failure: ToolResult, session: Session) -> Iterator[TextSeen]:
    """Yield the event of an error message that reaches the model."""
    yield from read_by_model(source, failure.shown, session, suspicion_in(failure.shown))


def _brought_along(action: Action) -> str:
    """Return all that a call says as one text: each value, all joined, and all without blanks and marks."""
    texts = tuple(texts_of(action))
    joined = "".join(texts)
    return "\0".join((*texts, joined, _APART.sub("", joined))).casefold()


def bounded(source: Source, session: Session) -> Source:
    """Return a source under a session's bounds, with the session's secrets among its own."""
    policy = session.policy
    return replace(
        source,
        secrets=session.secrets | source.secrets,
        max_bytes=policy.max_bytes,
        threshold=policy.threshold,
        mode=policy.fence.mode_of(source.origin, session.model),
    )


def read_by_model(
    source: Source, text: str, session: Session, suspicion: tuple[str, ...] = ()
) -> Iterator[TextSeen]:
    """Yield the event of a text that reaches the model, if it brings a label, value or suspicion along.

    What a program brought without printing it lies in the files it wrote: that counts as well.
    """
    if not text.strip() and source.exit_code is None:
        return
    # What was cut is attributed as a whole: of its parts nobody knows how much is there.
    parts = source.parts if all(part.strip() in text for part, _ in source.parts) else ()
    marked = {Origin.SECRET} if source.is_confidential else set()
    labels = {source.origin, *(origin for _, origin in parts), *marked} - session.labels
    marks = fingerprints_in(text, session.marks_key) if source.is_private else ()
    new = tuple(mark for mark in marks if mark not in session.seen)
    seen_in = (source.name or source.kind, source.call)
    is_kept = source.shows or source.is_confidential
    for part, origin in parts or ((text, source.origin),) if is_kept else ():
        if values := text_marks(part, session.values_key, source.echoes):
            seen = TextSeen(session.now, tuple(labels), new, values, origin, *seen_in)
            yield replace(seen, private=source.is_confidential, shows=source.shows)
            labels, new = set(), ()
    if suspicion:
        yield TextSeen(session.now, tuple(labels), new, "", None, *seen_in, suspicion)
    elif labels or new:
        yield TextSeen(session.now, tuple(labels), new)


async def collect_output(
    action: Action, output: Output, live: OutputStream, session: Session, *, is_offline: bool = False
) -> tuple[Screened, Source, OverflowWriter]:
    """Return an output as filters take it, what is known of it, and what keeps the whole where it is cut.

    Raises:
        TypeError: it holds something else than it should.
    """
    source = source_of(action, output, session, is_offline=is_offline)
    if output.emitted:
        text = await live.finish(source.origin, _exit_code(output))
        # It was shortened while it came; what is left of it is shown as it is.
        source = replace(
            source, threshold=max(source.threshold, len(text.text)), exit_code=_exit_code(output)
        )
    else:
        # A subclass of str may turn into another text each time it is looked at.
        text = Screened("".join(part for part, _ in source.parts) or str.__str__(output.text))
        source = replace(source, begin=live.begin, exit_code=_exit_code(output))
    keep = OverflowWriter(live.store, session.id, source.origin, live.id)
    return _with_remarks(action, output, text, session), source, keep


def _with_remarks(action: Action, output: Output, text: Screened, session: Session) -> Screened:
    """Add a tool's own notices; only those of a trusted tool go outside the fence."""
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
            return describe_lost(error)
        return describe_kept(self.id, len(text), text.count("\n") + (not text.endswith("\n")))


def make_result(
    action: Action, output: Output, screened: Screened, kept: str | None, failure: ToolResult | None
) -> ToolResult:
    """Return the result of a call that ran to its end, or of a `failure` with the output there was.

    Raises:
        TypeError: the exit code is none.
    """
    code = _exit_code(output)
    if failure is None:
        outcome = Outcome(Status.OK, exit_code=code)
        result = ToolResult(action.call, outcome, screened.text, screened.plain, overflow_id=kept)
        caches = output.caches if type(output.caches) is int else 0
        result = replace(result, goes_on=output.goes_on is True, caches=caches)
        if action.call.asker is Asker.PERSON and isinstance(output.picture, Picture):
            result = replace(result, picture=output.picture)
        return replace(result, truncated=screened.is_cut, sizes=screened.sizes)
    return replace(
        failure,
        sizes=screened.sizes,
        outcome=replace(failure.outcome, exit_code=code),
        text=f"{failure.text}\n{screened.text}",
        shown=f"{failure.shown}\n{screened.plain}",
        error={**(failure.error or {}), "output": screened.plain},
        overflow_id=kept,
        truncated=screened.is_cut,
    )


def _exit_code(output: Output) -> int | None:
    return None if output.exit_code is None else int.__int__(output.exit_code)


_LATEST = 16 * 1024
"""Characters of what came last that are held."""


class BackgroundOutput:
    """The output of one such thing; `origin` is whose words it is, `chars` how much there was by now."""

    def __init__(self, action: Action, session: Session, store: OverflowStore) -> None:
        source = source_of(action, Output(""), session)
        self.origin: Origin = source.origin
        self.chars: int = 0
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
        """There is nothing here that the person must see."""
