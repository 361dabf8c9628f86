"""What becomes of what a tool brought: whose words they are, where the long ones go, what comes back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from .brought import Output
from .call import Action, Outcome, Status, ToolResult
from .confidential import secrets_in
from .filters import Screened, Source
from .kinds import Effect
from .level import TrustLevel
from .live import Live, told_kept, told_lost
from .ports import OverflowStore, RecordError
from .session import Read, Session
from .trust import Origin, integrity
from .url import fingerprints_in

__all__ = [
    "Keep",
    "Keeper",
    "bounded",
    "brought",
    "completed",
    "is_trusted",
    "read_by_model",
    "source_of",
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
    marks = fingerprints_in(text, session.marks_key) if source.is_private else ()
    new = tuple(mark for mark in marks if mark not in session.seen)
    if labels or new:
        yield Read(session.now, tuple(labels), new)


async def brought(
    action: Action, output: Output, live: Live, session: Session
) -> tuple[Screened, Source, Keeper]:
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
    keep = Keeper(live.store, session.id, source.origin, live.id)
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
            return told_lost(error)
        return told_kept(self.id, len(text), text.count("\n") + (not text.endswith("\n")))


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
