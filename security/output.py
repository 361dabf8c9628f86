"""What becomes of what a tool brought: whose words they are, where the long ones go, what comes back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import TypeAlias

from .book import tell
from .call import Action, Effect, Outcome, Output, Status, ToolResult
from .filters import Screened, Source, Stepwise, redact, strip
from .fingerprints import fingerprints_in
from .label import Origin, integrity
from .level import TrustLevel
from .ports import Observer, OverflowStore, RecordError
from .session import Read, Session

__all__ = ["Keep", "Live", "completed", "is_trusted", "keeper", "read_by_model", "source_of", "unscreened"]

Keep: TypeAlias = Callable[[str], Awaitable[str]]


def source_of(action: Action, output: Output, session: Session, secrets: frozenset[str]) -> Source:
    """Return what is known of an output; only a trusted tool can claim better than its effects say."""
    brings = Origin.WEB if action.effects & (Effect.BRING_IN | Effect.SEND) else Origin.WORKSPACE
    origin = output.origin or brings
    if not is_trusted(action, session):
        origin = min(origin, brings, key=lambda found: integrity(frozenset({found})))
    return Source(
        action.call.tool,
        origin,
        secrets=secrets,
        max_bytes=session.policy.max_bytes,
        threshold=session.policy.threshold,
        is_private=bool(action.effects & (Effect.READ | Effect.EXECUTE)),
    )


def read_by_model(source: Source, text: str, session: Session) -> Iterator[Read]:
    """Yield the event of a text that reaches the model, if it brings a new label or value along."""
    labels = {source.origin} - session.labels
    marks = fingerprints_in(text, session.id) if source.is_private else ()
    new = tuple(mark for mark in marks if mark not in session.seen)
    if labels or new:
        yield Read(session.now, tuple(labels), new)


def unscreened(action: Action, output: Output, session: Session) -> Screened:
    """Return an output as filters take it; only a trusted tool's notices stand outside the fence."""
    if is_trusted(action, session):
        return Screened(output.text, output.notices, output.facts)
    facts = (f"{name}: {value}" for name, value in output.facts)
    return Screened("\n".join((output.text, *output.notices, *facts)))


def is_trusted(action: Action, session: Session) -> bool:
    """Whether the tool of an action is trusted now, so that what it says of its output counts."""
    return action.spec is not None and session.trust_in(action.spec) <= TrustLevel.TRUSTED


def keeper(store: OverflowStore, session: str, kept: list[str]) -> Keep:
    """Return what stores a text, appends its id to `kept` and says where it is, or why it is not."""

    async def keep(text: str) -> str:
        try:
            kept.append(await store.put(session, text))
        except RecordError as error:
            return f"the whole text could not be stored: {error}"
        lines = text.count("\n") + (not text.endswith("\n"))
        return (
            f"the whole text, {len(text)} characters in {lines} lines, is kept as {kept[-1]}; "
            "read_overflow reads it by page"
        )

    return keep


def completed(action: Action, output: Output, screened: Screened, kept: list[str]) -> ToolResult:
    """Return the result of a call that ran to its end."""
    return ToolResult(
        call=action.call,
        outcome=Outcome(Status.OK, exit_code=output.exit_code),
        text=screened.text,
        shown=screened.plain,
        overflow_id=kept[-1] if kept else None,
    )


class Live:
    """Output while it comes: through the same `strip` and `redact`, then to the observer."""

    def __init__(self, action: Action, source: Source, observer: Observer) -> None:
        self._call = action.call.id
        self._observer = observer
        self._feeders = [step.start(source) for step in (strip, redact) if isinstance(step, Stepwise)]

    async def emit(self, chunk: str) -> None:
        """Screen a piece and show what is certain of it by now."""
        for feeder in self._feeders:
            chunk = feeder.feed(chunk)
        self._show(chunk)

    def close(self) -> None:
        """Show what was held back."""
        rest = ""
        for feeder in self._feeders:
            rest = (feeder.feed(rest) if rest else "") + feeder.flush()
        self._show(rest)

    def _show(self, text: str) -> None:
        if text:
            tell(partial(self._observer.live, self._call, text))
