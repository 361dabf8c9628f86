"""What becomes of what a tool brought: whose words they are, where the long ones go, what comes back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from .book import tell
from .call import Action, Effect, Outcome, Output, Status, ToolResult
from .confidential import secrets_in
from .events import Read
from .filters import Feeder, Screened, Source, redact, strip
from .fingerprints import fingerprints_in
from .label import Origin, integrity
from .level import TrustLevel
from .ports import Observer, OverflowStore, RecordError
from .session import Session

__all__ = [
    "Keep",
    "Keeper",
    "Live",
    "bounded",
    "completed",
    "is_trusted",
    "read_by_model",
    "source_of",
    "unscreened",
]

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


def read_by_model(source: Source, text: str, session: Session) -> Iterator[Read]:
    """Yield the event of a text that reaches the model, if it brings a new label or value along."""
    labels = {source.origin} - session.labels
    marks = fingerprints_in(text, session.id) if source.is_private else ()
    new = tuple(mark for mark in marks if mark not in session.seen)
    if labels or new:
        yield Read(session.now, tuple(labels), new)


def unscreened(action: Action, output: Output, session: Session) -> Screened:
    """Return an output as filters take it; only a trusted tool's notices stand outside the fence.

    Raises:
        TypeError: it holds something else than it should.
    """
    # A subclass of str may turn into another text each time it is looked at.
    text = str.__str__(output.text)
    if is_trusted(action, session):
        return Screened(text, output.notices, output.facts)
    facts = (f"{name}: {value}" for name, value in output.facts)
    return Screened("\n".join((text, *output.notices, *facts)))


def is_trusted(action: Action, session: Session) -> bool:
    """Whether the tool of an action is trusted now, so that what it says of its output counts."""
    return action.spec is not None and session.trust_in(action.spec) <= TrustLevel.TRUSTED


@dataclass(slots=True)
class Keeper:
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
            return f"the whole text could not be stored: {error}"
        lines = text.count("\n") + (not text.endswith("\n"))
        return (
            f"the whole text, {len(text)} characters in {lines} lines, is kept as {self.id}; "
            "read_overflow reads it by page"
        )


def completed(
    action: Action, output: Output, screened: Screened, kept: str | None, failure: ToolResult | None
) -> ToolResult:
    """Return the result of a call that ran to its end, or of a `failure` with the output there was.

    Raises:
        TypeError: the exit code is none.
    """
    code = None if output.exit_code is None else int.__int__(output.exit_code)
    if failure is None:
        outcome = Outcome(Status.OK, exit_code=code)
        return ToolResult(action.call, outcome, screened.text, screened.plain, overflow_id=kept)
    return replace(
        failure,
        outcome=replace(failure.outcome, exit_code=code),
        text=f"{failure.text}\n{screened.text}",
        shown=f"{failure.shown}\n{screened.plain}",
        error={**(failure.error or {}), "output": screened.plain},
        overflow_id=kept,
    )


class Live:
    """Output while it comes: through the same `strip` and `redact`, then to the observer."""

    def __init__(self, action: Action, source: Source, observer: Observer) -> None:
        self._call = action.call.id
        self._source = source
        self._observer = observer
        self._feeders: tuple[Feeder, ...] = ()

    async def emit(self, chunk: str) -> None:
        """Screen a piece and show what is certain of it by now."""
        # Most calls put nothing out while they run, so what screens it is made when something comes.
        self._feeders = self._feeders or (strip.start(self._source), redact.start(self._source))
        for feeder in self._feeders:
            chunk = feeder.feed(chunk)
        self._show(chunk)

    def close(self) -> None:
        """Show what was held back."""
        rest = ""
        for feeder in self._feeders:
            rest = feeder.feed(rest) + feeder.flush()
        self._show(rest)

    def _show(self, text: str) -> None:
        if text:
            tell(partial(self._observer.live, self._call, text))
